"""Server-side apply: merges a partial object into the live one and updates managedFields.

    live  data {a: 1, b: 1}   owners  m1 Apply a, b;  u1 Update b
    m1 applies {b: 1}     ->  a is removed: m1 no longer sets it and nobody else owns it
    m2 applies {b: 2}     ->  409, conflicts with m1 and u1; with force m2 alone owns b
    m2 applies {b: 1}     ->  shared

The steps: find the fields that the configuration sets, merge it in, prune the fields that the applier no longer sets,
and compare the result with the live object. Other managers may not own what differs. Values are compared as spelled and
before defaulting, so "1000m" differs from "1", and a reference without its apiVersion from one that has it. A result
equal to the live object makes no new version. The time of an entry is when its manager last changed a value: an applier
that only comes to share fields has none, and keeps the time it had when it only stops setting some.

The caller has decoded the configuration once, so its types are right; it may contain unknown fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.messages import Object
from actors.patch.managed_fields.applied_fields import applied_fields, extract
from actors.patch.managed_fields.comparison import compare
from actors.patch.managed_fields.conflicts import Conflict, refusal
from actors.patch.managed_fields.field_path import FIELD
from actors.patch.managed_fields.field_set import Fields, difference, intersection
from actors.patch.managed_fields.field_view import FieldView, FieldViews
from actors.patch.managed_fields.last_applied import previously_applied
from actors.patch.managed_fields.managers import APPLY, UPDATE, Entry, encode_entries, entries_of
from actors.patch.managed_fields.merging import merge
from actors.patch.managed_fields.ownership import Comparisons, without
from actors.patch.managed_fields.pruning import prune
from actors.time_limit import check_time

BEFORE_FIRST_APPLY: Final = "before-first-apply"
IDENTITY: Final = ("name", "namespace", "uid")


@dataclass(frozen=True, slots=True)
class Applied:
    object: Object | None  # in the applier's version, without defaults; None: the live object stays as it is
    managed_fields: list[Object]


@dataclass(frozen=True, slots=True)
class Applier:
    manager: str
    time: str
    force: bool = False
    annotation: str = ""  # where client-side apply keeps its last configuration; "" for other managers


def apply(
    views: FieldViews, view: FieldView, live: Object | None, config: Object, applier: Applier
) -> Applied:
    """`live` in storage form. Raises ApplyConflict, AmbiguousItems."""
    here = view.nothing if live is None else view.show(live)
    if not config.get("metadata"):
        config = {name: part for name, part in config.items() if name != "metadata"}
    own = applied_fields(view.shape, config)
    entries = _entries_before(view, live, here, applier.time)
    mine = Entry(applier.manager, APPLY, view.version, "", own, view.subresource)
    last = next((entry for entry in entries if entry.identity == mine.identity), None)
    others = [entry for entry in entries if entry is not last]
    wanted = merge(view.shape, here, config)
    if live is None:
        # The applier does not own these; the strategy of the kind decides about them, as for any create.
        aside = {name: config[name] for name in view.resets if config.get(name) is not None}
        wanted = {**wanted, **aside}
    if last is not None:
        now = [_translated(views, view, entry, live) for entry in others]
        # Never prune metadata: every applier sets it, if only to name the object.
        wanted = prune(view.shape, wanted, _translated(views, view, last, live), {METADATA: {}, **own}, now)
    comparisons = Comparisons(views, view, live, view.store(wanted))
    changes = comparisons.changes
    if changes and not applier.force:
        _refuse_conflicts(view, others, comparisons, here, applier)
    left = without(others, comparisons) if changes else others
    if own:
        known = last.time if last is not None else ""
        left.append(mine._replace(time=applier.time if changes or live is None else known))
    return Applied(wanted if changes or live is None else None, encode_entries(left))


def _entries_before(view: FieldView, live: Object | None, here: Object, time: str) -> list[Entry]:
    """Entries before this apply. An object without any gets one that owns everything: before-first-apply."""
    if live is None:
        return []
    entries = entries_of(live)
    if not entries:
        found = compare(view.shape, view.nothing, here).changed
        return (
            [Entry(BEFORE_FIRST_APPLY, UPDATE, view.version, time, found, view.subresource)] if found else []
        )
    return entries


def _translated(views: FieldViews, view: FieldView, entry: Entry, live: Object | None) -> Fields:
    """The fields of an entry in the applier's version: extracted, converted, and turned into a set again."""
    theirs = views.find(entry.version, view.subresource)
    if theirs is None:
        return {}
    if live is None or (theirs.show is view.show and theirs.store is view.store):
        return entry.fields
    held = extract(theirs.shape, theirs.show(live), entry.fields)
    named: Object = {}
    if theirs.is_custom:
        named = {name: live["metadata"][name] for name in IDENTITY if name in live["metadata"]}
    without_any = _applied_fields_of_part(theirs, view, {}, named)
    return difference(_applied_fields_of_part(theirs, view, held, named), without_any)


def _applied_fields_of_part(theirs: FieldView, view: FieldView, part: Object, named: Object) -> Fields:
    """`named`: metadata that no manager owns, and that the conversion of a custom kind needs."""
    whole = theirs.schema.decode_object(part, defaults=False).object
    if named:
        whole["metadata"] = {**whole.get("metadata", {}), **named}
    return applied_fields(view.shape, view.show(theirs.store(whole)))


def _refuse_conflicts(
    view: FieldView, others: list[Entry], comparisons: Comparisons, here: Object, applier: Applier
) -> None:
    conflicts = []
    for entry in others:
        check_time()
        changes = comparisons.in_version(entry.version)
        fields = intersection(entry.fields, changes.changed) if changes else {}
        if fields:
            conflicts.append(Conflict(entry, fields))
    if conflicts and applier.annotation:
        known = previously_applied(view, here, applier.annotation)
        conflicts = [
            Conflict(one.owner, left) for one in conflicts if (left := difference(one.fields, known))
        ]
    if conflicts:
        raise refusal(conflicts)


METADATA: Final = FIELD + "metadata"
