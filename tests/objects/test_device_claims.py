"""Device claims: what pods ask for, what nodes have, and that each device in use is counted once."""

import random
from collections import Counter
from itertools import combinations

import pytest

from scheduler.model.demand import Operator, Requirement, Term
from scheduler.model.events import NodeSeen
from scheduler.model.neighbors import NODE
from tests.objects.devices import (
    PLAIN,
    Desk,
    claim_of,
    class_of,
    device,
    node_of,
    pod_of,
    request,
    slice_of,
    template_of,
)

FOUR = [device(f"d{number}") for number in range(4)]


@pytest.fixture
def desk():
    """Two nodes with four devices each, one class for all of them, and a template for two devices."""
    own = Desk()
    own.see(class_of(), template_of("two", request(count=2)))
    own.see(*(node_of(name) for name in ("n1", "n2")), *(slice_of(name, FOUR) for name in ("n1", "n2")))
    return own


def test_a_pod_asks_for_what_its_template_requests(desk):
    """Before its claim is created, and after; the node has as many as its slices."""
    desk.see(pod_of("a", template="two"))
    assert desk.asks("a") == 2
    assert desk.pods["a"].unmodeled == ()
    assert desk.capacity("n1") == 4
    desk.see(claim_of("a-d", request(count=2), owner="a"))
    desk.see(pod_of("a", template="two", made="a-d"))
    assert desk.asks("a") == 2


def test_objects_may_come_in_any_order():
    """The pod first, then the template, the node, the slice and at last the class."""
    desk = Desk()
    desk.see(pod_of("a", template="two"))
    assert desk.pods["a"].unmodeled == ("spec.resourceClaims: a claim template does not exist yet",)
    desk.see(template_of("two", request(count=2)))
    assert desk.asks("a") == 2
    desk.see(node_of("n1"))
    desk.see(slice_of("n1", FOUR))
    assert desk.capacity("n1") == 0
    desk.see(class_of())
    assert desk.capacity("n1") == 4


def test_an_allocated_claim_counts_through_its_pod(desk):
    """The seat, the allocation and the bind: the device count of the node never moves twice."""
    desk.see(claim_of("a-d", request(count=2), owner="a"))
    desk.see(pod_of("a", template="two", made="a-d", seat="n1"))
    assert desk.free("n1") == 2
    allocated = claim_of(
        "a-d", request(count=2), owner="a", devices=[("n1", "d0"), ("n1", "d1")], reserved=["a"]
    )
    events = desk.see(allocated)
    assert not any(isinstance(event, NodeSeen) for event in events)
    assert desk.free("n1") == 2
    desk.see(pod_of("a", template="two", made="a-d", node="n1"))
    assert desk.free("n1") == 2
    assert desk.pods["a"].demand.constraints == ()


def test_an_allocation_limits_an_unbound_pod_to_its_node(desk):
    """Elsewhere the pod has no devices, and where they are, they are in use."""
    desk.see(pod_of("a", template="two", made="a-d", seat="n2"))
    desk.see(claim_of("a-d", request(count=2), owner="a", devices=[("n1", "d0"), ("n1", "d1")]))
    assert desk.pods["a"].demand.constraints == (
        (Term(fields=(Requirement("metadata.name", Operator.IN, ("n1",)),)),),
    )
    assert (desk.free("n1"), desk.free("n2")) == (2, 4)


def test_devices_without_a_live_pod_are_in_use(desk):
    """A pod that ended, one that is unknown, and a claim that nothing reserves."""
    desk.see(claim_of("x-d", request(), owner="x", devices=[("n1", "d3")], reserved=["x"]))
    assert desk.free("n1") == 3
    desk.see(claim_of("left", request(), devices=[("n1", "d2")]))
    assert desk.free("n1") == 2
    desk.see(pod_of("x", template="two", made="x-d", node="n1"))
    assert (desk.free("n1"), desk.asks("x")) == (2, 1)
    desk.see(pod_of("x", template="two", made="x-d", node="n1", phase="Succeeded"))
    assert (desk.free("n1"), desk.asks("x")) == (2, 0)
    desk.lose(claim_of("x-d"))
    assert desk.free("n1") == 3


