"""The elastic master: which jobs are its own, how often it looks, how long it waits, and what it writes into pods.

Lives here: one dataclass a section. Never here: a use of any of them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from scheduler.settings import kinds

_image = kinds.text(r"\S{1,512}", "must be an image, such as registry.example/gangwright:0.2.0")
_command = kinds.text(r"[^\x00\s]{1,4096}", "must be a name on the path or a path")
_address = kinds.text(
    r"(https://[-A-Za-z0-9.:\[\]]{1,253})?", "must be an address such as https://rendezvous.example:10273"
)
_interface = kinds.text(r"[-A-Za-z0-9_.:@]{1,15}", "must be the name of an interface, such as eth0")


class PullPolicy(StrEnum):
    """When kubelet asks for an image; the API's own words."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Confinement(StrEnum):
    """What the NetworkPolicy of a job closes."""

    NONE = "none"
    INGRESS = "ingress"
    BOTH = "both"


class Reported(StrEnum):
    """What a job is called in the metric of the values that its script reports."""

    NONE = "none"
    UID = "uid"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class ElasticMaster:
    """Which jobs the elastic master looks after, which of several masters does, and how often it looks and writes."""

    namespaces: Annotated[tuple[str, ...], kinds.many(kinds.dns_name)] = ()
    """Namespaces whose jobs are ours. None: all of them. With some, pods elsewhere are not seen, so the
    room that they leave is unknown: jobs ask for what they like, and surplus waits at its gate."""

    lease_namespace: Annotated[str, kinds.dns_name] = "gangwright-system"
    """Namespace of the Lease by which one master acts; also of the Secret of `rendezvous.secret`."""

    lease_name: Annotated[str, kinds.dns_name] = "gangwright-elastic"
    """Name of that Lease."""

    identity: Annotated[str, kinds.name] = ""
    """Who we are in it. Empty: $POD_NAME, under which a container that was started again goes on at once; else the name
    of this host and a word of chance."""

    sizing_every: Annotated[float, kinds.seconds(0.1, 3600)] = 5.0
    """Seconds between two decisions about sizes at the most. Sizes are also decided 0.2 s after capacity appears, and
    every second while a job searches for its size."""

    status_every: Annotated[float, kinds.seconds(0.1, 3600)] = 5.0
    """How often a job's figures are written into its status; what others must know before we go on is written at
    once.
    """

    doomed_taints: Annotated[tuple[str, ...], kinds.many(kinds.label_key)] = (
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "cloud.google.com/impending-node-termination",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "node.kubernetes.io/out-of-service",
    )
    """Taint keys by which others say that a node is about to go: its workers are replaced first, where there is room. A
    cordoned node always counts as one. By default those of the cluster autoscaler, Karpenter, GKE and AWS."""

    start_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 600.0
    """From a worker's seat until it is ready to train; then its seat is given back. Large images take minutes to pull.
    One that is seen to take steps alone, to its script's first commit, has two hours at least."""

    trouble_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 60.0
    """The same for a worker whose container cannot start for a named reason, such as an image that cannot be pulled: by
    then kubelet has tried a few times."""

    hang_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 600.0
    """A training that shows no progress for so long hangs, and the worker that holds up the others is killed; ten of
    its steps, if those take longer. Longer than anything that one rank does alone between two steps while the others
    wait: a validation, a file that it writes. In a round's first step, in which frameworks compile, five minutes pass
    at least."""

    save_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 600.0
    """For the worker that saves the state before the job pauses; then the save has failed. Tens of gigabytes to a
    network disk take minutes. As long may members be silent after the first of them has come to the training's end; who
    evaluates or exports is not, for an hour, or for the seconds of GANGWRIGHT_FINISH_LIMIT in its container."""

    release_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = 30.0
    """For a worker that was told to leave, until its process has ended; then its pod is deleted."""

    reported: Annotated[Reported, kinds.word(Reported)] = Reported.UID
    """What a job is called in the metric of the values that scripts report: by its `uid`, which means nothing to a
    reader without rights on the job (kube-state-metrics has uids too, to join with); by `name`, as namespace/name, which
    all readers of metrics then see; `none`: there is no such metric."""

    retry: Annotated[float, kinds.seconds(0.05, 600)] = 1.0
    """Before a write of a job that was refused is tried again; doubles each time."""

    retry_limit: Annotated[float, kinds.seconds(0.05, 3600)] = 60.0
    """Where the doubling ends: a person who mends a quota or a right waits so long at most."""


@dataclass(frozen=True, slots=True)
class Workers:
    """What the master writes into the pods of every job, beside the job's own template."""

    image: Annotated[str, _image] = "gangwright:0.2.0"
    """Our own image, from which an init container copies the agent into the worker."""

    pull_policy: Annotated[PullPolicy, kinds.word(PullPolicy)] = PullPolicy.IF_NOT_PRESENT
    """Of that image. Every worker has the init container, so a tag that never changes need not be asked about."""

    interpreter: Annotated[str, _command] = "python"
    """What runs the agent in the worker's own image: a name on its path, or a path; Python 3.8 or newer."""

    address: Annotated[str, _address] = ""
    """Where workers reach the rendezvous, as https://HOST[:PORT]. Empty: the first of rendezvous.names, at the port it
    listens on."""

    interface: Annotated[str, _interface] = "eth0"
    """Network interface of a worker's pod; collectives go by it. A container's variable GANGWRIGHT_IFACE overrules
    it.
    """

    gloo_timeout: Annotated[float, kinds.seconds(1, 3600)] = 10.0
    """After which a collective gives up on a member that says nothing, and with it the longest that a lost node holds
    up its job; but five times as long when the node goes in the tenths of a second in which members connect to each
    other, for so long gloo tries. Horovod's own 30 s serve newcomers that start cold; ours are warm.
    GANGWRIGHT_GLOO_TIMEOUT overrules it."""

    grace: Annotated[float, kinds.seconds(1, 3600)] = 60.0
    """Between SIGTERM and SIGKILL where the job's template does not say: a step, a resize and a checkpoint."""

    token_life: Annotated[float, kinds.seconds(600, kinds.DAY)] = 3600.0
    """Of a worker's token; kubelet writes a new one when a fifth of it is left. Ten minutes are the API's least."""

    confine: Annotated[Confinement, kinds.word(Confinement)] = Confinement.INGRESS
    """The NetworkPolicy of a job. Collectives are not authenticated, so `ingress` lets in only workers of the job
    itself; `both` also lets them out only to each other, the rendezvous and DNS, which cuts off data in the
    network, and is their way out where a policy of the namespace denies all; `none`."""
