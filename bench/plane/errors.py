"""What can go wrong with the local plane, as one tree.

PlaneError
├── ToolchainMissingError  neither Go nor a way to install it
├── BuildError             `go build` ended with an error
├── NotReadyError          a program ended, or did not answer in time
├── DescriptionError       nodes, identities or configurations that mean nothing
├── CommandError           kubectl ended with an error
├── NeverCameError         what a test waited for did not come true in time
└── ApiError               the API server's own refusal, with status and reason
"""


class PlaneError(Exception):
    """Any trouble of the local plane."""


class ToolchainMissingError(PlaneError):
    """Neither `go` of the needed version nor a way to install it."""


class BuildError(PlaneError):
    """`go build` ended with an error; the message shows its last lines."""


class NotReadyError(PlaneError):
    """A program ended or stayed silent; the message shows the end of its log."""


class DescriptionError(PlaneError):
    """A description that cannot be meant: the message names field, value and what would be right."""


class CommandError(PlaneError):
    """kubectl ended with an error; the message is what it said."""


class NeverCameError(PlaneError, TimeoutError):
    """What was waited for did not come true in time; the message shows the last state seen."""


class ApiError(PlaneError):
    """An answer of the API server above 399."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
