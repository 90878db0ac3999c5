"""Reading an ElasticJob: every mistake is named at once, with its field, its value, and what would be right."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elastic.job import BatchMode, LearningRate, Spec, Strategy, decode_spec
from scheduler.elastic.job.validation import MOST_MEMBERS, lowered
from scheduler.elastic.sizing.policy_parameters import Efficiency, Schedule

POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "worker", "image": "train"}]}}


def a_spec(**fields: Any) -> dict[str, Any]:
    return {"minWorkers": 2, "maxWorkers": 4, "template": POD, **fields}


def wrong(**fields: Any) -> list[str]:
    """The problems of this spec, as people read them."""
    spec, problems = decode_spec(a_spec(**fields))
    assert (spec is None) == bool(problems)
    return [str(one) for one in problems]


def test_a_small_spec_has_defaults_for_the_rest() -> None:
    """Bounds and a template suffice."""
    spec, problems = decode_spec(a_spec())

    assert problems == ()
    assert spec == Spec(min_workers=2, max_workers=4, template=POD)
    assert (spec.policy, spec.max_restarts, spec.surplus_priority_class_name) == (
        "offer",
        6,
        "gangwright-surplus",
    )


def test_everything_that_can_be_said_is_read() -> None:
    """Each field, in the words of the API."""
    spec, problems = decode_spec(
        a_spec(
            workers=3,
            strategy="pack",
            level="gangwright.io/rack",
            levelRequired=True,
            surplusPriorityClassName="low",
            sizing={"policy": "efficiency", "parameters": {"threshold": 0.2}},
            schedule=[{"epoch": 0, "env": {"LR": "1"}}, {"epoch": 2.5, "batch": 64}],
            batch={"mode": "fixed", "perWorker": 32, "limit": 128, "learningRate": "sqrt", "rampSteps": 10},
            suspend=True,
            maxRestarts=0,
            progressDeadline="1h",
            checkpoint={"path": "/ckpt", "every": "1h30m"},
        )
    )

    assert problems == ()
    assert spec is not None
    assert (spec.workers, spec.strategy, spec.level, spec.level_required) == (
        3,
        Strategy.PACK,
        "gangwright.io/rack",
        True,
    )
    assert spec.parameters == Efficiency(threshold=0.2)
    assert [(one.epoch, one.batch, one.env) for one in spec.schedule] == [
        (0.0, None, {"LR": "1"}),
        (2.5, 64, {}),
    ]
    assert (spec.batch.mode, spec.batch.learning_rate) == (BatchMode.FIXED, LearningRate.SQRT)
    assert (spec.suspend, spec.max_restarts, spec.checkpoint.every) == (True, 0, 5400.0)
    assert spec.progress_deadline == 3600.0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"minWorkers": 0}, "spec.minWorkers = 0: a whole number from 1 to 10000"),
        ({"minWorkers": -1}, "spec.minWorkers = -1: a whole number from 1 to 10000"),
        ({"minWorkers": True}, "spec.minWorkers = True: a whole number from 1 to 10000"),
        ({"minWorkers": 5}, "spec.maxWorkers = 4: at least minWorkers, which is 5"),
        ({"maxWorkers": "4"}, "spec.maxWorkers = '4': a whole number from 1 to 10000"),
        ({"template": None}, "spec.template = none: is needed: an object"),
        ({"template": {"spec": {"containers": []}}}, "spec.template.spec.containers = []: a list of one container at least"),
        ({"template": {"spec": 3}}, "spec.template.spec.containers = none: a list of one container at least"),
        ({"strategy": "heap"}, "spec.strategy = 'heap': one of pack, spread, cosine"),
        ({"sizing": {"policy": "luck"}}, "spec.sizing.policy = 'luck': must be one of offer, efficiency, utility, schedule"),
        ({"sizing": 3}, "spec.sizing = 3: an object"),
        ({"schedule": [{"epoch": 1, "workers": 9}]}, "spec.schedule[0].workers = 9: from minWorkers to maxWorkers, 2 … 4"),
        ({"schedule": [{"epoch": 1}, {"epoch": 1}]}, "spec.schedule[1].epoch = 1.0: later than the entry before it, 1"),
        ({"schedule": [{"epoch": 1, "env": {"A": 1}}]}, "spec.schedule[0].env = {'A': 1}: names and texts, such as LEARNING_RATE: \"0.1\""),
        ({"batch": {"mode": "fixed"}}, "spec.batch.perWorker = none: needed with batch.mode fixed: the samples of one worker a step"),
        ({"batch": {"limit": 8}}, "spec.batch.perWorker = none: needed beside batch.limit: the samples of one worker a step"),
        ({"batch": {"perWorker": 1, "limit": 3}}, "spec.batch.limit = 3: at least maxWorkers, which is 4"),
        ({"checkpoint": {"path": "/a\u202eb"}}, r"spec.checkpoint.path = '/a\u202eb': an absolute path of printable characters, without '..'"),
        ({"checkpoint": {"path": "here"}}, "spec.checkpoint.path = 'here': an absolute path of printable characters, without '..'"),
        ({"checkpoint": {"path": "/a/../b"}}, "spec.checkpoint.path = '/a/../b': an absolute path of printable characters, without '..'"),
        ({"checkpoint": {"every": 5}}, "spec.checkpoint.every = 5: a duration such as 90s, 10m or 1h30m, from 1 to 3.1536e+07 seconds"),
        ({"maxWorker": 3}, "spec.maxWorker = 3: no such field; is maxWorkers meant?"),
        ({"suspend": "no"}, "spec.suspend = 'no': true or false"),
        (
            {"progressDeadline": "0s"},
            "spec.progressDeadline = '0s': a duration such as 90s, 10m or 1h30m, from 60 to 3.1536e+07 seconds",
        ),
    ],
)  # fmt: skip
def test_each_mistake_names_field_value_and_remedy(fields: dict[str, Any], said: str) -> None:
    """One mistake, one problem."""
    assert wrong(**fields) == [said]


CRD = yaml.safe_load((Path(__file__).parents[3] / "manifests/elastic/crd.yaml").read_text(encoding="utf-8"))
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


@pytest.mark.parametrize(
    ("field", "bound"),
    [
        ("minWorkers", "minimum"), ("workers", "minimum"), ("workers", "maximum"), ("maxRestarts", "minimum"),
        ("maxRestarts", "maximum"),
    ],
)  # fmt: skip
def test_what_the_api_server_takes_is_taken(field: str, bound: str) -> None:
    """The bounds of the CRD are no wider than ours: what it accepts would be refused by the master alone, later."""
    assert decode_spec(a_spec(**{field: SCHEMA[field][bound]}))[1] == ()


def test_the_largest_job_is_the_same_for_the_api_server() -> None:
    """Its rule has our bound and our remedy. minWorkers is bounded by it, since it is not above maxWorkers."""
    (rule,) = SCHEMA["maxWorkers"]["x-kubernetes-validations"]

    assert rule["rule"] == f"self <= {MOST_MEMBERS}"
    assert wrong(maxWorkers=MOST_MEMBERS + 1) == [
        f"spec.maxWorkers = {MOST_MEMBERS + 1}: {rule['message'].removeprefix('maxWorkers: ')}"
    ]
    assert wrong(minWorkers=MOST_MEMBERS, maxWorkers=MOST_MEMBERS) == []


@pytest.mark.parametrize(("written", "read"), [(400, 170), (170, 170), (3, 3), ("many", "many")])
def test_what_an_earlier_version_accepted_is_lowered(written: Any, read: Any) -> None:
    """It took any maximum, and went by what a round holds; whatever else it took is left as it is."""
    phases = {"schedule": [{"epoch": 0, "workers": written}, "?"]}
    assert lowered({"maxWorkers": written, **phases}) == {
        "maxWorkers": read,
        "schedule": [{"epoch": 0, "workers": read}, "?"],
    }
    assert lowered(None) is None


def test_what_is_nested_too_deeply_is_left_as_it_is() -> None:
    """The status may say anything, and one job's stops no other."""
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert lowered({"schedule": deep})["schedule"] == [deep[0]]


