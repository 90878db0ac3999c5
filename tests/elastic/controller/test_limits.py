"""What an administrator may say of the limits of a job's life."""

from scheduler.elastic.controller.elastic_master import limits_of
from scheduler.elastic.reconciler.timeouts import Timeouts
from scheduler.settings import ElasticMaster, RendezvousServer, Settings, Workers


def test_the_defaults_are_those_of_the_reconciler() -> None:
    """Nobody who says nothing gets other waits than the reasons at the figures are for."""
    assert limits_of(Settings()) == Timeouts()


def test_who_is_to_beat_seldom_is_not_missed_for_it() -> None:
    """At the barrier nobody is given up between two of its beats."""
    seldom = Settings(rendezvous=RendezvousServer(beat=4.0, silent_after=14.0))

    assert limits_of(seldom) == Timeouts(silent=14.0, grace=10.0)


def test_what_is_said_is_obeyed() -> None:
    """Each of these settings is one of the limits, and touches no other."""
    said = Settings(
        rendezvous=RendezvousServer(silent_after=7.0),
        workers=Workers(gloo_timeout=8.0),
        elastic=ElasticMaster(
            start_limit=9.0, trouble_limit=10.0, hang_limit=11.0, save_limit=12.0, release_limit=13.0
        ),
    )

    assert limits_of(said) == Timeouts(
        silent=7.0, collective=8.0, start=9.0, trouble=10.0, hang=11.0, save=12.0, release=13.0,
    )  # fmt: skip
