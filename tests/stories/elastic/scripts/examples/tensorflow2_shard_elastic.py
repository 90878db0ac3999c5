"""The commonest line of Horovod scripts, `Dataset.shard(hvd.size(), hvd.rank())`, in an elastic script.

No example of Horovod's elastic folder has it. The data set is divided once, while the script sets up. It
has one order for all epochs: so a process that begins again from a checkpoint skips what has been trained.
"""

import example_diary
import horovod.tensorflow as hvd
import tensorflow as tf
import tiny_keras

SAMPLES, BATCH = 240, 8
"""Sizes 2, 3 and 5 divide the samples into whole batches."""

parser = example_diary.parser(__doc__)
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()

hvd.init()
tf.keras.utils.set_random_seed(options.seed + hvd.rank())
diary = example_diary.Diary(options, hvd.rank(), hvd.size())
dataset = tiny_keras.samples(SAMPLES).shard(hvd.size(), hvd.rank())
dataset = dataset.shuffle(SAMPLES, seed=options.seed, reshuffle_each_iteration=False).batch(BATCH)
model = tf.keras.Sequential(tiny_keras.layers())
loss_of = tf.losses.SparseCategoricalCrossentropy()
opt = tf.optimizers.SGD(0.01 * hvd.size(), momentum=0.9)
opt.build(model.trainable_variables)


@tf.function
def training_step(shown, classes):
    with tf.GradientTape() as tape:
        loss = loss_of(classes, model(shown, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@hvd.elastic.run
def train(state):
    while state.epoch < options.epochs:
        for shown, classes, numbers in dataset.skip(state.batch):
            training_step(shown, classes)
            diary.took(state.step, state.epoch, numbers.numpy(), hvd.rank(), hvd.size())
            state.step += 1
            state.batch += 1
            state.commit()
        state.epoch += 1
        state.batch = 0


elastic = hvd.elastic.TensorFlowKerasState(model, opt, epoch=0, batch=0, step=0)
train(elastic)
if hvd.rank() == 0:
    model.save_weights(diary.place("final.weights.h5"))
diary.end(model.get_weights(), elastic.step, hvd.rank(), hvd.size())
