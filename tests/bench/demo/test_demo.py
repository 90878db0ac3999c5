"""The demo's own judgement: what its record sees, and that a claim that does not hold is not passed over."""

import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from bench.demo import burst, elastic, room, training, two_jobs
from bench.demo.cast import Gang
from bench.demo.claims import Claims, check_whole
from bench.demo.palette import Palette
from bench.demo.record import Record, Seen, refused
from bench.demo.screen import by_gpu, by_node, by_time, interval
from bench.demo.slots import Span, busy, by_second
from bench.plane.errors import NotReadyError
from bench.plane.nodes import Fleet
from bench.plane.watches import Change

FLEET = Fleet(racks=2, nodes_per_rack=1, gpus=4)


def pod(
    name: str,
    *,
    node: str = "",
    phase: str = "Pending",
    plan: dict[str, list[str]] | None = None,
    surplus: bool = False,
    leaving: bool = False,
) -> Any:
    """A member of the gang `a`; `plan`: what the annotation says, node → uids."""
    notes = {"gangwright.io/plan": json.dumps({"plan": "p", "seats": plan})} if plan else {}
    labels = {"gangwright.io/gang": "a"} | ({"gangwright.io/surplus": "true"} if surplus else {})
    meta = {"name": name, "uid": f"uid-{name}", "labels": labels, "annotations": notes}
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    containers = [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]
    return {
        "metadata": meta,
        "spec": {"containers": containers} | ({"nodeName": node} if node else {}),
        "status": {"phase": phase},
    }


async def recorded(*pods: Any) -> Record:
    record = Record()

    async def stream() -> AsyncIterator[Change]:
        for each in pods:
            yield "MODIFIED", each

    await record.follow(stream())
    return record


def judged(record: Record) -> Claims:
    claims = Claims(Console(file=io.StringIO()))
    check_whole(claims, record)
    return claims


PLAN = {"r00-n00": ["uid-a-0"], "r01-n00": ["uid-a-1"]}


async def test_planned_gang_is_believed() -> None:
    """A gang whose whole plan was seen before its first bind, and that went where the plan says, fails no claim."""
    record = await recorded(
        pod("a-0", plan=PLAN), pod("a-1"), pod("a-1", node="r01-n00"), pod("a-0", node="r00-n00")
    )

    assert record.bound("a") == 2
    assert record.nodes("a") == ["r00-n00", "r01-n00"]
    assert judged(record).failed == []


@pytest.mark.parametrize(
    "changes",
    [
        (pod("a-0"), pod("a-1"), pod("a-0", node="r00-n00"), pod("a-1", node="r01-n00")),
        (pod("a-0"), pod("a-1"), pod("a-1", node="r01-n00"), pod("a-0", node="r00-n00", plan=PLAN)),
        (pod("a-0", plan=PLAN), pod("a-1"), pod("a-0", node="r01-n00"), pod("a-1", node="r01-n00")),
        (pod("a-0", plan={"r00-n00": ["uid-a-0"]}), pod("a-1"), pod("a-0", node="r00-n00"), pod("a-1", node="r00-n00")),
    ],
    ids=["no plan", "too late a plan", "another node", "half a plan"],
)  # fmt: skip
async def test_unplanned_bind_is_noticed(changes: Iterable[Any]) -> None:
    """A bind without a plan of the whole gang before it, or against the plan, makes a claim fail."""
    assert len(judged(await recorded(*changes)).failed) == 1


async def test_half_a_gang_is_noticed() -> None:
    """A gang of which one member stays without a node makes a claim fail."""
    record = await recorded(pod("a-0", plan=PLAN), pod("a-1"), pod("a-0", node="r00-n00"))

    assert any("partly bound" in said for said in judged(record).failed)


