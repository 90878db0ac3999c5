"""The agent as a process: how it starts, loses, and ends its child, and what the master hears of it."""

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest

from scheduler.elastic.agent.agent import TICK
from tests.elastic.agent.support.master import PATIENCE, Master
from tests.elastic.agent.support.worker import Worker, until


@pytest.fixture
def master() -> Iterator[Master]:
    with Master() as one:
        yield one


def alive(pid: int) -> bool:
    """Whether a process is there and not only waiting to be taken."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it may go between the opening of the file and its reading
        return False


def test_a_finished_training_ends_the_worker_well(master: Master, tmp_path: Path) -> None:
    """Output passes unchanged, its tail and the end are reported, and the code is 0."""
    with Worker(master, tmp_path) as worker:
        worker.child()
        worker.order("sys.stdout.write('half a line'); sys.stderr.write('to stderr\\n')")
        code, out, err = worker.ends()

    assert (code, out) == (0, "the child is here\nhalf a line")
    assert "to stderr\n" in err
    told = master.calls["exit"][-1]
    assert (told["code"], told["signal"], told["why"], told["culprit"]) == (0, None, "finished", None)
    assert sorted(told["tail"]) == ["half a line", "the child is here", "to stderr"]
    assert told["checkpoint_step"] is None


def test_a_failed_training_gives_the_worker_its_code_and_names_the_error(
    master: Master, tmp_path: Path
) -> None:
    """The exit report holds the last line of the traceback, and the worker as the one to blame."""
    with Worker(master, tmp_path, GANGWRIGHT_LOG_PREFIX="1") as worker:
        worker.child()
        worker.order("raise ValueError('no such layer')")
        code, out, err = worker.ends()

    assert (code, out) == (1, "[job-0] the child is here\n")
    assert "[job-0] ValueError: no such layer\n" in err
    told = master.calls["exit"][-1]
    assert (told["code"], told["why"], told["culprit"]) == (1, "ValueError: no such layer", "job-0")


def test_beats_say_how_it_goes(master: Master, tmp_path: Path) -> None:
    """What the child reports is in the next beat; times of steps are means since the last one."""
    with Worker(master, tmp_path) as worker:
        report = {
            "phase": "Training", "step": 7, "committed": 6, "samples": 70.0, "epoch": 0.5, "step_s": 0.25,
            "compute_s": 0.125, "collective": True, "values": {"loss": 1.5, "broken": float("nan")},
        }  # fmt: skip
        assert worker.asks("POST", "/progress", report) == (200, {})

        told = master.heard("beat", step=7, step_s=0.25)

    assert told["phase"] == "Training"
    assert told["child"] == "running"
    assert told["collective"] is True
    assert (told["samples"], told["epoch"], told["committed"], told["round"]) == (70.0, 0.5, 6, 0)
    assert told["values"] == {"loss": 1.5}
    assert 0 <= told["silent_s"] < 60


def test_sigterm_is_an_orderly_leave(master: Master, tmp_path: Path) -> None:
    """SIGTERM reaches the master and not the child, which ends when it is told that it is removed; the code is 0."""
    with Worker(master, tmp_path, GANGWRIGHT_GRACE="60") as worker:
        master.assign(1, 0, 2)
        assert worker.joins()["size"] == 2
        worker.process.send_signal(signal.SIGTERM)
        told = master.heard("leave")
        master.heard("beat", phase="Leaving")
        assert alive(worker.child()["pid"])
        master.assign(2, removed=True)
        assert worker.asks("GET", "/announced?round=1") == (200, {"round": 2})
        assert worker.joins(round=1, why="announced")["removed"] is True
        worker.order("sys.exit(134)")  # as Horovod ends when it is removed; an orderly end all the same
        code, _, _ = worker.ends()

    assert code == 0
    assert told == {"why": "SIGTERM", "grace_s": 60.0}
    assert master.calls["exit"][-1]["code"] == 134


@pytest.mark.parametrize("code", [0, 1, 134])
def test_a_worker_that_was_to_save_ends_with_its_childs_code(
    master: Master, tmp_path: Path, code: int
) -> None:
    """What it saved is told before its end; that it could not save is no orderly end, though it is removed."""
    with Worker(master, tmp_path) as worker:
        master.assign(1)
        worker.joins()
        master.assign(2, removed=True, checkpoint=True)
        assert worker.joins(round=1, why="announced")["checkpoint"] is True
        master.refusal = {"beat": 503}
        worker.asks("POST", "/progress", {"values": {"checkpoint_step": 40}})
        worker.asks("POST", "/gone", {"code": code, "why": "CheckpointError: no space"})
        master.refusal, heard = {}, len(master.calls["beat"])
        worker.order(f"sys.exit({code})")
        ended, _, _ = worker.ends()

    assert ended == code
    told = master.calls["exit"][-1]
    assert (told["code"], told["why"]) == (
        code,
        "removed" if code == 0 else "CheckpointError: no space",
    )
    assert told["checkpoint_step"] == 40
    assert {"checkpoint_step": 40.0} in [beat["values"] for beat in master.calls["beat"][heard:]]


@pytest.mark.slow
def test_a_child_that_does_not_leave_is_killed_before_the_grace_period_ends(
    master: Master, tmp_path: Path
) -> None:
    """The kubelet's SIGKILL would take the report with it; so the agent kills first, and reports."""
    with Worker(master, tmp_path, GANGWRIGHT_GRACE="5") as worker:
        master.assign(1)
        worker.joins()
        worker.process.send_signal(signal.SIGTERM)
        code, _, _ = worker.ends()

    assert code == 128 + signal.SIGKILL
    told = master.calls["exit"][-1]
    assert (told["code"], told["signal"], told["why"]) == (None, signal.SIGKILL, "the grace period is over")


