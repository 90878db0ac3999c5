"""Parts of what is told of one gang in full: its wishes, why it is refused, which pods leave for it. Pure.

Lives here: one fact each, as the status API has it. Never here: which gang, and who asks (`gang_views`).
"""

from scheduler.ledger.gang import Spec, Victim
from scheduler.model.decision import Reason, Refuse
from scheduler.model.policy import Policy
from scheduler.status import schemas
from scheduler.status.authorization import Sight


def wishes(policy: Policy, spec: Spec | Refuse | Reason) -> schemas.Wishes:
    """What holds for the placement of a gang that says this."""
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


def leaving(found: Victim, sight: Sight) -> schemas.LeavingRow:
    """A pod that leaves for the gang."""
    sees = sight.sees(found.gang)
    return schemas.LeavingRow(
        id=sight.alias(found.gang),
        namespace=found.key.namespace if sees else None,
        pod=found.key.name if sees else None,
        way=found.way,
        accepted=found.accepted,
    )


def refusal(said: object) -> schemas.Refusal | None:
    """What the user must change; None: this is no refusal."""
    return schemas.Refusal(said.field, said.value, said.remedy) if isinstance(said, Refuse) else None
