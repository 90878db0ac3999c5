"""Every label, annotation, gate, condition and name of ours, once; and those of others that we read.

Never here: what a value may say (`gangs`, `pod_annotations`).
"""

from typing import Final

OURS: Final = "gangwright.io/"
"""What begins like this is ours; the trust policy lets us write no other annotation."""

# What a user says of a gang
GANG: Final = OURS + "gang"
"""Label: the gang's name, inside its namespace."""
MIN_MEMBERS: Final = OURS + "min-members"
"""Annotation: the quorum, `5`, or a minimum for each role, `ps=1,worker=4`."""
MEMBERS: Final = OURS + "members"
"""Annotation: the full size, when known."""
ROLE: Final = OURS + "role"
STRATEGY: Final = OURS + "strategy"
LEVEL: Final = OURS + "level"
LEVEL_REQUIRED: Final = OURS + "level-required"
TIMEOUT: Final = OURS + "timeout"
"""Annotation: from the first ungating PATCH until the quorum must be bound."""
START_TIMEOUT: Final = OURS + "start-timeout"
"""Annotation: from the bind until a member must run."""
EXPECTED_RUNTIME: Final = OURS + "expected-runtime"
MAX_RUNTIME: Final = OURS + "max-runtime"
"""Annotation: from the bind of the quorum until the gang is ended for good."""
PIN: Final = OURS + "pin"
ON_MEMBER_LOSS: Final = OURS + "on-member-loss"
PREEMPTION: Final = OURS + "preemption"
"""Annotation: how this gang gives way, `evict` or `suspend`."""
CHECKPOINTED_AT: Final = OURS + "checkpointed-at"
"""Annotation, written by the training itself: when its last checkpoint was safe, as an RFC 3339 time."""
STAYS: Final = OURS + "stay-suspended"
"""Annotation of a suspended Job: it stays so until a person resumes it, though it was we who suspended it. It is a
person's word, or ours with the reason why the gang was ended.
"""
SURPLUS: Final = OURS + "surplus"
"""Label: `true` above the quorum, taken first."""

# What we write
PLAN: Final = OURS + "plan"
"""Annotation of a gang's first member: a seat for everybody, before anything else happens."""
SEAT: Final = OURS + "seat"
"""Annotation: the pod's node, and the plan it belongs to."""
PAUSED: Final = OURS + "paused"
"""Annotation of a Job that we suspended so that another gang had room: when, as an RFC 3339 time."""
ATTAINED: Final = OURS + "attained"
"""Annotation of a Job that we suspended: device-seconds that it has had so far."""
GATE: Final = OURS + "planned"
"""Scheduling gate that keeps a pod from kube-scheduler until its gang is seated."""
SEATED: Final = OURS + "Seated"
"""Condition of a pod: its gang has its seats."""
REPORTER: Final = OURS + "extender"
"""Reporting controller of our events."""
FIELD_MANAGER: Final = "gangwright"
"""Whose fields our PATCHes are, in `metadata.managedFields`."""
ELASTIC_KIND: Final = "ElasticJob"
ELASTIC_JOB: Final = OURS + "elastic-job"
"""Label of a worker: its ElasticJob's name."""
ELASTIC_ROLE: Final = OURS + "elastic-role"
"""Label of a worker: `core` or `surplus`."""
ELASTIC_NUMBER: Final = OURS + "elastic-number"
"""Annotation of a worker: its number among all that its ElasticJob ever had."""
ELASTIC_AVOIDS: Final = OURS + "elastic-avoids"
"""Annotation of a worker: the nodes that it was made to keep away from, with commas between them."""

# scheduler-plugins
PLUGINS_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label."""

# Volcano; all but the role are annotations, the role is both
VOLCANO_GROUP: Final = "scheduling.volcano.sh/group-name"
VOLCANO_GROUP_LEGACY: Final = "scheduling.k8s.io/group-name"
VOLCANO_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
VOLCANO_ROLE: Final = "volcano.sh/task-spec"
VOLCANO_TOPOLOGY: Final = "volcano.sh/network-topology-mode"
VOLCANO_TIER: Final = "volcano.sh/network-topology-highest-tier"

# Koordinator
KOORDINATOR_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
"""Label: the name of a PodGroup."""
KOORDINATOR_LIGHT: Final = "pod-group.scheduling.sigs.k8s.io/name"
KOORDINATOR_LIGHT_MIN: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
"""Labels of the format without a PodGroup."""
KOORDINATOR_GANG: Final = "gang.scheduling.koordinator.sh/name"
KOORDINATOR_MIN: Final = "gang.scheduling.koordinator.sh/min-available"
KOORDINATOR_TOTAL: Final = "gang.scheduling.koordinator.sh/total-number"
KOORDINATOR_WAIT: Final = "gang.scheduling.koordinator.sh/waiting-time"
KOORDINATOR_MODE: Final = "gang.scheduling.koordinator.sh/mode"
KOORDINATOR_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
KOORDINATOR_TOPOLOGY: Final = "gang.scheduling.koordinator.sh/network-topology-spec"

# Kueue
KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
"""Label or annotation."""
KUEUE_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_SLICE: Final = "kueue.x-k8s.io/podset-slice-required-topology"
KUEUE_SLICES: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
KUEUE_SPREAD: Final = "kueue.x-k8s.io/podset-topology-spreading"

# YuniKorn
YUNIKORN_APP: Final = "yunikorn.apache.org/app-id"
"""Label or annotation."""
YUNIKORN_APP_LEGACY: Final = "applicationId"
YUNIKORN_APP_SPARK: Final = "spark-app-selector"
YUNIKORN_ROLE: Final = "yunikorn.apache.org/task-group-name"
YUNIKORN_ROLES: Final = "yunikorn.apache.org/task-groups"
YUNIKORN_PARAMETERS: Final = "yunikorn.apache.org/schedulingPolicyParameters"

# KAI
KAI_GROUP: Final = "pod-group-name"
"""Annotation."""
KAI_ROLE: Final = "kai.scheduler/subgroup-name"
"""Label."""
KAI_MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
KAI_REQUIRED: Final = "kai.scheduler/topology-required-placement"
KAI_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
KAI_SEGMENT: Final = "kai.scheduler/segment-size"

_WRITTEN: Final = {PLAN, SEAT, GATE, SEATED, PAUSED, ATTAINED, ELASTIC_NUMBER, ELASTIC_AVOIDS}
SAID: Final = frozenset(
    value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str)
) - (_WRITTEN | {OURS, STAYS, CHECKPOINTED_AT})
"""Whatever says something of a gang: pods of a namespace that agree in these say the same. (A name too many here
would cost a little memory, nothing else.)"""

DISRUPTED: Final = "DisruptionTarget"
"""Kubernetes' own condition of a pod that the cluster ends."""
PREEMPTED_BY_GANG: Final = "PreemptedByGang"
"""The reason in it when we evicted the pod for a gang."""