def test_a_named_claim_counts_once_for_all_its_pods(desk):
    """With one pod it is that pod's. With two, the first asks for it and both go to one node, until it has its devices:
    then these are in use, and neither asks for more.
    """
    desk.see(claim_of("c", request(count=3)))
    desk.see(pod_of("a", claim="c", node="", seat="n1"))
    assert desk.asks("a") == 3
    desk.see(pod_of("b", claim="c"))
    assert (desk.asks("a"), desk.asks("b")) == (3, 0)
    (one,), (other,) = desk.pods["a"].neighbors.beside, desk.pods["b"].neighbors.beside
    assert one == other
    assert one.topology_key == NODE
    desk.see(claim_of("c", request(count=3), devices=[("n1", f"d{n}") for n in range(3)], reserved=["a"]))
    assert desk.free("n1") == 1
    desk.see(
        claim_of("c", request(count=3), devices=[("n1", f"d{n}") for n in range(3)], reserved=["a", "b"])
    )
    assert (desk.free("n1"), desk.asks("a"), desk.asks("b")) == (1, 0, 0)
    desk.lose(pod_of("b"))
    assert desk.pods["a"].neighbors.beside == desk.pods["a"].unmodeled == ()


def test_a_missing_claim_is_named(desk):
    """As with volumes: nothing is known of it yet."""
    desk.see(pod_of("a", claim="nope"))
    assert desk.pods["a"].unmodeled == ("spec.resourceClaims: a claim does not exist yet",)


def test_a_pod_that_needs_no_claim_asks_for_none(desk):
    """Its status says that nothing was created."""
    pod = pod_of("a", template="two", made="x")
    pod.status.resource_claim_statuses[0].resource_claim_name = None
    desk.see(pod)
    assert (desk.asks("a"), desk.pods["a"].unmodeled) == (0, ())


@pytest.mark.parametrize(
    ("asked", "gap"),
    [
        ({"name": "r", "firstAvailable": [{"name": "s"}]}, "a request with firstAvailable"),
        ({"name": "r"}, "a request of an unknown kind"),
        (request(adminAccess=True), "a request with adminAccess"),
        (request(capacity={"requests": {"memory": "1Gi"}}), "a request with capacity"),
        (request(derivedAttributes=[{"name": "a/b", "expression": "1"}]), "a request with derivedAttributes"),
        (request(allocationMode="Some"), "a request with an unknown allocationMode"),
    ],
)
def test_what_is_not_modeled_is_named(desk, asked, gap):
    """The pod then asks for no devices."""
    desk.see(template_of("odd", asked), pod_of("a", template="odd"))
    assert desk.pods["a"].unmodeled == (f"spec.resourceClaims: {gap}",)
    assert desk.asks("a") == 0


SAME = "gpu.example.com/root"


@pytest.mark.parametrize(
    ("constraints", "mode", "gap"),
    [
        ([{"distinctAttribute": SAME}], "ExactCount", "a constraint other than matchAttribute"),
        ([{"matchAttribute": SAME}] * 2, "ExactCount", "several constraints"),
        ([{"matchAttribute": SAME}], "All", "a constraint beside allocationMode All"),
    ],
)
def test_some_constraints_are_not_modeled(desk, constraints, mode, gap):
    """Each kind has its own text."""
    asked = request(count=2, allocationMode=mode)
    desk.see(template_of("t", asked, constraints=constraints), pod_of("p", template="t"))
    assert desk.pods["p"].unmodeled == (f"spec.resourceClaims: {gap}",)


