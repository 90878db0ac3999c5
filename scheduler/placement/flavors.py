"""The flavor of each node: nodes with the same devices of the same product, as in a ResourceFlavor of Kueue.

Lives here: the numbers of flavors, and how much of each is free. Never here: the choice of a node.
Memory does not count, because the allocatable memory of equal machines differs by some MiB.
"""

import numpy as np

from scheduler.model.cluster import PRODUCTS, Matrix, Snapshot
from scheduler.model.resources import Vector
from scheduler.placement.distribution import Codes


def flavors(snapshot: Snapshot) -> Codes:
    """Codes[n]: the number of each node's flavor, from 0."""
    labels = [snapshot.labels.get(key) for key in PRODUCTS]
    products = [column.codes for column in labels if column is not None]
    codes = np.zeros(len(snapshot.names), dtype=np.int64)
    for column in (*snapshot.capacity.T[list(snapshot.axis.devices)], *products):
        values, own = np.unique(column, return_inverse=True)
        codes = np.unique(codes * len(values) + own, return_inverse=True)[1]
    return codes


def free_share(snapshot: Snapshot, free: Matrix, flavor: Codes) -> Vector:
    """float64[n], 0 … 1: how much of all devices of the node's flavor is free, 0 if it has no devices.

    free: float64[n, r].  flavor: Codes[n].  The devices of cordoned nodes are not free.
    """
    left, whole = np.zeros(len(flavor)), np.zeros(len(flavor))
    for column in snapshot.axis.devices:
        left += np.maximum(free[:, column], 0) * snapshot.schedulable / snapshot.scale[column]
        whole += snapshot.capacity[:, column] / snapshot.scale[column]
    shares = np.bincount(flavor, left) / np.maximum(np.bincount(flavor, whole), 1e-300)
    return shares[flavor]