def test_a_newcomer_that_must_leave_just_goes(master: Master, tmp_path: Path) -> None:
    """Nobody counts on a child that was never at the barrier: the master hears of the leave, and the worker ends
    well.
    """
    with Worker(master, tmp_path, GANGWRIGHT_GRACE="600") as worker:
        pid = worker.child()["pid"]
        worker.process.send_signal(signal.SIGTERM)
        code, _, _ = worker.ends()

    assert code == 0
    assert len(master.calls["leave"]) == 1
    until(lambda: not alive(pid))


@pytest.mark.slow
def test_a_ready_newcomer_that_must_leave_goes_too(master: Master, tmp_path: Path) -> None:
    """It stands at the barrier, but no round has it: once the master has heard of the leave there is nothing to wait
    for.
    """
    with Worker(master, tmp_path, GANGWRIGHT_GRACE="600") as worker:
        pid = worker.child()["pid"]
        with ThreadPoolExecutor(1) as pool:
            standing = pool.submit(worker.joins)
            master.heard("ready")
            worker.process.send_signal(signal.SIGTERM)
            code, _, _ = worker.ends()
            assert isinstance(standing.exception(), OSError | HTTPException)

    assert code == 0
    assert len(master.calls["leave"]) == 1
    until(lambda: not alive(pid))


@pytest.mark.slow
def test_a_place_that_was_decided_before_the_leave_is_left_in_order(master: Master, tmp_path: Path) -> None:
    """The others count on the newcomer by then: it joins, and ends when a round is without it."""
    with Worker(master, tmp_path, GANGWRIGHT_GRACE="600") as worker:
        worker.child()
        with ThreadPoolExecutor(1) as pool:
            standing = pool.submit(worker.joins)
            master.heard("ready")
            worker.process.send_signal(signal.SIGTERM)
            master.heard("leave")
            master.assign(1, 1, 2)
            assert standing.result()["rank"] == 1
        master.heard("beat", times=len(master.calls["beat"]) + 30)  # three seconds, a tenth each
        assert alive(worker.child()["pid"])
        master.assign(2, removed=True)
        worker.joins(round=1, why="announced")
        worker.order("pass")
        code, _, _ = worker.ends()

    assert code == 0


