"""What only the object of an owner tells about its pods: are they recreated at no cost, and will all of them ever exist.

Never here: what follows from it (`ledger`).
"""

import re
from typing import Final

from scheduler.model.cluster import DEFAULT_LEVELS, Level
from scheduler.model.decision import Reason
from scheduler.model.workload import Asleep, Complaint, Owner, OwnerTraits
from scheduler.objects import api, labels, times
from scheduler.objects.gangs import read

_FREE: Final = (
    ("ReplicaSet", "apps/"),
    ("ReplicationController", "v1"),
    (labels.ELASTIC_KIND, labels.OURS),
)
"""Kinds that are not watched and always recreate their pods at no cost, with the prefix of their API versions."""


_ENDED: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
"""Conditions of a Job that no longer creates pods."""


_MAKES_ALONE: Final = frozenset({"CronJob"})
"""Owners of Jobs that never resume a suspended Job."""


def of_reference(owner: Owner) -> OwnerTraits | None:
    """The traits that follow from the kind alone. None: the object itself must be read."""
    known = any(owner.kind == kind and owner.api_version.startswith(group) for kind, group in _FREE)
    return OwnerTraits(owner.uid, remakes_freely=True) if known else None


def job(found: api.Job, levels: tuple[Level, ...] = DEFAULT_LEVELS) -> OwnerTraits:
    """The traits of a Job. It counts a lost pod that never ran as a failure, unless one of two policies prevents that."""
    spec, meta = found.spec, found.metadata
    rules = (spec.pod_failure_policy.rules if spec.pod_failure_policy else None) or ()
    free = spec.pod_replacement_policy == "Failed" or any(map(_ignores_disruption, rules))
    said = meta.annotations or {}
    attained = re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,3})?", said.get(labels.ATTAINED, ""))  # as written
    stays = spec.suspend and labels.STAYS in said
    paused = labels.PAUSED in said and not stays
    return OwnerTraits(
        meta.uid,
        free,
        _deadline_warnings(spec.active_deadline_seconds),
        suspends=True,
        managed=next((own.uid for own in meta.owner_references or () if _manages(own)), ""),
        suspended=spec.suspend,
        paused=Owner("Job", meta.name, meta.uid, "batch/v1") if paused else None,
        namespace=meta.namespace,
        attained=float(attained.group()) if attained else 0.0,
        created=times.known(meta.creation_timestamp),
        asleep=_asleep(found, levels, paused=paused),
        succeeded=found.status.succeeded or 0,
        failed=found.status.failed or 0,
        ended=_has_ended(found),
        version=meta.resource_version,
    )


def _manages(owner: api.OwnerReference) -> bool:
    return bool(owner.controller) and owner.kind not in _MAKES_ALONE


def _has_ended(found: api.Job) -> bool:
    """A condition of `_ENDED` is True, or the Job is being deleted."""
    ended = any(own.type in _ENDED and own.status == "True" for own in found.status.conditions or ())
    return ended or found.metadata.deletion_timestamp is not None


def _asleep(found: api.Job, levels: tuple[Level, ...], *, paused: bool) -> Asleep | None:
    """What the pods of a suspended Job would specify about their gang."""
    meta, template = found.metadata, found.spec.template
    if not found.spec.suspend or _has_ended(found):
        return None
    said = template.metadata
    own = read(meta.namespace, said.labels or {}, said.annotations or {}, levels).membership
    exceeded = (meta.annotations or {}).get(labels.STAYS) == Reason.RUNTIME_EXCEEDED
    return Asleep(meta.name, template.spec.scheduler_name, own, paused, exceeded) if own is not None else None


def _ignores_disruption(rule: api.FailureRule) -> bool:
    patterns = rule.on_pod_conditions or ()
    return rule.action == "Ignore" and any(
        p.type == "DisruptionTarget" and p.status == "True" for p in patterns
    )


def _deadline_warnings(limit: int | None) -> tuple[Complaint, ...]:
    if limit is None:
        return ()
    remedy = "the deadline also runs while the gang waits; remove it, or add the expected wait"
    return (Complaint("spec.activeDeadlineSeconds", str(limit), remedy, fatal=False),)


def stateful_set(found: api.StatefulSet) -> OwnerTraits:
    own = one_by_one(found.spec.pod_management_policy)
    return OwnerTraits(found.metadata.uid, remakes_freely=True, warnings=(own,) if own else ())


def one_by_one(policy: str) -> Complaint | None:
    """The complaint about a gang's StatefulSet that creates a pod only after the previous one is ready."""
    if policy == "Parallel":
        return None
    remedy = "must be Parallel: pods are created one by one, so a gang of more than one never assembles"
    return Complaint("spec.podManagementPolicy", policy, remedy, fatal=False)
