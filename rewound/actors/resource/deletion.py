"""What a delete does to an object: graceful deletion, finalizers and propagation policies. Pure."""

from __future__ import annotations

from rewound.actors.errors import Forbidden
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import micros_of, seconds_text, wrapped_micros
from rewound.actors.messages import Delete, Object
from rewound.actors.resource.current import Current, check_delete
from rewound.actors.resource.proposing import Decision, Keep, Remove, Store

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


def is_pending(definition: Definition, current: Current, command: Delete) -> bool:
    """Whether a delete only repeats an earlier one whose grace period has not ended.

    Raises Forbidden or Conflict for what no admission plugin could allow.
    """
    if command.verb == "delete" and command.name in definition.deletion.undeletable:
        raise Forbidden(definition.resource, command.name, definition.deletion.undeletable[command.name])
    check_delete(definition, command.name, command.options, current)
    left, requested = grace_seconds(current.object["metadata"]), command.options.grace_period_seconds
    return bool(left) and (requested is None or (1 if requested < 0 else requested) >= left)


def decide_delete(definition: Definition, current: Current, command: Delete) -> Decision:
    """What a delete that is not pending does."""
    metadata, requested = current.object["metadata"], command.options.grace_period_seconds
    finalizers = _finalizers_for(_policy_of(definition, command, metadata), metadata.get("finalizers", []))
    if "deletionTimestamp" in metadata:
        if (left := grace_seconds(metadata)) and requested is not None:
            return _shorten_grace_period(definition, current.object, finalizers, left, requested)
        return _delete_while_finalizing(definition, current.object, finalizers)
    grace_period = definition.deletion.grace_period
    seconds = grace_period(current.object, requested) if grace_period else 0
    deleted = _with_deletion_timestamp(definition, current.object, finalizers, command.context.time, seconds)
    if definition.deletion.only_marked_first:
        return Store(deleted)
    return _store_or_remove(definition, deleted)


def _policy_of(definition: Definition, command: Delete, metadata: Object) -> str:
    """The propagation policy: of the request, or else of the finalizers, or else the default of the kind."""
    if not definition.deletion.has_dependents:
        return "Background"
    decided = not {ORPHAN, FOREGROUND}.isdisjoint(metadata.get("finalizers", ()))
    default = "Orphan" if definition.deletion.orphans_by_default and not decided else ""
    return command.options.propagation_policy or default


def _finalizers_for(policy: str, finalizers: list[str]) -> list[str]:
    if not policy:
        return finalizers
    kept = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        return [*kept, ORPHAN]
    return [*kept, FOREGROUND] if policy == "Foreground" else kept


def grace_seconds(metadata: Object) -> int:
    """The grace period of an object that is being deleted, in seconds."""
    seconds: int = metadata.get("deletionGracePeriodSeconds", 0)
    return seconds


def _shorten_grace_period(
    definition: Definition, current: Object, finalizers: list[str], left: int, requested: int
) -> Decision:
    """Delete an object in its grace period: a request can only shorten it."""
    wanted = 1 if requested < 0 else requested
    metadata = dict(current["metadata"])
    began = micros_of(metadata["deletionTimestamp"]) - wrapped_micros(left)
    metadata["deletionTimestamp"] = seconds_text(began + wrapped_micros(wanted))
    metadata["deletionGracePeriodSeconds"] = wanted
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    return _store_or_remove(definition, {**current, "metadata": metadata})


def _delete_while_finalizing(definition: Definition, current: Object, finalizers: list[str]) -> Decision:
    """Delete an object that waits for its finalizers: a request may still change the propagation policy."""
    metadata = current["metadata"]
    unchanged = set(finalizers) == set(metadata.get("finalizers", ()))
    if unchanged or definition.deletion.has_own_finalizers(current):
        return Keep() if definition.has_finalizers(current) else Remove()
    if not finalizers:
        return Remove()
    return Store({**current, "metadata": {**metadata, "finalizers": finalizers}})


def _with_deletion_timestamp(
    definition: Definition, current: Object, finalizers: list[str], time: int, seconds: int
) -> Object:
    """A copy of the object with deletionTimestamp, grace period and finalizers."""
    metadata = dict(current["metadata"])
    deleted = {**current, "metadata": metadata}
    metadata["deletionTimestamp"] = seconds_text(time + wrapped_micros(seconds))
    metadata["deletionGracePeriodSeconds"] = seconds
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    if metadata.get("generation"):
        metadata["generation"] += 1
    if definition.deletion.mark_deleted is not None:
        definition.deletion.mark_deleted(deleted)
    return deleted


def _store_or_remove(definition: Definition, deleted: Object) -> Decision:
    if definition.has_finalizers(deleted) or grace_seconds(deleted["metadata"]):
        return Store(deleted)
    return Remove(last=deleted if definition.deletion.grace_period else None)
