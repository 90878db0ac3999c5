"""A small residual network learns handwritten digits, as a script written for Gangwright's API.

The 1,797 digits (8 × 8 pixels) come with scikit-learn; the last 297 are kept for the accuracy. Every worker does a real
forward pass, backward pass and allreduce in every step. `--step-time` pads a pass by sleeping, before the allreduce, up
to that many seconds, so that several workers on a machine with few cores take as long as each on a machine of its own;
the first line of the output says so. Prints one JSON object per line.
"""

import argparse
import gc
import gzip
import importlib.util
import json
import os
import time
from pathlib import Path

gc.disable()  # none of what TensorFlow's import makes is garbage; to look for some meanwhile is a fifth of the import

import gangwright  # noqa: E402
import horovod.tensorflow as hvd  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

HELD_OUT = 297


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=float, default=20, help="passes over the 1,500 digits")
    parser.add_argument(
        "--steps", type=int, default=0, help="end after so many steps, whatever --epochs says"
    )
    parser.add_argument(
        "--batch", type=int, default=32, help="samples of one worker in a step, unless the job says"
    )
    parser.add_argument("--rate", type=float, default=0.02, help="learning rate of one worker's batch")
    parser.add_argument(
        "--decay-from", type=float, default=0, help="from this epoch on at a tenth of the rate; 0: never"
    )
    parser.add_argument("--width", type=int, default=16, help="channels of the first block")
    parser.add_argument(
        "--hidden", type=int, default=0, help="units of a further layer: 12000 make 25 M weights"
    )
    parser.add_argument(
        "--step-time", type=float, default=0.0, help="least seconds of a pass, padded by sleep"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--indices", action="store_true", help="print which samples each step took, and the weights' sum"
    )
    parser.add_argument("--slow", type=float, default=1.0, help="stretch this worker's pass by a factor")
    parser.add_argument(
        "--slow-on",
        default="",
        metavar="FILE",
        help="on the node that it names, as soon as it does, a pass takes four times as long",
    )
    parser.add_argument("--quiet", action="store_true", help="a line only at the end of an epoch")
    return parser.parse_args()


