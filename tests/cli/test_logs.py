"""`gangwright logs`: one stream of all members' lines."""

import asyncio
import os
import shlex
import sys
from asyncio.subprocess import PIPE

import pytest

from scheduler.cli import logs
from scheduler.cli.logs import LONGEST, Place, color, lines
from tests.cli.support.speaking import BREAK


async def test_all_members_with_their_names(cluster):
    """Every line of every member is there once, behind its worker's name, in columns."""
    cluster.gang("g", 2, node="r0-n0")
    cluster.pod("g-longer", gang="g", quorum=2, node="r0-n0")
    cluster.pod("stranger", node="r0-n0")
    cluster.logs = {"g-0": [b"one\ntw", b"o\n"], "g-1": [b"uno"], "g-longer": [b""]}

    said = await cluster.say("logs", "team/g")

    assert said.code == 0
    assert sorted(said.out.splitlines()) == ["g-0      one", "g-0      two", "g-1      uno"]
    assert "stranger" not in {name for name, _ in cluster.asked}


async def test_what_is_asked_of_every_log(cluster):
    """Tail, since and container go to the API server; the container is the pod's first unless one is named."""
    cluster.gang("g", 1, node="r0-n0")
    cluster.logs = {"g-0": [b"x\n"]}

    await cluster.say("logs", "team/g", "--tail", "5", "--since", "2m")
    await cluster.say("logs", "team/g", "-c", "side")

    assert [query for _, query in cluster.asked] == [
        {"container": "main", "tailLines": "5", "sinceSeconds": "120"},
        {"container": "side"},
    ]


async def test_following(cluster):
    """With -f lines come as they are written, a member that comes later is followed, and the end is everybody's end."""
    cluster.gang("g", 2, node="")
    cluster.pod("g-0", gang="g", quorum=2, node="r0-n0")
    cluster.logs = {"g-0": [b"first\n"], "g-1": [b"later\n"]}
    task = asyncio.create_task(cluster.say("logs", "team/g", "-f"))
    while not cluster.asked:
        await asyncio.sleep(0.01)
    cluster.later["g-0"].put_nowait(b"second\n")
    cluster.pod("g-1", gang="g", quorum=2, node="r0-n1")
    while len(cluster.asked) < 2:
        await asyncio.sleep(0.01)

    await cluster.ends("g-0", "g-1")
    said = await task

    assert said.code == 0
    assert sorted(said.out.splitlines()) == ["g-0 first", "g-0 second", "g-1 later"]


async def test_a_member_that_is_silent_for_long_is_followed_on(cluster, monkeypatch):
    """Its stream is opened anew from where it was, and its silence is no failure."""
    monkeypatch.setattr(logs, "SILENCE", 0.2)
    monkeypatch.setattr(logs, "EVERY", 0.05)
    cluster.gang("g", 1, node="r0-n0")
    cluster.logs = {"g-0": [b"first\n"]}
    task = asyncio.create_task(cluster.say("logs", "team/g", "-f", "--tail", "5"))
    async with asyncio.timeout(10):
        while not cluster.asked:
            await asyncio.sleep(0.01)
        silent, cluster.later["g-0"] = cluster.later["g-0"], asyncio.Queue()
        cluster.logs["g-0"] = [b"second\n"]
        while len(cluster.asked) < 2:
            await asyncio.sleep(0.01)

    silent.put_nowait(None)
    await cluster.ends("g-0")
    said = await task

    assert (said.code, said.out, said.err) == (0, "g-0 first\ng-0 second\n", "")
    assert cluster.asked == [
        ("g-0", {"container": "main", "follow": "true", "timestamps": "true", "tailLines": "5"}),
        ("g-0", {"container": "main", "follow": "true", "timestamps": "true", "sinceSeconds": "1"}),
    ]


def written(second: float, text: str) -> bytes:
    """A line as kubelet gives it, with its time."""
    return f"2026-01-01T01:00:{second:012.9f}+01:00 {text}\n".encode()


async def followed(cluster, monkeypatch, end):
    """A member whose stream ends so, while it runs, and that then writes on."""
    shown, show = [], logs._show
    monkeypatch.setattr(logs, "EVERY", 0.05)
    monkeypatch.setattr(logs, "_show", lambda *words: shown.append(words) or show(*words))
    cluster.pod("g-0", gang="g", node="r0-n0")
    cluster.logs = {"g-0": [written(1.0, "first"), written(1.5, "like"), written(1.5, "like")]}
    task = asyncio.create_task(cluster.say("logs", "team/g", "-f", "--tail", "5"))
    async with asyncio.timeout(10):
        while len(shown) < 3:
            await asyncio.sleep(0.01)
        cluster.logs["g-0"] += [written(1.5, "like"), written(2.0, "last")]
        cluster.later["g-0"].put_nowait(end)
        while len(cluster.asked) < 2:
            await asyncio.sleep(0.01)
    await cluster.ends("g-0")
    return await task


@pytest.mark.parametrize("end", [BREAK, None])
async def test_a_stream_that_ends_before_its_member(cluster, monkeypatch, end):
    """It is opened anew from the time of its last line, whether it broke or ended in order, and no line comes twice."""
    said = await followed(cluster, monkeypatch, end)

    assert said.err == ""
    assert said.out.splitlines() == ["g-0 first", "g-0 like", "g-0 like", "g-0 like", "g-0 last"]
    assert (said.code, [query.get("sinceTime") for _, query in cluster.asked]) == (
        0,
        [None, "2026-01-01T00:00:01Z"],
    )


