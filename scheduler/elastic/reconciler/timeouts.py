"""The limit of each wait, with its unit, meaning and reason.

Lives here: figures. Never here: what happens when a limit is reached (`failure_detection`, `scaling`,
`round_transition`).
"""

from msgspec import Struct


class Timeouts(Struct, frozen=True, kw_only=True):
    """Seconds, unless a field says otherwise. The settings of the master may override them; tests do."""

    silent: float = 5.0
    """Silence after which a worker is lost. Beats come about every second; four missed in a row are no network hiccup.
    """
    grace: float = 3.0
    """Silence that is allowed at the barrier while other members wait; or five of its steps, if those take longer."""
    grace_steps: float = 5.0
    """Steps; see `grace`."""
    hang: float = 600.0
    """Time without progress after which a training process hangs; or ten of its steps, if those take longer. No lower
    layer detects it: the stall inspector of Horovod 0.28 never fires over gloo. Minutes, because a rank that validates
    or writes a file between two steps, while the others wait in a collective, looks the same."""
    hang_steps: float = 10.0
    """Steps; see `hang`."""
    first_step: float = 300.0
    """Replaces `hang` before a worker's first step of a round: tracing and compiling a large model takes minutes."""
    collective: float = 10.0
    """Time after which a collective whose peer has vanished fails (HOROVOD_GLOO_TIMEOUT_SECONDS)."""
    start: float = 600.0
    """From the assignment to a node until READY. An image of tens of gigabytes takes minutes to pull."""
    warm: float = 7200.0
    """The same for a worker that takes steps alone: its warm-up lasts until the script's first commit, which may come
    once an epoch. Commit every minute: until its first commit a newcomer's start, and thus a change, is delayed."""
    trouble: float = 60.0
    """For a container that cannot start for a known reason (its image cannot be pulled). By then the kubelet has tried
    a few times.
    """
    unseen: float = 90.0
    """From StartWorker until the pod is seen; then the pod is assumed not to exist. A dead watch may look like a quiet
    one for 70 s, and is reported as down after another 10 s. While it is down, unseen pods prove nothing."""
    newcomers: float = 30.0
    """READY newcomers wait this long for those still starting; then the round begins without them. If their scripts
    were told of a round with the late ones, they wait up to `start`, because they would have to restart.
    """
    coalesce: float = 1.0
    """Delay from a change of the wanted size until members are interrupted, so that one round takes several changes."""
    stand: float = 1.5
    """Delay between a change of the wanted size and the start of surplus. A size that is withdrawn within a second then
    creates no pod, and growth takes more than ten seconds in any case.
    """
    settle: float = 60.0
    """After a round was published, time for all its members to train before another deferrable change may interrupt
    them.
    """
    doom: float = 60.0
    """From the start of a node's drain until its workers leave without a replacement; longer than a warm start."""
    doom_seat: float = 15.0
    """The same while no replacement has a node: there is no free capacity, and waiting does not change that."""
    release: float = 30.0
    """From its release until a worker's process must have ended; then its pod is deleted. Once the job is over, also
    from the end of a process until its pod must have ended.
    """
    save: float = 600.0
    """The same for the worker that saves to disk first, and for members that exit after the first one exited with 0.
    Those that evaluate or export the result have an hour (FINISH of the agent's `training_run`)."""
    again: float = 10.0
    """Until an effect without a visible result is repeated."""
    straggler: float = 0.8
    """Fraction of the members' median throughput below which a member is a straggler (MLSys'20 autoscaling code)."""
    straggler_delay: float = 0.05
    """Fraction of a step that a straggler must cost the others. A worker that computes for a millisecond of a
    one-second step may be slow, because a swap costs a start and a round."""
    straggler_weight: float = 0.1
    """Weight of a new sample in the moving average (same source); so ten samples are needed before it is usable."""
    straggler_pause: float = 300.0
    """After a replacement that found no free capacity, or that changed nothing, until the next attempt."""
    straggler_seat: float = 60.0
    """Time for a straggler's replacement to be assigned to a node."""
    bar: float = 30.0
    """Time that a node is avoided after a failure; doubled by each further one. A kubelet restarts faster."""
    bar_most: float = 3600.0
    forgiven: float = 3600.0
    """Time after the last failure until a node is like any other."""
    backoff_most: float = 300.0
    """Longest pause between consecutive failing starts of a role; starts at one second, doubled each time, as in the
    kubelet's CrashLoopBackOff.
    """
    backoff_each: float = 2.0
    """Pause for each job of the namespace whose pods the API server rejects, if the sum exceeds `backoff_most`. It
    varies by half up and down, so that jobs do not try together. A namespace makes one such attempt in about this time,
    however many jobs it has. Up to 150 jobs are not affected.
    """
    steady: float = 60.0
    """Time of training after which failed starts are no longer consecutive, and nodes no longer held without progress.
    Also the silence that a member may have meanwhile; or ten of its steps, if those take longer.
    """
    in_place: int = 2
    """Number of restarts of one worker's process inside its pod after signals killed it; then the pod is deleted."""
    slept: float = 2.0
    """If the rules run this much later than due, the master slept, not its workers."""
