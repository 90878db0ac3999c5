# ruff: noqa: N818 - conditions, named as such where they are caught
"""Exceptions inside the training child, as one tree.

    BootError
    ├── AnswerError      the agent's answer violates the protocol; names field, value and valid values
    ├── RoundOver        the round cannot complete any more; members on the way into it turn back
    ├── StateMismatch    this worker's state has other tensors than rank 0's; names both
    ├── SetupCollective  a newcomer's script calls a collective during its setup; names its line
    ├── Unmovable        an object of the training function can be neither copied nor restored; names it
    └── CheckpointError  a checkpoint cannot be written or read; names the file and the reason

`Interrupted` is not an error: it takes a training function out of its commit. Never here: Horovod's own exceptions; the
loop handles those.
"""

from __future__ import annotations


class Interrupted(BaseException):
    """A newer round is announced, or the rehearsal is over. A script that catches every `Exception` around its commit
    does not catch it.
    """


class BootError(Exception):
    """Base class of the exceptions."""


class AnswerError(BootError):
    """The agent's answer violates the protocol."""


class RoundOver(BootError):
    """The values of the round are deleted, or a member that must publish one has ended."""


class StateMismatch(BootError):
    """The state of this worker and the state of rank 0 cannot be synchronized."""


class SetupCollective(BootError):
    """A collective was called when no other worker can answer it."""


class Unmovable(BootError):
    """A rehearsal would leave an iterator, or an object of a library, changed."""


class CheckpointError(BootError):
    """A checkpoint cannot be written or read."""
