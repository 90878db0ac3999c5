"""The shape of Horovod's examples/elastic/tensorflow2/tensorflow2_keras_mnist_elastic.py, in small.

The script fits one step at set-up, together with all ranks, so that the optimizer has its variables. The reset callback
fits one more. Rank 0, chosen at set-up, writes the checkpoints.
"""

import example_diary
import horovod.tensorflow.keras as hvd
import tensorflow as tf
import tiny_keras

parser = example_diary.parser(__doc__)
parser.add_argument("--steps", type=int, default=24, help="of an epoch, divided by the size")
parser.add_argument("--epochs", type=int, default=3)
options = parser.parse_args()

hvd.init()
tf.keras.utils.set_random_seed(options.seed + hvd.rank())
diary = example_diary.Diary(options, hvd.rank(), hvd.size())
dataset = tiny_keras.shuffled(250, 16)
model = tiny_keras.Told(tiny_keras.layers())

opt = hvd.DistributedOptimizer(
    tf.optimizers.Adam(0.001 * hvd.size()), backward_passes_per_step=1, average_aggregated_gradients=True
)
model.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"])
model.fit(dataset, steps_per_epoch=1, epochs=1, callbacks=None, verbose=0)

elastic = hvd.elastic.KerasState(model, batch=0, epoch=0, step=0)


def on_state_reset():
    tf.keras.backend.set_value(elastic.model.optimizer.lr, 0.001 * hvd.size())
    elastic.model.fit(dataset, steps_per_epoch=1, epochs=1, callbacks=None, verbose=0)


elastic.register_reset_callbacks([on_state_reset])

callbacks = [
    tiny_keras.Taking(diary, elastic, hvd.rank, hvd.size),
    hvd.elastic.UpdateEpochStateCallback(elastic),
    hvd.elastic.UpdateBatchStateCallback(elastic),
    hvd.elastic.CommitStateCallback(elastic),
]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(str(diary.place("checkpoint-{epoch}.keras"))))


@hvd.elastic.run
def train(state):
    state.model.fit(
        dataset,
        steps_per_epoch=options.steps // hvd.size(),
        epochs=options.epochs - state.epoch,
        callbacks=callbacks,
        verbose=2,
    )


train(elastic)
diary.end(model.get_weights(), elastic.step, hvd.rank(), hvd.size())
