"""Fits a line through points, without a framework: a script for Gangwright's API whose steps cost next to nothing.

`--native` names what reduces its gradients: Horovod's stand-in (`standin.py`), or the real one's binding for TensorFlow.
Prints a JSON line for each step, with its rank, size and loss.
"""

import argparse
import importlib
import json
import os
import sys
import time

import gangwright
import numpy as np

POINTS, DIMENSIONS = 1500, 5


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16, help="samples of one worker in a step")
    parser.add_argument("--steps", type=int, default=0, help="end after so many steps; 0: never")
    parser.add_argument(
        "--bad-end",
        choices=("exit", "return", "export"),
        help="of rank 1: with code 0 halfway, by a return halfway, or by an error after the training",
    )
    parser.add_argument("--step-time", type=float, default=0.0, help="least seconds of a step, by sleep")
    parser.add_argument("--native", default="standin", help="`standin` or `horovod.tensorflow`")
    return parser.parse_args()


def main():
    options = parsed()
    hvd = importlib.import_module(options.native)
    elastic = importlib.import_module("horovod.common.elastic")
    hvd.init()
    points = np.random.default_rng(7).normal(size=(POINTS, DIMENSIONS))
    heights = points.sum(1)

    def gradient(part, weights):
        """Of this worker's samples, weighed so that the average over all workers is the mean over all samples."""
        x = points[part.indices]
        return part.weight * x.T @ (x @ weights - heights[part.indices]) / max(1, len(x))

    def step(state, share):
        begun = time.monotonic()
        weights = np.array(state.weights)
        mine = sum(gradient(part, weights) for part in share.passes)
        time.sleep(max(0.0, options.step_time - (time.monotonic() - begun)))
        mean = np.asarray(hvd.allreduce(mine))
        state.weights = (weights - 0.05 * gangwright.lr_scale() * mean).tolist()
        return float(mean @ mean)

    def train(state):
        while not 0 < options.steps <= state.step:
            order = np.random.default_rng(gangwright.samples() // POINTS).permutation(POINTS)
            for share in gangwright.shard(order, options.batch):
                loss = step(state, share)
                gangwright.advance(share.total)
                state.step += 1
                gangwright.report(loss=loss)
                say(state, share, loss=loss, rank=hvd.rank(), size=hvd.size())
                state.commit()
                half = hvd.rank() == 1 and 2 * state.step == options.steps
                if half and options.bad_end == "exit":
                    sys.exit(0)
                if state.step == options.steps or (half and options.bad_end == "return"):
                    return

    state = elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, weights=[0.0] * DIMENSIONS)
    hvd.elastic.run(train)(state)
    if hvd.rank() == 1 and options.bad_end == "export":
        raise OSError("No space left on device: model.h5")


def say(state, share, **words):
    if not gangwright.warming_up():
        told = {"step": state.step, "batch": share.total, "sum": sum(state.weights), **words}
        stamp = {"at": time.time_ns() / 1e9, "pod": os.environ.get("GANGWRIGHT_POD")}
        print(json.dumps({**told, **stamp}), flush=True)


if __name__ == "__main__":
    main()
