"""What Gangwright was forbidden, as the audit log of an API server has it."""

from collections.abc import Callable, Iterable

from bench.plane.audit import Audit, Request
from bench.plane.installation import EXTENDER, GANGWRIGHT


def forbidden(requests: Iterable[Request]) -> list[Request]:
    """Without those that nobody could make: the story was over, and its namespace is closed to everybody."""
    return [request for request in requests if "is being terminated" not in request.message]


def check(audit: Audit, refused: Callable[[str], list[Request]] | None = None) -> None:
    """Looking back on a whole plane: both our accounts asked, and neither asked for what its role does not give it.

    refused: what an account was refused that counts; by default all of it.
    """
    for account in (EXTENDER, GANGWRIGHT):
        assert audit.used(account.user), f"{account.user} asked for nothing, so its rights were not tried"
        assert forbidden((refused or audit.refused)(account.user)) == []
