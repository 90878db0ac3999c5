"""Whatever strangers write, nothing raises."""

from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.resources import EXACT
from scheduler.objects import api, labels
from scheduler.objects.gangs import read
from scheduler.objects.groups import KINDS, group
from scheduler.objects.translate import Translator
from scheduler.objects.watched_resources import RESOURCES

KEYS = sorted(labels.SAID)
TEXTS = st.one_of(
    st.text(max_size=300),
    st.sampled_from(
        [
            "g",
            "5",
            "ps=1,worker=4",
            "true",
            "90s",
            "0.5",
            "rack",
            "[]",
            "{}",
            '[{"name":"a","minMember":2}]',
            '{"gatherStrategy":[{"layer":"rack","strategy":"MustGather"}]}',
            '{"gatherStrategy":[{"layer":[],"strategy":{}}]}',
            '{"gatherStrategy":7}',
            "placeholderTimeoutInSeconds=",
            "\ud800",
            "x" * 20_000,
        ]
    ),
)
SAID = st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
GROUP_FIELDS = st.sampled_from(
    [
        "minMember",
        "minTaskMember",
        "subGroups",
        "networkTopology",
        "topologyConstraint",
        "scheduleTimeoutSeconds",
    ]
)


@pytest.mark.slow
@given(labels=SAID, annotations=SAID)
@settings(max_examples=300)
def test_readers_never_raise(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """A membership says whether any complaint refuses it, is in the pod's own namespace, and makes sense."""
    reading = read("team", labels, annotations, DEFAULT_LEVELS)
    for complaint in reading.complaints:
        assert len(complaint.value) < 1000
        assert complaint.value.isprintable()
    if any(complaint.fatal for complaint in reading.complaints):
        assert reading.membership is None or reading.membership.refused
        assert reading.alone is None
    if reading.membership is not None:
        gang, quorum, size = reading.membership.gang, reading.membership.quorum, reading.membership.size
        assert gang.namespace == "team"
        assert ":" not in gang.name
        assert quorum is None or all(least >= 1 for least in quorum.values())
        fits = quorum is None or size is None or sum(quorum.values()) <= size
        assert fits or reading.membership.refused


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(spec=st.dictionaries(GROUP_FIELDS, JSON, max_size=5) | JSON, annotations=SAID)
@settings(max_examples=50)
def test_groups_never_raise(kind: type, spec: Any, annotations: dict[str, str]) -> None:
    """A quorum is always there, and always of at least one."""
    found = group(kind(api.Meta("g", "team", annotations=annotations), spec), DEFAULT_LEVELS)
    assert all(least >= 1 for least in found.quorum.values())
    assert found.quorum


@cache
def _strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Structs of this type with any values that the decoder would let through."""
    overrides = {
        str: st.text(max_size=10)
        | st.sampled_from(["n1", "In", "Exists", "Always", "1", "-1", "1e9", "500m", "Bound"]),
        Any: JSON,
    }
    return _resolve(msgspec.inspect.type_info(kind), overrides)


def _resolve(kind: Any, leaves: dict) -> st.SearchStrategy[Any]:
    match kind:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{f.name: _resolve(f.type, leaves) for f in fields})
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*(_resolve(t, leaves) for t in types))
        case msgspec.inspect.ListType(item_type=item):
            return st.lists(_resolve(item, leaves), max_size=2)
        case msgspec.inspect.DictType(value_type=value):
            keys = st.sampled_from(
                ["cpu", "memory", "a.b/c", "hugepages-2Mi", "pods", "gangwright.io/gang", "x"]
            )
            return st.dictionaries(keys, _resolve(value, leaves), max_size=3)
        case msgspec.inspect.StrType():
            return leaves[str]
        case msgspec.inspect.IntType():
            return st.integers(-(2**70), 2**70)
        case msgspec.inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case _:
            return leaves[Any]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [resource.type for resource in RESOURCES], ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
def test_whatever_decodes_is_translated(kind: type, data: st.DataObject) -> None:
    """Any object that the decoder lets through becomes events; amounts stay within what the planner can hold."""
    found = data.draw(_strategy(kind))
    translator = Translator()
    for event in [*translator.seen(found), *translator.settle()]:
        if hasattr(event, "pod"):
            assert all(0 < amount <= EXACT for _, amount in event.pod.demand.requests)
            assert hash(event.pod.demand) is not None
            membership = event.pod.membership
            assert membership is None or membership.gang.namespace == event.pod.key.namespace
        if hasattr(event, "node"):
            assert all(0 < amount <= EXACT for _, amount in event.node.capacity)
    meta = found.metadata
    translator.gone(kind, meta.namespace, meta.name, meta.uid)
    translator.settle()


def test_an_object_nested_without_end_is_refused_by_the_decoder() -> None:
    """The watch turns this error into a skipped object."""
    deep = b'{"metadata":{"name":"g"},"spec":' + b'{"a":' * 100_000
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        msgspec.json.decode(deep, type=api.PluginsPodGroup)
