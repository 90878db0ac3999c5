"""Parts of the full view of one gang: its placement settings, excluded nodes, rejection, and terminating victims. Pure.

Lives here: one fact each, in the form of the status API. Never here: which gang, and the caller (`gang_views`).
"""

from scheduler.ledger.gang import GangRecord, Spec, Victim
from scheduler.model.decision import Reason, Refuse
from scheduler.model.policy import Policy
from scheduler.status import schemas
from scheduler.status.authorization import Sight


def wishes(policy: Policy, spec: Spec | Refuse | Reason) -> schemas.Wishes:
    """The effective placement settings of a gang with this spec."""
    wish = spec.wish if isinstance(spec, Spec) else None
    return schemas.Wishes(
        strategy=(wish and wish.strategy) or policy.strategy,
        level=(wish and wish.level) or policy.level,
        required=policy.required if wish is None or wish.required is None else wish.required,
        pin=(wish and wish.pin) or policy.pin,
        timeout=(wish and wish.timeout) or policy.timeout,
        expected_runtime=wish.expected_runtime if wish is not None else None,
        max_runtime=wish.max_runtime if wish is not None else None,
    )


def barred(record: GangRecord, now: float) -> list[schemas.BarRow]:
    """The nodes that are excluded for this gang now, by name."""
    bars = sorted(record.pinning.barred.items())
    return [schemas.BarRow(node, until) for node, (until, _) in bars if until > now]


def leaving(found: Victim, sight: Sight) -> schemas.LeavingRow:
    """A pod that is terminating for the gang."""
    sees = sight.sees(found.gang)
    return schemas.LeavingRow(
        id=sight.alias(found.gang),
        namespace=found.key.namespace if sees else None,
        pod=found.key.name if sees else None,
        way=found.way,
        accepted=found.accepted,
    )


def refusal(said: object) -> schemas.Refusal | None:
    """What the user must change; None if `said` is not a rejection."""
    return schemas.Refusal(said.field, said.value, said.remedy) if isinstance(said, Refuse) else None
