"""Rules about other pods, as the API writes them and as the model has them."""

import pytest

from scheduler.model.demand import Operator, Requirement, Toleration
from scheduler.model.neighbors import NO_NEIGHBORS, Neighbors, PodSelector, PodTerm, PreferredTerm
from scheduler.objects import api
from scheduler.objects.pod_demand import wanted
from scheduler.objects.volumes import Volumes
from tests.objects.reading import struct

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
APP = Requirement("app", Operator.IN, ("a",))


def read(spec: str, labels: str = "{app: a, revision: '7'}"):
    meta = f"{{name: p, namespace: team, uid: u, labels: {labels}}}"
    return wanted(struct(api.Pod, f"{{metadata: {meta}, spec: {{{spec}}}}}"), Volumes())


def terms(kind: str, *said: str) -> str:
    return f"affinity: {{{kind}: {{{HARD}: [{', '.join(said)}]}}}}"


def selector(*labels: Requirement, namespaces=("team",), of_labels=None) -> PodSelector:
    return PodSelector(namespaces, of_labels, labels)


@pytest.mark.parametrize(
    ("said", "pods"),
    [
        ("labelSelector: {matchLabels: {app: a}}", selector(APP)),
        ("labelSelector: {}", selector()),
        ("topologyKey: zone", PodSelector(("team",), None, None)),
        (
            "labelSelector: {matchExpressions: [{key: app, operator: Wrong}]}",
            PodSelector(("team",), None, None),
        ),
        ("labelSelector: {}, namespaces: [b, a]", selector(namespaces=("a", "b"))),
        ("labelSelector: {}, namespaceSelector: {}", selector(namespaces=(), of_labels=())),
        (
            "labelSelector: {}, namespaces: [b], namespaceSelector: {matchLabels: {app: a}}",
            selector(namespaces=("b",), of_labels=(APP,)),
        ),
        (
            "labelSelector: {}, matchLabelKeys: [revision, none], mismatchLabelKeys: [app]",
            selector(
                Requirement("revision", Operator.IN, ("7",)), Requirement("app", Operator.NOT_IN, ("a",))
            ),
        ),
    ],
)
def test_the_pods_of_a_term(said: str, pods: PodSelector):
    """Its own namespace unless namespaces are given; no selector selects nothing; keys are those of the pod's labels."""
    found = read(terms("podAntiAffinity", f"{{topologyKey: zone, {said.removeprefix('topologyKey: zone')}}}"))
    assert found.neighbors == Neighbors(anti_affinity=(PodTerm("zone", pods),))
    assert found.unmodeled == ()


def test_a_spread_constraint_knows_what_decides_its_nodes():
    """By default the pod's own node requirements and no taints."""
    said = "{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a}}"
    more = "nodeSelector: {pool: x}, tolerations: [{key: own, operator: Exists}]"
    found = read(
        f"topologySpreadConstraints: [{said}, matchLabelKeys: [revision]}}, "
        f"{said}, minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}}], {more}"
    )
    first, second = found.neighbors.spread
    assert (first.max_skew, first.min_domains, first.selector, first.tolerations) == (
        2,
        1,
        (("pool", "x"),),
        None,
    )
    assert first.pods.labels == (APP, Requirement("revision", Operator.IN, ("7",)))
    assert (second.min_domains, second.selector, second.honors_affinity) == (3, (), False)
    assert second.tolerations == (Toleration("own", exists=True),)


def test_what_is_preferred_has_a_weight():
    """Anti-affinity and `ScheduleAnyway` count against a node."""
    term = "{topologyKey: zone, labelSelector: {matchLabels: {app: a}}}"
    soft = f"{{{SOFT}: [{{weight: 7, podAffinityTerm: {term}}}]}}"
    even = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: a}}}"
    found = read(
        f"affinity: {{podAffinity: {soft}, podAntiAffinity: {soft}}}, topologySpreadConstraints: [{even}]"
    )
    own = PodTerm("zone", selector(APP))
    assert found.neighbors == Neighbors(preferred=tuple(PreferredTerm(own, weight) for weight in (7, -7, -1)))


def test_a_pod_with_a_node_keeps_its_anti_affinity_alone():
    """Only that is checked again, against pods that come later. It counts for pods of every scheduler."""
    both = (
        f"affinity: {{podAffinity: {{{HARD}: [{{topologyKey: zone, labelSelector: {{}}}}]}}, "
        f"podAntiAffinity: {{{HARD}: [{{topologyKey: zone, labelSelector: {{}}}}]}}}}"
    )
    for scheduler in ("gangwright", "default-scheduler"):
        found = read(f"{both}, nodeName: n1, schedulerName: {scheduler}")
        assert found.neighbors == Neighbors(anti_affinity=(PodTerm("zone", selector()),))


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        (terms("podAffinity", "{labelSelector: {}}"), "spec.affinity.podAffinity.topologyKey", ""),
        (terms("podAntiAffinity", "{labelSelector: {}}"), "spec.affinity.podAntiAffinity.topologyKey", ""),
        ("topologySpreadConstraints: [{maxSkew: 1}]", "spec.topologySpreadConstraints.topologyKey", ""),
        (
            "topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone}]",
            "spec.topologySpreadConstraints.maxSkew",
            "0",
        ),
        (
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, minDomains: 0}]",
            "spec.topologySpreadConstraints.minDomains",
            "0",
        ),
    ],
)
def test_values_that_the_api_server_rejects_are_named(spec: str, field: str, value: str):
    """A file that was never sent to it may have them: the pod is refused with field, value and remedy."""
    found = read(spec)
    assert [(own.field, own.value, own.fatal) for own in found.complaints] == [(field, value, True)]
    assert found.neighbors == NO_NEIGHBORS
