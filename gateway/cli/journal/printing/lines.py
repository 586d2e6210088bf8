"""Events as lines: one each for `log`, one and its changes below it for `history`."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.cli.journal.printing.columns import Columns
from gateway.cli.journal.printing.output import OF_SIGN, Output, harmless
from gateway.cli.journal.printing.wording import size, summed_up, told
from gateway.cli.journal.query.kinds import Kinds
from gateway.cli.journal.query.reading import Entry
from gateway.cli.journal.query.times import clock, local
from journal.records import Event

_TITLES = ("OFFSET", "TIME", "USER", "VERB", "KIND", "OBJECT", "MANAGER", "WHAT")
OF_VERB = {"create": "green", "update": "yellow", "patch": "yellow", "apply": "yellow"}


class LogLines:
    """Remembers its widths, so that what follows lines up with what was there."""

    def __init__(self, output: Output, kinds: Kinds) -> None:
        self._kinds = kinds
        self._time = clock if output.width is not None else local
        self._columns = Columns(output, _TITLES, ("OFFSET",), {"USER": 8, "OBJECT": 4, "MANAGER": 8})

    def print(self, entries: Sequence[Entry]) -> None:
        self._columns.rows([self._cells(entry) for entry in entries], [_colors(e.event) for e in entries])

    def _cells(self, entry: Entry) -> list[str]:
        event = entry.event
        return [
            str(event.offset),
            self._time(event.time),
            event.user,
            event.verb,
            self._kinds.of_number(event.type_id).kind,
            object_name(event.namespace, event.name),
            event.manager,
            what(entry),
        ]


def what(entry: Entry) -> str:
    """What an event did, in a few words."""
    if entry.event.removed:
        return "removed"
    if not entry.follows:
        return size(len(entry.event.body))
    return summed_up(entry.changes) or "nothing changed"


def object_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def verb_color(event: Event) -> str:
    return "red" if event.removed else OF_VERB.get(event.verb, "")


def _colors(event: Event) -> list[str]:
    return ["cyan", "dim", "", verb_color(event), "", "bold", "dim", ""]


def print_changes(output: Output, entry: Entry, indent: str, *, managed_fields: bool) -> None:
    for change in entry.compared(managed_fields=managed_fields):
        text = harmless(f"{indent}{change.sign} {told(change)}")
        output.line(output.paint(output.fit(text), OF_SIGN[change.sign]))
