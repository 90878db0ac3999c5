"""PyTorch's `DistributedSampler` in rounds of other sizes than the one that it was made in."""

import types

import pytest

from scheduler.elastic.runtime import import_hook


class DistributedSampler:
    """What PyTorch's has of its place."""

    def __init__(self, dataset, num_replicas, rank, shuffle=True, seed=0, drop_last=False):
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0

    def __iter__(self):
        return iter(self.dataset[self.rank :: self.num_replicas])


class Halved(DistributedSampler):
    """Of a script, which makes it of less."""

    def __init__(self, dataset):
        super().__init__(dataset[: len(dataset) // 2], 2, 0)


@pytest.fixture
def noted(monkeypatch):
    """The class is noted as the hook has it."""
    monkeypatch.setattr(DistributedSampler, "__init__", DistributedSampler.__init__)
    import_hook.patch_samplers(types.SimpleNamespace(DistributedSampler=DistributedSampler))


def test_samplers_of_this_place_are_dealt_again(noted):
    """Those that derive from it too; they keep their epoch and what they draw from."""
    whole, half = DistributedSampler(list(range(6)), 2, 0), Halved(list(range(12)))
    whole.epoch = 3

    assert import_hook.deal_samplers((0, 2), 1, 3)
    assert (list(whole), list(half)) == ([1, 4], [1, 4])
    assert whole.epoch == 3


def test_other_samplers_are_the_scripts_own(noted):
    """One that was made for all data, or for another rank, stays as it is."""
    everything, other = DistributedSampler(list(range(4)), 1, 0), DistributedSampler(list(range(4)), 2, 0)

    assert not import_hook.deal_samplers((1, 2), 1, 3)
    assert (list(everything), list(other)) == ([0, 1, 2, 3], [0, 2])


def test_the_same_place_changes_nothing(noted):
    """There is a sampler that goes by it all the same."""
    mine = DistributedSampler([1, 2, 3, 4], 2, 1)
    mine.seed = 7

    assert import_hook.deal_samplers((1, 2), 1, 2)
    assert (list(mine), mine.seed) == ([2, 4], 7)
