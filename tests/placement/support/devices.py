"""Books of the devices of one node, in whole thousandths: pods are placed one after the other, device by device."""


def put(row, wanted):
    """The devices of one node after one more pod, on the tightest devices that fit, the first of equal ones. None: full."""
    unit, count = (wanted, 1) if wanted < 1000 else (1000, wanted // 1000)
    fit = sorted((part, at) for at, part in enumerate(row) if part >= unit)
    if len(fit) < count:
        return None
    chosen = {at for _, at in fit[:count]}
    return [part - unit if at in chosen else part for at, part in enumerate(row)]


def most(row, wanted):
    """How many such pods one node holds, placed one by one."""
    count = 0
    while (row := put(row, wanted)) is not None:
        count += 1
    return count
