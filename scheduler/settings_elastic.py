"""The settings of the elastic master: where workers meet, how they prove who they are, and how much each may ask.

Lives here: one dataclass a section, as in `scheduler.settings`. Never here: a use of any of them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from scheduler import settings_reader as reader
from scheduler.model import names

_path = reader.text(r"[^\x00]{0,4096}", "must be a path")
_host = reader.text(r"[-A-Za-z0-9.:]{0,253}", "must be an address or a host name")
_name = reader.text(r"[-A-Za-z0-9.:]{1,253}", "must be an address or a host name")
_object = reader.text(f"({names.SUBDOMAIN})?", "must be the name of an object")
_dns_name = reader.text(names.SUBDOMAIN, "must be a name of lower-case letters, digits, '-' and '.'")
_identity = reader.text(r"[^\x00-\x1f]{0,253}", "must be a name of at most 253 characters")
_label = reader.text(
    names.LABEL_KEY,
    "must be the key of a taint, such as node.kubernetes.io/out-of-service",
)
_image = reader.text(r"\S{1,512}", "must be an image, such as registry.example/gangwright:0.1.0")
_command = reader.text(r"[^\x00\s]{1,4096}", "must be a name on the path or a path")
_address = reader.text(
    r"(https://[-A-Za-z0-9.:\[\]]{1,253})?", "must be an address such as https://rendezvous.example:10273"
)
_interface = reader.text(r"[-A-Za-z0-9_.:@]{1,15}", "must be the name of an interface, such as eth0")
_audience = reader.text(r"[\x21-\x7e]{1,253}", "must be one word, such as gangwright-elastic")


@dataclass(frozen=True, slots=True)
class RendezvousServer:
    """Where the workers of elastic jobs meet, over TLS always, and whom of them we believe."""

    host: Annotated[str, _host] = ""
    """Address to listen on. Empty: every one; workers come from all over the cluster, and TLS is never off."""

    port: Annotated[int, reader.whole(0, 65535)] = 10273
    """0: any that is free."""

    names: Annotated[tuple[str, ...], reader.many(_name, least=1, most=16)] = (
        "gangwright-elastic.gangwright-system.svc",
        "gangwright-elastic.gangwright-system",
        "gangwright-elastic",
    )
    """Names and addresses that our certificate is good for. Workers are told the first: the Service's, in full, because
    they live in other namespaces."""

    cert: Annotated[str, _path] = ""
    """File of our certificate, PEM, such as cert-manager keeps in a Secret. Empty: we make it ourselves. Read again
    when it changes."""

    key: Annotated[str, _path] = ""
    """File of the certificate's key, PEM."""

    ca: Annotated[str, _path] = ""
    """File of the authority that signed it, PEM; what workers check us by. Goes with rendezvous.cert. Read when we
    start, and told to a worker when it is made: before the next authority signs, let it hold that beside the old one,
    and have the workers of before made anew.
    """

    secret: Annotated[str, _object] = "gangwright-elastic-tls"  # noqa: S105 - the name of an object
    """Secret of our own namespace in which what we make is kept: workers know the authority for as long as they run,
    and another master must be able to go on under it."""

    folder: Annotated[str, _path] = ""
    """Folder in which it is kept instead, for a master outside of a cluster. Empty: the Secret."""

    audience: Annotated[str, _audience] = "gangwright-elastic"
    """Of the workers' tokens. Our own: a token for us opens nothing else, and no other token opens us."""

    remember: Annotated[float, reader.seconds(1, 60)] = 60.0
    """How long the API server's yes to a token counts. A pod that is gone is no worker at once, whatever its token
    says.
    """

    remember_refusal: Annotated[float, reader.seconds(0.1, 60)] = 5.0
    """How long its no counts: a token is written anew before it ends, and the new one is another."""

    outage: Annotated[float, reader.seconds(0, 86400)] = 3600.0
    """While tokens are not reviewed, how long one that was once believed is believed further, at most until its own end.
    0: not at all. Without it a minute in which reviews alone fail would silence every worker. An outage in which the
    Lease ends as well, after ten seconds, silences them until a master leads again; they train on.
    """

    beat: Annotated[float, reader.seconds(0.1, 60)] = 1.0
    """How often a worker says that it lives: after 0.6 to 1.25 times that, as its training reports. A hundred
    workers cost some hundredths of a core.
    """

    silent_after: Annotated[float, reader.seconds(1, 600)] = 5.0
    """A worker that was not heard for so long counts as lost; four beats, so that one lost packet is none. At least 5s:
    an agent gives up a beat after 1.5 s, and needs time for two more.
    """

    wait: Annotated[float, reader.seconds(0.1, 300)] = 30.0
    """Longest that a question waits for its answer; then it is asked again. Below the minute after which middle boxes
    drop a silent connection."""

    waits: Annotated[int, reader.whole(1, 65536)] = 512
    """Questions of one worker that wait at a time. Its mesh asks for the address of every other member at once."""

    body_limit: Annotated[int, reader.size(2**10, 2**26)] = 2**20
    """Largest body in bytes; a report with the end of a child's output takes some thousands."""

    value_limit: Annotated[int, reader.size(2**15, 2**24)] = 64 * 2**10
    """Largest value that members exchange, in bytes. Gloo's has 136 bytes for each other member, 23 KiB for 170 of them.
    The agent passes on none beyond 64 KiB."""

    keys: Annotated[int, reader.whole(2**11, 2**24)] = 16384
    """Values of one round. Horovod lays down eight a member, and four beside."""

    round_limit: Annotated[int, reader.size(2**23, 2**32)] = 8 * 2**20
    """Bytes of one round's values together, with their keys and 256 bytes for each. Horovod builds its mesh twice, so N
    members lay down 272 × N × (N − 1), and some words: 8 MiB do for 170 of them, as many as a job may have. Scripts with
    process sets of their own lay down more than this."""

    values_limit: Annotated[int, reader.size(2**23, 2**34)] = 128 * 2**20
    """Bytes of the values of all jobs together; a quarter of the memory that the manifests give the master. The values of
    a round are dropped when all members train, so this bounds how many meet at one moment: sixteen rings of 170, or 44 of
    100. When it is full, a member waits for up to `workers.glooTimeout` until others have met. After that Horovod ends
    the members, and the job begins again from its checkpoint."""

    connections: Annotated[int, reader.whole(4, 65536)] = 8192
    """Connections at a time, or as many as the process may open files, less 256. A worker keeps a few, and one for each
    question that waits; each takes 48 KiB at rest, all of them 384 MiB of the 512 in the manifests. At most 2,048 may
    not have shown a token yet, and for no longer than 10 s. Beyond a bound the oldest of these is closed; a quarter of
    all is left to them."""

    backlog: Annotated[int, reader.whole(512, 65535)] = 4096
    """Connections that may wait to be taken: all members of a job come in one moment, and who finds the queue full
    tries again after 1, 3 and 7 s. The kernel's own bound (net.core.somaxconn) cuts it, 4096 since Linux 5.4."""

    keep_alive: Annotated[float, reader.seconds(1, 3600)] = 75.0
    """How long an idle connection stays open; longer than the beat and than any wait."""

    @property
    def client_ca(self) -> str:
        """Nobody shows a certificate here: workers have tokens."""
        return ""

    @property
    def client_names(self) -> tuple[str, ...]:
        """None, as nobody shows a certificate."""
        return ()


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

    namespaces: Annotated[tuple[str, ...], reader.many(_dns_name)] = ()
    """Namespaces whose jobs are ours. None: all of them. With some, pods elsewhere are not seen, so nobody knows what
    room they leave: jobs ask for what they like, and surplus waits at its gate."""

    lease_namespace: Annotated[str, _dns_name] = "gangwright-system"
    """Namespace of the Lease by which one master acts; also of the Secret of `rendezvous.secret`."""

    lease_name: Annotated[str, _dns_name] = "gangwright-elastic"
    """Name of that Lease."""

    identity: Annotated[str, _identity] = ""
    """Who we are in it. Empty: $POD_NAME, under which a container that was started again goes on at once; else the name
    of this host and a word of chance."""

    sizing_every: Annotated[float, reader.seconds(0.1, 3600)] = 5.0
    """How often sizes are decided anew; every second while a job looks for its size. Else a quicker answer would change
    nothing: a worker takes some seconds to start."""

    status_every: Annotated[float, reader.seconds(0.1, 3600)] = 5.0
    """How often a job's figures are written into its status; what others must know before we go on is written at
    once.
    """

    doomed_taints: Annotated[tuple[str, ...], reader.many(_label)] = (
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "cloud.google.com/impending-node-termination",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "node.kubernetes.io/out-of-service",
    )
    """Taint keys by which others say that a node is about to go: its workers are replaced first, where there is room. A
    cordoned node always counts as one. By default those of the cluster autoscaler, Karpenter, GKE and AWS."""

    start_limit: Annotated[float, reader.seconds(1, 86400)] = 600.0
    """From a worker's seat until it is ready to train; then its seat is given back. Large images take minutes to pull.
    One that is seen to take steps alone, to its script's first commit, has two hours at least."""

    trouble_limit: Annotated[float, reader.seconds(1, 86400)] = 60.0
    """The same for a worker whose container cannot start for a named reason, such as an image that cannot be pulled: by
    then kubelet has tried a few times."""

    hang_limit: Annotated[float, reader.seconds(1, 86400)] = 600.0
    """A training that shows no progress for so long hangs, and the worker that holds up the others is killed; ten of
    its steps, if those take longer. Longer than anything that one rank does alone between two steps while the others
    wait: a validation, a file that it writes. In a round's first step, in which frameworks compile, five minutes pass
    at least."""

    save_limit: Annotated[float, reader.seconds(1, 86400)] = 600.0
    """For the worker that saves the state before the job pauses; then the save has failed. Tens of gigabytes to a
    network disk take minutes. As long may members be silent after the first of them has come to the training's end; who
    evaluates or exports is not, for an hour, or for the seconds of GANGWRIGHT_FINISH_LIMIT in its container."""

    release_limit: Annotated[float, reader.seconds(1, 86400)] = 30.0
    """For a worker that was told to leave, until its process has ended; then its pod is deleted."""

    reported: Annotated[Reported, reader.word(Reported)] = Reported.UID
    """What a job is called in the metric of the values that scripts report: by its uid, which tells nobody anything who
    may not read the job (kube-state-metrics has uids too, to join with); by `name`, as namespace/name, which then
    everybody reads who reads metrics; `none`: there is no such metric."""

    retry: Annotated[float, reader.seconds(0.05, 600)] = 1.0
    """Before a write of a job that was refused is tried again; doubles each time."""

    retry_limit: Annotated[float, reader.seconds(0.05, 3600)] = 60.0
    """Where the doubling ends: a person who mends a quota or a right waits so long at most."""


