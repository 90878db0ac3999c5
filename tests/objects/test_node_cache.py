"""Nodes as they were seen, for readers that seat nothing."""

import msgspec

from scheduler.objects import api
from scheduler.objects.node_cache import NodeCache
from tests.support.builders import a_demand


def node(name, *, cpu="4", **labels):
    made = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": cpu}}}
    return msgspec.convert(made, api.Node)


def test_only_what_decides_is_news():
    """A node that is seen again as it was is no news; other amounts and labels are."""
    cache = NodeCache()

    assert cache.see(node("n0"))
    assert not cache.see(node("n0"))
    assert cache.see(node("n0", cpu="8"))
    assert cache.see(node("n0", cpu="8", pool="train"))
    cache.lose("n0")
    assert cache.see(node("n0", cpu="8", pool="train"))


def test_answers_are_in_the_order_of_names():
    """Amounts and masks speak of the same nodes, whatever order they were seen in, and of those that are there."""
    cache = NodeCache()
    for name, pool in (("n2", "train"), ("n0", "train"), ("n1", "serve"), ("n3", "train")):
        cache.see(node(name, pool=pool))
    cache.lose("n3")

    assert cache.allocatable() == {name: {"cpu": 4000} for name in ("n0", "n1", "n2")}
    assert cache.admitted(a_demand(1, 1, selector={"pool": "train"})).tolist() == [True, False, True]
