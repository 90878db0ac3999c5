"""What a worker that asks is told, beside what was published."""

from scheduler.elastic.reconciler import job_effects
from tests.elastic.reconciler.support.training import a_job


def test_a_round_is_told_though_another_member_has_to_go_meanwhile() -> None:
    """Written to the API server while one of its members is sent away: the next round is announced in the same breath,
    and the members, who were answered and count as under way, hear of the first; else they would wait for as long as a
    call may.
    """
    world = a_job(4)
    first, second = world.members()[2:]
    published, publish = [], world._publish

    def heard(effect: job_effects.Publish) -> None:
        newest, _ = world.membership.beat_answer(first.uid)
        told = {uid: world.membership.assignment(uid, effect.round - 1) for uid in effect.assignments}
        published.append((effect.round, newest, told == effect.assignments))
        publish(effect)

    world._publish = heard
    world.delete(first)
    assert world.run(10, lambda: world.writing is not None)
    world.delete(second)

    assert world.run(10, lambda: published)
    assert published[0] == (published[0][0], published[0][0] + 1, True)
    assert world.run(60, lambda: world.trains(4))