@pytest.mark.slow
def test_when_the_job_is_gone_nothing_is_ended_in_order(master: Master, tmp_path: Path) -> None:
    """A worker that the master does not know trains on; told to go, it goes at once, for no round will ever do
    without it.
    """
    with Worker(master, tmp_path, GANGWRIGHT_GRACE="600") as worker:
        pid = worker.child()["pid"]
        master.assign(1)
        worker.joins()
        master.reason = "NoWorker"
        master.refusal = dict.fromkeys(("beat", "leave", "exit", "announced"), 403)
        master.heard("beat", times=len(master.calls["beat"]) + 3)
        assert alive(pid)
        worker.process.send_signal(signal.SIGTERM)
        code, _, err = worker.ends()

    assert code == 0
    assert "the job no longer exists" in err
    until(lambda: not alive(pid))


@pytest.mark.slow
def test_a_master_that_refuses_for_another_reason_is_waited_for(master: Master, tmp_path: Path) -> None:
    """Standby, a new token, too many calls: these pass, and the leave is an orderly one all the same."""
    with Worker(master, tmp_path, GANGWRIGHT_GRACE="600") as worker:
        master.assign(1)
        worker.joins()
        master.reason = "Standby"
        master.refusal = dict.fromkeys(("beat", "leave"), 503)
        worker.process.send_signal(signal.SIGTERM)
        master.heard(
            "leave", times=8
        )  # pauses double up to a second, so this is longer than a job must be gone
        assert alive(worker.child()["pid"])
        master.refusal = {}
        master.assign(2, removed=True)
        assert worker.joins(round=1, why="announced")["removed"] is True
        worker.order("pass")
        code, _, _ = worker.ends()

    assert code == 0


def test_a_killed_child_is_started_again_when_the_master_says_so(master: Master, tmp_path: Path) -> None:
    """SIGKILL of the child: reported as a signal; the next incarnation has another key and is a newcomer."""
    master.restarts = 1
    with Worker(master, tmp_path) as worker:
        master.assign(1)
        worker.joins()
        first = worker.child()
        os.kill(first["pid"], signal.SIGKILL)
        second = worker.child(2)
        beat = master.heard("beat", child="running", round=0, phase="Starting")
        assert worker.asks("POST", "/progress", {"step": 1}, number=1)[0] == 401
        worker.order("pass", 2)
        code, _, _ = worker.ends()

    assert code == 0
    assert second["GANGWRIGHT_SHIM_KEY"] != first["GANGWRIGHT_SHIM_KEY"]
    assert second["GANGWRIGHT_SHIM"] == first["GANGWRIGHT_SHIM"]
    assert beat["step"] == 0
    told = master.calls["exit"][0]
    assert (told["code"], told["signal"], told["why"]) == (None, signal.SIGKILL, "killed by SIGKILL")
    assert told["process"] == 1


def test_what_the_child_started_goes_with_it(master: Master, tmp_path: Path) -> None:
    """A data loader that outlives its parent would hold memory and pipes when the child is started again."""
    with Worker(master, tmp_path) as worker:
        worker.child()
        worker.order(
            "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True); os._exit(3)"
        )
        code, out, _ = worker.ends()

    assert code == 3
    until(lambda: not alive(int(out.split()[-1])))


def test_orphans_are_taken(master: Master, tmp_path: Path) -> None:
    """A process whose parent is gone becomes the agent's, and does not stay a zombie when it ends."""
    orphan = "import os\nif os.fork() == 0:\n    os.setsid()\n    pid = os.fork()\n    if pid: print(pid, flush=True)\n    os._exit(0)\n"
    with Worker(master, tmp_path) as worker:
        worker.child()
        worker.order(orphan + "os.wait()\nopen(folder + '/here', 'w').close()\ntime.sleep(600)")
        until((tmp_path / "here").exists)
        children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children")
        until(lambda: children.read_text().split() == [str(worker.child()["pid"])])
        assert worker.process.poll() is None


