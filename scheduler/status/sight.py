"""Whose names somebody may read: those of the namespaces in which he may list pods.

Lives here: the rule, and the names that stand for gangs which he may not read. Never here: how it was found out.

Why a keyed hash: the page must colour one gang alike in every place and answer, and nobody may test his guesses of a
name against it. The key is made at start and never leaves the process.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.model.workload import GangKey

Alias = Callable[[GangKey], str]


@dataclass(frozen=True, slots=True)
class Sight:
    """What one asker may read. namespaces: None means all of them. unchecked: how many could not be asked about yet."""

    namespaces: frozenset[str] | None
    alias: Alias
    unchecked: int = 0

    def sees(self, key: GangKey) -> bool:
        return self.namespaces is None or key.namespace in self.namespaces


def aliases(secret: bytes) -> Alias:
    """Names that stand for gangs: 16 hexadecimal digits. secret: at most 64 bytes."""

    def alias(key: GangKey) -> str:
        return hashlib.blake2b(f"{key.namespace}\n{key.name}".encode(), key=secret, digest_size=8).hexdigest()

    return alias
