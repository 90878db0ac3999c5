# ruff: noqa: N818 - read as words where they are caught
"""What goes wrong inside the training child, as one small tree.

    BootError
    ├── AnswerError      the agent's answer is not what the protocol says: field, value, what would be right
    ├── RoundOver        nobody meets in this round any more; who is on the way into it turns back
    ├── StateMismatch    this worker's state has other tensors than rank 0's; both are named
    ├── SetupCollective  a newcomer's script asks the others for a value while it sets up; its line is named
    ├── Unmovable        what a training function reaches can be neither copied nor put back; it is named
    └── CheckpointError  a checkpoint cannot be written or read; the file and the reason are named

`Interrupted` is no error: it takes a training function out of its commit. Never here: Horovod's own exceptions; those
drive the loop and are caught there.
"""

from __future__ import annotations


class Interrupted(BaseException):
    """A newer round is announced, or the rehearsal is over. A script that catches every `Exception` around its commit
    does not catch it.
    """


class BootError(Exception):
    """The root of the tree."""


class AnswerError(BootError):
    """The agent answered something that the protocol does not know."""


class RoundOver(BootError):
    """The values of the round are gone, or a member that they are waited for from has ended."""


class StateMismatch(BootError):
    """The state here and the state of rank 0 cannot be synchronised."""


class SetupCollective(BootError):
    """A collective at a time when no other worker can answer it."""


class Unmovable(BootError):
    """An iterator, or an object of a library, that a rehearsal would leave changed."""


class CheckpointError(BootError):
    """A checkpoint that cannot be written or read."""
