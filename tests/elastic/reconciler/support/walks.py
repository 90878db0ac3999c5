"""A walk: one job in an adversarial world, each step one misfortune or one wish, then a moment passes.

The seed decides everything: the same seed is the same walk.
"""

import random
from collections.abc import Callable

from scheduler.elastic.job import Spec
from scheduler.elastic.job.spec import Checkpoint
from tests.elastic.reconciler.support.workers import Pod
from tests.elastic.reconciler.support.world import TEMPLATE, Faults, Patient, edited

RECOVERY_S = 1200.0
"""In which a job must train again when nothing goes wrong any more: pauses between starts (300 s) and a limit of a
start (120 s) lie within it."""


class Walk:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rate = self.rng.choice([0.0, 0.02, 0.15])
        """Share of messages that are lost, late or doubled."""
        self.crashes = self.rng.choice([0.0, 0.0, 0.05])
        faults = Faults(
            lost=lambda: self.rng.random() < self.rate,
            late=lambda: self.rng.uniform(0, 3) if self.rng.random() < self.rate else 0.0,
            twice=lambda: self.rng.random() < self.rate,
            crash=lambda: self.rng.random() < self.crashes,
            mute=lambda: self.rng.random() < 0.5,
            deep=lambda: self.rng.random() < 0.5,
        )
        least = self.rng.choice([1, 2, 3])
        spec = Spec(
            min_workers=least,
            max_workers=least + self.rng.choice([0, 2, 4]),
            template=TEMPLATE,
            max_restarts=1_000_000,
            checkpoint=Checkpoint(path=self.rng.choice(["", "/ckpt"])),
        )
        self.world = Patient(spec, nodes=9, faults=faults)
        self.world.meet_s = self.rng.choice([0.0, 0.3])
        self.world.asks = self.rng.choice([False, True])
        self.world.coalesces = seed % 2 == 1

    def go(self, steps: int) -> None:
        names = sorted(ACTIONS)
        weights = [ACTIONS[name][0] for name in names]
        for _ in range(steps):
            ACTIONS[self.rng.choices(names, weights)[0]][1](self)
            self.world.run(self.rng.choice([0.1, 0.1, 0.3, 1.0, 3.0]))
        self.rest()

    def rest(self) -> None:
        """Nothing goes wrong any more; the job must come to train at the size that is wanted."""
        world = self.world
        self.rate = self.crashes = 0.0
        for node in sorted(world.cordoned):
            world.uncordon(node)
        for pod in world.pods.values():
            pod.broken, pod.crashes, pod.never_ready, pod.slowness = "", False, False, 1.0
            pod.disk_full = False
        world.see_again()
        world.run(30)
        world.change(suspend=False)
        end = world.now + RECOVERY_S
        while world.now < end:
            world.run(5, lambda: world.trains(world.status.wanted))
            before = world.steps()
            if world.trains(world.status.wanted) and world.run(
                10, lambda before=before: world.steps() > before + 30
            ):
                assert world.spec.clamp(world.status.wanted) == world.status.wanted
                return
        status = world.status
        raise AssertionError(f"{status.phase} at {status.workers} of {status.wanted}: {status.reason}")

    def anybody(self, *, among: Callable[[Pod], bool] = lambda _: True) -> Pod | None:
        found = [pod for pod in self.world.pods.values() if among(pod)]
        return self.rng.choice(found) if found else None

    def to(self, what: Callable[[Pod], None], among: Callable[[Pod], bool] = lambda _: True) -> None:
        pod = self.anybody(among=among)
        if pod:
            what(pod)


def _size(walk: Walk) -> None:
    most = walk.world.spec.max_workers + 1
    walk.world.size(walk.rng.randint(0, most))


def _user(walk: Walk) -> None:
    world = walk.world
    stated, before = world.spec.workers, world.status.wanted
    world.change(workers=walk.rng.choice([None, None, walk.rng.randint(1, world.spec.max_workers)]))
    if stated is not None and world.spec.workers is None and world.up:
        assert world.status.wanted == before, "the size fell before the policy had spoken"


def _bounds(walk: Walk) -> None:
    least = walk.rng.choice([1, 2, 3])
    walk.world.change(min_workers=least, max_workers=least + walk.rng.choice([0, 1, 3, 4]))


def _suspend(walk: Walk) -> None:
    walk.world.change(suspend=walk.rng.random() < 0.5)


def _template(walk: Walk) -> None:
    """Before there is any status, a master that begins knows of no edit."""
    if walk.world.stored is not None:
        walk.world.change(template=edited(walk.world.generation))


def _cordon(walk: Walk) -> None:
    if len(walk.world.cordoned) < 3:
        walk.world.cordon(walk.rng.choice(walk.world.nodes))


def _uncordon(walk: Walk) -> None:
    for node in sorted(walk.world.cordoned)[:1]:
        walk.world.uncordon(node)


def _sight(walk: Walk) -> None:
    if walk.world.unseen is None:
        walk.world.lose_sight()
    else:
        walk.world.see_again()


def _another(walk: Walk) -> None:
    members = walk.world.members()
    steps = {pod.step for pod in members if pod.active and pod.child == "training" and not pod.hung}
    if walk.world.trains() and all(pod.active and not pod.hung for pod in members) and min(steps) > 0:
        walk.world.begin_another()


def _young(pod: Pod) -> bool:
    return pod.child in {"none", "starting"}


def _break(pod: Pod) -> None:
    if pod.phase == "Pending":
        pod.broken = "ErrImagePull: no such image"


def _crash(pod: Pod) -> None:
    pod.crashes = True


def _never(pod: Pod) -> None:
    pod.never_ready = True


def _slow(pod: Pod) -> None:
    pod.slowness = 2.0


def _trains(pod: Pod) -> bool:
    return pod.child == "training"


ACTIONS: dict[str, tuple[int, Callable[[Walk], None]]] = {
    "nothing": (20, lambda walk: None),
    "size": (10, _size),
    "user": (2, _user),
    "bounds": (1, _bounds),
    "suspend": (2, _suspend),
    "template": (2, _template),
    "another": (2, _another),
    "cordon": (2, _cordon),
    "uncordon": (2, _uncordon),
    "kill": (4, lambda walk: walk.to(walk.world.kill, lambda pod: pod.active)),
    "fail": (2, lambda walk: walk.to(lambda pod: walk.world.end(pod, 1, None), lambda pod: pod.active)),
    "freeze": (1, lambda walk: walk.to(walk.world.freeze, lambda pod: pod.active)),
    "hang": (1, lambda walk: walk.to(walk.world.hang, _trains)),
    "node": (1, lambda walk: walk.to(walk.world.lose_node, lambda pod: pod.running)),
    "delete": (3, lambda walk: walk.to(walk.world.delete)),
    "break": (1, lambda walk: walk.to(_break, _young)),
    "crash": (1, lambda walk: walk.to(_crash, _young)),
    "never": (1, lambda walk: walk.to(_never, _young)),
    "disk": (1, lambda walk: walk.to(lambda pod: setattr(pod, "disk_full", True))),
    "sight": (2, _sight),
    "slow": (1, lambda walk: walk.to(_slow)),
    "master": (2, lambda walk: walk.world.die(walk.rng.uniform(0.2, 8.0)) if walk.world.up else None),
}
"""Name → how often, and what."""