def set_of(desk, pod: str) -> str:
    """The resource for sets of devices with one value that the pod asks for."""
    return next(name for name, _ in desk.pods[pod].demand.requests if name.startswith("equal-devices"))


def test_devices_with_one_value_of_an_attribute():
    """Five devices at two roots are two pairs; one in use can cost a pair, or none."""
    desk = Desk()
    roots = ["a", "a", "a", "b", "b"]
    desk.see(
        class_of(), node_of("n1"), slice_of("n1", [device(f"d{n}", root=own) for n, own in enumerate(roots)])
    )
    desk.see(template_of("pair", request(count=2), constraints=[{"matchAttribute": SAME}]))
    desk.see(pod_of("p", template="pair"))
    pairs = set_of(desk, "p")
    assert (desk.free("n1", pairs), desk.asks("p", pairs), desk.asks("p")) == (2, 1, 2)
    desk.see(claim_of("x", request(), devices=[("n1", "d0")]))
    assert (desk.free("n1", pairs), desk.free("n1")) == (2, 4)
    desk.see(claim_of("y", request(), devices=[("n1", "d3")]))
    assert (desk.free("n1", pairs), desk.free("n1")) == (1, 3)
    pair = [("n1", "d1"), ("n1", "d2")]
    both = {"constraints": [{"matchAttribute": SAME}]}
    desk.see(pod_of("p", template="pair", made="p-d", seat="n1"))
    assert desk.free("n1", pairs) == 0
    desk.see(claim_of("p-d", request(count=2), owner="p", devices=pair, reserved=["p"], **both))
    desk.see(pod_of("p", template="pair", made="p-d", node="n1"))
    assert (desk.free("n1", pairs), desk.free("n1")) == (0, 1)
    desk.see(pod_of("p", template="pair", made="p-d", node="n1", phase="Failed"))
    assert (desk.free("n1", pairs), desk.free("n1")) == (0, 1)
    desk.lose(claim_of("p-d"))
    assert (desk.free("n1", pairs), desk.free("n1")) == (1, 3)


def test_two_kinds_of_devices_with_one_value():
    """A set is one of each at one root; devices that both requests can use count once."""
    desk = Desk()
    kinds = [("g", "a"), ("g", "a"), ("n", "a"), ("g", "b"), ("n", "c")]
    own = [device(f"d{n}", kind=kind, root=root) for n, (kind, root) in enumerate(kinds)]
    desk.see(node_of("n1"), slice_of("n1", [*own, device("bare", kind="g")]))
    for kind in ("g", "n"):
        desk.see(class_of(kind, f'device.attributes["gpu.example.com"].kind == "{kind}"'))
    desk.see(class_of("any"))
    for other, fits in (("n", 1), ("any", 1), ("g", 1)):
        asked = [{**request("g"), "name": "one"}, {**request(other), "name": "other"}]
        desk.see(
            template_of(other, *asked, constraints=[{"matchAttribute": SAME}]), pod_of(other, template=other)
        )
        assert desk.capacity("n1", set_of(desk, other)) == fits
    alone = [{**request("g"), "name": "one"}, {**request("n"), "name": "other"}]
    limit = [{"matchAttribute": SAME, "requests": ["one"]}]
    desk.see(template_of("t", *alone, constraints=limit), pod_of("t", template="t"))
    assert desk.capacity("n1", set_of(desk, "t")) == 3


def test_nothing_is_told_of_equal_objects(desk):
    """A new generation with the same devices; a claim with another condition."""
    assert desk.see(slice_of("n1", FOUR, generation=2)) == []
    own = claim_of("c", request(), devices=[("n1", "d0")])
    assert len(desk.see(own)) == 1
    assert desk.see(own) == []


