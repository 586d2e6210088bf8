"""Events as lines: one line for `log`, one line and the changes below it for `history`."""

from __future__ import annotations

from collections.abc import Sequence

from actors.rewind.difference import describe, escaped
from gateway.cli.journal.printing.columns import Columns
from gateway.cli.journal.printing.output import SIGN_COLORS, Output
from gateway.cli.journal.printing.wording import size, summarize
from gateway.cli.journal.query.event_reader import Entry
from gateway.cli.journal.query.kinds import Kinds
from gateway.cli.journal.query.times import clock, local
from journal.records import Event

_TITLES = ("OFFSET", "TIME", "USER", "VERB", "KIND", "OBJECT", "MANAGER", "WHAT")
VERB_COLORS = {"create": "green", "update": "yellow", "patch": "yellow", "apply": "yellow"}


# Widths to begin with when later events are not known yet: names of most events fit.
_RESERVED = {"OFFSET": 7, "USER": 24, "VERB": 6, "KIND": 16, "OBJECT": 36, "MANAGER": 20}
_SHARES = {"USER": 8, "OBJECT": 4, "MANAGER": 8}


class LogLines:
    """Keeps the column widths, so that later batches line up with earlier ones.

    `follows`: more events come later, so the columns begin wide enough for most names.
    """

    def __init__(self, output: Output, kinds: Kinds, *, follows: bool = False) -> None:
        self._kinds = kinds
        self._time = clock if output.width is not None else local
        self._columns = Columns(output, _TITLES, ("OFFSET",), _SHARES, _RESERVED if follows else {})

    def print(self, entries: Sequence[Entry]) -> None:
        self._columns.rows([self._cells(entry) for entry in entries], [_colors(e.event) for e in entries])

    def _cells(self, entry: Entry) -> list[str]:
        event = entry.event
        return [
            str(event.offset),
            self._time(event.time),
            event.user,
            event.verb,
            self._kinds.of_type_id(event.type_id).kind,
            object_name(event.namespace, event.name),
            event.manager,
            effect(entry),
        ]


def effect(entry: Entry) -> str:
    """The effect of an event, in a few words."""
    if entry.event.removed:
        return "removed"
    if not entry.follows:
        return size(len(entry.event.body))
    changed = summarize(entry.changes) or "nothing changed"
    return f"{entry.event.reason}: {changed}" if entry.event.reason else changed


def object_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def verb_color(event: Event) -> str:
    return "red" if event.removed else VERB_COLORS.get(event.verb, "")


def _colors(event: Event) -> list[str]:
    return ["cyan", "dim", "", verb_color(event), "", "bold", "dim", ""]


def print_changes(output: Output, entry: Entry, indent: str, *, managed_fields: bool) -> None:
    for change in entry.compared(managed_fields=managed_fields):
        text = escaped(f"{indent}{change.sign} {describe(change)}")
        output.line(output.paint(output.fit(text), SIGN_COLORS[change.sign]))
