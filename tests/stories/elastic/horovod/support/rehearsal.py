"""Programs for `ring.holds`: a training is done with a rehearsal and without one, and both end alike."""

from tests.stories.elastic.horovod.support.ring import CARRIED

BOTH = f"""{CARRIED}
import os, random, types
import numpy as np
from carried.runtime import frameworks, runtime_errors, warmup
from carried.runtime.training_progress import Progress

STEPS = 4
alone = types.SimpleNamespace(warming=False, progress=Progress())

def commit():
    if alone.warming:
        os.environ["REHEARSED"] = "1"
        raise runtime_errors.Interrupted

def both(script):
    '''What `script` gives for a training with a rehearsal and without: it returns (function, state, result).'''
    found = []
    for warm in (True, False):
        train, state, result = script()
        framework = frameworks.of(state)
        framework.prepare()
        framework.sync(None)
        if warm:
            before = result()
            warmup.run(alone, framework, train, (), {{}})
            now = result()
            assert os.environ.pop("REHEARSED")
            assert str(now) == str(before), (now, before)
        train(state)
        found.append(result())
    return found
"""

TORCH = f"""{BOTH}
import copy
import torch
import horovod.torch as hvd
hvd.init()
torch.set_num_threads(1)

def script():
    torch.manual_seed(1)
    random.seed(2)
    net = torch.nn
    model = net.Sequential(net.Linear(4, 8), net.BatchNorm1d(8), net.Dropout(0.5), net.Linear(8, 1))
    average, scaled = copy.deepcopy(model), torch.zeros(1)
    model.eval()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), model.named_parameters())
    other = torch.optim.Adam(average.parameters())
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    mixed = torch.Generator()
    data = torch.utils.data.TensorDataset(torch.randn(64, 4))
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True, generator=mixed)
    losses = []
    waited = 0

    def train(state):
        nonlocal waited
        model.train()
        while state.step < STEPS:
            for x, in loader:
                x = x + random.random()
                optimizer.zero_grad()
                loss = model(x).pow(2).mean()
                loss.backward()
                optimizer.step()
                rates.step()
                scaled.add_(loss.detach())
                losses.append(loss.detach())
                waited += 1
                average(x).sum().backward()
                other.step()
                with torch.no_grad():
                    for mine, theirs in zip(average.parameters(), model.parameters()):
                        mine.mul_(0.9).add_(theirs, alpha=0.1)
                state.step += 1
                commit()

    def result():
        return dict(
            weights=[one.tolist() for each in (model, average) for one in each.state_dict().values()],
            grads=[one.grad is None or one.grad.tolist() for one in (*model.parameters(), *average.parameters())],
            slots=[one.state_dict() for one in (optimizer, other, rates)],
            chance=[torch.get_rng_state().sum(), mixed.get_state().sum()],
            rest=[waited, losses, scaled, model.training, optimizer._handles, optimizer._synchronized],
        )

    return train, hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0), result

one, other = both(script)
assert str(one) == str(other), (one, other)
"""

TENSORFLOW = f"""{BOTH}
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()

class Noise(tf.keras.layers.Layer):
    calls = 0

    def __init__(self):
        super().__init__()
        self.seen = 0

    def call(self, x, training=False):
        self.seen += 1
        return x + 0.1 * tf.random.normal(tf.shape(x)) if training else x

def model_and_data():
    tf.keras.utils.set_random_seed(3)
    tf.random.set_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(8), layers.Dropout(0.5), Noise(), layers.Dense(1)])
    x = np.random.default_rng(5).normal(size=(3000, 4)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(1000).repeat()
    return model, data.map(lambda x, y: (x + tf.random.uniform([]), y)).batch(8).prefetch(1)

def result_of(model, *rest):
    return lambda: [*(one.numpy().tolist() for one in model.variables), *map(str, rest)]

def custom():
    model, data = model_and_data()
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    seen, layers, moving = [], [], types.SimpleNamespace(mean=None)

    @tf.function
    def step(x, y):
        if moving.mean is None:
            moving.mean = tf.Variable(0.0)
            layers.append(tf.keras.layers.Dense(1))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        moving.mean.assign_add(loss)
        moving.mean.assign_add(tf.reduce_mean(layers[0](x)))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    def train(state):
        for x, y in data.take(STEPS):
            step(x, y + tf.random.normal([], seed=7) + tf.random.uniform([]))
            seen.append(x.numpy().tolist())
            state.step += 1
            commit()
        seen.append(round(float(moving.mean), 5))
        seen.append(len(layers))
        seen.append(step.experimental_get_tracing_count())  # the trace of the rehearsal is kept

    return train, hvd.elastic.TensorFlowKerasState(model, optimizer, step=0), result_of(model, seen)

def iterator():
    model, data = model_and_data()
    drawn, seen = iter(tf.data.Dataset.range(500).shuffle(100)), []
    next(drawn)

    def train(state):
        while state.step < STEPS:
            seen.append(int(next(drawn)))
            state.step += 1
            commit()

    return train, hvd.elastic.TensorFlowKerasState(model, tf.keras.optimizers.SGD(), step=0), result_of(model, seen)

class Log(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []

    def on_batch_end(self, batch, logs=None):
        self.losses.append(round(logs["loss"], 5))
        commit()

def fit(before=0):
    model, data = model_and_data()
    import horovod.tensorflow.keras as keras_hvd
    model.compile(keras_hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.05, momentum=0.9)), "mse")
    log = Log()
    if before:
        model.fit(data, steps_per_epoch=before, verbose=0)

    def train(state):
        model.fit(data, steps_per_epoch=STEPS, epochs=2, verbose=0, callbacks=[log])

    return train, keras_hvd.elastic.KerasState(model, step=0), result_of(model, log.losses)

def begun():
    return fit(before=3)

for script in (custom, fit, begun, iterator):
    one, other = both(script)
    assert len(one) == len(other)
    for mine, theirs in zip(one, other):
        same = mine == theirs if isinstance(mine, str) else np.allclose(mine, theirs, rtol=0, atol=1e-6)
        assert same, (script.__name__, mine, theirs)
"""
