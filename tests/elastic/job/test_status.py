"""The status of a job on the wire, and back."""

import pytest
from msgspec.structs import replace

from scheduler.elastic.job import Condition, Phase, Status, UnreadableStatus, decode_status, encode_status
from scheduler.elastic.job.status import Barred, BatchSeen, Member, Next, Resize, Round, Seat
from scheduler.elastic.job.status_json import accepted_spec, accepted_template

STATUS = Status(
    phase=Phase.RUNNING,
    reason="3 wanted by user",
    conditions=(Condition("Accepted", True, "ValidSpec", "", 1_700_000_000.0, 2),),
    round=7,
    workers=1,
    selector="gangwright.io/elastic-job=job",
    wanted=3,
    wanted_by="user",
    members=(Member(name="w1", uid="u1", rank=0, step=5),),
    batch=BatchSeen("capped", 64, 32, 1.5),
    last_resize=Resize(before=2, to=3, cause="ScaleUp", idle_seconds=0.25, at=1_700_000_000.5),
    next_change=Next(workers=4, epoch=3.0, reason="schedule[1]"),
    values={"at": 3.0, "loss": 0.5},
    assignment=Round(number=7, ring=(Seat("u1", "w1", "n1"),), env={"at": "noon"}, global_batch=64),
    barred=(Barred("n2", 2, 1_700_000_060.0, "silent"),),
    uses=(),
    template={"metadata": {"labels": {"at": "noon", "conditions": "fair"}}, "spec": {"until": 5}},
    retired=4,
    started_at=1_700_000_000.0,
)


def test_what_is_written_is_read_back() -> None:
    """A restarted master knows what the one before it wrote."""
    assert decode_status(encode_status(STATUS)) == STATUS


def test_it_speaks_as_kubernetes_does() -> None:
    """camelCase, RFC 3339, a condition's status as a word, and nothing where there is nothing."""
    wire = encode_status(STATUS)

    assert wire["phase"] == "Running"
    assert wire["wantedBy"] == "user"
    assert wire["conditions"] == [
        {
            "type": "Accepted",
            "status": "True",
            "reason": "ValidSpec",
            "message": "",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
            "observedGeneration": 2,
        }
    ]
    assert wire["lastResize"] == {
        "from": 2,
        "to": 3,
        "cause": "ScaleUp",
        "idleSeconds": 0.25,
        "at": "2023-11-14T22:13:20.500Z",
    }
    assert wire["batch"] == {"mode": "capped", "global": 64, "local": 32, "learningRateScale": 1.5}
    assert "samplesPerSecond" not in wire
    assert wire["values"] == {"at": 3.0, "loss": 0.5}


@pytest.mark.parametrize("name", ["at", "status", "conditions", "lastTransitionTime", "values", "env"])
def test_what_people_name_is_nobodys_field(name: str) -> None:
    """A value that a script reports, and a variable of a phase, may have the name of any field."""
    status = replace(STATUS, values={name: 1.0}, assignment=replace(STATUS.assignment, env={name: "x"}))

    wire = encode_status(status)

    assert (wire["values"], wire["assignment"]["env"]) == ({name: 1.0}, {name: "x"})
    assert decode_status(wire) == status


def test_without_a_status_there_is_none() -> None:
    """The job is new."""
    assert decode_status(None) is None
    assert decode_status({}) is None


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"phase": "Dancing"}, "phase"),
        ({"round": "seven"}, "round"),
        ({"startedAt": "yesterday"}, "yesterday"),
        ({"assignment": {"ring": [{"uid": "u"}]}}, "assignment.ring"),
        ({"barred": [{"node": "n", "failures": 1, "until": "9999999-01-01T00:00:00Z"}]}, "9999999"),
        ([1], "object"),
    ],
)
def test_a_status_that_cannot_be_read_is_not_taken_for_none(raw: object, field: str) -> None:
    """A newer master may have written it: what is wrong with it is said."""
    with pytest.raises(UnreadableStatus, match=field):
        decode_status(raw)


def test_a_template_stands_as_it_was_written():
    """No spelling of ours applies inside: a label `at` is no time, and a number may have any name."""
    assert encode_status(STATUS)["template"] == STATUS.template


def test_the_spec_that_was_accepted_stands_beside_the_status_as_it_was_written():
    """No spelling of ours applies inside: a label `at` of the template is no time."""
    spec = {"minWorkers": 1, "template": {"metadata": {"labels": {"at": "noon", "conditions": "fair"}}}}
    wire = encode_status(STATUS, spec)

    assert accepted_spec(wire) == spec
    assert decode_status(wire) == STATUS
    assert accepted_template(wire) == spec["template"]
    assert (
        accepted_template({"accepted": {"template": ["?"]}}) is accepted_template({"accepted": "?"}) is None
    )
    assert accepted_spec(encode_status(STATUS)) is accepted_spec(None) is accepted_spec("?") is None
