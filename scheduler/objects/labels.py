"""Every label, annotation, gate, condition and name of Gangwright, and those of other projects that it reads.

Never here: the valid values (`gangs`, `pod_annotations`).
"""

from typing import Final

OURS: Final = "gangwright.io/"
"""The prefix of Gangwright's keys. The trust policy forbids it to write any other annotation."""

# Set by users, for a gang
GANG: Final = OURS + "gang"
"""Label: the gang's name, inside its namespace."""
MIN_MEMBERS: Final = OURS + "min-members"
"""Annotation: the quorum, `5`, or a minimum for each role, `ps=1,worker=4`."""
MEMBERS: Final = OURS + "members"
"""Annotation: the full size, if known."""
ROLE: Final = OURS + "role"
STRATEGY: Final = OURS + "strategy"
LEVEL: Final = OURS + "level"
LEVEL_REQUIRED: Final = OURS + "level-required"
TIMEOUT: Final = OURS + "timeout"
"""Annotation: from the first ungating PATCH until the quorum must be bound."""
START_TIMEOUT: Final = OURS + "start-timeout"
"""Annotation: from the binding until a member must run."""
EXPECTED_RUNTIME: Final = OURS + "expected-runtime"
MAX_RUNTIME: Final = OURS + "max-runtime"
"""Annotation: from the binding of the quorum until the gang is ended for good."""
PIN: Final = OURS + "pin"
ON_MEMBER_LOSS: Final = OURS + "on-member-loss"
PREEMPTION: Final = OURS + "preemption"
"""Annotation: how this gang is preempted, `evict` or `suspend`."""
CHECKPOINTED_AT: Final = OURS + "checkpointed-at"
"""Annotation, written by the training itself: when its last checkpoint was complete, as an RFC 3339 time."""
STAYS: Final = OURS + "stay-suspended"
"""Annotation of a Job that Gangwright suspended: it stays suspended until a user resumes it. A user sets it, or
Gangwright sets it with the reason why it ended the gang.
"""
SURPLUS: Final = OURS + "surplus"
"""Label: `true` on members above the quorum, which are preempted first."""

# Written by Gangwright
PLAN: Final = OURS + "plan"
"""Annotation of a gang's first member: the seats of all members, written before any other change."""
SEAT: Final = OURS + "seat"
"""Annotation: the pod's node, and the plan that it belongs to."""
PAUSED: Final = OURS + "paused"
"""Annotation of a Job that Gangwright suspended for another gang: the time in RFC 3339."""
ATTAINED: Final = OURS + "attained"
"""Annotation of a Job that Gangwright suspended: the device-seconds that it has had so far."""
GATE: Final = OURS + "planned"
"""Scheduling gate that hides a pod from kube-scheduler until its gang is seated."""
SEATED: Final = OURS + "Seated"
"""Condition of a pod: its gang has its seats."""
REPORTER: Final = OURS + "extender"
"""Reporting controller of Gangwright's events."""
FIELD_MANAGER: Final = "gangwright"
"""The field manager of Gangwright's PATCHes, in `metadata.managedFields`."""
ELASTIC_KIND: Final = "ElasticJob"
ELASTIC_JOB: Final = OURS + "elastic-job"
"""Label of a worker: its ElasticJob's name."""
ELASTIC_ROLE: Final = OURS + "elastic-role"
"""Label of a worker: `core` or `surplus`."""
ELASTIC_NUMBER: Final = OURS + "elastic-number"
"""Annotation of a worker: its number among all workers that its ElasticJob ever had."""
ELASTIC_AVOIDS: Final = OURS + "elastic-avoids"
"""Annotation of a worker: the nodes that it must avoid, separated by commas."""

# scheduler-plugins
PLUGINS_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label."""

# Volcano; all keys are annotations, and the role is also a label
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
KAI_FRACTION: Final = "gpu-fraction"
KAI_MEMORY: Final = "gpu-memory"
KAI_DEVICES: Final = "gpu-fraction-num-devices"
"""Annotations of a pod that asks KAI for a part of a GPU. The pod requests no GPU in its resources."""
KAI_CONTAINER: Final = "nvidia.com/container."
"""Prefix of annotations that say the same for one container."""

_WRITTEN: Final = {PLAN, SEAT, GATE, SEATED, PAUSED, ATTAINED, ELASTIC_NUMBER, ELASTIC_AVOIDS}
SAID: Final = frozenset(
    value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str)
) - (_WRITTEN | {OURS, STAYS, CHECKPOINTED_AT})
"""All keys that describe a gang. Pods of a namespace with equal values for these describe the same gang. (An extra key
here would only cost a little memory.)"""

DISRUPTED: Final = "DisruptionTarget"
"""The Kubernetes condition of a pod that the cluster terminates."""
PREEMPTED_BY_GANG: Final = "PreemptedByGang"
"""The reason in this condition if Gangwright evicted the pod for a gang."""