def digits():
    """(pictures 8 × 8 × 1 from 0 to 1, digits), read without importing the package, which would take a second."""
    package = importlib.util.find_spec("sklearn").submodule_search_locations[0]
    with gzip.open(Path(package) / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return (table[:, :-1].reshape(-1, 8, 8, 1) / 16).astype(np.float32), table[:, -1].astype(np.int64)


def network(width, hidden):
    """Three pairs of convolutions with a shortcut around each, then the mean of every channel."""
    layers = tf.keras.layers
    entry = layers.Input((8, 8, 1))
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(entry)
    for channels, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
        short = x if stride == 1 else layers.Conv2D(channels, 1, stride)(x)
        y = layers.Conv2D(channels, 3, stride, padding="same", activation="relu")(x)
        y = layers.Conv2D(channels, 3, padding="same", kernel_initializer="zeros")(y)
        x = layers.Activation("relu")(layers.Add()([short, y]))
    x = layers.GlobalAveragePooling2D()(x)
    if hidden:
        x = layers.Dense(hidden, activation="relu")(x)
        x = layers.Dense(max(10, hidden // 6), activation="relu")(x)
    return tf.keras.Model(entry, layers.Dense(10)(x))


def main():
    options = parsed()
    gc.freeze()  # to look through all of it again and again is a sixth of the start
    gc.enable()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(options.seed)
    hvd.init()
    pictures, labels = digits()
    known = len(pictures) - HELD_OUT
    model = network(options.width, options.hidden)
    optimizer = tf.keras.optimizers.SGD(options.rate, momentum=0.9)
    optimizer.build(model.trainable_variables)
    say(
        parameters=model.count_params(),
        samples=known,
        padded_step_s=options.step_time,
        padding="every pass sleeps until it has taken that long" if options.step_time else "none",
    )

    # Nothing here branches on a tensor, and without autograph a worker starts a second sooner.
    @tf.function(reduce_retracing=True, autograph=False)
    def forward_backward(x, y, weights):
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            loss = tf.reduce_sum(each * weights)
        return loss, tape.gradient(loss, model.trainable_variables)

    @tf.function(autograph=False)
    def reduce_and_apply(gradients):
        gradients = [hvd.allreduce(gradient, op=hvd.Average) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    @tf.function(autograph=False)
    def right(x, y):
        return tf.reduce_mean(tf.cast(tf.argmax(model(x), 1) == y, tf.float32))

    def weight():
        return float(sum(np.abs(one.numpy()).sum() for one in model.trainable_variables))

    def accuracy():
        return float(right(pictures[known:], labels[known:]))

    def one_pass(share, part):
        """Gradients of one pass, padded to the round's width with samples of no weight."""
        chosen = np.zeros(share.width, np.int64)
        weights = np.zeros(share.width, np.float32)
        count = len(part.indices)
        chosen[:count] = part.indices
        weights[:count] = part.weight / max(1, count)
        begun = time.monotonic()
        loss, gradients = forward_backward(pictures[chosen], labels[chosen], weights)
        loss = float(loss)
        spent = time.monotonic() - begun
        time.sleep(max(0.0, max(spent, options.step_time) * slowness() - spent))
        return loss, gradients

    def slowness():
        file = Path(options.slow_on)
        named = options.slow_on and file.exists() and file.read_text() == os.environ.get("GANGWRIGHT_NODE")
        return 4.0 if named else options.slow

    def step(share):
        loss, gradients = one_pass(share, share.passes[0])
        for part in share.passes[1:]:
            more, others = one_pass(share, part)
            loss += more
            gradients = [one + other for one, other in zip(gradients, others, strict=True)]
        optimizer.learning_rate.assign(rate_now() * gangwright.lr_scale())
        reduce_and_apply(gradients)
        return loss

    def rate_now():
        decayed = 0 < options.decay_from <= gangwright.samples() / known
        return options.rate / 10 if decayed else options.rate

    def done(state):
        return gangwright.samples() >= options.epochs * known or 0 < options.steps <= state.step

    def rounds(state):
        """One epoch, or what is left of it."""
        epoch = gangwright.samples() // known
        order = np.random.default_rng([options.seed, epoch]).permutation(known)
        for share in gangwright.shard(order, options.batch):
            loss = step(share)
            gangwright.advance(share.total)
            state.step += 1
            told = {"loss": loss}
            if gangwright.samples() % known == 0:
                told["accuracy"] = accuracy()
            gangwright.report(**told)
            if not options.quiet or "accuracy" in told:
                taken = [int(one) for one in share.indices] if options.indices else None
                say_step(state, share, told, taken)
            state.commit()
            if done(state):
                return

    def say_step(state, share, told, taken):
        extra = {} if taken is None else {"indices": taken, "sum": weight()}
        say(
            step=state.step,
            epoch=gangwright.samples() / known,
            **told,
            rank=hvd.rank(),
            size=hvd.size(),
            batch=share.total,
            local=len(share.indices),
            passes=len(share.passes),
            rate=float(optimizer.learning_rate),
            **extra,
        )

    @hvd.elastic.run
    def train(state):
        if gangwright.warming_up():
            accuracy()  # traced now rather than at the end of the first epoch
        while not done(state):
            rounds(state)

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)
    train(state)
    if hvd.rank() == 0:
        say(finished=state.step, samples=gangwright.samples(), accuracy=accuracy(), size=hvd.size())


def say(**words):
    if not gangwright.warming_up():
        print(
            json.dumps({**words, "at": time.time_ns() / 1e9, "pod": os.environ.get("GANGWRIGHT_POD")}),
            flush=True,
        )


if __name__ == "__main__":
    main()
