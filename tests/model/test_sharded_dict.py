"""A mapping in shards: equal to a dict, and never enlarged as a whole."""

import sys
from random import Random

from scheduler.model.sharded_dict import SHARDS, ShardedDict


def test_it_equals_a_dict_after_the_same_changes() -> None:
    """A walk of random changes leaves the same entries as in a dict, and every call returns the same."""
    chance, found, wanted = Random(7), ShardedDict[str, int](), dict[str, int]()
    for step in range(5_000):
        key = f"pod-{chance.randrange(300)}"
        assert (key in found, found.get(key), found.get(key, -1)) == (
            key in wanted,
            wanted.get(key),
            wanted.get(key, -1),
        )
        if chance.random() < 0.4:
            assert found.pop(key, None) == wanted.pop(key, None)
        else:
            found[key] = wanted[key] = step
        assert len(found) == len(wanted)
    assert found == wanted
    assert set(found) == set(wanted)


def test_an_entry_enlarges_a_small_part() -> None:
    """A new entry enlarges at most one shard, and few of 10,000 entries do."""
    table, enlarged = ShardedDict[str, int](), 0
    for number in range(10_000):
        before = [sys.getsizeof(shard) for shard in table._shards]
        table[f"pod-{number}"] = number
        grown = sum(sys.getsizeof(shard) > size for shard, size in zip(table._shards, before, strict=True))
        assert grown <= 1
        enlarged += grown
    assert enlarged < 10 * SHARDS
