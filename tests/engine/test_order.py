"""Who goes first: of all that wait, nobody gets room that somebody before him could have had."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import Engine, Question, decide
from scheduler.model.decision import Decision, Place
from scheduler.model.effects import Effect
from scheduler.model.events import PodSeen
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import a_world

stories = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(1, 4), st.integers(1, 2), st.sampled_from([0, 0, 5])),
        st.tuples(st.just("go"), st.integers(0, 9), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 60), st.just(0), st.just(0)),
    ),
    min_size=5,
    max_size=25,
)


def watch_the_order(engine: Engine) -> list[str]:
    """Every placement is compared with what those before it in the queue could have had of the same picture."""
    overtaken: list[str] = []
    settle = engine.settle

    def settled(question: Question, decision: Decision, now: float) -> list[Effect]:
        if isinstance(decision, Place):
            for record in engine.ledger.pending.queue():
                if record.key == question.gang.key:
                    break
                if record.wanted is None or record.backoff.not_before > now:
                    continue
                other = engine.cycle.about(record, record.wanted, now)
                if isinstance(decide(other, engine.policy), Place):
                    overtaken.append(f"{question.gang.key} takes the room of {record.key}")
        return settle(question, decision, now)

    engine.settle = settled  # type: ignore[method-assign]
    return overtaken


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(gpus=st.lists(st.integers(1, 4), min_size=1, max_size=4), story=stories)
def test_nothing_younger_overtakes_a_gang_that_could_be_seated(gpus: list[int], story) -> None:
    """Whoever comes and goes: a gang is seated only if none before it in the queue fits."""
    world = a_world(*gpus)
    overtaken = watch_the_order(world.engine)
    born = 0
    for what, number, gpu, priority in story:
        gangs = sorted({pod.membership.gang.name for pod in world.api.pods.values() if pod.membership})
        if what == "come":
            born += 1
            world.submit(a_gang_of_pods(f"g{born:02}", number, gpu=gpu, priority=priority))
        elif what == "go" and gangs:
            for pod in world.pods(gangs[number % len(gangs)]):
                world.api.delete(pod.key)
        world.settle(number if what == "wait" else 0.5)
    assert overtaken == []


def test_gangs_of_one_second_have_one_order_however_they_are_met() -> None:
    """One process meets them as they come, another by a list: both know when they were made, and their names."""
    pods = [a_gang_of_pods(name, 1, gpu=8, namespace=name) for name in ("vision", "greedy")]
    queues = []
    for met in (pods, pods[::-1]):
        world = a_world(1)
        for gang in met:
            world.tell([PodSeen(replace(pod, created=world.now)) for pod in gang])
        queues.append([record.key.name for record in world.engine.ledger.pending.queue()])

    assert queues == [["greedy", "vision"]] * 2
