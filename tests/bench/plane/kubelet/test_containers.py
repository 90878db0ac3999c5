"""Containers as processes of this machine, in every way it permits."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.plane.kubelet.container import ENTER, ISOLATIONS, Container, Order, StartError, _permitted

WAYS = [way for way in ISOLATIONS if _permitted(way)]
PATH = {"PATH": os.defpath}

TICKS = "import time\nwhile True: print('tick', flush=True); time.sleep(0.01)"


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.fixture
def order(way, tmp_path):
    def made(*command, env=None, mounts=(), folder="/"):
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        return Order(
            list(command), PATH | (env or {}), str(tmp_path / "log"), str(root), "a-0", mounts, folder, way
        )

    return made


@pytest.fixture
def log(tmp_path):
    return lambda: (tmp_path / "log").read_text()


async def logged(log, text):
    async with asyncio.timeout(20):
        while text not in log():
            await asyncio.sleep(0.01)


def state(pid):
    """The letter that proc(5) gives the state of a process; Z also for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def launchers():
    """Processes of ours that start containers, the ended ones that nobody waited for included."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        pid for pid in children if str(ENTER) in Path(f"/proc/{pid}/cmdline").read_text() or state(pid) == "Z"
    }


async def until_gone(pids):
    async with asyncio.timeout(20):
        while set(map(state, pids)) != {"Z"}:
            await asyncio.sleep(0.01)


async def test_output_and_exit_code(order, log):
    """What it writes is in its log, its code is given, and its environment is what was ordered and nothing else."""
    container = await Container.start(order("sh", "-c", "env; echo to err >&2; exit 7", env={"A": "1 2"}))
    assert await container.wait() == 7
    said = set(log().splitlines())
    assert {"A=1 2", "to err", f"PATH={os.defpath}"} <= said
    assert {line.split("=")[0] for line in said} <= {"A", "PATH", "to err", "PWD", "OLDPWD", "SHLVL", "_"}


async def test_a_command_that_is_not_there(order):
    """Its name is in the complaint."""
    with pytest.raises(StartError, match="no-such-program: No such file"):
        await Container.start(order("no-such-program"))
    with pytest.raises(StartError, match="/no/such/folder"):
        await Container.start(order("true", folder="/no/such/folder"))


async def test_a_signal_reaches_the_first_process(order, log):
    """A handler runs; without one SIGKILL does, and the code is 128 and the signal's number."""
    trap = "trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.02; done"
    polite = await Container.start(order("sh", "-c", trap))
    await logged(log, "up")
    polite.signal(signal.SIGTERM)
    assert await polite.wait() == 3
    assert "caught" in log()
    deaf = await Container.start(order("sleep", "60"))
    deaf.signal(signal.SIGKILL)
    assert await deaf.wait() == 137
    deaf.signal(signal.SIGKILL)  # to one that has ended: nothing


