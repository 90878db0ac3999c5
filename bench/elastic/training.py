"""A perceptron learns nothing in particular: the steps are what is looked at. No API but Horovod's own.

With `--restart FOLDER` it is an ordinary Horovod script: it loads the checkpoint in the folder when there is one, and
when the file `stop` is there it saves, and ends. With `--bare` it takes steps, and saves in memory where an elastic one
commits. Without, it is an elastic one. All do the same step, the latter two in the same graph. A JSON line for
each step: when it began, when it was done (before the commit), and what had been saved and synchronised since the line
before.
"""

import argparse
import itertools
import json
import os
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

PARAMETERS = {"small": (64, 600, 600), "medium": (64, 2200, 2200), "large": (64, 4950, 4950)}
"""Widths of the layers before the last: 0.4, 5 and 25 million weights."""

CLASSES = 10


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=PARAMETERS, default="small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--commit-every", type=int, default=1, help="steps")
    parser.add_argument("--print-every", type=int, default=1, help="steps")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--restart", help="folder of the checkpoint")
    kind.add_argument("--bare", action="store_true", help="steps and saves alone")
    return parser.parse_args()


def now():
    return time.time_ns() / 1e9


def say(**words):
    """Many lines in one piece, where few are asked for."""
    unsaid.append(json.dumps(words))
    if len(unsaid) >= options.print_every:
        print(*unsaid, sep="\n", flush=True)
        unsaid.clear()


class Times:
    """What saving and synchronising took since the last step; a save inside of a synchronisation is part of it."""

    def __init__(self):
        self.told = {"saves": [], "syncs": []}
        self._inside = False

    def of(self, kind, call):
        def timed(*args):
            if self._inside:
                return call(*args)
            self._inside, began = True, now()
            try:
                return call(*args)
            finally:
                self._inside = False
                self.told[kind].append(round(now() - began, 6))

        return timed

    def since(self):
        told, self.told = self.told, {"saves": [], "syncs": []}
        return told


def network(widths):
    layers = tf.keras.layers
    inner = [layers.Dense(width, activation="relu") for width in widths[1:]]
    return tf.keras.Sequential([layers.Input((widths[0],)), *inner, layers.Dense(CLASSES)])


options = parsed()
times, unsaid = Times(), []
widths = PARAMETERS[options.model]
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.keras.utils.set_random_seed(1)
hvd.init()
rng = np.random.default_rng(1)
points = rng.normal(size=(options.batch, widths[0])).astype(np.float32)
labels = rng.integers(0, CLASSES, options.batch)
model = network(widths)
optimizer = tf.keras.optimizers.SGD(0.001, momentum=0.9)
optimizer.build(model.trainable_variables)


@tf.function
def training_step(x, y):
    with tf.GradientTape() as tape:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
        loss = tf.reduce_mean(each)
    tape = hvd.DistributedGradientTape(tape)
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


def step(number):
    began = now()
    float(training_step(points, labels))
    said = {"step": number, "size": hvd.size(), "rank": hvd.rank(), "began": began, "at": now()}
    if not os.environ.get("GANGWRIGHT_WARMUP"):
        say(**said, **times.since())


def elastic():
    @hvd.elastic.run
    def train(state):
        while True:
            state.step += 1
            step(state.step)
            if state.step % options.commit_every == 0:
                state.commit()

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)
    state.save, state.sync = times.of("saves", state.save), times.of("syncs", state.sync)
    train(state)


def restarting():
    checkpoint, stop = (os.path.join(options.restart, name) for name in ("checkpoint.npz", "stop"))
    variables = [*model.variables, *optimizer.variables]

    def load():
        """Rank 0 reads, the others are told."""
        done = np.zeros(1, np.int64)
        if hvd.rank() == 0 and os.path.exists(checkpoint):
            with np.load(checkpoint) as kept:
                done = kept["step"]
                for number, variable in enumerate(variables):
                    variable.assign(kept[f"variable-{number}"])
        hvd.broadcast_variables(variables, root_rank=0)
        return int(hvd.broadcast(tf.constant(done), 0)[0])

    def save(number):
        arrays = {f"variable-{number}": variable.numpy() for number, variable in enumerate(variables)}
        np.savez(checkpoint, step=np.array([number]), **arrays)

    number = times.of("syncs", load)()
    while True:
        number += 1
        step(number)
        wanted = float(hvd.rank() == 0 and os.path.exists(stop))
        if float(hvd.allreduce(tf.constant(wanted), op=hvd.Sum, name="stop")):
            break
    if hvd.rank() == 0:
        save(number)


def bare():
    """In the graph that stock Horovod makes of an elastic job: each gradient's allreduce is under a condition, for the
    size may be another one in the next step. What that costs is Horovod's, and so is the copy of the state.
    """
    os.environ["HOROVOD_ELASTIC"] = "1"
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)
    for number in itertools.count(1):
        step(number)
        if number % options.commit_every == 0:
            state.save()


if options.bare:
    bare()
elif options.restart:
    restarting()
else:
    elastic()
