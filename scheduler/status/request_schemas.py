"""The JSON that the status API takes, as frozen structs."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from scheduler.model import names


class Asked(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What is taken. A field that is not known is an error: it was meant to say something."""


class Nothing(Asked, frozen=True):
    """An empty object: the path says it all."""


class TrialPods(Asked, frozen=True):
    """Pods that are alike."""

    pod: dict[str, Any]
    """A Pod as Kubernetes writes it; its name may be left out."""
    count: Annotated[float, Meta(ge=1, le=4096, multiple_of=1)] = 1
    """A whole number; to JSON 4.0 is one."""


class TrialRequest(Asked, frozen=True):
    """What to try out: the pods of one gang, or pods of which each is a gang of its own."""

    pods: Annotated[list[TrialPods], Meta(min_length=1, max_length=64)]
    namespace: Annotated[str, Meta(pattern=f"^{names.NAMESPACE}$")] = "default"
    """Where the pods would be; one that a pod names itself must be the same."""
