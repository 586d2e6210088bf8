"""Apply conflicts: the fields that an applier wants to change and other managers own, and the text of the 409."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from actors.errors import ApplyConflict, Cause
from actors.patch.managed_fields.field_path import in_order, path_text
from actors.patch.managed_fields.field_set import Fields, members
from actors.patch.managed_fields.managers import UPDATE, Entry
from actors.quoting import quoted

MAX_CAUSES: Final = 1000  # listed of all managers: a response of megabytes helps nobody


class Conflict(NamedTuple):
    owner: Entry
    fields: Fields


def refusal(conflicts: Sequence[Conflict]) -> ApplyConflict:
    """`conflicts` are not empty."""
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
