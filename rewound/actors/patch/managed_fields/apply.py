"""Server-side apply: merges a partial object into the live one and updates managedFields.

    live  data {a: 1, b: 1}   owners  m1 Apply a, b;  u1 Update b
    m1 applies {b: 1}     ->  a is removed: m1 no longer sets it and nobody else owns it
    m2 applies {b: 2}     ->  409, conflicts with m1 and u1; with force m2 alone owns b
    m2 applies {b: 1}     ->  shared

The steps: find the fields that the configuration sets, merge it in, prune the fields that the applier no longer sets,
and compare the result with the live object. Other managers may not own what differs. Values are compared as spelled
and before defaulting, so "1000m" differs from "1", and a reference without its apiVersion from one that has it. A
result equal to the live object makes no new version. The time of an entry is when its manager last changed a value:
an applier that only begins to share fields has none, and one that only stops setting some keeps its time.

The caller has decoded the configuration once, so its types are right; it may contain unknown fields.

Applied fields: a map key and a list entry are members of the set together with what they contain. A struct field is a
member only when it is null or empty, otherwise only its content is: so two appliers can share a struct that neither
of them owns.

    {"metadata": {"labels": {"a": "1"}}, "data": {}}     {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {}}

Merging: applied values win, nothing is removed. A null or empty map in a configuration owns the field without
changing it, so a live map stays as it is; null replaces a single value, and then decoding drops it from built-in
kinds, while the schema of a custom kind says whether it may stay. The order of keyed lists is the applier's; entries
that only the live list has stay behind the shared entry that they followed:

    live a b c x, applied c a b    ->  c x a b
    live a b,     applied c b      ->  a c b

The live object does not change; the result shares its unchanged parts.

Pruning: `last` is what the applier owned before, `own` what it owns now, `others` what all other managers own. A part
is removed when the applier owned it and nobody owns it now, or nobody owns an enclosing part that the applier owned:

    last data.a, data.b; now data.a                      ->  removes data.b
    last data.a; now nobody owns anything in data        ->  removes data, with the defaults in it
    last containers[c] and its image; now nobody         ->  removes the whole container

Fields of a struct count as owned when anything in them is; keys and entries only when they are members themselves.

Migration from client-side apply: a client that changes to server-side apply under its usual manager name has no
conflicts over fields that the annotation contains and the live object still has. Its applies keep the annotation
current, so that the client can change back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from rewound.actors.errors import ApplyConflict, Cause
from rewound.actors.golang.json import dumps
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.declaration.definition import ConvertByWebhook
from rewound.actors.kinds.declaration.meta import MAX_ANNOTATION_BYTES
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields import field_set
from rewound.actors.patch.managed_fields.comparison import compare
from rewound.actors.patch.managed_fields.field_set import (
    FIELD,
    HERE,
    WHOLE,
    Fields,
    Path,
    difference,
    in_order,
    intersection,
    is_member,
    members,
    path_text,
)
from rewound.actors.patch.managed_fields.field_view import FieldView, FieldViews
from rewound.actors.patch.managed_fields.managers import APPLY, UPDATE, Entry, encode_entries, entries_of
from rewound.actors.patch.managed_fields.ownership import Comparisons, no_conversion, without
from rewound.actors.patch.managed_fields.topology import (
    Dictionary,
    Divided,
    Entries,
    Items,
    Leaf,
    Open,
    Record,
    Repeated,
    Shape,
)
from rewound.actors.runtime.time_limit import check_time

BEFORE_FIRST_APPLY: Final = "before-first-apply"
IDENTITY: Final = ("name", "namespace", "uid")


class Applied(msgspec.Struct, frozen=True):
    object: Object | None  # in the applier's version, without defaults; None: the live object stays as it is
    managed_fields: list[Object]


class Applier(msgspec.Struct, frozen=True):
    manager: str
    time: str
    force: bool = False
    annotation: str = ""  # with the last client-side configuration; "" for other managers


async def apply(
    views: FieldViews,
    view: FieldView,
    live: Object | None,
    config: Object,
    applier: Applier,
    convert: ConvertByWebhook = no_conversion,
) -> Applied:
    """Merge a configuration into `live`, which is in storage form. It waits only where `convert` does.

    Raises ApplyConflict if other managers own fields that would change, AmbiguousItems if list entries share keys.
    """
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
        # The applier does not own these fields; the strategy of the kind decides about them, as for any create.
        aside = {name: config[name] for name in view.resets if config.get(name) is not None}
        wanted = {**wanted, **aside}
    if last is not None:
        translate = _Translation(views, view, live, convert)
        now = [await translate(entry) for entry in others]
        # Never prune metadata: every applier sets it, if only to name the object.
        wanted = prune(view.shape, wanted, await translate(last), {METADATA: {}, **own}, now)
    comparisons = Comparisons(views, view, live, view.store(wanted), convert)
    changes = comparisons.changes
    if changes and not applier.force:
        await _refuse_conflicts(view, others, comparisons, here, applier)
    left = await without(others, comparisons) if changes else others
    is_new = bool(changes) or live is None or (view.keeps_order and wanted != here)
    if own:
        known = last.time if last is not None else ""
        left.append(mine._replace(time=applier.time if is_new else known))
    return Applied(wanted if is_new else None, encode_entries(left))


def _entries_before(view: FieldView, live: Object | None, here: Object, time: str) -> list[Entry]:
    """Return the entries before this apply. Without any, one entry owns everything: before-first-apply."""
    if live is None:
        return []
    entries = entries_of(live)
    if not entries:
        found = compare(view.shape, view.nothing, here).changed
        return (
            [Entry(BEFORE_FIRST_APPLY, UPDATE, view.version, time, found, view.subresource)] if found else []
        )
    return entries


class _Translation:
    """Translates the fields of an entry to the applier's version: extracts values, converts them, finds the fields
    again.
    """

    def __init__(
        self, views: FieldViews, view: FieldView, live: Object | None, convert: ConvertByWebhook
    ) -> None:
        self._views, self._view, self._live, self._convert = views, view, live, convert

    async def __call__(self, entry: Entry) -> Fields:
        theirs, live = self._views.find(entry.version, self._view.subresource), self._live
        if theirs is None:
            return {}
        if live is None or (theirs.show is self._view.show and theirs.store is self._view.store):
            return entry.fields
        held = extract(theirs.shape, await theirs.shown(live, self._convert), entry.fields)
        named: Object = {}
        if theirs.is_custom:
            named = {name: live["metadata"][name] for name in IDENTITY if name in live["metadata"]}
        without_any = await self._applied_fields_of_part(theirs, {}, named)
        return difference(await self._applied_fields_of_part(theirs, held, named), without_any)

    async def _applied_fields_of_part(self, theirs: FieldView, part: Object, named: Object) -> Fields:
        """`named` is metadata that no manager owns, but that the conversion of a custom kind needs."""
        whole = theirs.schema.decode_object(part, defaults=False).object
        if named:
            whole["metadata"] = {**whole.get("metadata", {}), **named}
        stored = await theirs.stored(whole, self._convert)
        return applied_fields(self._view.shape, self._view.show(stored))


async def _refuse_conflicts(
    view: FieldView, others: list[Entry], comparisons: Comparisons, here: Object, applier: Applier
) -> None:
    conflicts = []
    for entry in others:
        check_time()
        changes = await comparisons.in_version(entry.version)
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


class AmbiguousItems(Exception):
    """List entries of a configuration have equal or missing keys."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: Path = ()

    def __str__(self) -> str:
        return f"{field_set.path_text(self.path)}: {self.why}"