def test_all_mistakes_are_named_at_once() -> None:
    """A person mends a manifest once."""
    said = wrong(
        minWorkers=0, strategy="heap", schedule=[{"epoch": -1, "color": "red"}], checkpoint={"every": "soon"}
    )

    assert [one.split(" = ")[0] for one in said] == [
        "spec.minWorkers", "spec.strategy", "spec.schedule[0].epoch", "spec.schedule[0].color", "spec.checkpoint.every",
    ]  # fmt: skip


def test_a_parameter_that_the_policy_does_not_know_is_named() -> None:
    """With its path."""
    (said,) = wrong(sizing={"policy": "offer", "parameters": {"thresholds": 1}})

    assert said.startswith("spec.sizing.parameters.thresholds = 1: ")


def test_sizes_in_the_schedule_choose_the_policy() -> None:
    """A schedule with sizes needs no policy named; another policy beside it is a mistake."""
    stages = [{"epoch": 0, "workers": 2}, {"epoch": 5, "workers": 4}]
    spec, _ = decode_spec(a_spec(schedule=stages))

    assert spec is not None
    assert (spec.policy, spec.parameters) == ("schedule", Schedule())
    assert decode_spec(a_spec(schedule=stages, sizing={"policy": None})) == (spec, ())
    assert wrong(schedule=stages[:1], sizing={"policy": "offer"}) == [
        "spec.schedule[0].workers = 2: leave it out, or set sizing.policy to schedule; it is offer"
    ]


@pytest.mark.parametrize("raw", [None, {}, {"workers": None}])
def test_what_is_needed_is_named(raw: Any) -> None:
    """A null is no value, and an object that is missing has no fields."""
    _, problems = decode_spec(raw)

    assert [one.field for one in problems] == ["spec.minWorkers", "spec.maxWorkers", "spec.template"]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    [
        "minWorkers",
        "maxWorkers",
        "workers",
        "template",
        "sizing",
        "schedule",
        "batch",
        "checkpoint",
        "strategy",
        "suspend",
    ]
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(fields, json, max_size=6) | json)
def test_nothing_that_anybody_writes_raises(raw: Any) -> None:
    """Whatever stands there: a spec, or problems that name their fields."""
    spec, problems = decode_spec(raw)

    assert (spec is None) == bool(problems)
    assert all(one.field.startswith("spec") and one.remedy for one in problems)
