"""How long each wait may take, and what is tried instead: unit, meaning and reason of every figure.

Lives here: figures. Never here: what happens when one is reached (`failure_detection`, `scaling`, `round_transition`).
"""

from msgspec import Struct


class Timeouts(Struct, frozen=True, kw_only=True):
    """Seconds, unless a field says otherwise. The settings of the master may hold others; tests do."""

    silent: float = 5.0
    """Without a beat, a worker is lost. Beats come every second or so; four missed in a row are no hiccup of a network."""
    grace: float = 3.0
    """At the barrier, for one of whom there is no sign while others wait; or five of its steps, if those take
    longer.
    """
    grace_steps: float = 5.0
    """Steps; see `grace`."""
    hang: float = 600.0
    """A training process that shows no progress hangs; or ten of its steps, if those take longer. Nothing below detects
    it: the stall inspector of Horovod 0.28 never fires over gloo. Minutes, for a rank that validates or writes a file
    between two steps, while the others wait for it in a collective, looks no different."""
    hang_steps: float = 10.0
    """Steps; see `hang`."""
    first_step: float = 300.0
    """Instead of `hang` before a worker's first step of a round: tracing and compiling a large model takes minutes."""
    collective: float = 10.0
    """After which a collective fails whose peer has vanished (HOROVOD_GLOO_TIMEOUT_SECONDS)."""
    start: float = 600.0
    """From a seat until READY. An image of tens of gigabytes takes minutes to pull."""
    warm: float = 7200.0
    """The same for one that is seen to take steps alone: its warm-up lasts to the script's first commit, and some commit
    once an epoch. A commit every minute is better: so long a newcomer's start takes, and a change waits."""
    trouble: float = 60.0
    """A container that cannot start for a named reason (its image cannot be pulled): the kubelet has tried a few
    times by then.
    """
    unseen: float = 90.0
    """From StartWorker until the pod is seen; after it the pod is taken for not made. A watch that is dead may pass for
    a quiet one for 70 s, and it is told after another 10 that it does not stand; then nothing follows from what is not
    seen."""
    newcomers: float = 30.0
    """READY newcomers wait for those that still start; then the round goes on without the late ones. Where their scripts
    were told of a round with the late ones, they wait up to `start`: they would have to begin again.
    """
    coalesce: float = 1.0
    """After a change of what is wanted, until members are interrupted for it, so that one round takes several
    changes.
    """
    stand: float = 1.5
    """After a change of how many workers there are to be, until surplus is started for it. A size that is taken back
    within a second makes no pod then, and a growth takes ten seconds and more in any case.
    """
    settle: float = 60.0
    """After a round was published, for all its members to train, until another change that can wait may interrupt
    them.
    """
    doom: float = 60.0
    """From a node's doom until its workers leave without a replacement; a drain waits longer than a warm start
    takes.
    """
    doom_seat: float = 15.0
    """The same while no replacement has even a seat: there is no room, and waiting brings none."""
    release: float = 30.0
    """From its release until a worker's process must have ended; then its pod is deleted. As long after the end of a
    process its pod must have ended, once the job is over.
    """
    save: float = 600.0
    """The same for the one that saves to disk first, and for members that end after the first of them ended well; those
    that evaluate, or export what was trained, have an hour (FINISH of the agent's `training_run`)."""
    again: float = 10.0
    """Until an effect that shows no result is asked for again."""
    straggler: float = 0.8
    """Fraction of the median throughput of all members below which one is a straggler (MLSys'20 autoscaling code)."""
    straggler_delay: float = 0.05
    """Fraction of a step that a straggler must cost the others: who computes for a millisecond of a step of a second
    may be as slow as he likes, and a swap costs a start and a round."""
    straggler_weight: float = 0.1
    """Of a new sample in the moving average (as there); so ten samples are needed before it says anything."""
    straggler_pause: float = 300.0
    """After a replacement that found no room, or that changed nothing, until the next is tried."""
    straggler_seat: float = 60.0
    """For a straggler's replacement to get a seat."""
    bar: float = 30.0
    """That a node is avoided after a failure; doubled by each further one. A kubelet restarts in less."""
    bar_most: float = 3600.0
    forgiven: float = 3600.0
    """After the last failure, a node is like any other."""
    backoff_most: float = 300.0
    """Longest pause between starts of a role that fail in a row, from one second, doubled by each; as the kubelet's
    CrashLoopBackOff.
    """
    backoff_each: float = 2.0
    """Of pause for each job of the namespace whose pods the API server refuses, where that comes to more than
    `backoff_most`; half as much for some, and half as much again for others, so that they do not try together. So a
    namespace makes one such try in about this time, however many jobs it has. Up to 150 notice nothing.
    """
    steady: float = 60.0
    """Of training, after which starts that fail are no longer in a row, and nodes are not held for nothing. So long a
    member may also be silent there; or ten of its steps, if those take longer.
    """
    in_place: int = 2
    """Times that one worker's process may be started again inside its pod after a signal killed it; then the pod
    goes.
    """
    slept: float = 2.0
    """Later than promised by this, it was the master that slept, not its workers."""