def test_the_master_can_have_the_child_killed(master: Master, tmp_path: Path) -> None:
    """An abort in the answer to a beat kills the child, and its reason comes back in the report."""
    with Worker(master, tmp_path) as worker:
        worker.child()
        master.abort = "rank 1 hangs"
        code, _, err = worker.ends()

    assert code == 128 + signal.SIGKILL
    told = master.calls["exit"][-1]
    assert (told["signal"], told["why"], told["culprit"]) == (
        signal.SIGKILL,
        "the master: rank 1 hangs",
        "job-0",
    )
    assert "killing the training: the master: rank 1 hangs" in err


@pytest.mark.slow
def test_a_child_that_hangs_says_where_before_it_is_killed(master: Master, tmp_path: Path) -> None:
    """When the master condemns a child without progress, the stacks of its threads are in the report."""
    with Worker(master, tmp_path, GANGWRIGHT_SILENT_LIMIT="0.3") as worker:
        worker.child()
        worker.order("def stuck_here():\n    time.sleep(600)\nstuck_here()")
        worker.asks("POST", "/progress", {"phase": "Training", "step": 1})
        # the limit, and one look of the agent's beyond it: what it says it says before it is told to kill
        until(lambda: any(beat["silent_s"] > 0.3 + 2 * TICK for beat in master.calls["beat"]))
        master.abort = "no progress"
        code, _, err = worker.ends()

    assert code == 128 + signal.SIGABRT
    assert "outside any collective, so the others wait for this worker" in err
    assert any("stuck_here" in line for line in master.calls["exit"][-1]["tail"])


@pytest.mark.slow
def test_a_stopped_child_is_killed(master: Master, tmp_path: Path) -> None:
    """SIGSTOP: the beat says so, and the child is killed, so that its peers see a reset."""
    with Worker(master, tmp_path, GANGWRIGHT_STOPPED_LIMIT="2") as worker:
        os.kill(worker.child()["pid"], signal.SIGSTOP)
        master.heard("beat", child="stopped")
        code, _, _ = worker.ends()

    assert code == 128 + signal.SIGKILL
    assert master.calls["exit"][-1]["why"].startswith("stopped for ")


@pytest.mark.slow
def test_an_absent_master_disturbs_nobody(master: Master, tmp_path: Path) -> None:
    """While the master is away the child runs on, what it wants to know waits, and all is told when it is back."""
    with Worker(master, tmp_path) as worker:
        master.assign(1)
        worker.joins()
        master.heard("beat", round=1)
        master.away()
        assert worker.asks("POST", "/progress", {"phase": "Training", "step": 3}) == (200, {})
        before = len(master.calls["beat"])
        time.sleep(0.5)  # an outage has a length; nothing is concluded from it
        master.back()
        master.heard("beat", step=3)
        assert len(master.calls["beat"]) > before
        master.announce(2)
        assert worker.asks("GET", "/announced?round=1") == (200, {"round": 2})
        worker.order("pass")
        code, _, err = worker.ends()

    assert code == 0
    assert err.count("the master is unavailable") == 1
    assert err.count("the master answers again") == 1


def test_the_end_of_a_child_waits_for_the_master(master: Master, tmp_path: Path) -> None:
    """A child that dies while the master is away is reported, and started again, once it is back."""
    master.restarts = 1
    with Worker(master, tmp_path) as worker:
        pid = worker.child()["pid"]
        master.heard("beat")
        master.away()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        master.back()
        worker.child(2)
        worker.order("pass", 2)
        assert worker.ends()[0] == 0


