"""A worker for tests: the agent as a process of its own, around a child that does what a test tells it.

The child writes down its number and what the agent gave it, then waits. The test speaks to the shim in its place, and
ends it by `order`.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.elastic.agent.support.master import PATIENCE, Master

ROOT = Path(__file__).parents[4]

CHILD = """
import json, os, sys, time
folder = sys.argv[1]
words = {name: value for name, value in os.environ.items() if name.startswith("GANGWRIGHT_")}
words.update(pid=os.getpid(), group=os.getpgid(0))
name = folder + "/child-" + words["GANGWRIGHT_INCARNATION"]
with open(name + ".part", "w") as file:
    json.dump(words, file)
os.rename(name + ".part", name)
print("the child is here", flush=True)
while not os.path.exists(name + "-order"):
    time.sleep(0.01)
with open(name + "-order") as file:
    exec(file.read())
"""


def environment(master: Master, folder: Path, **more: str) -> dict[str, str]:
    """What the elastic master writes into a worker's pod."""
    token = folder / "token"
    if not token.exists():
        token.write_text("token-1\n")
    return {
        "PATH": os.environ["PATH"],
        "GANGWRIGHT_MASTER": master.url,
        "GANGWRIGHT_INSECURE": "1" if master.url.startswith("http:") else "0",
        "GANGWRIGHT_JOB": "team/job",
        "GANGWRIGHT_POD": "job-0",
        "GANGWRIGHT_POD_UID": "uid-0",
        "GANGWRIGHT_TOKEN_FILE": str(token),
        "GANGWRIGHT_GRACE": "5",
        **more,
    }


def until(true: Callable[[], Any]) -> Any:
    """What `true()` says as soon as it is something; the test fails when it never is."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        said = true()
        if said:
            return said
        time.sleep(0.01)
    raise AssertionError("it never happened")


def call(
    port: int, method: str, path: str, body: bytes = b"", key: str | None = None, **headers: str
) -> tuple[int, bytes]:
    """One request to a shim, as the child sends it; status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        bearer = {} if key is None else {"Authorization": f"Bearer {key}"}
        connection.request(method, path, body, {**bearer, **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Worker:
    """The agent's process, and a way to speak for its child."""

    def __init__(
        self, master: Master, folder: Path, command: Sequence[str] | None = None, **more: str
    ) -> None:
        self._folder = folder
        script = folder / "child.py"
        script.write_text(CHILD)
        self.command = list(command or (sys.executable, "-S", str(script), str(folder)))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scheduler.elastic.agent", "--", *self.command],
            env=environment(master, folder, **more),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for place in self._folder.glob("child-?"):
            try:
                os.killpg(json.loads(place.read_text())["group"], signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.kill()
        self.process.communicate()

    def child(self, number: int = 1) -> dict[str, Any]:
        """What the child of this incarnation was given, as soon as it runs."""
        place = self._folder / f"child-{number}"
        until(place.exists)
        return json.loads(place.read_text())

    def order(self, code: str, number: int = 1) -> None:
        """Have the child do this."""
        part = self._folder / "order.part"
        part.write_text(code)
        part.rename(self._folder / f"child-{number}-order")

    def asks(self, method: str, path: str, body: Any = None, number: int = 1) -> tuple[int, Any]:
        """A call of the child's, with its key; status and decoded body."""
        child = self.child(number)
        port = urlsplit(child["GANGWRIGHT_SHIM"]).port
        sent = b"" if body is None else json.dumps(body).encode()
        status, content = call(port, method, path, sent, child["GANGWRIGHT_SHIM_KEY"])
        return status, json.loads(content) if content else None

    def puts(self, scope: str, key: str, value: bytes, number: int = 1) -> int:
        """The child lays a value down in its round; the status."""
        child = self.child(number)
        port = urlsplit(child["GANGWRIGHT_SHIM"]).port
        return call(port, "PUT", f"/{scope}/{key}", value, child["GANGWRIGHT_SHIM_KEY"])[0]

    def joins(self, **words: Any) -> dict[str, Any]:
        """The child stands at the barrier until it is told its place."""
        body = {"round": 0, "step": 0, "committed": 0, "why": "newcomer", "fingerprint": None, **words}
        while True:
            status, told = self.asks("POST", "/ready", body)
            if status == 200:
                return told
            assert status == 204, told

    def ends(self) -> tuple[int, str, str]:
        """The agent's exit code, what it passed on, and what it wrote to standard error."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode(), err.decode()
