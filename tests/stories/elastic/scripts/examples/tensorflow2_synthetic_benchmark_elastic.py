"""The shape of Horovod's examples/elastic/tensorflow2/tensorflow2_synthetic_benchmark_elastic.py, in small.

Every rank makes its own batch at set-up. The first training step, with all its collectives, runs at set-up too. Rank 0
alone reports.
"""

import timeit

import example_diary
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
import tiny_keras

parser = example_diary.parser(__doc__)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--num-warmup-batches", type=int, default=4)
parser.add_argument("--num-batches-per-iter", type=int, default=4)
parser.add_argument("--num-iters", type=int, default=4)
parser.add_argument("--num-batches-per-commit", type=int, default=1)
options = parser.parse_args()

hvd.init()
tf.keras.utils.set_random_seed(options.seed + hvd.rank())
diary = example_diary.Diary(options, hvd.rank(), hvd.size())

lr = 0.01
model = tf.keras.Sequential(tiny_keras.layers())
opt = tf.optimizers.SGD(lr * hvd.size())

# Upstream has no seed, so that its ranks have different data; here rank and seed choose them.
own = np.random.default_rng([options.seed, hvd.rank()])
data = tf.constant(own.random((options.batch_size, 8, 8, 1)), tf.float32)
target = tf.constant(own.integers(0, 10, (options.batch_size, 1)), tf.int64)
numbers = hvd.rank() * options.batch_size + np.arange(options.batch_size)


@tf.function
def train_one_batch():
    with tf.GradientTape() as tape:
        loss = tf.losses.sparse_categorical_crossentropy(target, model(data, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def benchmark_step(state):
    train_one_batch()
    diary.took(state.step, state.iter, numbers, hvd.rank(), hvd.size())
    state.step += 1
    state.batch += 1
    if state.batch == options.num_batches_per_commit:
        state.batch = 0
        state.commit()


def log(text):
    if hvd.rank() == 0:
        with diary.place("log.txt").open("a") as file:
            file.write(f"{text}\n")


log(f"processes: {hvd.size()}")
train_one_batch()


@hvd.elastic.run
def run_benchmark(state):
    if not state.warm:
        timeit.timeit(lambda: benchmark_step(state), number=options.num_warmup_batches)
        state.warm = True
        state.commit()
    for turn in range(state.iter, options.num_iters):
        seconds = timeit.timeit(lambda: benchmark_step(state), number=options.num_batches_per_iter)
        rate = options.batch_size * options.num_batches_per_iter / seconds
        log(f"iteration {turn}: {rate:.1f} pictures a second")
        state.img_secs.append(rate)
        state.iter = turn
        state.commit()


def on_state_reset():
    opt.lr.assign(lr * hvd.size())


elastic = hvd.elastic.TensorFlowKerasState(model, opt, img_secs=[], iter=0, batch=0, warm=False, step=0)
elastic.register_reset_callbacks([on_state_reset])
run_benchmark(elastic)
log(f"{hvd.size()} processes: {hvd.size() * np.mean(elastic.img_secs):.1f} pictures a second")
diary.end(model.get_weights(), elastic.step, hvd.rank(), hvd.size())