def test_a_renewed_token_is_used_at_once(master: Master, tmp_path: Path) -> None:
    """The token is read for every call: a new one counts with the next beat, and none is ever written down."""
    with Worker(master, tmp_path) as worker:
        master.heard("beat")
        master.tokens = {"token-2"}
        master.until(lambda: master.calls["unauthorized"])
        (tmp_path / "token").write_text("token-2")
        before = len(master.calls["beat"])
        master.until(lambda: len(master.calls["beat"]) > before)
        worker.order("pass")
        code, out, err = worker.ends()

    assert code == 0
    assert "token-" not in out + err.replace(str(tmp_path), "")


def test_a_command_that_cannot_be_started_is_told(master: Master, tmp_path: Path) -> None:
    """As a shell says it: 127; the master hears why."""
    with Worker(master, tmp_path, ["/no/such/program"]) as worker:
        code, _, err = worker.ends()

    assert code == 127
    assert master.calls["exit"][-1]["why"] == "cannot start /no/such/program: No such file or directory"
    assert "cannot start /no/such/program" in err


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        (["--"], {}, "a command is required"),
        (["--", "true"], {"GANGWRIGHT_MASTER": "http://master:80"}, "GANGWRIGHT_MASTER = 'http://master:80'"),
        (
            ["true"],
            {
                "GANGWRIGHT_CA": "-----BEGIN CERTIFICATE-----\nMIIB\n",
                "GANGWRIGHT_MASTER": "https://127.0.0.1:1",
            },
            "GANGWRIGHT_CA = ",
        ),
        (["true"], {"GANGWRIGHT_MASTER": "https://127.0.0.1:1"}, "GANGWRIGHT_CA = ''"),
    ],
)
def test_a_wrong_call_starts_nothing(
    master: Master, tmp_path: Path, words: list[str], more: dict[str, str], said: str
) -> None:
    """Without a command, or with a setting that is wrong, the code is 2 and one line says what would be right."""
    import subprocess

    from tests.elastic.agent.support.worker import ROOT, environment

    done = subprocess.run(
        [sys.executable, "-m", "scheduler.elastic.agent", *words],
        env={**environment(master, tmp_path), **more},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 2
    assert said in done.stderr
    assert master.calls == {}


@pytest.mark.slow
def test_a_child_that_waits_for_the_dead_is_let_go(master: Master, tmp_path: Path) -> None:
    """When the master says that nobody meets in its round, whoever it listens for seems to come and to go, and that is
    said; not in another round, and not once it trains.
    """
    with Worker(master, tmp_path) as worker, socket.create_server(("127.0.0.1", 0)) as gloo:
        master.assign(2, 0, 2)
        worker.joins()
        assert worker.asks("POST", "/progress", {"phase": "Ready"})[0] == 200
        head = struct.pack("=H", socket.AF_INET) + struct.pack(">H", gloo.getsockname()[1])
        assert worker.puts("global", "0", (head + socket.inet_aton("127.0.0.1")).ljust(136, b"\0")) == 200
        gloo.settimeout(0.5)
        master.broken = 1
        with pytest.raises(TimeoutError):
            gloo.accept()

        master.broken = 2
        gloo.settimeout(PATIENCE)
        peer, _ = gloo.accept()
        with peer:
            assert peer.recv(1) == b""
        assert worker.asks("POST", "/progress", {"phase": "Training"})[0] == 200
        master.heard("beat", phase="Training")
        master.heard("beat", len(master.calls["beat"]) + 1)
        while gloo_asked(gloo):
            continue
        master.heard("beat", len(master.calls["beat"]) + 2)
        assert not gloo_asked(gloo)
        worker.order("pass")
        _, _, err = worker.ends()

    assert "round 2: a member ended before all had met. Aborted waits for peers: 1\n" in err


def gloo_asked(gloo: socket.socket) -> bool:
    """Whether somebody knocks at it now."""
    gloo.settimeout(0.0)
    try:
        gloo.accept()[0].close()
    except BlockingIOError:
        return False
    return True
