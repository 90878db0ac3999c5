"""The sections: every setting has its default, its explanation, and its place in the policy."""

import dataclasses
import socket
from pathlib import Path

import pytest
import yaml

from scheduler.errors import SettingsError
from scheduler.model.cluster import Level
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.workload import Pin, Strategy
from scheduler.settings import Settings, load
from scheduler.settings.sections import NAMES
from tests.docs.settings_reference import explained

SHIPPED = Path(__file__).parents[2] / "extender_config" / "settings.yaml"


def with_hostname(settings: Settings, hostname: str) -> Settings:
    return dataclasses.replace(settings, lease=dataclasses.replace(settings.lease, hostname=hostname))


def test_the_shipped_file_is_the_defaults():
    """What the file says is what holds without it."""
    assert load(SHIPPED, environ={}) == load(environ={}) == with_hostname(Settings(), socket.gethostname())


def test_the_shipped_file_names_every_setting():
    """No setting is hidden, and none of the file's is unknown."""
    content = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))

    named = {f"{section}.{name}" for section, body in content.items() for name in body}

    assert named == set(NAMES.values())


def test_the_core_sees_the_defaults_of_the_policy():
    """There is one place for each default that the core decides by."""
    assert Settings().policy == Policy()


def test_every_field_of_the_policy_is_a_setting(written):
    """What the file says reaches the core."""
    policy = written(
        """
        cluster: {schedulerNames: [a, b], levels: [{name: row, label: example.com/row}]}
        placement: {strategy: spread, level: row, required: true}
        gangs:
          pin: soft
          timeout: 1m
          startTimeout: 90s
          backoff: 1s
          backoffLimit: 10s
          scoreHold: 1s
          pinGrace: 2s
          pinLimit: 3s
          barred: 4s
          brokenPinsUntilSoft: 5
          evictionsPerGang: 6
          outcomeLimit: 7s
          announceEvery: 8s
          largestGang: 9
        queue:
          order: las
          backfill: free
          ageLimit: 10s
          ageFactor: 2.5
          lasQuantum: 11s
          defaultRuntime: 12s
          preemption: false
          reclaim: lower-priority
          evictionsPerNamespace: 13
          preemptionCooldown: 14s
          shares: {research: {guaranteed: {nvidia.com/gpu: 16, cpu: 500m}, ceiling: {memory: 1Gi}, weight: 2}}
        """
    ).policy

    assert policy == Policy(
        scheduler_names=frozenset({"a", "b"}),
        levels=(Level("row", "example.com/row"),),
        strategy=Strategy.SPREAD,
        level="row",
        required=True,
        pin=Pin.SOFT,
        timeout=60.0,
        start_timeout=90.0,
        backoff=1.0,
        backoff_limit=10.0,
        score_hold=1.0,
        pin_grace=2.0,
        pin_limit=3.0,
        barred=4.0,
        broken_pins_until_soft=5,
        evictions_per_gang=6,
        outcome_limit=7.0,
        announce_every=8.0,
        largest_gang=9,
        order=Order.LAS,
        backfill=Backfill.FREE,
        age_limit=10,
        age_factor=2.5,
        las_quantum=11,
        default_runtime=12,
        preemption=False,
        reclaim=Reclaim.LOWER,
        evictions_per_namespace=13,
        preemption_cooldown=14,
        shares={"research": Share((("cpu", 500), ("nvidia.com/gpu", 16)), (("memory", 1073741824),), 2.0)},
    )
    defaults = Policy()
    assert all(
        getattr(policy, field.name) != getattr(defaults, field.name) for field in dataclasses.fields(Policy)
    )


def test_the_host_name_is_that_of_the_pod():
    """Inside a Pod kube-scheduler's identity begins with the Pod's name."""
    assert load(environ={"POD_NAME": "gangwright-5"}).lease.hostname == "gangwright-5"
    assert load(environ={"POD_NAME": "x", "GANGWRIGHT_LEASE__HOSTNAME": "y"}).lease.hostname == "y"


def test_every_setting_is_explained():
    """A docstring stands under each field: meaning, unit, reason of the default."""
    said = {f"{section}.{name}": text for section, name, text in explained()}

    assert list(said) == list(NAMES.values())
    assert all(said.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: {weight: -1}}", "must be between 0.001 and"),
        ("{a: {weight: heavy}}", "must be a number"),
        ("{a: {guaranteed: {cpu: many}}}", "must be a quantity of cpu"),
        ("{a: {guaranteed: {cpu: 4}, ceiling: {cpu: 2}}}", "the ceiling of cpu must not be below"),
        ("{a: {garanteed: {cpu: 4}}}", "'garanteed' is unknown here"),
        ("{A_b: {}}", "must be the name of a namespace"),
        ("[a]", "must be a mapping"),
    ],
)
def test_share_that_cannot_be(written, text, message):
    """A share that contradicts itself, or says something unknown, stops the start with its line and what would be
    right.
    """
    with pytest.raises(SettingsError, match=message) as refused:
        written(f"queue:\n  shares: {text}\n")
    assert "line 2" in str(refused.value)
    assert "queue.shares" in str(refused.value)


def test_unknown_order(written):
    """An order that does not exist is refused with the ones that do."""
    with pytest.raises(SettingsError, match="must be one of fifo, las, shortest, fair"):
        written("queue: {order: lifo}")