async def test_what_is_refused_while_it_is_followed(cluster, monkeypatch):
    """An API server that is unwell is asked again; a refusal that stays is said at the end."""
    monkeypatch.setattr(logs, "EVERY", 0.05)
    for name in ("g-0", "g-1"):
        cluster.pod(name, gang="g", node="r0-n0")
    cluster.logs = {"g-0": [written(1.0, "here")]}
    cluster.unwell = 2
    cluster.later["g-0"].put_nowait(None)
    task = asyncio.create_task(cluster.say("logs", "team/g", "-f"))
    async with asyncio.timeout(10):
        while [name for name, _ in cluster.asked].count("g-0") < 3:
            await asyncio.sleep(0.01)
    await cluster.ends("g-0", "g-1")
    said = await task

    assert (said.code, said.out) == (1, "g-0 here\n")
    assert "g-1: GET" in said.err
    assert "g-0" not in said.err


async def test_the_end_of_a_container_is_the_end_of_its_log(cluster, monkeypatch):
    """Though its pod runs on, for the sake of another container: nothing is asked for again."""
    monkeypatch.setattr(logs, "EVERY", 0.05)
    pod = cluster.pod("g-0", gang="g", node="r0-n0")
    pod["status"]["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]
    cluster.logs = {"g-0": [written(1.0, "all")]}
    cluster.later["g-0"].put_nowait(None)
    task = asyncio.create_task(cluster.say("logs", "team/g", "-f"))
    await asyncio.sleep(0.5)
    pod["status"]["phase"] = "Succeeded"
    cluster.changed("g-0")
    said = await task

    assert (said.code, said.out, len(cluster.asked)) == (0, "g-0 all\n", 1)


def test_what_kubelet_puts_no_time_before():
    """The rest of a line that was cut comes with its beginning, or not at all; a word of kubelet's own is shown."""
    place = Place()
    place.begin(0.0)
    lines_ = (
        "2026-01-01T00:00:01.000000001Z long",
        "rest",
        "2026-01-01T00:00:01.000000002Z 2026-13-01T00:00:00Z x",
    )
    first = [place.take(line) for line in lines_]
    place.begin(1.0)

    assert first == ["long", "rest", "2026-13-01T00:00:00Z x"]
    assert place.take("unable to retrieve container logs") == "unable to retrieve container logs"
    assert [place.take(line) for line in lines_] == [None, None, None]
    assert place.take("2026-13-01T00:00:00Z no time") is None
    assert place.take("2026-01-01T00:00:01.000000003Z ") == ""


def test_lines_of_both_streams_need_not_come_in_order():
    """What a container wrote to one stream may stand behind what it wrote to the other a moment later: it is shown."""
    place = Place()
    place.begin(0.0)
    told = ["2026-01-01T00:00:02.5Z out", "2026-01-01T00:00:02.4Z error"]

    assert [place.take(line) for line in told] == ["out", "error"]
    place.begin(1.0)
    assert [place.take(line) for line in told] == [None, None]


async def test_who_has_not_begun(cluster):
    """A member without a log yet is named, and is no failure."""
    cluster.gang("g", 1)

    said = await cluster.say("logs", "team/g")

    assert (said.code, said.out) == (0, "")
    assert "g-0 has not started" in said.err


async def test_a_log_that_cannot_be_read(cluster):
    """The other members' lines are shown, the one is named: exit code 1."""
    cluster.gang("g", 2, node="r0-n0")
    cluster.logs = {"g-0": [b"here\n"]}

    said = await cluster.say("logs", "team/g")

    assert (said.code, said.out) == (1, "g-0 here\n")
    assert "g-1: GET" in said.err


async def test_whoever_has_read_enough_may_go(cluster):
    """`| head` ends the command without a word, however many members still write."""
    cluster.gang("g", 2, node="r0-n0")
    cluster.logs = dict.fromkeys(("g-0", "g-1"), [b"x" * 100 + b"\n"] * 5000)
    command = shlex.join([sys.executable, "-m", "scheduler", "logs", "team/g"])

    shell = await asyncio.create_subprocess_shell(
        f"{command} | head -n 1",
        env={**os.environ, "KUBECONFIG": cluster.kubeconfig},
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await shell.communicate()

    assert len(out.splitlines()) == 1
    assert err == b""


async def test_nobody(cluster):
    """No such gang: exit code 1."""
    assert (await cluster.say("logs", "team/nobody")).code == 1


async def test_a_log_does_nothing_to_the_terminal(cluster):
    """Escapes that a program writes, or a stranger makes it write, are shown; so is markup; bytes that are no text,
    too.
    """
    cluster.gang("g", 1, node="r0-n0")
    cluster.logs = {"g-0": ["\x1b]0;title\x07[red]\u202e\tx\r\n".encode() + b"\xff\n"]}

    out = (await cluster.say("logs", "team/g")).out

    assert all(c.isprintable() or c == "\n" for c in out)
    assert "\\x1b]0;title\\x07[red]\\u202e" in out


async def test_a_line_without_end():
    """A stream that never ends its line is cut, so that it cannot fill the memory."""

    async def stream():
        for _ in range(5):
            yield b"x" * LONGEST
        yield b"end"

    found = [line async for line in lines(stream())]

    assert "".join(found) == "x" * 5 * LONGEST + "end"
    assert max(map(len, found)) <= LONGEST


@pytest.mark.parametrize("name", ["a", "worker-7"])
def test_a_workers_colour_is_its_own(name):
    """It follows from the name alone, so it is the same at every call."""
    assert color(name) == color(str(name))
    assert len({color(f"w-{number}") for number in range(50)}) > 5
