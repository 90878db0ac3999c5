"""The simulator: the engine's decisions are carried out truly, and time goes by as the trace says."""

import random

import pytest

from bench import traces
from bench.controller import Run
from bench.report import Report
from bench.simulator import OverbookedError, Simulation, StuckError, some_nodes
from bench.traces import Job
from scheduler.model import effects as ef
from scheduler.model.decision import Reason
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill
from scheduler.model.workload import PodKey
from tests.bench import oracle
from tests.ledger.support.invariants import broken

FREE = Policy(backfill=Backfill.FREE)
STRICT = Policy(backfill=Backfill.NONE)
RESERVE = Policy(backfill=Backfill.RESERVE)


def some_jobs(seed: int, count: int = 60) -> list[Job]:
    """Jobs of one GPU to two nodes that come faster than they go; many arrive at one time."""
    chance = random.Random(seed)
    jobs, now = [], 0.0
    for number in range(count):
        now += chance.choice([0, 0, 10, 40])
        members, gpus = chance.choice([(1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (2, 8)])
        jobs.append(Job(f"j{number:02d}", now, float(chance.randint(10, 300)), members, gpus))
    return jobs


def starts(jobs, nodes, policy):
    return {fate.job.name: fate.started for fate in Simulation(jobs, some_nodes(nodes), policy).run()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_free_backfill_starts_as_the_oracle_does(seed):
    """Every job of a crowded random trace starts exactly when a simulator without our engine starts it."""
    jobs = some_jobs(seed)

    assert starts(jobs, 3, FREE) == oracle.starts(jobs, 3, backfill=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_strict_order_starts_as_the_oracle_does(seed):
    """Without backfill, too, every job starts exactly when it does in the other simulator."""
    jobs = some_jobs(seed)

    assert starts(jobs, 3, STRICT) == oracle.starts(jobs, 3, backfill=False)


def test_stream_of_small_jobs_starves_a_large_gang_unless_room_is_reserved():
    """Small jobs that always overlap keep two nodes from being empty; a reservation empties them in time."""
    small = [Job(f"small-{n}", 20.0 * n, 100.0, 1, 4) for n in range(100)]
    jobs = traces.declaring([*small, Job("large", 10.0, 60.0, 2, 8)])

    assert starts(jobs, 2, FREE)["large"] > small[-1].arrival
    assert starts(jobs, 2, RESERVE)["large"] == 100.0


def test_job_that_ends_in_time_goes_past_the_reservation():
    """Who has left before the large gang can start may use the room; who would stay waits behind it."""
    jobs = [
        Job("first", 0.0, 100.0, 1, 8, declared=100.0),
        Job("large", 1.0, 50.0, 2, 8, declared=50.0),
        Job("long", 2.0, 500.0, 1, 8, declared=500.0),
        Job("short", 3.0, 40.0, 1, 8, declared=40.0),
    ]

    assert starts(jobs, 2, RESERVE) == {"first": 0.0, "short": 3.0, "large": 100.0, "long": 150.0}


def test_burst_of_whole_nodes_ends_at_its_ideal():
    """53 gangs on 32 nodes: nobody can do it in less than 1,080 s, and no gang runs longer than it should."""
    fates = Simulation(
        traces.read(traces.DATA / "knavigator-gang53" / "jobs.csv"), some_nodes(32), FREE
    ).run()
    report = Report.of(fates, gpus=32 * 8)

    assert {fate.ended - fate.started for fate in fates} == {120.0}
    assert 0.3 <= report.makespan <= 0.34
    assert report.utilisation == pytest.approx(0.3 / report.makespan)


def test_job_alone_never_waits():
    """A job that finds room starts when it arrives, and ends after its runtime; all of it is use of its GPUs."""
    (fate,) = Simulation([Job("only", 100.0, 60.0, 2, 8)], some_nodes(2), FREE).run()

    assert (fate.started, fate.ended, fate.wait, fate.completion) == (100.0, 160.0, 0.0, 60.0)
    assert Report.of([fate], 16).utilisation == 1.0


def test_job_without_runtime_ends_at_once():
    """A runtime of nothing is legal, and leaves the room to the next."""
    fates = Simulation([Job("a", 5.0, 0.0, 1, 8), Job("b", 5.0, 10.0, 1, 8)], some_nodes(1), FREE).run()

    assert [(fate.job.name, fate.ended) for fate in fates] == [("a", 5.0), ("b", 15.0)]


def test_same_trace_same_fates():
    """Nothing of chance is in a run."""
    jobs = some_jobs(3)

    assert Simulation(jobs, some_nodes(3), FREE).run() == Simulation(jobs, some_nodes(3), FREE).run()


@pytest.mark.parametrize("job", [Job("big", 0, 1, 3, 8), Job("wide", 0, 1, 1, 9)])
def test_job_above_the_cluster_is_named(job):
    """What the empty cluster cannot hold is told before anything runs."""
    with pytest.raises(StuckError, match=f"{job.name}: {job.members} × {job.gpus} GPUs do not fit"):
        Simulation([job], some_nodes(2), FREE)


def test_waiting_for_ever_is_told():
    """When nothing more can happen and somebody still waits, the run ends with his name."""
    job = Job("other", 0, 1, 1, 8)
    simulation = Simulation([job], some_nodes(1), Policy(scheduler_names=frozenset({"another"})))
    with pytest.raises(StuckError, match=r"1 jobs wait for ever at 0 s \(nothing comes\): other"):
        simulation.run()


def test_ledger_is_whole_all_the_way():
    """At every step of a crowded run the ledger's own invariants hold, and in the end it remembers nobody."""
    simulation = Simulation(some_jobs(1, 40), some_nodes(3), FREE)
    while not simulation.done:
        simulation.step()
        assert broken(simulation.engine.ledger) == []
    simulation._tell(simulation._late)

    assert not simulation.engine.ledger.registry.gangs
    assert not simulation.engine.ledger.owners


def run_until(simulation, now):
    while simulation.now < now or not simulation.engine.ledger.ready:
        simulation.step()


def test_evicted_job_begins_anew():
    """Who loses a running member does all of its work again, after the time that a restart takes; that is lost."""
    victim, clock = Job("victim", 0.0, 100.0, 2, 4), Job("clock", 40.0, 1.0, 1, 8)
    simulation = Simulation([victim, clock], some_nodes(2), FREE, restart=30.0)
    run_until(simulation, 40.0)
    pod = next(iter(simulation._runs[0].pods.values()))
    simulation._tell(simulation._evict(ef.Evict(pod.membership.gang, pod.uid, pod.key, Reason.PIN_BROKEN)))
    fate = next(fate for fate in simulation.run() if fate.job == victim)

    assert (fate.started, fate.evictions, fate.lost) == (0.0, 1, 70.0)
    assert fate.ended == 40.0 + 30.0 + 100.0
    assert Report.of(simulation.fates, 16).lost == pytest.approx(70.0 * 8 / 3600, abs=1e-3)


def test_overbooking_is_an_error():
    """A seat on a node without room is a fault of whoever gave it, and ends the run."""
    simulation = Simulation([Job("a", 0.0, 9.0, 1, 8), Job("b", 1.0, 9.0, 1, 8)], some_nodes(1), FREE)
    run_until(simulation, 1.0)
    pod = next(iter(simulation._runs[1].pods.values()))
    with pytest.raises(OverbookedError, match="n0000 has no room for default/b-0 at 1 s"):
        simulation._ungate(ef.Ungate(pod.membership.gang, pod.uid, pod.key, "plan", "n0000", pin=True))


def test_suspended_job_goes_on_from_where_it_was():
    """Its work is kept, and it pays for the restart alone; until it is resumed its room is free."""
    victim, clock = Job("victim", 0.0, 100.0, 2, 4), Job("clock", 40.0, 10.0, 2, 8)
    simulation = Simulation([victim, clock], some_nodes(2), FREE, restart=30.0)
    run_until(simulation, 40.0)
    run = simulation._runs[0]
    pod = next(iter(run.pods.values()))
    words = (pod.membership.gang, pod.uid, PodKey("default", "victim"), run.owner)
    paused, *gone = simulation._suspend(ef.SuspendJob(*words, 320.0))
    simulation._tell([paused, *gone])
    if not run.pods:
        simulation._tell(simulation._resume(ef.ResumeJob(*words)))
    other, fate = simulation.run()

    assert paused.traits.paused == run.owner
    assert paused.traits.attained == 320.0
    assert len(gone) == 2
    assert (other.job, other.started, other.ended) == (clock, 40.0, 50.0)
    assert (fate.started, fate.suspensions, fate.lost) == (0.0, 1, 30.0)
    assert fate.ended == 50.0 + 30.0 + 60.0


def test_second_suspension_during_a_restart_loses_only_its_time():
    """Who is suspended before it went on did nothing since, and loses nothing that it had."""
    run = Run(Job("j", 0.0, 100.0, 1, 1), 0)
    run.start(0.0)
    run.stop(60.0, 30.0, saved=True)
    run.start(100.0)
    run.stop(110.0, 30.0, saved=True)

    assert (run.done, run.lost) == (60.0, 10.0)
    assert run.start(200.0) == 200.0 + 30.0 + 40.0