async def test_whoever_gave_way_and_came_back_is_judged_anew() -> None:
    """A gang that was evicted and made again needs a plan of those who are there; what is above its quorum needs
    none.
    """
    first = [pod("a-0", plan=PLAN), pod("a-1"), pod("a-0", node="r00-n00"), pod("a-1", node="r01-n00")]
    evicted = [pod(name, node="r00-n00", phase="Failed", leaving=True) for name in ("a-0", "a-1")]
    more = [pod("a-4", surplus=True), pod("a-4", surplus=True, node="r00-n00")]
    plan = {"r00-n00": ["uid-a-2", "uid-a-3"]}
    again = [pod("a-2"), pod("a-3", plan=plan), pod("a-2", node="r00-n00"), pod("a-3", node="r00-n00")]

    record = await recorded(*first, *evicted, *more, *again)

    assert record.unplanned == []
    assert [seen.name for seen in record.evicted()] == ["a-0", "a-1"]
    assert [seen.name for seen in record.here("a")] == ["a-4", "a-2", "a-3"]


async def test_the_end_of_a_learner_is_no_eviction() -> None:
    """A pod that ended by itself, or was deleted behind its gate, gave no way."""
    record = await recorded(
        pod("a-0", node="r00-n00"),
        pod("a-0", node="r00-n00", phase="Succeeded"),
        pod("a-0", node="r00-n00", phase="Succeeded", leaving=True),
        pod("a-1"),
        pod("a-1", leaving=True),
    )

    assert record.evicted() == []


def test_what_can_be_taken_alone() -> None:
    """A gang is one unit, what is above a quorum and pods for themselves are units each."""
    gang = [Seen(f"a-{n}", "a", f"a-{n}", 2, together=True) for n in range(3)]
    more = [Seen(f"b-{n}", "b", f"b-{n}", 1, together=True, surplus=True) for n in range(2)]
    single = [Seen("c-0", "c", "c-0", 4)]

    assert sorted(room.units([*gang, *more, *single])) == [1, 1, 4, 6]


def test_the_room_is_full_at_first() -> None:
    """The everyday work of the story needs just the GPUs that there are."""
    assert sum(gang.size * gang.gpus for gang in room.EVERYDAY) == room.ROOM


