"""A master and the workers' agents in one small server, and real training processes around it.

It speaks the child's protocol (`/ready`, `/announced`, `/progress`, `/gone`) and Horovod's (`PUT`, `GET`, `DELETE` of
keys, `rank_and_size`), on one loopback port per worker, so that a child is known by where it asks. A round opens when
every live member stands at the barrier; a newcomer at the barrier, a death and a wish to remove announce one.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from bench.horovod import SELDOM
from scheduler.elastic.job import spec as specs
from scheduler.elastic.reconciler import round_plan

PACKAGE = Path(__file__).parents[5] / "scheduler" / "elastic"
UNAWARE = {"stock.py", "stock_torch.py", "fit.py"}
"""Scripts that do not know of their rehearsal, and print its one step."""

WAIT = 5.0
"""Seconds a long poll is held here."""

CARRIED = f"""
import sys, types
holder = types.ModuleType("carried")
holder.__path__ = [{str(PACKAGE)!r}]
sys.modules["carried"] = holder
"""
"""Makes the runtime importable under a name of its own."""


def holds(python, program):
    """Runs a program of assertions; fails with what it said when one does not hold. It is over too soon for garbage."""
    hasty = "import atexit, gc\ngc.disable()\natexit.register(gc.freeze)\n"
    done = subprocess.run([python, "-c", hasty + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


START = f"""{CARRIED}
import carried.runtime
carried.runtime.activate()
"""
"""A `sitecustomize` as the agent has one: the package under a name of its own, nothing else of ours on the path."""


@dataclass
class Worker:
    """One training process and what it said."""

    name: str
    unaware: bool
    process: subprocess.Popen = None
    port: int = 0
    round: int = 0
    waiting: dict | None = None
    assignment: dict | None = None
    going: bool = False
    dead: bool = False
    progress: list = field(default_factory=list)
    readies: list = field(default_factory=list)
    gone: dict | None = None
    lines: list = field(default_factory=list)
    errors: list = field(default_factory=list)

    def steps(self):
        """Its steps, without the one that a script unaware of its rehearsal prints there."""
        return [line for line in self.lines if "loss" in line][self.unaware :]

    def said(self, word):
        return [line for line in self.errors if word in line]


def trains(worker, more=6, size=None):
    """True when `worker` has done some more steps at that size."""
    recent = worker.steps()[-more:]
    return len(recent) == more and all(size in (None, one["size"]) for one in recent)


def joined_and_left(ring):
    """Three workers that joined one after the other, of which the second has left in order."""
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    second = ring.start("w-1")
    ring.until(lambda: trains(first, size=2) and trains(second, size=2))
    third = ring.start("w-2")
    ring.until(lambda: trains(first, size=3) and trains(third, size=3))
    ring.remove(second)
    ring.until(lambda: second.dead and trains(third, size=2) and trains(first, size=2))
    assert second.process.poll() == 0, ring.story()
    return first, second, third


class Ring:
    """The job: `start` workers, `remove` and `kill` them, `until` something is true."""

    def __init__(self, python, folder, *, script, options=(), env=None):
        self.python, self.folder, self.script = Path(python), Path(folder), Path(script)
        self.options, self.env = [str(one) for one in options], dict(env or {})
        self.changed = threading.Condition()
        self.workers = {}
        self.round, self.announced = 0, 0
        self.keys = {}
        self.extra = {}
        self.hold = False
        self.expected = None
        self.batch = specs.Batch()
        """As the job's spec says; it begins with one worker."""
        self._servers = []
        (self.folder / "sitecustomize.py").write_text(START)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers.values():
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.kill()
            worker.process.wait()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    # --- what a test does ---

    def start(self, name, *, options=(), env=None):
        """Starts a worker's process beside what runs; gives it at once."""
        worker = self.workers[name] = Worker(name, self.script.name in UNAWARE)
        server = _Server(("127.0.0.1", 0), _handler(self, worker))
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        worker.port = server.server_address[1]
        worker.process = subprocess.Popen(
            [self.python, self.script, *self.options, *map(str, options)],
            env=self._environment(worker, env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for stream, sink in ((worker.process.stdout, self._line), (worker.process.stderr, self._error)):
            threading.Thread(target=_each, args=(stream, sink, worker), daemon=True).start()
        threading.Thread(target=self._reap, args=(worker,), daemon=True).start()
        return worker

    def remove(self, worker, **extra):
        """An announced removal: the next round is without it."""
        with self.changed:
            worker.going = True
            self.extra = extra
            self.announced = self.round + 1
            self._look()

    def release(self):
        """Newcomers at the barrier are let in again."""
        with self.changed:
            self.hold = False
            self._look()

    def kill(self, worker, number=signal.SIGKILL):
        """What happens to a process."""
        worker.process.send_signal(number)

    def bury(self, worker):
        """Declares a silent one dead, as a master does after its limit."""
        with self.changed:
            self._dead(worker)

    def until(self, what, seconds=90.0):
        """Waits for `what()` to be true; fails with everything that was said."""
        limit = time.monotonic() + seconds
        with self.changed:
            while not what():
                if not self.changed.wait(timeout=0.2) and time.monotonic() > limit:
                    raise AssertionError(f"waited {seconds} s in vain\n{self.story()}")

    def story(self):
        """The end of what every worker said."""
        return "\n".join(
            f"--- {one.name}: exit {one.process.poll()}, {one.lines[-2:]}\n" + "\n".join(one.errors[-25:])
            for one in self.workers.values()
        )

    # --- the master ---

    def _members(self):
        return [one for one in self.workers.values() if one.round and not one.dead]

    def _look(self):
        """Announces and opens rounds; called with the lock held. `hold` lets nobody new in."""
        live = [one for one in self._members() if not one.assignment["removed"]]
        standing = [one for one in self.workers.values() if one.waiting and not one.dead]
        fresh = [one for one in standing if not one.round]
        if self.hold:
            standing = [one for one in standing if one.round]
        elif fresh:
            self.announced = self.round + 1
        if any(one in standing for one in live):
            self.announced = self.round + 1
        self.changed.notify_all()
        if self.announced > self.round and standing and all(one in standing for one in live):
            self._open(standing, live)

    def _open(self, standing, live):
        staying = [one for one in standing if not one.going]
        staying.sort(key=lambda one: (-one.waiting["committed"], one not in live, one.waiting["round"] == 0))
        self.round = self.announced
        common = {"round": self.round, "members": [one.name for one in staying], "size": len(staying)}
        failed = any(one.waiting["why"] in {"failure", "another"} for one in standing)
        grown = any(one not in live for one in staying)
        extra, self.extra = self.extra, {}
        for one in standing:
            one.assignment = {
                **common,
                "rank": staying.index(one) if one in staying else -1,
                "sync": grown or failed,
                "removed": one.going,
                "checkpoint": False,
                "restore": None,
                **self._dealt(one, staying),
                "env": {},
                **extra,
            }
            one.round, one.waiting = self.round, None
        self.changed.notify_all()

    def _dealt(self, worker, staying):
        """Batch and rate, as the master finds them."""
        mode, each, size = self.batch.mode, self.batch.per_worker, len(staying)
        whole = round_plan.step_samples(self.batch, each, size, 1)
        batch = None
        if whole and worker in staying:
            batch = msgspec.to_builtins(round_plan.rank_batch(mode, whole, each, size, staying.index(worker)))
        scale = round_plan.rate_scale(self.batch, each, size, 1)
        return {"batch": batch, "lr_scale": scale, "ramp_steps": self.batch.ramp_steps}

    def _dead(self, worker):
        if worker.dead:
            return
        worker.dead, worker.waiting = True, None
        if worker.assignment and not worker.assignment["removed"] and worker.process.poll() != 0:
            self.announced = self.round + 1
        self._look()
        self.changed.notify_all()

    def _reap(self, worker):
        worker.process.wait()
        with self.changed:
            self._dead(worker)

    def _line(self, worker, line):
        with self.changed:
            if line.startswith("{"):
                worker.lines.append(json.loads(line))
            self.changed.notify_all()

    def _error(self, worker, line):
        with self.changed:
            worker.errors.append(line.rstrip())
            self.changed.notify_all()

    def _environment(self, worker, env):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **SELDOM,
            "CUDA_VISIBLE_DEVICES": "",
            "GANGWRIGHT_SHIM": f"http://127.0.0.1:{worker.port}",
            "GANGWRIGHT_SHIM_KEY": f"key-of-{worker.name}",
            "GANGWRIGHT_POD": worker.name,
            "GANGWRIGHT_IFACE": "lo",
            "GANGWRIGHT_GLOO_TIMEOUT": "10",
            **self.env,
            **env,
        }

    # --- the agents ---

    def place(self):
        """What a newcomer is to expect: the rank behind all that train, or `expected` where a test says so."""
        with self.changed:
            size = len(self._members())
            return self.expected or {"rank": size, "size": size + 1, "joins": size > 0}

    def ready(self, worker, body):
        with self.changed:
            if worker.assignment and worker.round > body["round"]:
                return 200, worker.assignment
            if worker.waiting is None:
                worker.readies.append(body)
            worker.waiting = body
            self._look()
            self.changed.wait_for(lambda: worker.waiting is None or worker.dead, WAIT)
            return (200, worker.assignment) if worker.waiting is None and not worker.dead else (204, None)

    def wait_announced(self, round_):
        with self.changed:
            self.changed.wait_for(lambda: self.announced > round_, WAIT)
            return 200, {"round": self.announced}

    def heard(self, worker, body):
        with self.changed:
            worker.progress.append(body)
            self.changed.notify_all()
        return 200, {}

    def went(self, worker, body):
        with self.changed:
            worker.gone = body
            self.changed.notify_all()
        return 200, {}

    def put(self, worker, key, value):
        with self.changed:
            self.keys[worker.round, *key] = value
            self.changed.notify_all()

    def get(self, worker, key):
        with self.changed:
            place = worker.round, *key
            self.changed.wait_for(lambda: place in self.keys or self.announced > worker.round, WAIT)
            return self.keys.get(place)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A killed child's connection ends as it may."""


def _handler(ring, worker):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            if not self._bears():
                return self._answer(401, b"")
            body = json.loads(self._body())
            calls = {"/ready": ring.ready, "/progress": ring.heard, "/gone": ring.went}
            status, answer = calls[self.path](worker, body)
            return self._answer(status, b"" if answer is None else json.dumps(answer).encode())

        def do_GET(self):
            url = urlsplit(self.path)
            if not (self._bears() or self._knows()):
                return self._answer(401, b"")
            if url.path == "/place":
                return self._answer(200, json.dumps(ring.place()).encode())
            if url.path == "/announced":
                status, answer = ring.wait_announced(int(parse_qs(url.query)["round"][0]))
                return self._answer(status, json.dumps(answer).encode())
            if "/rank_and_size/" in url.path:
                mine = worker.assignment
                return self._answer(200, f"{mine['rank']},{mine['size']},0,1,0,1".encode())
            found = ring.get(worker, self._key())
            return self._answer(404 if found is None else 200, found or b"")

        def do_PUT(self):
            value = self._body()
            if not (self._bears() or self._knows()):
                return self._answer(401, b"")
            ring.put(worker, self._key(), value)
            return self._answer(200, b"")

        def do_DELETE(self):
            self._body()
            self._answer(200, b"")

        def _bears(self):
            return self.headers["Authorization"] == f"Bearer key-of-{worker.name}"

        def _knows(self):
            """Horovod's client shows the key as the first part of the path."""
            return self.path.startswith(f"/key-of-{worker.name}:{worker.port}/")

        def _key(self):
            return self.path.rsplit("/", 2)[1:]

        def _body(self):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _answer(self, status, body):
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 204:
                self.wfile.write(body)

        def log_message(self, *_):
            """Silent."""

    return Handler


def _each(stream, sink, worker):
    with stream:
        for line in stream:
            sink(worker, line)


if __name__ == "__main__":
    sys.exit("a fixture, not a program")