@dataclass(frozen=True, slots=True)
class Workers:
    """What the master writes into the pods of every job, beside the job's own template."""

    image: Annotated[str, _image] = "gangwright:0.1.0"
    """Our own image, from which an init container copies the agent into the worker."""

    pull_policy: Annotated[PullPolicy, reader.word(PullPolicy)] = PullPolicy.IF_NOT_PRESENT
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

    gloo_timeout: Annotated[float, reader.seconds(1, 3600)] = 10.0
    """After which a collective gives up on a member that says nothing, and with it the longest that a lost node holds
    up its job; but five times as long when the node goes in the tenths of a second in which members connect to each
    other, for so long gloo tries. Horovod's own 30 s serve newcomers that start cold; ours are warm.
    GANGWRIGHT_GLOO_TIMEOUT overrules it."""

    grace: Annotated[float, reader.seconds(1, 3600)] = 60.0
    """Between SIGTERM and SIGKILL where the job's template does not say: a step, a resize and a checkpoint."""

    token_life: Annotated[float, reader.seconds(600, 86400)] = 3600.0
    """Of a worker's token; kubelet writes a new one when a fifth of it is left. Ten minutes are the API's least."""

    confine: Annotated[Confinement, reader.word(Confinement)] = Confinement.INGRESS
    """The NetworkPolicy of a job. Collectives are not authenticated, so `ingress` lets in nobody but workers of the job
    itself; `both` also lets them out to nobody but each other, the rendezvous and DNS, which cuts off data in the
    network, and is their way out where a policy of the namespace denies all; `none`."""
