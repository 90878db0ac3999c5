"""A stock elastic-Horovod script: the public API of Horovod and Keras, and nothing else.

A small classifier of points in a spiral, made from a seed. Prints a JSON line per step.
"""

import argparse
import gc
import json
import time

gc.disable()  # none of what TensorFlow's import makes is garbage, and looking for some takes a while

import horovod.tensorflow as hvd  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--sleep", type=float, default=0.0, help="seconds added to every step")
parser.add_argument("--state", choices=("keras", "variables"), default="keras")
parser.add_argument("--commit-every", type=int, default=1)
options = parser.parse_args()

gc.freeze()
gc.enable()
hvd.init()


def spiral(count):
    """Points of two arms, and which arm."""
    rng = np.random.default_rng(7)
    arm = rng.integers(0, 2, count)
    turn = rng.uniform(0.2, 3.0, count)
    angle = turn * 2.5 + arm * np.pi
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1)
    return points.astype(np.float32), arm.astype(np.int64)


points, arms = spiral(4096)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((2,)),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(2),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


# Nothing here branches on a tensor, and without autograph a worker starts in half the time.
@tf.function(autograph=False)
def training_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


if options.state == "keras":
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)
else:
    optimizer.build(model.trainable_variables)
    state = hvd.elastic.TensorFlowState([*model.variables, *optimizer.variables], step=0)


def on_state_reset():
    optimizer.learning_rate.assign(0.05 * hvd.size())


state.register_reset_callbacks([on_state_reset])


@hvd.elastic.run
def train(state):
    while state.step < options.steps:
        rng = np.random.default_rng([state.step, hvd.rank()])
        chosen = rng.integers(0, len(points), options.batch)
        loss = training_step(points[chosen], arms[chosen])
        time.sleep(options.sleep)
        weights = float(sum(tf.reduce_sum(tf.abs(v)) for v in model.trainable_variables))
        said = {
            "step": state.step,
            "loss": float(loss),
            "rank": hvd.rank(),
            "size": hvd.size(),
            "sum": weights,
        }
        state.step += 1
        print(json.dumps({**said, "at": time.time_ns() / 1e9}), flush=True)
        if state.step % options.commit_every == 0:
            state.commit()


train(state)
if hvd.rank() == 0:
    right = np.mean(np.argmax(model(points).numpy(), 1) == arms)
    print(json.dumps({"finished": state.step, "accuracy": float(right)}), flush=True)
