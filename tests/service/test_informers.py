"""Intake: what watches tell becomes events, and one object that nobody understands stops no other."""

import io
import json

import msgspec
import pytest

from scheduler.kube import changes as ch
from scheduler.model.events import NodeGone, NodeSeen, PodGone, PodSeen
from scheduler.objects import api, pods
from scheduler.objects.watched_resources import RESOURCES
from scheduler.service.informers import Informers
from scheduler.telemetry import log
from tests.objects import devices


class Desk:
    """An intake, and all that it told."""

    def __init__(self) -> None:
        self.events = []
        self.wholes = 0
        self.unreadable = []
        self.intake = Informers((), self.events.extend, self._whole, self.unreadable.append)
        self.sinks = {name: sink for name, (_, sink) in self.intake.watches().items()}

    def _whole(self) -> None:
        self.wholes += 1


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def lines():
    """The log of this test, line by line."""
    out = io.StringIO()
    log.configure(stream=out, clock=lambda: 0.0)
    return lambda: [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture
def poison(monkeypatch):
    """A pod named `poison` makes the translation fail, in whatever way."""
    read = pods.pod

    def fails(found, *rest):
        if found.metadata.name == "poison":
            raise ZeroDivisionError("by a stranger")
        return read(found, *rest)

    monkeypatch.setattr(pods, "pod", fails)


def a_pod(name: str) -> ch.Seen[api.Pod]:
    pod = api.Pod(metadata=api.Meta(name=name, namespace="team", uid=f"uid-{name}"))
    return ch.Seen(ch.Key("team", name), f"uid-{name}", pod)


def test_kinds_of_one_name_have_watches_of_their_own(desk):
    """Every row of the table is watched, PodGroups by their API group."""
    assert len(desk.sinks) == len(RESOURCES)
    assert {"pods", "jobs", "podgroups.scheduling.x-k8s.io"} <= desk.sinks.keys()


def test_what_is_seen_and_gone_is_told_in_order(desk):
    """One batch is one call, whatever is in it."""
    node = api.Node(metadata=api.Meta(name="n1", uid="u1"))
    desk.sinks["nodes"]([ch.Seen(ch.Key("", "n1"), "u1", node), ch.Gone(ch.Key("", "n1"), "u1")])
    desk.sinks["pods"]([a_pod("p1"), ch.Gone(ch.Key("team", "p1"), "uid-p1")])

    assert [type(event) for event in desk.events] == [NodeSeen, NodeGone, PodSeen, PodGone]


def test_all_lists_read_is_told_once(desk):
    """`whole` is called when the last list is complete, and not again after a list is read anew."""
    *first, last = desk.sinks.values()
    for sink in first:
        sink([ch.Synced(0)])
    before = (desk.wholes, desk.intake.synced, len(desk.intake.missing()))
    last([ch.Synced(0)])
    last([ch.Synced(0)])

    assert before == (0, False, 1)
    assert (desk.wholes, desk.intake.synced, desk.intake.missing()) == (1, True, [])


def test_an_object_that_is_not_understood_is_left_out(desk, lines, poison):
    """The others of its batch count, the list is complete without it, and log and counter tell of it."""
    desk.sinks["pods"]([a_pod("p1"), a_pod("poison"), a_pod("p2"), ch.Synced(3)])

    (line,) = lines()
    assert [event.pod.key.name for event in desk.events] == ["p1", "p2"]
    assert desk.unreadable == ["pods"]
    assert "/api/v1/pods" not in desk.intake.missing()
    assert (line["resource"], line["object"]) == ("pods", "team/poison")
    assert line["message"] == "ZeroDivisionError: by a stranger"
    assert "Traceback" in line["exception"]


def test_an_object_that_cannot_be_decoded_is_left_out(desk, lines):
    """What the watch could not read is named likewise, even when it has no name."""
    desk.sinks["nodes"](
        [ch.Malformed(ch.Key("", "n1"), "u1", "no object"), ch.Malformed(None, "", "no name")]
    )

    assert desk.events == []
    assert desk.unreadable == ["nodes", "nodes"]
    assert [(line["object"], line["message"]) for line in lines()] == [("n1", "no object"), ("", "no name")]


def test_one_object_does_not_fill_the_log(desk, lines, poison):
    """However often it changes, it has a few lines; every time is counted, and another object has its own lines."""
    for _ in range(4 * log.BURST):
        desk.sinks["pods"]([a_pod("poison")])
    desk.sinks["pods"]([ch.Malformed(ch.Key("team", "other"), "u2", "no object")])

    assert len(desk.unreadable) == 4 * log.BURST + 1
    assert [line["object"] for line in lines()] == ["team/poison"] * log.BURST + ["team/other"]


def test_a_quantity_of_a_node_that_cannot_be_read_is_told(desk, lines):
    """The node counts without it. Log and counter tell of it once, and again when something else is wrong."""

    def node(**allocatable: str) -> ch.Seen[api.Node]:
        said = {"metadata": {"name": "n1", "uid": "u1"}, "status": {"allocatable": allocatable}}
        return ch.Seen(ch.Key("", "n1"), "u1", msgspec.convert(said, api.Node))

    for found in (
        node(cpu="much", memory="1Gi"),
        node(cpu="much", memory="2Gi"),
        node(cpu="4", memory="lots"),
    ):
        desk.sinks["nodes"]([found])

    assert [dict(event.node.capacity) for event in desk.events] == [
        {"memory": 2**30},
        {"memory": 2**31},
        {"cpu": 4000},
    ]
    assert desk.unreadable == ["nodes", "nodes"]
    assert [(line["event"], line["object"]) for line in lines()] == [("node read in part", "n1")] * 2
    assert lines()[0]["message"].startswith("status.allocatable.cpu: ")


def test_a_fault_in_what_follows_from_a_batch_stops_nothing_else(desk, monkeypatch):
    """A node whose devices cannot be counted: its own events are missing, the others come, now or with the next batch."""
    translator = desk.intake._translator
    counted = translator.devices.slices.capacity

    def fails(node):
        if node == "n1":
            raise ZeroDivisionError("by a stranger")
        return counted(node)

    names = ("n0", "n1", "n2")
    desk.sinks["nodes"]([ch.Seen(ch.Key("", n), n, devices.node_of(n)) for n in names])
    monkeypatch.setattr(translator.devices.slices, "capacity", fails)
    sink = desk.sinks["resourceslices.resource.k8s.io"]
    desk.sinks["deviceclasses.resource.k8s.io"]([ch.Seen(ch.Key("", "gpu"), "u", devices.class_of())])
    sink([ch.Seen(ch.Key("", n), n, devices.slice_of(n, [devices.device("a")])) for n in names])
    sink([])
    told = {event.node.name for event in desk.events if dict(event.node.capacity).get(devices.PLAIN)}
    assert told == {"n0", "n2"}
    assert desk.unreadable == ["resourceslices.resource.k8s.io"]
