"""The parts of a Pod of the API that name device claims. They belong to `api`, whose module is full."""

from scheduler.objects.api_affinity import Part


class PodClaim(Part):
    """A claim of a pod: a claim that exists, or the template of its own one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodClaimStatus(Part):
    """The claim that was created for a pod from a template. Without a name, the pod needs none."""

    name: str = ""
    resource_claim_name: str | None = None
