"""What of a spec stands a second time in its object: in the status, for a master that is to come.

Lives here: the form in which it is kept, and how long it may be. Never here: what is kept, or why (`controller.accepted_spec`,
`reconciler.template_revision`).
"""

from typing import Any, Final

import msgspec

LIMIT: Final = 1 << 18
"""Bytes of a spec that is kept a second time in its object, of which etcd takes 1.5 MB; a long one has thousands."""


def kept(written: Any) -> Any:
    """It as it is kept: without nulls. None where it is too long, or too deep."""
    try:
        found = without_nulls(written)
        return found if len(msgspec.json.encode(found)) <= LIMIT else None
    except RecursionError:
        return None


def without_nulls(node: Any) -> Any:
    """A merge patch says with null that a field goes; a field without a value says no more than none. Raises
    RecursionError.
    """
    if isinstance(node, dict):
        return {key: without_nulls(value) for key, value in node.items() if value is not None}
    if isinstance(node, list):
        return [without_nulls(value) for value in node if value is not None]
    return node
