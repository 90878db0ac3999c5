# ruff: noqa: NPY002 - the global source of chance is what a script like this uses
"""Shows what the warm-up leaves behind: everything a step could change, before and after it, as one JSON line each."""

import gc
import hashlib
import json
import random

gc.disable()  # none of what TensorFlow's import makes is garbage, and looking for some takes a while

import horovod.tensorflow as hvd  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

hvd.init()
tf.keras.utils.set_random_seed(3)
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.1)  # not built: its slots are made in the first step
forgotten = tf.keras.optimizers.SGD(0.1, momentum=0.9)  # no part of the state, as scripts will have it
counter = tf.Variable(0, dtype=tf.int64)
state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0, seen=[])
passes = []


def shown():
    """A digest of every kind of thing, by name."""
    variables = {
        "model": model.variables,
        "optimizer": optimizer.variables,
        "forgotten": forgotten.variables,
        "counter": [counter],
    }
    digests = {
        name: hashlib.sha256(b"".join(one.numpy().tobytes() for one in listed)).hexdigest()[:16]
        for name, listed in variables.items()
    }
    chance = [
        hashlib.sha256(repr(one).encode()).hexdigest()[:16]
        for one in (random.getstate(), np.random.get_state())
    ]
    return {
        **digests,
        "attributes": [state.step, state.seen],
        "chance": chance,
        "slots": len(optimizer.variables),
    }


def slots():
    """The sum of all that an optimizer keeps beside its learning rate."""
    kept = [one for one in (*optimizer.variables, *forgotten.variables) if "learning_rate" not in one.name]
    return float(sum(np.abs(one.numpy()).sum() for one in kept))


@hvd.elastic.run
def train(state):
    passes.append(len(passes))
    print(json.dumps({"pass": len(passes), **shown(), "kept": slots()}), flush=True)
    while state.step < 3:
        x = np.random.rand(6, 4).astype(np.float32) + random.random()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        forgotten.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        counter.assign_add(1)
        state.step += 1
        state.seen.append(state.step)
        state.commit()


optimizer.build(model.trainable_variables)
gc.freeze()  # as scripts do that fork loaders of their data; the collector does not show what was made by now
gc.enable()
before = {**shown(), "kept": slots()}
print(json.dumps({"pass": 0, **before}), flush=True)
train(state)
print(json.dumps({"pass": -1, **shown(), "kept": slots()}), flush=True)
