"""The settings of the elastic master: its jobs, its intervals and limits, and what it adds to worker pods.

Lives here: one dataclass per section. Never here: a use of any of them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from scheduler.settings import kinds

_image = kinds.text(r"\S{1,512}", "must be an image, for example registry.example/gangwright:0.2.0")
_command = kinds.text(r"[^\x00\s]{1,4096}", "must be a program name or a path")
_address = kinds.text(
    r"(https://[-A-Za-z0-9.:\[\]]{1,253})?",
    "must be an https URL, for example https://rendezvous.example:10273",
)
_interface = kinds.text(r"[-A-Za-z0-9_.:@]{1,15}", "must be the name of an interface, for example eth0")


class PullPolicy(StrEnum):
    """When the kubelet pulls an image, in the words of the Kubernetes API."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Confinement(StrEnum):
    """Which directions the NetworkPolicy of a job restricts."""

    NONE = "none"
    INGRESS = "ingress"
    BOTH = "both"


class Reported(StrEnum):
    """How a job is named in the metric of the values that its script reports."""

    NONE = "none"
    UID = "uid"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class ElasticMaster:
    """Which jobs the elastic master manages, which of several masters is active, and its intervals and limits."""

    namespaces: Annotated[tuple[str, ...], kinds.many(kinds.dns_name)] = ()
    """Namespaces whose ElasticJobs the master manages. Empty by default: all namespaces. With a list, pods elsewhere
    are not seen, so free capacity is unknown: jobs create the workers that they want, and surplus workers stay gated.
    """

    lease_namespace: Annotated[str, kinds.dns_name] = "gangwright-system"
    """Namespace of the Lease that elects the active master, and of the Secret `rendezvous.secret`. Defaults to
    gangwright-system, as in the manifests."""

    lease_name: Annotated[str, kinds.dns_name] = "gangwright-elastic"
    """Name of that Lease. Defaults to gangwright-elastic."""

    identity: Annotated[str, kinds.name] = ""
    """Identity of this master in the Lease. Defaults to $POD_NAME, so a restarted container continues at once. Without
    that variable it is the host name and a random suffix."""

    sizing_every: Annotated[float, kinds.seconds(0.1, 3600)] = 10.0
    """Longest time in seconds between two decisions about sizes. Defaults to 10 seconds: with 5, jobs complete no sooner
    and are resized half as often again. Sizes are also decided 0.2 s after capacity appears, and every second while a
    job searches for its size."""

    short_first: Annotated[bool, kinds.flag] = True
    """Whether free capacity goes first to jobs with little remaining work, at equal gains. If a script does not report
    the work, jobs that have trained for a short time count as short. If false, all jobs have the same weight. Defaults
    to true because the mean completion time is then shorter."""

    status_every: Annotated[float, kinds.seconds(0.1, 3600)] = 5.0
    """Seconds between two writes of a job's figures into its status. Defaults to 5 seconds. Facts that others must know
    before the master continues are written at once."""

    doomed_taints: Annotated[tuple[str, ...], kinds.many(kinds.label_key)] = (
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "cloud.google.com/impending-node-termination",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "node.kubernetes.io/out-of-service",
    )
    """Keys of taints that mark a node that is about to be removed. Its workers are replaced first if capacity is free.
    A cordoned node always counts as one. Defaults to the taints of the cluster autoscaler, Karpenter, GKE and AWS.
    """

    start_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 600.0
    """Seconds from the assignment of a node to a worker until the worker must be ready to train. After that its node is
    released. Defaults to 10 minutes because large images take minutes to pull. A worker that takes steps alone, up to
    the first commit of its script, has at least two hours."""

    trouble_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 60.0
    """The same limit for a worker whose container can't start for a known reason, for example an image that can't be
    pulled. Defaults to 1 minute: by then the kubelet has tried a few times."""

    hang_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 600.0
    """Seconds without progress, or ten steps if those take longer, after which a training counts as hung. The worker
    that holds up the others is then killed. Must be longer than anything that one rank does alone between two steps
    while the others wait, for example a validation or writing a file. In the first step of a round, in which frameworks
    compile, at least five minutes pass. Defaults to 10 minutes."""

    save_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 600.0
    """Seconds for which a worker may save the state before the job pauses. After that the save has failed. Defaults to
    10 minutes because tens of gigabytes to a network disk take minutes. It also limits how long members may be silent
    after the first of them has finished the training. A member that evaluates or exports counts as active for an hour,
    or for the seconds of GANGWRIGHT_FINISH_LIMIT in its container."""

    release_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 30.0
    """Seconds for which the process of a released worker may take to end. After that its pod is deleted. Defaults to 30
    seconds."""

    reported: Annotated[Reported, kinds.word(Reported)] = Reported.UID
    """How a job is named in the metric of the values that scripts report. Defaults to `uid` because it means nothing to
    readers without rights on the job (kube-state-metrics also has uids, to join with). `name` shows namespace/name to
    all readers of metrics. `none` removes the metric."""

    retry: Annotated[float, kinds.seconds(0.05, 600)] = 1.0
    """Seconds before a rejected write of a job is tried again. Doubles each time. Defaults to 1 second."""

    retry_limit: Annotated[float, kinds.seconds(0.05, 3600)] = 60.0
    """Longest time in seconds between two tries of a rejected write. Defaults to 1 minute, the longest wait after you
    fix a quota or a right."""