async def test_signals_that_were_ignored_are_not(order, log):
    """Under nohup everybody ignores SIGHUP, and a shell could trap it no more: a container begins as a fresh program."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        container = await Container.start(
            order("sh", "-c", "trap 'exit 3' HUP; echo up; while :; do sleep 0.02; done")
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    await logged(log, "up")
    container.signal(signal.SIGHUP)
    assert await container.wait() == 3


@pytest.mark.parametrize("begun", [0.0, 0.01, 0.03, 0.1])
async def test_a_start_that_is_given_up_twice_leaves_nothing(order, begun):
    """A probe may time out just when its pod goes: whoever starts a container waits for its end all the same."""
    before = launchers()
    starting = asyncio.create_task(Container.start(order("sleep", "60")))
    await asyncio.sleep(begun)
    for _ in range(5):
        starting.cancel()
        await asyncio.sleep(0)
    try:
        container = await starting
    except asyncio.CancelledError:
        assert launchers() <= before, "those of a test before may end meanwhile"
    else:
        container.signal(signal.SIGKILL)
        assert await container.wait() == 137
    gc.collect()  # a transport that was left open would be told of here


async def test_nothing_outlives_the_first_process(order, log):
    """Children, also those that went into sessions of their own, end with it."""
    forks = "setsid sleep 61 & (sleep 62 &) ; echo up; sleep 63"
    container = await Container.start(order("sh", "-c", forks))
    await logged(log, "up")
    pids = container.pids()
    assert len(pids) >= 4
    assert pids[0] == container.pid
    container.signal(signal.SIGKILL)
    assert await container.wait() == 137
    await until_gone(pids)
    assert container.pids() == []


async def test_frozen_and_thawed(order, log):
    """A frozen container does nothing at all, and goes on when it is thawed."""
    container = await Container.start(order(sys.executable, "-I", "-S", "-c", TICKS))
    await logged(log, "tick")
    container.signal_all(signal.SIGSTOP)
    async with asyncio.timeout(20):
        while not set(map(state, container.pids())) <= {"T", "Z"}:
            await asyncio.sleep(0.01)
    said = len(log())
    container.signal_all(signal.SIGCONT)
    async with asyncio.timeout(20):
        while len(log()) <= said:
            await asyncio.sleep(0.01)
    container.signal(signal.SIGKILL)
    await container.wait()


async def test_it_dies_with_whoever_started_it(order, log, tmp_path):
    """SIGKILL to the program that started a container leaves nothing of it behind."""
    (tmp_path / "order").write_text(
        json.dumps(asdict(order("sh", "-c", "sleep 64 & sleep 65 & echo up; wait")))
    )
    starter = (
        "import subprocess, sys, os, time\n"
        f"child = subprocess.Popen([sys.executable, '-I', '-S', {str(ENTER)!r}, str(os.getpid())],"
        f" stdin=open({str(tmp_path / 'order')!r}), stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(child.stdout.readline().decode(), child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = json.loads(parent.stdout.readline())["pid"]
        launcher = int(parent.stdout.readline())
        await logged(log, "up")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        parent.kill()
    await until_gone([pid, launcher, *map(int, children)])
    assert len(children) == 2


@pytest.mark.skipif("root" not in WAYS and "user" not in WAYS, reason="no namespaces on this machine")
@pytest.mark.parametrize("way", [way for way in WAYS if way != "none"], indirect=True)
class TestNamespaces:
    """What only namespaces can give."""

    async def test_mounts_are_its_own(self, order, log, tmp_path):
        """Mount points are made wherever they are wanted, seen by it alone; nothing is made on the machine."""
        shared, secret = tmp_path / "shared", tmp_path / "secret"
        for place in (shared, secret):
            place.mkdir()
        (secret / "token").write_text("t0k3n\n")
        (tmp_path / "hosts").write_text("127.1.0.1 a-0\n")
        mounts = [
            (str(shared), "/gangwright-test/deep", False),
            (str(secret), "/var/run/secrets/gangwright-test", True),
            (str(tmp_path / "hosts"), "/etc/hosts", False),
        ]
        script = (
            "cat /var/run/secrets/gangwright-test/token /etc/hosts; hostname; echo $$;"
            "echo there > /gangwright-test/deep/file; ls /usr/bin/env;"
            "touch /var/run/secrets/gangwright-test/x 2>/dev/null || echo read-only"
        )
        container = await Container.start(order("sh", "-c", script, mounts=mounts))
        assert await container.wait() == 0
        assert log().split() == ["t0k3n", "127.1.0.1", "a-0", "a-0", "1", "/usr/bin/env", "read-only"]
        assert (shared / "file").read_text() == "there\n"
        assert not Path("/gangwright-test").exists()
        assert not Path("/var/run/secrets/gangwright-test").exists()
        assert list((tmp_path / "root").iterdir()) == []

    async def test_a_first_process_hears_only_what_it_listens_to(self, order, log):
        """SIGTERM passes by process 1 that has no handler for it, as in every container."""
        container = await Container.start(order("sh", "-c", "echo up; while :; do sleep 0.02; done"))
        await logged(log, "up")
        container.signal(signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(container.wait(), 0.2)
        container.signal(signal.SIGKILL)
        assert await container.wait() == 137

    async def test_a_second_command_runs_inside(self, order, log, tmp_path):
        """It sees the container's mounts and processes."""
        (tmp_path / "m").mkdir()
        container = await Container.start(
            order(
                "sh",
                "-c",
                "echo up > /in-here/file; sleep 60",
                mounts=[(str(tmp_path / "m"), "/in-here", False)],
            )
        )
        await until_file(tmp_path / "m" / "file")
        other = tmp_path / "other"
        assert await container.execute(["sh", "-c", "cat /in-here/file; test -d /proc/1; exit 4"], other) == 4
        assert other.read_text() == "up\n"
        container.signal(signal.SIGKILL)
        await container.wait()


async def until_file(place):
    async with asyncio.timeout(20):
        while not (place.exists() and place.read_text()):
            await asyncio.sleep(0.01)