def applied_fields(shape: Divided, config: Any) -> Fields:
    if type(shape) is Record:
        return _of_record(shape, config)
    parts = shape.parts(config)
    if type(shape) is not Dictionary:
        refuse_ambiguous(shape, config, parts)
    inner = shape.part("")
    if type(inner) is Leaf:
        return dict.fromkeys(sorted(parts), WHOLE)
    fields: Fields = {}
    for element in sorted(parts):
        node = _fields_of_part(inner, element, parts[element])
        fields[element] = {HERE: {}, **node} if node else {}
    return fields


def _of_record(shape: Record, config: Any) -> Fields:
    fields: Fields = {}
    for name, element, inner in shape.plan(config):
        if type(inner) is Leaf:
            fields[element] = WHOLE
            continue
        node = _fields_of_part(inner, element, config[name])
        if node is not None:
            fields[element] = node
    return _with_keys(shape, fields) if shape.is_open else fields


def _with_keys(shape: Record, fields: Fields) -> Fields:
    return {
        element: node if shape.declares(element) or is_member(node) else {HERE: {}, **node}
        for element, node in fields.items()
    }


def _fields_of_part(shape: Divided | Open, element: str, part: Any) -> Fields | None:
    """Return the node of a part, or None for an empty list, which sets nothing."""
    if type(shape) is Open:
        resolved = shape.of(part)
        if type(resolved) is Leaf:
            return WHOLE
        shape = resolved
    if not part and part != []:
        return {}
    try:
        return applied_fields(shape, part) or None
    except AmbiguousItems as error:
        error.path = (element, *error.path)
        raise


