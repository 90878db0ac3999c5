"""Gangs that a namespace's quota will never let be complete."""

from dataclasses import replace

import pytest

from scheduler.ledger import Ledger, conditions
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.decision import Ceiling, Reason
from scheduler.model.demand import Demand
from scheduler.model.effects import Announce
from scheduler.model.policy import Policy
from scheduler.model.workload import GangKey, Membership, Phase, Pod, PodKey, Quota, Uid

GANG = GangKey("team", "g")


def a_learner(number: int, of: int) -> Pod:
    return Pod(
        uid=Uid(f"u{number}"),
        key=PodKey("team", f"g-{number}"),
        demand=Demand((("cpu", 500), ("memory", 16 * 2**30), ("nvidia.com/gpu", 2), ("pods", 1))),
        scheduler="gangwright",
        gated=True,
        membership=Membership(GANG, "gangwright", quorum={"": of}),
    )


def told(quota: Quota) -> str:
    """What is said in the first minute of a gang of four of which one pod is there."""
    ledger = Ledger(Policy())
    ledger.handle([ev.NodeSeen(Node("n1", (("nvidia.com/gpu", 8), ("pods", 110)))), ev.QuotaSeen(quota)], 0.0)
    effects = ledger.handle([ev.Synced(), ev.TookOver(), ev.PodSeen(a_learner(0, of=4))], 1.0)
    effects += ledger.handle([ev.Tick()], 30.0)
    return " ".join(effect.message for effect in effects if isinstance(effect, Announce))


def test_a_quota_below_the_quorum_is_named():
    """A gang of four times two GPUs under a quota of six says which quota it is, what it allows, and what is needed."""
    text = told(Quota("team", "research", (("nvidia.com/gpu", 6),)))

    assert "ResourceQuota research allows 6 nvidia.com/gpu, but the gang's quorum needs 8" in text


@pytest.mark.parametrize(
    ("resource", "hard", "words"),
    [
        ("cpu", 1500, "allows 1.5 cpu, but the gang's quorum needs 2;"),
        ("memory", 2**35, "allows 32Gi memory, but the gang's quorum needs 64Gi"),
    ],
)
def test_a_quota_is_told_as_people_write_it(resource, hard, words):
    """Cores and not thousandths of one, Gi and not bytes."""
    assert words in told(Quota("team", "research", ((resource, hard),)))


@pytest.mark.parametrize(
    ("ceiling", "words"),
    [
        (Ceiling("cpu", 12_000, 8_500, 16_000), "needs 8.5 of cpu; 12 of the ceiling of 16 are in use"),
        (
            Ceiling("memory", 3 * 2**38, 2**38, 2**40),
            "needs 256Gi of memory; 768Gi of the ceiling of 1Ti are in use",
        ),
        (
            Ceiling("nvidia.com/gpu", 1_234_567, 2, 1_234_568),
            "needs 2 of nvidia.com/gpu; 1234567 of the ceiling of 1234568",
        ),
    ],
    ids=lambda own: getattr(own, "resource", ""),
)
def test_a_ceiling_is_told_as_people_write_it(ceiling, words):
    """In the units of `queue.shares`, and to the last piece."""
    assert words in str(ceiling)


def test_a_quota_that_suffices_is_not_mentioned():
    """A quota that holds the whole quorum is no reason to warn."""
    assert "ResourceQuota" not in told(Quota("team", "research", (("nvidia.com/gpu", 8), ("pods", 4))))


def test_a_quota_of_another_namespace_is_not_mentioned():
    """The namespace is the border of a quota as of a gang."""
    assert "ResourceQuota" not in told(Quota("other", "research", (("pods", 1),)))


