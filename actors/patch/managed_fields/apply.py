"""Server-side apply: a partial object laid over the live one, with everybody's ownership kept straight.

    live  data {a: 1, b: 1}   owners  m1 Apply a, b;  u1 Update b
    m1 applies {b: 1}     ->  a goes: m1 gave it up and nobody else has it
    m2 applies {b: 2}     ->  refused, a conflict with m1 and u1; forced, b is m2's alone
    m2 applies {b: 1}     ->  shared

The steps: claim what the configuration names, merge it in, prune what the applier gave up, and compare the outcome
with the live object. What differs must be nobody else's: as it was spelled, before defaults, so that "1000m" is not "1"
and a reference without its version not one that has it. What comes out as the live object in the end makes no new
version. Entries say when their owner last changed something: one who only joins others has no time, and keeps what
time it had by giving up.

A configuration has been decoded once before it comes here, so its types are right; unknown fields may be in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.messages import Object
from actors.patch.managed_fields.claims import claimed, extract
from actors.patch.managed_fields.comparison import compare
from actors.patch.managed_fields.conflicts import Conflict, refusal
from actors.patch.managed_fields.field_path import FIELD
from actors.patch.managed_fields.field_set import Fields, difference, intersection
from actors.patch.managed_fields.field_view import Door, Doors
from actors.patch.managed_fields.last_applied import allowed
from actors.patch.managed_fields.managers import APPLY, UPDATE, Entry, entries_of, shown
from actors.patch.managed_fields.merging import merge
from actors.patch.managed_fields.ownership import Comparisons, without
from actors.patch.managed_fields.pruning import prune

BEFORE_FIRST_APPLY: Final = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Applied:
    object: Object | None  # in the applier's version, without defaults; None: the live object stays as it is
    managed_fields: list[Object]


@dataclass(frozen=True, slots=True)
class Applier:
    manager: str
    time: str
    force: bool = False
    annotation: str = ""  # where client-side apply keeps its last configuration; "" when that is no concern


def apply(doors: Doors, door: Door, live: Object | None, config: Object, applier: Applier) -> Applied:
    """`live` in storage form. Raises ApplyConflict, NotClaimable."""
    here = door.nothing if live is None else door.show(live)
    if not config.get("metadata"):
        config = {name: part for name, part in config.items() if name != "metadata"}
    own = claimed(door.shape, config)
    entries = _standing(door, live, here, applier.time)
    mine = Entry(applier.manager, APPLY, door.version, "", own, door.subresource)
    last = next((entry for entry in entries if entry.identity == mine.identity), None)
    others = [entry for entry in entries if entry is not last]
    wanted = merge(door.shape, here, config)
    if live is None:
        # Nobody's, but said: what becomes of it is for the kind to decide, as of any object that is created.
        aside = {name: config[name] for name in door.resets if config.get(name) is not None}
        wanted = {**wanted, **aside}
    if last is not None:
        now = [_translated(doors, door, entry, live) for entry in others]
        # Metadata is never given up: every applier names it, if only to say which object it means.
        wanted = prune(door.shape, wanted, _translated(doors, door, last, live), {METADATA: {}, **own}, now)
    comparisons = Comparisons(doors, door, live, door.store(wanted))
    changes = comparisons.changes
    if changes and not applier.force:
        _refuse_conflicts(door, others, comparisons, here, applier)
    left = without(others, comparisons) if changes else others
    if own:
        known = last.time if last is not None else ""
        left.append(mine._replace(time=applier.time if changes or live is None else known))
    return Applied(wanted if changes or live is None else None, shown(left))


def _standing(door: Door, live: Object | None, here: Object, time: str) -> list[Entry]:
    """Owners before this apply. What is there and nobody's belongs to a manager who stands for the past."""
    if live is None:
        return []
    entries = entries_of(live)
    if not entries:
        found = compare(door.shape, door.nothing, here).changed
        return (
            [Entry(BEFORE_FIRST_APPLY, UPDATE, door.version, time, found, door.subresource)] if found else []
        )
    return entries


def _translated(doors: Doors, door: Door, entry: Entry, live: Object | None) -> Fields:
    """What an owner has, in the applier's version: what its fields hold, converted, is looked for again."""
    theirs = doors.find(entry.version, door.subresource)
    if theirs is None:
        return {}
    if live is None or (theirs.show is door.show and theirs.store is door.store):
        return entry.fields
    held = extract(theirs.shape, theirs.show(live), entry.fields)
    return difference(_claims_of_part(theirs, door, held), _claims_of_part(theirs, door, {}))


def _claims_of_part(theirs: Door, door: Door, part: Object) -> Fields:
    whole = theirs.schema.decode_object(part, defaults=False).object
    return claimed(door.shape, door.show(theirs.store(whole)))


def _refuse_conflicts(
    door: Door, others: list[Entry], comparisons: Comparisons, here: Object, applier: Applier
) -> None:
    conflicts = []
    for entry in others:
        changes = comparisons.in_version(entry.version)
        fields = intersection(entry.fields, changes.changed) if changes else {}
        if fields:
            conflicts.append(Conflict(entry, fields))
    if conflicts and applier.annotation:
        known = allowed(door, here, applier.annotation)
        conflicts = [
            Conflict(one.owner, left) for one in conflicts if (left := difference(one.fields, known))
        ]
    if conflicts:
        raise refusal(conflicts)


METADATA: Final = FIELD + "metadata"