def refuse_ambiguous(shape: Items, config: Any, parts: dict[str, Any]) -> None:
    if len(parts) < len(config):
        twice = next(element for element, part in parts.items() if type(part) is Repeated)
        raise AmbiguousItems(f"duplicate entries for key {field_set.path_text((twice,))}")
    if type(shape) is Entries:
        for item in config:
            lacking = "value" if item is None else shape.missing_key(item)
            if lacking:
                why = f"an entry of this list has no {lacking}, which identifies its entries"
                raise AmbiguousItems(why)


def extract(shape: Divided, value: Any, fields: Fields) -> Any:
    """Return the part of a value that the set names."""
    named: dict[str, Any] = {}
    for element, part in shape.parts(value).items():
        if element in fields:
            named[element] = _owned(shape.part(element), part, fields[element])
    if isinstance(shape, Record | Dictionary):
        return {element[2:]: part for element, part in named.items()}
    return list(named.values())


def _owned(shape: Shape, part: Any, node: Fields) -> Any:
    if type(shape) is Open:
        shape = shape.of(part)
    if type(shape) is Leaf or not part:
        return part
    return extract(shape, part, node)


MISSING = object()


def merge(shape: Divided, live: Any, config: Any) -> Any:
    if type(shape) is Record or type(shape) is Dictionary:
        return _merge_members(shape, live, config)
    return _merge_items(shape, live, config)


def _merge_members(
    shape: Record | Dictionary, live: dict[str, Any], config: dict[str, Any]
) -> dict[str, Any]:
    merged = live
    for name, wanted in config.items():
        was = live.get(name, MISSING)
        if was == wanted:
            continue
        element = shape.element(name)
        if element is None:
            continue
        part = _merge_part(shape.part(element), was, wanted)
        if part is not was:
            if merged is live:
                merged = dict(live)
            merged[name] = part
    return merged


def _merge_part(shape: Shape, was: Any, wanted: Any) -> Any:
    """Merge a part whose wanted value differs from its live value `was`."""
    if type(shape) is Open:
        if wanted is None and isinstance(was, dict) and was:
            return was
        shape = shape.of(wanted)
        was = was if type(shape) is Leaf or isinstance(was, dict) else MISSING
    if type(shape) is Leaf:
        return wanted
    if not wanted:
        return was if was is not MISSING and was else wanted
    if was is MISSING or was is None or type(was) is Repeated:
        was = {} if isinstance(shape, Record | Dictionary) else []
    return merge(shape, was, wanted)


def _merge_items(shape: Items, live: list[Any], config: list[Any]) -> list[Any]:
    old, wanted = shape.parts(live), shape.parts(config)
    inner = shape.part("")
    merged: list[Any] = []
    for element in old if list(old) == list(wanted) else _interleaved(old, wanted):
        was, now = old.get(element, MISSING), wanted.get(element, MISSING)
        if now is not MISSING:
            merged.append(was if was == now else _merge_part(inner, was, now))
        elif type(was) is Repeated:
            merged.extend(was)
        else:
            merged.append(was)
    return merged


def _interleaved(live: dict[str, Any], applied: dict[str, Any]) -> Iterator[str]:
    """Yield the elements of both lists, in an order that keeps the applied one."""
    own, at = list(live), 0
    shared = (element for element in applied if element in live)
    awaited = next(shared, None)
    for element in applied:
        while at < len(own) and own[at] != awaited:
            if own[at] not in applied:
                yield own[at]
            at += 1
        yield element
        if element == awaited:
            at += 1
            awaited = next(shared, None)
    yield from (element for element in own[at:] if element not in applied)


_REMOVED = object()


def prune(shape: Record, value: Any, last: Fields, own: Fields, others: Sequence[Fields]) -> Any:
    """Return the value without the parts that the applier no longer sets and nobody owns; the same value if there are
    none.
    """
    return _Pruning(own, others, within=False, given_up=False).run(shape, value, last)