def test_a_quota_that_is_gone_is_forgotten():
    """Nothing is left of a quota that was deleted."""
    ledger = Ledger(Policy())
    ledger.handle(
        [ev.QuotaSeen(Quota("team", "research", (("pods", 1),))), ev.QuotaGone("team", "research")], 0.0
    )
    effects = ledger.handle([ev.Synced(), ev.TookOver(), ev.PodSeen(a_learner(0, of=4))], 1.0)
    effects += ledger.handle([ev.Tick()], 30.0)

    assert not any("ResourceQuota" in effect.message for effect in effects if isinstance(effect, Announce))


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (
            4,
            "; ResourceQuota research is full: 4 of 8 nvidia.com/gpu are in use, and the missing pods need 6",
        ),
        (2, "Waiting for members to be created: 1 of 4 exist"),
    ],
)
def test_a_quota_of_which_too_little_is_left_is_named(used, words):
    """Three of four pods are missing, and need two GPUs each. What is in use is theirs alone where the rest is enough."""
    quota = Quota("team", "research", (("nvidia.com/gpu", 8),), (("nvidia.com/gpu", used),))

    text = told(quota)

    assert words in text
    assert ("is full" in text) is (used == 4)


def gathering() -> Ledger:
    """One of four pods is there, and was looked at."""
    ledger = Ledger(Policy())
    ledger.handle([ev.NodeSeen(Node("n1", (("nvidia.com/gpu", 8), ("pods", 110))))], 0.0)
    ledger.handle([ev.Synced(), ev.TookOver(), ev.PodSeen(a_learner(0, of=4))], 1.0)
    ledger.handle([ev.Tick()], 30.0)
    return ledger


def test_a_quota_that_fills_or_empties_or_goes_is_told_at_once():
    """The gang is not waiting for a look of its own, and is not looked at for more than its words."""
    ledger = gathering()
    record = ledger.registry.gangs[GANG]
    looks = record.pulse
    full, half = (
        Quota("team", "research", (("nvidia.com/gpu", 8),), (("nvidia.com/gpu", used),)) for used in (4, 2)
    )

    heard = []
    for event in (
        ev.QuotaSeen(full),
        ev.QuotaSeen(half),
        ev.QuotaSeen(full),
        ev.QuotaGone("team", "research"),
    ):
        ledger.handle([event], 31.0)
        heard.append("is full" in record.quota_full)

    assert heard == [True, False, True, False]
    assert record.pulse == looks


def test_only_gangs_of_the_namespace_that_wait_for_members_are_told(monkeypatch):
    """Neither those of another namespace, nor for a quota that is as it was, nor those that are complete or gone."""
    ledger = gathering()
    told: list[GangKey] = []
    monkeypatch.setattr(ledger, "mark_told", told.append)
    quota = Quota("team", "research", (("nvidia.com/gpu", 8),))

    ledger.handle([ev.QuotaSeen(replace(quota, namespace="other"))], 31.0)
    assert told == []
    ledger.handle([ev.QuotaSeen(quota), ev.QuotaSeen(quota)], 31.0)
    assert told == [GANG]
    ledger.handle([ev.PodSeen(a_learner(number, of=4)) for number in range(1, 4)], 32.0)
    ledger.handle([ev.QuotaGone("team", "research")], 33.0)
    assert told == [GANG]


def test_a_full_quota_is_named_where_a_gang_that_ran_lacks_pods():
    """One of its members was lost, and others have used up the quota since."""
    ledger = Ledger(Policy())
    ledger.handle([ev.NodeSeen(Node("n1", (("nvidia.com/gpu", 8), ("pods", 110))))], 0.0)
    ledger.handle([ev.Synced(), ev.TookOver()], 0.0)
    ran = [replace(a_learner(n, of=2), gated=False, node="n1", phase=Phase.RUNNING) for n in range(2)]
    ledger.handle([ev.PodSeen(pod) for pod in ran], 1.0)
    full = Quota("team", "research", (("nvidia.com/gpu", 8),), (("nvidia.com/gpu", 7),))
    ledger.handle([ev.QuotaSeen(full), ev.PodGone(ran[1].uid, ran[1].key)], 2.0)

    record = ledger.registry.gangs[GANG]
    assert conditions.reason(record) is Reason.PARTIALLY_BOUND
    assert "; ResourceQuota research is full: 7 of 8" in conditions.sentence(record, Reason.PARTIALLY_BOUND)
