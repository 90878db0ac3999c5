"""Fits a line through points, without a framework: a script for Gangwright's API, whose steps cost next to nothing.

`--native` names what it trains on: Horovod's stand-in (`standin.py`), or a binding of the real one. Prints the same
JSON lines as `train.py`.
"""

import argparse
import importlib
import json
import os
import random
import time

import gangwright
import numpy as np

DIMENSIONS, POINTS = 5, 1500


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=float, default=10000, help="passes over the points")
    parser.add_argument(
        "--steps", type=int, default=0, help="end after so many steps, whatever --epochs says"
    )
    parser.add_argument("--batch", type=int, default=16, help="samples of one worker in a step")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument(
        "--step-time", type=float, default=0.0, help="least seconds of a step, padded by sleep"
    )
    parser.add_argument(
        "--native", default="standin", help="`standin`, `horovod.tensorflow` or `horovod.torch`"
    )
    return parser.parse_args()


def main():
    options = parsed()
    hvd = importlib.import_module(options.native)
    elastic = importlib.import_module("horovod.common.elastic")
    hvd.init()
    chance = random.Random(7)
    points = [[chance.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(POINTS)]
    heights = [sum(point) for point in points]

    def gradient(part, weights):
        """Of this worker's samples, weighed so that the average over all workers is the mean over all samples."""
        summed = [0.0] * DIMENSIONS
        for place in part.indices:
            missed = sum(w * x for w, x in zip(weights, points[place], strict=True)) - heights[place]
            summed = [one + missed * x for one, x in zip(summed, points[place], strict=True)]
        return [one * part.weight / max(1, len(part.indices)) for one in summed]

    def step(state, share):
        begun = time.monotonic()
        mine = [
            sum(parts) for parts in zip(*(gradient(one, state.weights) for one in share.passes), strict=True)
        ]
        time.sleep(max(0.0, options.step_time - (time.monotonic() - begun)))
        rate = options.rate * gangwright.lr_scale()
        mean = [float(one) for one in hvd.allreduce(np.array(mine))]
        state.weights = [w - rate * g for w, g in zip(state.weights, mean, strict=True)]
        return sum(one * one for one in mean)

    def done(state):
        return gangwright.samples() >= options.epochs * POINTS or 0 < options.steps <= state.step

    def epoch(state):
        order = random.Random(gangwright.samples() // POINTS).sample(range(POINTS), POINTS)
        for share in gangwright.shard(order, options.batch):
            loss = step(state, share)
            gangwright.advance(share.total)
            state.step += 1
            gangwright.report(loss=loss)
            place = {"rank": hvd.rank(), "size": hvd.size(), "batch": share.total}
            say(
                step=state.step,
                epoch=gangwright.samples() / POINTS,
                loss=loss,
                sum=sum(state.weights),
                **place,
            )
            state.commit()
            if done(state):
                return

    def train(state):
        while not done(state):
            epoch(state)

    start = [0.0] * DIMENSIONS
    state = elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, weights=start)
    hvd.elastic.run(train)(state)
    if hvd.rank() == 0:
        say(finished=state.step, samples=gangwright.samples(), size=hvd.size())


def say(**words):
    if not gangwright.warming_up():
        stamp = {"at": time.time_ns() / 1e9, "pod": os.environ.get("GANGWRIGHT_POD")}
        print(json.dumps({**words, **stamp}), flush=True)


if __name__ == "__main__":
    main()