def test_extended_resources_count_once(desk):
    """A class backs a resource; its claim is the pod's own, and other columns see the device in use."""
    desk.see(class_of(resource="example.com/gpu"))
    assert desk.capacity("n1", "example.com/gpu") == 4
    desk.see(pod_of("a", node="n1", **{"example.com/gpu": "1"}))
    assert desk.free("n1", "example.com/gpu") == 3
    desk.see(claim_of("a-e", request(), devices=[("n1", "d0")], owner="a", reserved=["a"], extended=True))
    assert (desk.free("n1", "example.com/gpu"), desk.free("n1")) == (3, 3)
    desk.see(pod_of("a", node="n1", phase="Failed", **{"example.com/gpu": "1"}))
    assert (desk.free("n1", "example.com/gpu"), desk.free("n1")) == (3, 3)
    desk.lose(claim_of("a-e"))
    assert (desk.free("n1", "example.com/gpu"), desk.free("n1")) == (4, 4)


def test_a_device_plugin_keeps_its_own_figure(desk):
    """Where a node has the resource of itself, the class does not back it."""
    desk.see(class_of(resource="example.com/gpu"))
    desk.see(node_of("n1", **{"example.com/gpu": "7"}))
    assert (desk.capacity("n1", "example.com/gpu"), desk.capacity("n1")) == (7, 4)
    desk.see(node_of("n1", **{"example.com/gpu": "0"}))
    assert desk.capacity("n1", "example.com/gpu") == 4


def test_the_newest_class_backs_a_resource(desk):
    """Of classes of the same age, the one whose name comes first."""
    desk.see(class_of("b", "false", resource="example.com/gpu"), class_of("a", resource="example.com/gpu"))
    assert desk.capacity("n1", "example.com/gpu") == 4
    newer = class_of("b", "false", resource="example.com/gpu")
    newer.metadata.creation_timestamp = "2030-01-01T00:00:00Z"
    desk.see(newer)
    assert desk.capacity("n1", "example.com/gpu") == 0


def test_a_claim_and_an_extended_resource_share_the_devices(desk):
    """A pod with a claim also counts in the resource that its class backs, where no device plugin has it."""
    desk.see(class_of(resource="example.com/gpu"), pod_of("a", template="two", seat="n1"))
    assert desk.free("n1", "example.com/gpu") == 2


def test_all_devices_of_a_node(desk):
    """It fits where at least one device exists and none is in use; a single device in use prevents it."""
    desk.see(template_of("all", request(allocationMode="All")), template_of("one", request()))
    desk.see(pod_of("whole", template="all"))
    (name, count) = next(
        own for own in desk.pods["whole"].demand.requests if own[0].startswith("all-devices")
    )
    assert desk.capacity("n1", name) == count
    desk.see(pod_of("single", template="one", seat="n1"))
    assert desk.free("n1", name) == count - 1
    desk.see(pod_of("single", template="one", made="s", node="n1"))
    desk.see(claim_of("s", request(), owner="single", devices=[("n1", "d1")], reserved=["single"]))
    assert desk.free("n1", name) == count - 1
    desk.see(
        claim_of(
            "w", request(allocationMode="All"), owner="whole", devices=[("n2", f"d{n}") for n in range(4)]
        )
    )
    desk.see(pod_of("whole", template="all", made="w", node="n2"))
    assert (desk.free("n2"), desk.free("n2", name)) == (0, count - 4)


def test_random_claims_against_a_brute_count():
    """On each node, of each column, what is free is what no claim has, whatever happened before."""
    for seed in range(20):
        _walk(random.Random(seed))


GOLD = 'device.attributes["gpu.example.com"].gold'
BIG = 'device.attributes["gpu.example.com"].size > 1'


