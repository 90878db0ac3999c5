"""What Gangwright was forbidden, as the audit log of an API server has it."""

from collections.abc import Iterable

from tests.plane.audit import Request


def forbidden(requests: Iterable[Request]) -> list[Request]:
    """Without those that nobody could make: the story was over, and its namespace is closed to everybody."""
    return [request for request in requests if "is being terminated" not in request.message]
