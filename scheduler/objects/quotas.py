"""A ResourceQuota of the API as a quota of the model.

Read only to say why pods are missing: the API server refuses them where a gang's quorum asks for more than its
namespace may have, and where others use so much of that now.
"""

from typing import Final

from scheduler.model.resources import PODS, InvalidQuantity
from scheduler.model.workload import Quota
from scheduler.objects import api
from scheduler.objects.pod_demand import is_counted, thousandths, whole

_REQUESTS: Final = "requests."


def quota(found: api.ResourceQuota) -> Quota:
    """The quota; scoped ones and amounts that cannot be read limit nothing here."""
    meta = found.metadata
    scoped = bool(found.spec.scopes) or found.spec.scope_selector is not None
    hard, used = ({}, {}) if scoped else (_counted(found.status.hard), _counted(found.status.used))
    return Quota(meta.namespace, meta.name, tuple(sorted(hard.items())), tuple(sorted(used.items())))


def _counted(said: api.Amounts) -> dict[str, int]:
    """What can be read of these amounts."""
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