def _walk(rng: random.Random) -> None:
    desk = Desk()
    nodes = ["n1", "n2", "n3"]
    traits = {
        (node, f"d{number}"): (rng.random() < 0.5, rng.randrange(4), rng.choice("ab"))
        for node in nodes
        for number in range(6)
    }

    def published(node: str) -> list:
        return [
            device(name, gold=gold, size=size, root=root)
            for (where, name), (gold, size, root) in traits.items()
            if where == node
        ]

    pair = {"constraints": [{"matchAttribute": SAME}]}
    desk.see(class_of(resource="example.com/gpu"), class_of("gold", GOLD))
    desk.see(template_of("any", request()), template_of("big", request("gpu", 1, BIG)))
    desk.see(template_of("gold", request("gold")), template_of("pair", request(count=2), **pair))
    for node in nodes:
        desk.see(node_of(node), slice_of(node, published(node)))
    desk.see(pod_of("waits", template="pair"), pod_of("waits-too", template="big"))
    pairs = set_of(desk, "waits")
    (big,) = (name for name, _ in desk.pods["waits-too"].demand.requests if "~" in name)
    asked = {
        "any": request(),
        "big": request("gpu", 1, BIG),
        "gold": request("gold"),
        "pair": request(count=2),
    }
    free, live, claims = set(traits), {}, {}

    def fitting(kind: str) -> list[tuple]:
        """The sets of devices that kube-scheduler could allocate."""
        left = sorted(free)
        if kind == "pair":
            same = [(one, other) for one, other in combinations(left, 2) if one[0] == other[0]]
            return [both for both in same if traits[both[0]][2] == traits[both[1]][2]]
        holds = {"any": lambda _: True, "big": lambda own: own[1] > 1, "gold": lambda own: own[0]}
        return [(own,) for own in left if holds[kind](traits[own])]

    def check() -> None:
        for node in nodes:
            here = [traits[own] for own in free if own[0] == node]
            assert desk.free(node) == desk.free(node, "example.com/gpu") == len(here)
            assert desk.free(node, PLAIN.replace("gpu", "gold")) == sum(gold for gold, _, _ in here)
            assert desk.free(node, big) == sum(size > 1 for _, size, _ in here)
            assert desk.free(node, pairs) == sum(n // 2 for n in Counter(root for *_, root in here).values())

    for number in range(60):
        kind, step = rng.choice(sorted(asked)), rng.random()
        mine = fitting(kind)
        more = pair if kind == "pair" else {}
        if step < 0.5 and mine:  # a pod of kube-scheduler: claim, allocation, bind
            name, own = f"p{number}", rng.choice(mine)
            where = own[0][0]
            made = claim_of(f"c-{name}", asked[kind], owner=name, devices=own, reserved=[name], **more)
            stages = [
                made,
                pod_of(name, template=kind, made=f"c-{name}", seat=where),
                pod_of(name, template=kind, made=f"c-{name}", node=where),
            ]
            free.difference_update(own)
            order = rng.choice([(0, 1, 2), (1, 0, 2), (2, 0), (0, 2)])
            if order[0] == 0:
                for stage in order:  # one batch each: the claim alone, then with its pod
                    desk.see(stages[stage])
                    check()
            else:
                desk.see(*(stages[stage] for stage in order))
            live[name], claims[f"c-{name}"] = own, own
        elif step < 0.6 and mine:  # a claim of a pod that is unknown
            own = rng.choice(mine)
            owner = rng.choice(["", "stranger"])
            desk.see(claim_of(f"c{number}", asked[kind], devices=own, owner=owner, **more))
            free.difference_update(own)
            claims[f"c{number}"] = own
        elif step < 0.75 and live:  # a pod ends; its claim stays for a while
            name = rng.choice(sorted(live))
            own = live.pop(name)
            desk.see(pod_of(name, template=kind, made=f"c-{name}", node=own[0][0], phase="Succeeded"))
        elif step < 0.95 and claims:
            name = rng.choice(sorted(claims))
            if name.removeprefix("c-") not in live:
                desk.lose(claim_of(name))
                free.update(claims.pop(name))
        else:  # the driver publishes its devices again
            node = rng.choice(nodes)
            desk.see(slice_of(node, published(node), generation=number + 2))
        check()
