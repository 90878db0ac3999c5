"""The shape of Horovod's examples/elastic/tensorflow/tensorflow_keras_mnist_elastic.py, in small, for TensorFlow 2.

The original cannot run on TensorFlow 2: it makes a `tf.ConfigProto` and a `tf.Session`, which only TensorFlow 1 has.
So those two lines are left out here. The rest is as it was: no step at set-up, Adadelta, a reset callback that sets the
rate, commits every few batches, and checkpoints and progress of rank 0.
"""

import example_diary
import horovod.tensorflow.keras as hvd
import tensorflow as tf
import tiny_keras

parser = example_diary.parser(__doc__)
parser.add_argument("--batches-per-epoch", type=int, default=24)
parser.add_argument("--batches-per-commit", type=int, default=2)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--learning-rate", type=float, default=0.5)
parser.add_argument("--batch-size", type=int, default=16)
options = parser.parse_args()

hvd.init()
tf.keras.utils.set_random_seed(options.seed + hvd.rank())
diary = example_diary.Diary(options, hvd.rank(), hvd.size())
dataset = tiny_keras.shuffled(250, options.batch_size)
model = tiny_keras.Told(tiny_keras.layers())

opt = hvd.DistributedOptimizer(tf.keras.optimizers.Adadelta(options.learning_rate * hvd.size()))
model.compile(loss="sparse_categorical_crossentropy", optimizer=opt, metrics=["accuracy"])


def on_state_reset():
    tf.keras.backend.set_value(model.optimizer.lr, options.learning_rate * hvd.size())


elastic = hvd.elastic.KerasState(model, batch=0, epoch=0, step=0)
elastic.register_reset_callbacks([on_state_reset])

callbacks = [
    tiny_keras.Taking(diary, elastic, hvd.rank, hvd.size),
    hvd.elastic.UpdateEpochStateCallback(elastic),
    hvd.elastic.UpdateBatchStateCallback(elastic),
    hvd.elastic.CommitStateCallback(elastic, batches_per_commit=options.batches_per_commit),
]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(str(diary.place("checkpoint-{epoch}.keras"))))


@hvd.elastic.run
def train(state):
    state.model.fit(
        dataset,
        steps_per_epoch=options.batches_per_epoch // hvd.size(),
        callbacks=callbacks,
        epochs=options.epochs - state.epoch,
        verbose=2 if hvd.rank() == 0 else 0,
    )


train(elastic)
diary.end(model.get_weights(), elastic.step, hvd.rank(), hvd.size())
