"""Act 7: two elastic jobs on six slots, with real Horovod in their pods; when the first ends, the second takes its
room.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from rich.table import Table

from bench.demo import training
from bench.demo.claims import PARTLY
from bench.demo.record import Seen
from bench.demo.screen import indented
from bench.demo.stage import Stage
from bench.demo.two_jobs import (  # fmt: skip
    FIRST,
    FIRST_SIZE,
    FIRST_STEPS,
    PALETTE,
    PLACE,
    ROOM,
    SECOND,
    SECOND_LEAST,
    SECOND_MOST,
    SLOTS,
    Processes,
    Story,
)
from bench.elastic.jobs import STEP_SECONDS, TRAINING
from bench.horovod import SELDOM, build
from bench.plane import NeverCameError
from bench.plane.elastic_master import MANIFESTS, Master
from bench.plane.errors import BuildError
from bench.plane.kubelet import OURS, PLAIN, Image, Kubelet

LONGEST = 240.0
"""Seconds after which the act has failed. It takes a sixth of that on an idle machine; starting TensorFlow eight times
is most of it, and the machine may be busy with other things."""

QUICK = 3.0
"""The whole job waits for a newcomer's start, were it not warm before: so many times less than that start it may
stand still.
"""

SCALED_UP = "ScaleUp"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **SELDOM}
"""What an image for training on few cores would say."""


def prepare() -> None:
    """Builds Horovod, minutes the first time. What that lacks is said when the act begins: the other ones need
    nothing of it.
    """
    with suppress(BuildError):
        build.python()


@asynccontextmanager
async def behind(stage: Stage) -> AsyncIterator[None]:
    """The master comes up behind the acts that play before this one, and stays for as long as the block runs."""
    master = Master(stage.gangwright.plane)
    stage.master = asyncio.create_task(asyncio.to_thread(_installed, master))
    try:
        yield
    finally:
        await asyncio.gather(stage.master, return_exceptions=True)
        await asyncio.to_thread(master.stop)


def _installed(master: Master) -> None:
    master.plane.apply_manifests(MANIFESTS)
    master.start()


async def play(stage: Stage) -> None:
    stage.title("7  Elastic jobs: what one leaves, the other takes")
    stage.say(
        f"{ROOM} slots. {FIRST} trains on {FIRST_SIZE}; {SECOND} needs {SECOND_LEAST} and can use {SECOND_MOST}, so it starts "
        f"with its quorum on the rest. Horovod is real; each pass is padded to {STEP_SECONDS:g} s by sleep, as if every slot "
        "had cores of its own.\n"
        "A, B: a worker trains; b: one above the quorum; ╌: it has the slot and starts; below: how many train, and seconds.\n"
    )
    python = await asyncio.to_thread(build.python)
    if stage.master is not None:
        await stage.master
    images = {
        TRAINING: Image(path=[python.parent], env=QUIET),
        "gangwright": OURS,
        "plain": PLAIN,
    }
    with Kubelet(stage.gangwright.plane, SLOTS, images=images) as kubelet:
        async with stage.namespace(PLACE) as record, training.told(stage.api, PLACE) as history:
            story = Story(stage, record, history, kubelet)
            limit = asyncio.timeout(LONGEST)
            try:
                async with limit:
                    before, after = await story.play()
                _report(story)
                _check(story, before, after)
            except TimeoutError as error:
                what = f"not within {LONGEST:g} s: {story.why()}" if limit.expired() else str(error)
                raise NeverCameError(what) from None
            finally:
                await story.remove()
            _nothing_left(story)


# ── the figures ─────────────────────────────────────────────────────────────────────────────────────────────


def _report(story: Story) -> None:
    table = Table("job", "resize", "round", "cause", "stood still", "samples/s before", "after", box=None)
    for name, told in story.steps.items():
        rates = training.rates(training.of_all(told, ended=name == FIRST))
        for resize in story.history.resizes(name):
            figures = (_figure(rates.get(resize.before)), _figure(rates.get(resize.after)))
            idle = "-" if resize.idle is None else f"{resize.idle:.2f} s"
            change = f"{resize.before} → {resize.after}"
            table.add_row(PALETTE.name(name), change, str(resize.round), resize.cause, idle, *figures)
    story.stage.console.print(indented(table))


def _figure(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0f}"


def _check(story: Story, before: Processes, after: Processes) -> None:
    claims, record = story.stage.claims, story.record
    apart = {name: _apart(record.of(name)) for name in story.steps}
    claims.check(
        "Each quorum was seated whole, by a plan written before",
        max(apart.values()) < PARTLY and not record.unplanned,
        ", ".join(f"{name}: first to last bind {seconds:.2f} s" for name, seconds in apart.items())
        + "".join(f"; unplanned: {name}" for name in record.unplanned),
    )
    _check_growth(story, before, after)
    _check_steps(story)


def _apart(pods: Iterable[Seen]) -> float:
    """Seconds from the first bind of a quorum to its last."""
    bound = [seen.bound for seen in pods if not seen.surplus and seen.bound is not None]
    return max(bound) - min(bound)


def _check_growth(story: Story, before: Processes, after: Processes) -> None:
    record, claims = story.record, story.stage.claims
    freed = {seen.node for seen in record.of(FIRST)}
    came = [seen for seen in record.here(SECOND) if seen.surplus]
    claims.check(
        f"When {FIRST} had ended, {SECOND} grew into its slots, with nothing asked or changed",
        len(came) == SECOND_MOST - SECOND_LEAST and {seen.node for seen in came} <= freed,
        ", ".join(f"{seen.name} on {seen.node}" for seen in came),
    )
    claims.check(
        "None of its workers was started again for that: the same pods, the same processes",
        len(before) == SECOND_LEAST and before == after,
        "; ".join(f"{pod}: processes {', '.join(map(str, pids))}" for pod, pids in before.items()),
    )
    idle = [resize.idle for resize in story.history.resizes(SECOND) if resize.cause == SCALED_UP]
    warm = [story.first_steps()[seen.name] - (seen.bound or 0.0) for seen in came]
    claims.check(
        "It trained on while the newcomers started, and stood still for the change alone",
        idle and all(seconds is not None and seconds * QUICK < min(warm) for seconds in idle),
        f"stood still {_seconds(idle)}; from a seat to the first step {_seconds(warm)}",
    )


def _check_steps(story: Story) -> None:
    claims = story.stage.claims
    steps = {name: training.of_all(told, ended=name == FIRST) for name, told in story.steps.items()}
    found = [f"{name}: {flaw}" for name, own in steps.items() for flaw in training.flaws(own)]
    claims.check(
        "No step and no sample was lost or repeated: every step once, by every worker of its round",
        len(steps[FIRST]) == FIRST_STEPS and not found,
        found[0] if found else ", ".join(f"{name} 1 to {len(own)}" for name, own in steps.items()),
    )
    rates = training.rates(steps[SECOND])
    few, many = rates.get(SECOND_LEAST, math.inf), rates.get(SECOND_MOST, 0.0)
    claims.check(
        "More slots, more samples",
        few < many,
        f"{SECOND}: {few:.0f} samples/s on {SECOND_LEAST}, {many:.0f} on {SECOND_MOST}",
    )


def _seconds(times: Iterable[float | None]) -> str:
    return ", ".join("not told" if time is None else f"{time:.2f} s" for time in times)


def _nothing_left(story: Story) -> None:
    story.stage.claims.check(
        "Both jobs are deleted, and nothing of them is left: no object, no process",
        not story.left,
        ", ".join(story.left) or f"{len(story.record.pods)} pods and their processes are gone",
    )
