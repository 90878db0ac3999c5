"""API objects, as far as Gangwright reads them. msgspec decodes only the fields declared here.

Never here: the meaning of a field. Every field may be missing, and every list or mapping may be null, as Go writes
them. A field of the wrong type cannot come from the API server and is a decoding error. Objects of custom resource
definitions may hold any value, so their `spec` is read by hand (`groups`).
"""

from typing import Any, TypeAlias

from msgspec import field

from scheduler.objects.api_affinity import (
    Affinity,
    LabelSelector,
    Part,
    SpreadConstraint,
    Texts,
    Toleration,
)
from scheduler.objects.pod_claims_api import PodClaim, PodClaimStatus

Quantity: TypeAlias = str | int | float
"""The API server writes text. Files written by hand may also hold numbers."""

Amounts: TypeAlias = dict[str, Quantity] | None


class Present(Part):
    """A field that only matters by its presence."""


class OwnerReference(Part):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Meta(Part):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Texts = None
    annotations: Texts = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None


class _Object(Part):
    metadata: Meta


# Pod


class ResourceRequirements(Part):
    requests: Amounts = None
    limits: Amounts = None


class ContainerPort(Part):
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Part):
    name: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class Gate(Part):
    name: str = ""


class ClaimSource(Part):
    claim_name: str = ""


class Volume(Part):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: Present | None = None
    aws_elastic_block_store: Present | None = None
    iscsi: Present | None = None
    rbd: Present | None = None


class PodSpec(Part):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Amounts = None
    resources: ResourceRequirements | None = None
    node_name: str = ""
    node_selector: Texts = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduler_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[Gate] | None = None
    scheduling_group: Present | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    resource_claims: list[PodClaim] | None = None
    volumes: list[Volume] | None = None


class Condition(Part):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class WaitingState(Part):
    reason: str = ""
    message: str = ""


class TerminatedState(Part):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None


class ContainerState(Part):
    waiting: WaitingState | None = None
    running: Present | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(Part):
    name: str = ""
    state: ContainerState | None = None
    restart_count: int = 0
    allocated_resources: Amounts = None
    resources: ResourceRequirements | None = None


class PodStatus(Part):
    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: Amounts = None
    resources: ResourceRequirements | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None


class Pod(_Object):
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


# Node


class Taint(Part):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Part):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(Part):
    allocatable: Amounts = None


class Node(_Object):
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class Namespace(_Object):
    """Only its labels matter."""


# Owners


class ConditionPattern(Part):
    type: str = ""
    status: str = "True"


class FailureRule(Part):
    action: str = ""
    on_pod_conditions: list[ConditionPattern] | None = None


class FailurePolicy(Part):
    rules: list[FailureRule] | None = None


class TemplateMeta(Part):
    labels: Texts = None
    annotations: Texts = None


class TemplateSpec(Part):
    scheduler_name: str = ""


class PodTemplate(Part):
    metadata: TemplateMeta = field(default_factory=TemplateMeta)
    spec: TemplateSpec = field(default_factory=TemplateSpec)


class JobSpec(Part):
    pod_replacement_policy: str | None = None
    pod_failure_policy: FailurePolicy | None = None
    active_deadline_seconds: int | None = None
    suspend: bool = False
    template: PodTemplate = field(default_factory=PodTemplate)


class JobStatus(Part):
    conditions: list[Condition] | None = None
    succeeded: int | None = None
    failed: int | None = None


class VersionedMeta(Meta):
    """Metadata of objects that Gangwright changes only in the version that it has read."""

    resource_version: str = ""


class Job(Part):
    metadata: VersionedMeta
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class StatefulSetSpec(Part):
    pod_management_policy: str = "OrderedReady"


class StatefulSet(_Object):
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)


# Quota


class QuotaSpec(Part):
    scopes: list[str] | None = None
    scope_selector: Present | None = None


class QuotaStatus(Part):
    hard: Amounts = None
    used: Amounts = None


class ResourceQuota(_Object):
    spec: QuotaSpec = field(default_factory=QuotaSpec)
    status: QuotaStatus = field(default_factory=QuotaStatus)


# Disruption budget


class BudgetSpec(Part):
    selector: LabelSelector | None = None


class BudgetStatus(Part):
    disruptions_allowed: int = 0


class PodDisruptionBudget(_Object):
    spec: BudgetSpec = field(default_factory=BudgetSpec)
    status: BudgetStatus = field(default_factory=BudgetStatus)


# Pod groups, one type per format


class _PodGroup(_Object):
    spec: Any = None


class PluginsPodGroup(_PodGroup):
    """`scheduling.x-k8s.io/v1alpha1`."""


class VolcanoPodGroup(_PodGroup):
    """`scheduling.volcano.sh/v1beta1`."""


class KoordinatorPodGroup(_PodGroup):
    """`scheduling.sigs.k8s.io/v1alpha1`."""


class KaiPodGroup(_PodGroup):
    """`scheduling.run.ai/v2alpha2`."""


PodGroup: TypeAlias = PluginsPodGroup | VolcanoPodGroup | KoordinatorPodGroup | KaiPodGroup
ApiObject: TypeAlias = (
    Pod | Node | Namespace | Job | StatefulSet | ResourceQuota | PodDisruptionBudget | PodGroup
)
