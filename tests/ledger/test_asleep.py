"""Jobs that are suspended: which gangs they would be of."""

from scheduler.model import events as ev
from scheduler.model.workload import Asleep, GangKey, OwnerTraits
from tests.engine.support.cast import a_membership
from tests.ledger.support.desk import Desk


def a_job(name: str, gang: str = "", uid: str = "") -> ev.OwnerSeen:
    """Asleep where it has a gang."""
    asleep = Asleep(name, "gangwright", a_membership(gang, 2)) if gang else None
    return ev.OwnerSeen(OwnerTraits(uid or name, remakes_freely=True, asleep=asleep))


def asleep(desk: Desk) -> dict[str, list[str]]:
    """The names of the Jobs by gang."""
    sleepers = desk.ledger.registry.asleep
    return {key.name: [own.job for own in sleepers.of(key)] for key in sleepers}


def test_a_job_sleeps_for_its_gang() -> None:
    """Until it is seen awake, or is gone; several Jobs of one gang are told by name."""
    desk = Desk()
    desk.tell(a_job("workers", "train"), a_job("launcher", "train"), a_job("other", "serve"), a_job("awake"))
    assert asleep(desk) == {"train": ["launcher", "workers"], "serve": ["other"]}

    desk.tell(a_job("workers"), ev.OwnerGone("other"), ev.OwnerGone("nobody"))
    assert asleep(desk) == {"train": ["launcher"]}
    assert GangKey("default", "train") in desk.ledger.registry.asleep


def test_a_job_that_changes_its_gang_sleeps_once() -> None:
    """The template of a suspended Job may be changed."""
    desk = Desk()
    desk.tell(a_job("job", "before"), a_job("job", "after"))
    assert asleep(desk) == {"after": ["job"]}
