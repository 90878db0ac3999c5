"""A stock script that trains twice, one elastic function after the other, on the same state. A line per step."""

import argparse
import gc
import json
import time

gc.disable()  # none of what TensorFlow's import makes is garbage, and looking for some takes a while

import horovod.tensorflow as hvd  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--first", type=int, default=20, help="steps of the first training")
parser.add_argument("--steps", type=int, default=1_000_000, help="steps of both")
parser.add_argument("--sleep", type=float, default=0.0, help="seconds added to every step")
options = parser.parse_args()

gc.freeze()
gc.enable()
hvd.init()
rng = np.random.default_rng(3)
points = rng.normal(size=(640, 8)).astype(np.float32)
sides = (points.sum(1) > 0).astype(np.int64)
model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(8), tf.keras.layers.Dense(2)])
optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def trained(name, until):
    """An elastic function that ends after so many steps."""

    @tf.function(autograph=False)  # a second less until the first step
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        tape = hvd.DistributedGradientTape(tape)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    @hvd.elastic.run
    def train(state):
        while state.step < until:
            chosen = np.random.default_rng([state.step, hvd.rank()]).integers(0, len(points), 16)
            loss = float(step(points[chosen], sides[chosen]))
            state.step += 1
            said = {
                "training": name,
                "step": state.step,
                "loss": loss,
                "rank": hvd.rank(),
                "size": hvd.size(),
            }
            said["sum"] = float(sum(np.abs(one).sum() for one in model.get_weights()))
            print(json.dumps(said), flush=True)
            time.sleep(options.sleep)
            state.commit()

    return train


state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)
trained("first", options.first)(state)
trained("second", options.steps)(state)
