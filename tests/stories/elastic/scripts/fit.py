"""A stock elastic Keras script: `model.fit` with Horovod's own callbacks. A line per batch."""

import argparse
import gc
import json
import time

gc.disable()  # none of what TensorFlow's import makes is garbage, and looking for some takes a while

import horovod.tensorflow.keras as hvd  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=1000)
parser.add_argument("--sleep", type=float, default=0.0, help="seconds added to every step")
options = parser.parse_args()

gc.freeze()
gc.enable()
hvd.init()
rng = np.random.default_rng(5)
points = rng.normal(size=(640, 8)).astype(np.float32)
sides = (points.sum(1) > 0).astype(np.int64)
dataset = tf.data.Dataset.from_tensor_slices((points, sides)).repeat().batch(16)

model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(8), tf.keras.layers.Dense(2)])
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001))
model.compile(
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=optimizer,
    metrics=["accuracy"],
)
model.fit(dataset, steps_per_epoch=1, epochs=1, verbose=0)  # builds the optimizer, as Horovod's example does
state = hvd.elastic.KerasState(model, batch=0, epoch=0)


class Say(tf.keras.callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        weights = float(sum(np.abs(one).sum() for one in model.get_weights()))
        said = {
            "epoch": state.epoch,
            "step": int(model.optimizer.iterations),
            "loss": float(logs["loss"]),
            "sum": weights,
        }
        print(json.dumps({**said, "rank": hvd.rank(), "size": hvd.size()}), flush=True)
        time.sleep(options.sleep)


@hvd.elastic.run
def train(state):
    callbacks = [
        Say(),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.CommitStateCallback(state, batches_per_commit=1),
    ]
    left = options.epochs - state.epoch
    model.fit(dataset, steps_per_epoch=40, epochs=left, verbose=0, callbacks=callbacks)


train(state)
