"""A ResourceQuota of the API as a quota of the model.

Read only to say what will never work: a gang whose quorum asks for more than its namespace may have is never
complete, because the API server refuses its last pods. Whether there is room in the quota *now* is the API
server's business.
"""

from typing import Final

from scheduler.model.resources import InvalidQuantity
from scheduler.model.workload import Quota
from scheduler.objects import api
from scheduler.objects.requests import is_counted, thousandths, whole

_REQUESTS: Final = "requests."
_PODS: Final = "pods"


def quota(found: api.ResourceQuota) -> Quota:
    """The quota; scoped ones and amounts that cannot be read limit nothing here."""
    meta = found.metadata
    scoped = bool(found.spec.scopes) or found.spec.scope_selector is not None
    hard: dict[str, int] = {}
    for said, text in ({} if scoped else found.status.hard or {}).items():
        name = said.removeprefix(_REQUESTS)
        try:
            if name == _PODS:
                hard[name] = thousandths(text) // 1000
            elif is_counted(name):
                hard |= whole({name: thousandths(text)})
        except InvalidQuantity:
            continue
    return Quota(meta.namespace, meta.name, tuple(sorted(hard.items())))
