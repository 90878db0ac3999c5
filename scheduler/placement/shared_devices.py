"""Shares of single devices: how many members the devices of a node hold, and what they leave.

A share needs one device with that much left, and takes the tightest that fits. A member with whole devices takes idle
ones. Ties go to the first device. Lives here: arithmetic within nodes, for all nodes at once. Never here: the choice
between nodes.
Source: the rules of the openb traces of FGD (Weng et al., USENIX ATC '23).
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from scheduler.model.cluster import DEVICE, Devices, Matrix
from scheduler.placement.distribution import Counts


def held_by(devices: Matrix, wanted: float) -> Counts:
    """Counts[n]: how many members with this request each row of devices holds.

    devices: float64[n, d], as in `Devices`.  wanted: thousandths. A part of a device besides whole ones never fits.
    """
    if wanted > DEVICE and wanted % DEVICE:
        return np.zeros(len(devices))
    pieces: Counts = np.maximum(devices // min(wanted, DEVICE), 0).sum(axis=1)
    return pieces if wanted <= DEVICE else pieces // (wanted // DEVICE)


def left_by(devices: Matrix, wanted: float, take: Counts) -> Matrix:
    """float64[n, d]: the devices after take[n] members with this request, which must fit, were seated one by one.

    The devices of a node fill up in ascending order of their free part: the tightest device stays the tightest until it
    no longer fits.
    """
    rows = np.flatnonzero(take)
    free, unit = devices[rows], min(wanted, DEVICE)
    order = np.argsort(np.where(free < unit, np.inf, free), axis=1, kind="stable")
    line = np.take_along_axis(free, order, axis=1)
    pieces = np.maximum(line // unit, 0)
    before = np.cumsum(pieces, axis=1) - pieces
    needed = take[rows] * (wanted // unit)
    line -= np.clip(needed[:, None] - before, 0, pieces) * unit
    np.put_along_axis(free, order, line, axis=1)
    left = devices.copy()
    left[rows] = free
    return left


def limited(most: Counts, devices: Devices | None, amounts: Iterable[tuple[int, float]]) -> Counts:
    """The array `most`, lowered to what single devices hold.  amounts: for each column, the request of a member."""
    if devices is not None:
        for column, wanted in amounts:
            if column == devices.column:
                np.minimum(most, held_by(devices.free, wanted), out=most)
    return most


def seated(devices: Devices, amounts: Iterable[tuple[int, float]], take: Counts) -> Devices:
    """The devices after take[n] members with these requests were seated.

    A plan names nodes, and this function derives the devices. For members of several demands on one node, the result
    depends on the order in which the demands are seated.
    """
    for column, wanted in amounts:
        if column == devices.column:
            devices = replace(devices, free=left_by(devices.free, wanted, take))
    return devices
