"""Divides its data, chooses its writer and scales its rate by rank and size while it sets up, as scripts of people do.

Prints a JSON line for each step with what it was told then, and what is true. `--native` names Horovod, or its stand-in.
"""

import argparse
import importlib
import json
import os
import signal
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--native", default="standin", help="`standin` or `horovod.tensorflow`")
parser.add_argument("--steps", type=int, default=0, help="end after so many steps; 0: never")
parser.add_argument("--step-time", type=float, default=0.1)
parser.add_argument("--reset", action="store_true", help="register a reset callback")
parser.add_argument(
    "--broadcast", action="store_true", help="rank 0 reads the settings, and the others hear them"
)
parser.add_argument(
    "--die", action="store_true", help="rank 1 is killed after that, in the first process of its pod"
)
options = parser.parse_args()

hvd = importlib.import_module(options.native)
elastic = importlib.import_module("horovod.common.elastic")

hvd.init()
told = {"told": [hvd.rank(), hvd.size()], "cross": [hvd.cross_rank(), hvd.cross_size()]}
told["local"] = [hvd.local_rank(), hvd.local_size()]
if options.broadcast:
    settings = {"read_by": hvd.rank()} if hvd.rank() == 0 else None
    told["settings"] = hvd.broadcast_object(settings, root_rank=0)
    told["gathered"] = sorted(hvd.allgather_object(hvd.rank()))
if options.die and hvd.rank() == 1 and os.environ["GANGWRIGHT_INCARNATION"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
resets = []


@hvd.elastic.run
def train(state):
    while not 0 < options.steps <= state.step:
        time.sleep(options.step_time)
        state.step += 1
        said = {**told, "rank": hvd.rank(), "size": hvd.size(), "resets": len(resets), "loss": 0.0}
        if "GANGWRIGHT_WARMUP" not in os.environ:
            stamp = {"step": state.step, "at": time.time_ns() / 1e9, "pod": os.environ.get("GANGWRIGHT_POD")}
            print(json.dumps({**said, **stamp}), flush=True)
        state.commit()


state = elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)
if options.reset:
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
train(state)