def test_refusals_are_read() -> None:
    """kube-scheduler's own word is found on pods that it could not place, and on no others."""
    waiting = pod("a-0")
    waiting["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "no room"}]

    assert refused([waiting, pod("a-1")]) == {"a-0": "no room"}


def drawn(content: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(content)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


async def test_pictures_speak_without_colours() -> None:
    """Every picture shows the gang's mark where its members are, also as plain text."""
    ended = [pod("a-0", node="r00-n00", phase="Succeeded"), pod("a-1", node="r01-n00", phase="Succeeded")]
    record = await recorded(pod("a-0", node="r00-n00"), pod("a-1", node="r01-n00"))
    palette, nodes = Palette(["a"]), FLEET.objects()

    assert drawn(by_gpu(nodes, record.present(), palette)) == ["r00      r01", "A A · ·  A A · ·"]
    record.pods["a-1"].surplus = True
    assert drawn(by_gpu(nodes, record.present(), palette))[1] == "A A · ·  a a · ·"
    assert [line.split() for line in drawn(by_node(nodes, record.present(), palette))] == [
        ["r00", "A"],
        ["r01", "A"],
    ]
    for seen, begun, end in zip(record.pods.values(), (0.0, 5.0), (5.0, 10.0), strict=True):
        seen.pod, seen.created, seen.bound, seen.ended = ended[0], 0.0, begun, end
    assert drawn(by_time(nodes, record.pods.values(), palette, 10)) == ["r00 A╌╌╌╌", "r01      A╌╌╌╌"]


def test_a_forecast_is_a_span() -> None:
    """A point between two bounds, kept inside the picture; a time alone is a point."""
    assert interval(0.2, 0.5, 1.4, width=10).plain == "  ├──●────┤"
    assert interval(0.5, width=10).plain.rstrip() == "     ▲"


def test_burst_is_the_data_set() -> None:
    """53 gangs of 288 pods, whose work is 18 s on all nodes, as the table's own description says (1,080 s, 60:1)."""
    jobs = burst.gangs()

    assert (len(jobs), sum(job.members for job in jobs)) == (53, 288)
    assert burst.ideal(jobs) * burst.SCALE == 1080
    assert jobs[0] == Gang(
        "00-job1", 32, 8, memory="256M", strategy="pack", level="rack", expects="2s"
    )  # fmt: skip


# ── elastic jobs ────────────────────────────────────────────────────────────────────────────────────────────


def said(number: int, *pods: str, at: float = 0.0, batch: int = 150, epoch: float | None = None) -> list[Any]:
    """What workers print of a step of which each takes an equal share of the batch; ten make an epoch."""
    done = number * batch / training.SAMPLES if epoch is None else epoch
    words = {"step": number, "size": len(pods), "batch": batch, "epoch": done, "at": at}
    return [{**words, "pod": pod} for pod in pods]


def flaws(*steps: list[Any]) -> list[str]:
    return training.flaws(training.of_all([line for step in steps for line in step], ended=True))


def test_steps_without_a_flaw() -> None:
    """Steps that follow each other, each said once by every worker, with every sample, have no flaw, whatever the
    sizes.
    """
    assert flaws(said(1, "b-0", "b-1"), said(2, "b-0", "b-1", "b-2"), said(3, "b-2")) == []


@pytest.mark.parametrize(
    ("steps", "flaw"),
    [
        ([said(1, "b-0"), said(3, "b-0", epoch=0.2)], "step 2 is missing"),
        ([said(1, "b-0"), said(1, "b-0"), said(2, "b-0")], "step 1 was made by 2 workers of 1"),
        ([said(1, "b-0", "b-1")[:1], said(2, "b-0")], "step 1 was made by 1 workers of 2"),
        ([said(1, "b-0"), said(2, "b-0", epoch=0.3)], "after step 2 300 samples were used, 450 said"),
    ],
    ids=["lost", "repeated", "half", "samples"],
)
def test_flaws_of_steps_are_noticed(steps: list[list[Any]], flaw: str) -> None:
    """A step that is lost, repeated or made by a part of the workers is noticed, and so are samples that were passed
    over.
    """
    assert flaws(*steps) == [flaw]


def test_a_step_in_the_making_is_not_judged() -> None:
    """Of a job that goes on the last step may have been printed by some workers only."""
    lines = [*said(1, "b-0", "b-1"), *said(2, "b-0", "b-1")[:1]]

    assert training.flaws(training.of_all(lines, ended=False)) == []


def test_rates_by_size() -> None:
    """Samples a second are those of each size, without the time of the change between them."""
    times = ((1, 0.0), (2, 1.0), (3, 2.0))
    few = [said(number, "b-0", at=at) for number, at in times]
    many = [said(number, "b-0", "b-1", at=at + 5.0, batch=300) for number, at in ((4, 3.0), (5, 4.0))]

    assert training.rates([*few, *many]) == {1: 150.0, 2: 300.0}


async def test_resizes_are_read_from_status() -> None:
    """Each change of size is one, with what was told of it last, and a job's other statuses make none."""
    resize = {"from": 2, "to": 4, "cause": "ScaleUp", "at": "2026-01-01T00:00:00Z"}
    told = [{}, {"round": 1}, {"round": 2, "lastResize": resize}]
    told += [{"round": 3, "lastResize": {**resize, "idleSeconds": 0.5}}]
    history = training.History()

    async def stream() -> AsyncIterator[Change]:
        for status in told:
            yield "MODIFIED", {"metadata": {"name": "b"}, "status": status}

    await history.follow(stream())

    assert history.resizes("b") == [training.Resize(2, 4, "ScaleUp", 0.5, 2)]
    assert history.resizes("a") == []


def test_slots_by_second() -> None:
    """A row shows who trains in a slot, who starts there and when nobody does; below it how many train, and the
    seconds.
    """
    palette = Palette(["a", "b"])
    pods = [
        Seen("a-0", "a", "a-0", 1, node="n0", bound=1.0, ended=5.0),
        Seen("b-0", "b", "b-0", 1, node="n0", bound=6.0, surplus=True),
        Seen("b-1", "b", "b-1", 1, node="n1", bound=2.0),
        Seen("b-2", "b", "b-2", 1),
    ]
    trains = {"a-0": 3.0, "b-0": 8.0, "b-1": 4.0}

    assert drawn(by_second(["n0", "n1"], pods, trains, palette, Span(0.0, 10.0, 72))) == [
        "n0     ·╌╌AA·╌╌bb",
        "n1     ··╌╌BBBBBB",
        "train     1211122",
        "s      0",
    ]
    assert [busy(pods, trains, at) for at in (3.0, 4.0, 9.0)] == [1, 2, 2]


def test_a_long_story_takes_wider_columns() -> None:
    """What does not fit at a second a column has more seconds in each, and the scale says so."""
    span = Span(0.0, 39.0, 20)

    assert (span.step, span.columns, span.at(19)) == (2, 20, 39.0)
    assert drawn(by_second([], [], {}, Palette([]), span))[-1] == "s      0         20"


def test_processes_of_pods_are_found(tmp_path: Path) -> None:
    """A process is a pod's when its environment names it; others, and those that are gone already, are not."""
    for number, words in {"7": b"A=b\0GANGWRIGHT_POD_UID=mine\0", "8": b"GANGWRIGHT_POD_UID=other\0"}.items():
        (tmp_path / number).mkdir()
        (tmp_path / number / "environ").write_bytes(words)
    (tmp_path / "9").mkdir()

    assert two_jobs.running(["mine"], tmp_path) == ["7"]


def test_the_jobs_need_each_other_s_room() -> None:
    """The quorums fill all slots, so the second job can only grow when the first has ended."""
    assert two_jobs.FIRST_SIZE + two_jobs.SECOND_LEAST == two_jobs.ROOM
    assert two_jobs.SECOND_LEAST < two_jobs.SECOND_MOST <= two_jobs.ROOM


@pytest.mark.parametrize("comes_up", [True, False])
async def test_the_master_comes_up_behind_other_acts(monkeypatch: pytest.MonkeyPatch, comes_up: bool) -> None:
    """It starts while they play; that it does not come up is told when it is waited for; it is stopped either way."""
    did: list[str] = []

    class Master:
        def __init__(self, plane: Any) -> None:
            self.plane = SimpleNamespace(apply_manifests=lambda place: did.append("applied"))

        def start(self) -> None:
            did.append("started")
            if not comes_up:
                raise NotReadyError("the elastic master ended with 1.")

        def stop(self) -> None:
            did.append("stopped")

    monkeypatch.setattr(elastic, "Master", Master)
    stage: Any = SimpleNamespace(gangwright=SimpleNamespace(plane=None), master=None)

    async with elastic.behind(stage):
        with nullcontext() if comes_up else pytest.raises(NotReadyError):
            await stage.master
        assert did == ["applied", "started"]

    assert did == ["applied", "started", "stopped"]


# ── on the plane ────────────────────────────────────────────────────────────────────────────────────────────


def played(*acts: str, within: float) -> str:
    """The output of these acts, without a terminal, which came to their end within so many seconds, every claim
    held.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.demo", *acts],
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.plane
@pytest.mark.slow
def test_first_acts_on_the_plane() -> None:
    """The demo runs without a terminal, says that its claims held, and ends with 0."""
    out = played("deadlock", "shapes", "room", within=240)

    assert "2/4, 2/4, 2/4, 2/4" in out
    assert "room/chen is waiting: InsufficientResources" in out
    assert "All 19 claims held" in out


@pytest.mark.plane
@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(900)
def test_elastic_act_on_the_plane(horovod_python: Path) -> None:
    """Two jobs train with real Horovod, the second takes the room that the first one leaves, and nothing of them is
    left.
    """
    out = played("elastic", within=elastic.LONGEST + 300)

    assert "2 → 4" in out
    assert "All 7 claims held" in out