@dataclass(frozen=True, slots=True)
class Workers:
    """What the master adds to the pods of every job, beyond the job's own template."""

    image: Annotated[str, _image] = "gangwright:0.2.0"
    """Image of Gangwright, from which an init container copies the agent into the worker. Defaults to the image of the
    same version."""

    pull_policy: Annotated[PullPolicy, kinds.word(PullPolicy)] = PullPolicy.IF_NOT_PRESENT
    """Pull policy of that image. Defaults to IfNotPresent because every worker has the init container, and a tag that
    never changes needs no check."""

    interpreter: Annotated[str, _command] = "python"
    """Program that runs the agent in the worker's own image: a name on its PATH, or a path. Must be Python 3.8 or
    newer. Defaults to python."""

    address: Annotated[str, _address] = ""
    """URL at which workers reach the rendezvous, as https://HOST[:PORT]. Defaults to the first of rendezvous.names, at
    the port that it listens on."""

    interface: Annotated[str, _interface] = "eth0"
    """Network interface of a worker's pod that collectives use. The container's variable GANGWRIGHT_IFACE overrides it.
    Defaults to eth0."""

    gloo_timeout: Annotated[float, kinds.seconds(1, 3600)] = 10.0
    """Seconds after which a collective gives up on a silent member. It bounds how long a lost node holds up its job.
    The bound is five times as long if the node is lost while members connect to each other, because gloo then retries.
    Defaults to 10 seconds: Horovod's own 30 s are for new workers that start cold, and Gangwright's are warm. The
    container's variable GANGWRIGHT_GLOO_TIMEOUT overrides it."""

    grace: Annotated[float, kinds.seconds(1, 3600)] = 60.0
    """Seconds between SIGTERM and SIGKILL if the job's template specifies none. Defaults to 1 minute, which is enough
    for a step, a resize and a checkpoint."""

    token_life: Annotated[float, kinds.seconds(600, kinds.DAY)] = 3600.0
    """Lifetime of a worker's token in seconds. The kubelet writes a new token when a fifth of it is left. Defaults to
    1 hour. The minimum of the API is 10 minutes."""

    confine: Annotated[Confinement, kinds.word(Confinement)] = Confinement.INGRESS
    """NetworkPolicy of a job. `ingress` admits only workers of the same job. `both` also limits egress to those
    workers, the rendezvous and DNS. That cuts off data in the network, but opens the required egress if a policy of the
    namespace denies all. `none` creates no policy. Defaults to ingress because collectives are not authenticated.
    """
