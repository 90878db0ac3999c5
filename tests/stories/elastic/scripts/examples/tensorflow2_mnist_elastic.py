"""The shape of Horovod's examples/elastic/tensorflow2/tensorflow2_mnist_elastic.py, in small.

A loop of its own. One step at set-up, without a collective, builds the variables. The data set goes on where the state
says, and takes as many batches as the size leaves to each rank. Rank 0 writes the checkpoint.
"""

import example_diary
import horovod.tensorflow as hvd
import tensorflow as tf
import tiny_keras

parser = example_diary.parser(__doc__)
parser.add_argument("--batches", type=int, default=48, help="of all ranks together")
options = parser.parse_args()


def main():
    hvd.init()
    tf.keras.utils.set_random_seed(options.seed + hvd.rank())
    diary = example_diary.Diary(options, hvd.rank(), hvd.size())
    dataset = tiny_keras.shuffled(250, 16)
    model = tf.keras.Sequential(tiny_keras.layers())
    loss_of = tf.losses.SparseCategoricalCrossentropy()
    rate = 0.001
    opt = tf.optimizers.Adam(rate * hvd.size())

    @tf.function
    def training_step(shown, classes, allreduce=True):
        with tf.GradientTape() as tape:
            loss = loss_of(classes, model(shown, training=True))
        if allreduce:
            tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for shown, classes, _ in dataset.take(1):
        training_step(shown, classes, allreduce=False)

    @hvd.elastic.run
    def train(state):
        start = state.batch
        batches = dataset.skip(state.batch).take(options.batches // hvd.size())
        for number, (shown, classes, numbers) in enumerate(batches):
            state.batch = start + number
            loss = training_step(shown, classes)
            diary.took(state.step, 0, numbers.numpy(), hvd.rank(), hvd.size())
            state.step += 1
            if state.batch % 10 == 0 and hvd.rank() == 0:
                print(f"step {state.batch} loss {float(loss):.6f}", flush=True)
            state.commit()

    def on_state_reset():
        opt.lr.assign(rate * hvd.size())

    state = hvd.elastic.TensorFlowKerasState(model, opt, batch=0, step=0)
    state.register_reset_callbacks([on_state_reset])
    train(state)

    if hvd.rank() == 0:
        tf.train.Checkpoint(model=model, optimizer=opt).save(str(diary.place("checkpoint.tf")))
    diary.end(model.get_weights(), state.step, hvd.rank(), hvd.size())


if __name__ == "__main__":
    main()