class _Pruning:
    """One level of the object: who owns what below, and what is known about the levels above."""

    __slots__ = ("_given_up", "_others", "_own", "_within")

    def __init__(self, own: Fields | None, others: Sequence[Fields], *, within: bool, given_up: bool) -> None:
        self._own, self._others = own, others
        self._within = within  # the applier owned an enclosing part
        self._given_up = given_up  # an enclosing part that the applier owned has no owner now

    def run(self, shape: Divided, value: Any, last: Fields) -> Any:
        check_time()
        parts = shape.parts(value)
        changes: dict[str, Any] = {}
        own = self._own or {}
        for element, node in last.items():
            if own.get(element) == node and not self._given_up:
                continue
            part = parts.get(element, MISSING)
            if part is not MISSING:
                left = self._part(shape, element, part, node)
                if left is not part:
                    changes[element] = left
        return _rebuilt(shape, value, parts, changes) if changes else value

    def _part(self, shape: Divided, element: str, part: Any, last: Fields) -> Any:
        inner = shape.part(element)
        if type(inner) is Open:
            inner = inner.of(part)
        own = self._own.get(element) if self._own is not None else None
        others = [other[element] for other in self._others if element in other]
        now = others if own is None else [own, *others]
        whole = type(inner) is Leaf or (type(shape) is Record and shape.declares(element))
        was_owned = whole or is_member(last)
        is_owned = bool(now) if whole else any(map(is_member, now))
        within = self._within or was_owned
        given_up = self._given_up or (within and not is_owned)
        if given_up and was_owned:
            return _REMOVED
        if type(inner) is Leaf or not part or type(part) is Repeated:
            return part
        left = _Pruning(own, others, within=within, given_up=given_up).run(inner, part, last)
        return left or None


def _rebuilt(shape: Divided, value: Any, parts: dict[str, Any], changes: dict[str, Any]) -> Any:
    if isinstance(shape, Record | Dictionary):
        members = dict(value)
        for element, left in changes.items():
            if left is _REMOVED:
                del members[element[2:]]
            else:
                members[element[2:]] = left
        return members
    items: list[Any] = []
    for element, part in parts.items():
        left = changes.get(element, part)
        if left is not _REMOVED:
            items.extend(left if type(left) is Repeated else (left,))
    return items


MAX_CAUSES: Final = 1000  # conflicts listed, of all managers: a response of megabytes helps nobody


class Conflict(NamedTuple):
    owner: Entry
    fields: Fields


def refusal(conflicts: Sequence[Conflict]) -> ApplyConflict:
    """Return the error for these conflicts, of which there is at least one."""
    found = [(_owner(one.owner), _paths(one.fields)) for one in sorted(conflicts, key=_by_name)]
    total = sum(len(paths) for _, paths in found)
    causes = [
        Cause("FieldManagerConflict", f"conflict with {owner}", path)
        for owner, paths in found
        for path in paths
    ][:MAX_CAUSES]
    if total == 1:
        return ApplyConflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes)
    lines = [
        line
        for owner, paths in found
        for line in (f"conflicts with {owner}:", *(f"- {path}" for path in paths[:MAX_CAUSES]))
    ]
    return ApplyConflict(f"Apply failed with {total} conflicts: " + "\n".join(lines[:MAX_CAUSES]), causes)


def _by_name(conflict: Conflict) -> tuple[str, ...]:
    return conflict.owner.identity


def _paths(fields: Fields) -> list[str]:
    return [path_text(path) for path in sorted(members(fields), key=in_order)]


def _owner(entry: Entry) -> str:
    through = f" with subresource {quoted(entry.subresource)}" if entry.subresource else ""
    using = f" using {entry.version}" if entry.operation == UPDATE else ""
    return f"{quoted(entry.manager)}{through}{using}"


USUAL_MANAGER: Final = "kubectl"  # the default manager name of client-side apply, in both dialects


def previously_applied(view: FieldView, live: Object, annotation: str) -> Fields:
    """Return the fields over which such a client has no conflicts; none if the annotation is of another version."""
    try:
        recorded = orjson.loads(live["metadata"].get("annotations", {}).get(annotation, "{}"))
        if not (isinstance(recorded, dict) and recorded.get("apiVersion") and recorded.get("kind")):
            return {}
        config = view.schema.decode_object(recorded, defaults=False).object
        fields = applied_fields(view.shape, config)
    except (orjson.JSONDecodeError, NotDecodable, AmbiguousItems):
        return {}
    differing = compare(view.shape, config, live)
    return difference(difference(fields, differing.changed), differing.removed)


def refresh_annotation(metadata: Object, config: Object, annotation: str) -> None:
    """Write the applied configuration into the annotation if it exists; remove it when it is too large."""
    annotations = metadata.get("annotations", {})
    if not annotations.get(annotation):
        return
    current = {**annotations, annotation: _text(config, annotation)}
    if sum(len(key.encode()) + len(value.encode()) for key, value in current.items()) > MAX_ANNOTATION_BYTES:
        del current[annotation]
    metadata["annotations"] = current


def _text(config: Object, annotation: str) -> str:
    metadata = dict(config.get("metadata") or {})
    if annotation in (metadata.get("annotations") or {}):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != annotation}
    whole = {**config, "metadata": metadata}
    text = dumps(whole, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()
    return text.translate(_ESCAPES)


# Such clients escape these characters, and compare the annotation as text.
_ESCAPES: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
