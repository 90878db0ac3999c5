"""A master of several workers, who are known by their tokens, and their agents as processes around real trainings.

A round opens when every live member stands at the barrier. A newcomer there, a loss and a leave announce one. A loss
before all have said that they train breaks the round.
"""

import contextlib
import json
import os
import signal
import struct
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.horovod import SELDOM
from tests.elastic.agent.support.master import Master
from tests.elastic.agent.support.worker import environment


@dataclass
class Member:
    """One worker, as the master sees it and as a test does."""

    name: str
    process: subprocess.Popen | None = None
    round: int = 0
    met: int = 0
    waiting: dict[str, Any] | None = None
    assignment: dict[str, Any] | None = None
    going: bool = False
    over: bool = False
    steps: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    exits: list[dict[str, Any]] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)
    arrivals: list[str] = field(default_factory=list)
    """Why it came to the barrier, each time."""

    def trains(self, size: int, more: int = 5) -> bool:
        """Whether its last steps were at this size."""
        return len(self.steps) >= more and all(step["size"] == size for step in self.steps[-more:])


class Gang(Master):
    """The job. `start` a worker; `members` by name, which is its token too."""

    def __init__(self, python: Path, pack: Path, folder: Path, *command: str) -> None:
        super().__init__()
        self.python, self.pack, self.folder, self.command = python, pack, folder, command
        self.members: dict[str, Member] = {}
        self.round = 0
        self.tokens = set()

    def start(self, name: str, **more: str) -> Member:
        """Start a worker beside the others."""
        member = self.members[name] = Member(name)
        self.tokens.add(name)
        place = self.folder / name
        place.mkdir()
        (place / "token").write_text(name)
        member.process = subprocess.Popen(
            [str(self.python), str(self.pack), "--", *self.command],
            env={
                **environment(self, place, GANGWRIGHT_IFACE="lo", GANGWRIGHT_GRACE="60"),
                "GANGWRIGHT_POD": name,
                "GANGWRIGHT_POD_UID": name,
                "HOME": str(self.folder),
                "TF_CPP_MIN_LOG_LEVEL": "2",
                **SELDOM,
                "CUDA_VISIBLE_DEVICES": "",
                **more,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for stream, sink in ((member.process.stdout, self._step), (member.process.stderr, self._error)):
            member.readers.append(
                threading.Thread(target=self._each, args=(stream, sink, member), daemon=True)
            )
            member.readers[-1].start()
        return member

    def child(self, member: Member) -> int:
        """The process that trains, below the agent."""
        pid = member.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def sees(self, true: Any) -> None:
        """Wait until it is so; the test fails with what was said."""
        for _ in range(12):  # a join takes seconds of a machine that others use too
            with self.changed:
                if self.changed.wait_for(true, 10.0):
                    return
        raise AssertionError(self.story())

    def story(self) -> str:
        return "\n".join(
            f"--- {one.name}: {one.process.poll()}, {one.steps[-1:]}, {one.exits}\n"
            + "\n".join(one.errors[-20:])
            for one in self.members.values()
        )

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            if member.process.poll() is None:
                with contextlib.suppress(IndexError, ProcessLookupError, FileNotFoundError):
                    os.kill(self.child(member), signal.SIGKILL)
                member.process.kill()
            member.process.wait()
            for reader in member.readers:
                reader.join()
        super().__exit__()

    # the master

    @property
    def me(self) -> Member:
        return self.members[self.asks.token]

    def _live(self) -> list[Member]:
        return [one for one in self.members.values() if one.round and not one.over]

    def _open(self) -> None:
        """Open the round that is announced, when everybody is here."""
        standing = [one for one in self.members.values() if one.waiting and not one.over]
        if any(one.waiting["round"] == 0 or one.waiting["why"] == "failure" or one.going for one in standing):
            self.newest = max(self.newest, self.round + 1)
        if self.newest > self.round and standing and all(one in standing for one in self._live()):
            self._publish(standing)
        self.changed.notify_all()

    def _publish(self, standing: list[Member]) -> None:
        staying = [one for one in standing if not one.going]
        staying.sort(key=lambda one: (-one.waiting["committed"], one.waiting["round"] == 0))
        self.round = self.newest
        whys = {one.waiting["why"] for one in staying}
        for one in standing:
            one.assignment = {
                "round": self.round, "rank": staying.index(one) if one in staying else -1, "size": len(staying),
                "members": [other.name for other in staying], "sync": whys != {"announced"}, "removed": one.going,
                "checkpoint": False, "restore": None, "batch": None, "lr_scale": 1.0, "ramp_steps": 0, "env": {},
            }  # fmt: skip
            one.round, one.waiting = self.round, None

    def _lost(self, member: Member) -> None:
        if member.round == self.round and not all(one.met >= self.round for one in self._live()):
            self.broken = self.round
        member.round, member.waiting, member.assignment = 0, None, None
        self.newest = self.round + 1
        self._open()

    def _ready(self, told: dict[str, Any], _: Any) -> tuple[int, bytes]:
        with self.changed:
            me = self.me
            if not (me.assignment and me.round > told["round"]):
                if me.waiting is None:
                    me.arrivals.append(told["why"])
                me.waiting = told
                self._open()
                if not self.changed.wait_for(lambda: me.waiting is not told, 2.0) or me.assignment is None:
                    return 204, b""
            return 200, json.dumps(me.assignment).encode()

    def _beat(self, told: dict[str, Any], query: Any) -> tuple[int, bytes]:
        with self.changed:
            if told["phase"] == "Training":
                self.me.met = max(self.me.met, told["round"])
            size = len(self._live())
            self.place = {"rank": size, "size": size + 1, "joins": size > 0}
        return super()._beat(told, query)

    def _leave(self, told: dict[str, Any], query: Any) -> tuple[int, bytes]:
        with self.changed:
            self.me.going = True
            self.newest = self.round + 1
            self._open()
        return super()._leave(told, query)

    def _exit(self, told: dict[str, Any], _: Any) -> tuple[int, bytes]:
        with self.changed:
            me = self.me
            me.exits.append(told)
            me.over = told["code"] == 0
            if not (me.over and me.going):
                self._lost(me)
            self.changed.notify_all()
            return 200, json.dumps({"restart": not me.over}).encode()

    def _value(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        with self.changed:
            if int(path.split("/")[3]) != self.me.round:
                return 409, b'{"error": {"reason": "RoundOver", "message": "over"}}'
            self.assignment = self.me.assignment
        return super()._value(method, path, query, body)

    def _step(self, member: Member, line: str) -> None:
        if line.startswith("{") and "loss" in line:
            member.steps.append(json.loads(line))

    def _error(self, member: Member, line: str) -> None:
        member.errors.append(line.rstrip())

    def _each(self, stream: Any, sink: Any, member: Member) -> None:
        with stream:
            for line in stream:
                with self.changed:
                    sink(member, line)
                    self.changed.notify_all()


class Fatal(Gang):
    """Kills the victim when it tells the others where it listens for them, in the mesh that is the `nth`.

    They hear of an address that is higher than their own, so it is they who listen, and no connection comes. Where a
    `lost` member listens gets lost on the way.
    """

    victim: Member | None = None
    lost: Member | None = None
    nth = 0
    killed = 0.0
    meshes: frozenset[str] = frozenset()

    def _value(self, method: str, path: str, query: Any, body: bytes) -> tuple[int, bytes]:
        scope, key = path.split("/")[-2:]
        tells = method == "PUT" and key.isdigit() and scope.startswith("global")
        if tells and self.me is self.lost:
            return 204, b""
        if tells and self.me is self.victim:
            self.meshes |= {scope}
            if len(self.meshes) > self.nth and not self.killed:
                os.kill(self.child(self.victim), signal.SIGKILL)
                self.killed, self.victim = time.monotonic(), None
                body = _high(body)
        return super()._value(method, path, query, body)


def _high(addresses: bytes) -> bytes:
    """The same, with the highest port that there is."""
    entries = (addresses[start : start + 136] for start in range(0, len(addresses), 136))
    return b"".join(entry[:2] + struct.pack(">H", 65535) + entry[4:] for entry in entries)
