"""A PodDisruptionBudget of the API as a budget of the model.

The number of allowed disruptions is the API server's own count in the status: 0 until it is computed.
"""

from scheduler.model.workload import Budget
from scheduler.objects import api
from scheduler.objects.affinity import label_requirements


def budget(found: api.PodDisruptionBudget) -> Budget:
    """The budget. With an invalid selector it covers no pod, as for the API server."""
    meta = found.metadata
    return Budget(
        meta.namespace, meta.name, label_requirements(found.spec.selector), found.status.disruptions_allowed
    )
