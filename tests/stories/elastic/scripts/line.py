"""Fits a line through scattered points, in double precision and with momentum, and says with every step all that one
process alone would need to take the same one.
"""

import argparse
import gc
import json
import time

gc.disable()  # none of what TensorFlow's import makes is garbage, and looking for some takes a while

import gangwright  # noqa: E402
import horovod.tensorflow as hvd  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--commit-every", type=int, default=1, help="steps; after each other one it only looks")
parser.add_argument("--sleep", type=float, default=0.0, help="seconds added to every step")
options = parser.parse_args()

BATCH, RATE = 8, 0.004
MOMENTUM = 0.875  # exact in single precision, in which Keras keeps it

rng = np.random.default_rng(11)
# 90 are no multiple of a step of any size: the last one of an epoch is dealt unevenly
points = rng.normal(size=(90, 5))
heights = np.sin(3 * points).sum(1, keepdims=True)

gc.freeze()
gc.enable()
hvd.init()
tf.keras.backend.set_floatx("float64")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
model.build((None, 5))
optimizer = tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM)
optimizer.build(model.trainable_variables)


def gradient(part):
    """Of this worker's samples, weighed so that the average over all workers is the mean over all samples."""
    if not len(part.indices):
        return tf.zeros_like(model.trainable_variables[0])
    with tf.GradientTape() as tape:
        missed = model(points[part.indices]) - heights[part.indices]
        loss = part.weight * tf.reduce_mean(missed**2)
    return tape.gradient(loss, model.trainable_variables[0])


@hvd.elastic.run
def train(state):
    while True:
        epoch = gangwright.samples() // len(points)
        order = np.random.default_rng(epoch).permutation(len(points))
        for share in gangwright.shard(order, BATCH):
            mean = hvd.allreduce(sum(gradient(part) for part in share.passes), op=hvd.Average)
            optimizer.learning_rate.assign(RATE * gangwright.lr_scale())
            optimizer.apply_gradients([(mean, model.trainable_variables[0])])
            gangwright.advance(share.total)
            state.step += 1
            say(state.step, share, [int(one) for one in order[share.start : share.start + share.total]])
            time.sleep(options.sleep)
            if state.step % options.commit_every:
                state.check_host_updates()
            else:
                state.commit()


def say(step, share, samples):
    if not gangwright.warming_up():
        weights = model.trainable_variables[0].numpy().ravel().tolist()
        told = {"rate": float(optimizer.learning_rate), "weights": weights, "size": hvd.size()}
        place = {"rank": hvd.rank(), "passes": len(share.passes)}
        print(json.dumps({"step": step, "loss": None, "samples": samples, **place, **told}), flush=True)


train(hvd.elastic.TensorFlowKerasState(model, optimizer, step=0))
