"""A ResourceQuota of the API as a quota of the model.

Quotas only explain why pods are missing. The API server rejects pods if the gang's quorum needs more than its namespace
may have, or more than other pods leave of it now.
"""

from typing import Final

from scheduler.model.resources import PODS, InvalidQuantity
from scheduler.model.workload import Quota
from scheduler.objects import api
from scheduler.objects.pod_demand import is_counted, thousandths, whole

_REQUESTS: Final = "requests."


def quota(found: api.ResourceQuota) -> Quota:
    """The quota. Scoped quotas and invalid amounts count as no limit."""
    meta = found.metadata
    scoped = bool(found.spec.scopes) or found.spec.scope_selector is not None
    hard, used = ({}, {}) if scoped else (_counted(found.status.hard), _counted(found.status.used))
    return Quota(meta.namespace, meta.name, tuple(sorted(hard.items())), tuple(sorted(used.items())))


def _counted(said: api.Amounts) -> dict[str, int]:
    """The valid ones of these amounts."""
    amounts: dict[str, int] = {}
    for full, text in (said or {}).items():
        name = full.removeprefix(_REQUESTS)
        try:
            if name == PODS:
                amounts[name] = thousandths(text) // 1000
            elif is_counted(name):
                amounts |= whole({name: thousandths(text)})
        except InvalidQuantity:
            continue
    return amounts
