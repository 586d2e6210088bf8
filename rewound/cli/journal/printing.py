"""Formats what the commands print: events as lines, columns and documents, with the values of Secrets masked.

`Output` has colours and a width on a terminal, plain text everywhere else. Text from the journal is escaped: names,
users and values come from clients, and may contain control sequences.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, TextIO, TypeVar

import orjson

from rewound.actors.golang.json import unescaped
from rewound.actors.identity import SERVER_USER
from rewound.actors.rewind.difference import (
    MANAGED_FIELDS,
    RESOURCE_VERSION,
    Change,
    describe,
    difference,
    escaped,
)
from rewound.actors.rewind.summary import line_of
from rewound.journal.records import GUESSED, Event
from rewound.recording.progress import Progress
from rewound.recording.query.entries import (
    MASK,
    MASK_AFTER,
    MASK_BEFORE,
    Entry,
    Kind,
    masked,
    masked_pair,
    object_bytes,
    object_name,
)
from rewound.recording.query.moments import clock, local, rfc3339

Document = dict[str, Any]

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
SIGN_COLORS = {"+": "green", "-": "red", "~": "yellow"}


@dataclass(frozen=True, slots=True)
class Output:
    stream: TextIO
    colored: bool = False
    width: int | None = None  # of the terminal

    @classmethod
    def of(cls, stream: TextIO, color: str, environ: Mapping[str, str] = os.environ) -> Output:
        if isinstance(stream, TextIOWrapper):
            # Escape a character that this terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
        terminal = stream.isatty()
        wanted = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        colored = color == "always" or (color == "auto" and bool(wanted))
        return cls(stream, colored, shutil.get_terminal_size().columns if terminal else None)

    def line(self, text: str = "") -> None:
        self.stream.write(text + "\n")

    def json(self, document: Any) -> None:
        """Print a document on one line."""
        self.stream.write(unescaped(document, option=orjson.OPT_APPEND_NEWLINE).decode())

    def yaml(self, document: Any) -> None:
        self.stream.write(yaml_of(unescaped(document)))

    def flush(self) -> None:
        self.stream.flush()

    def paint(self, text: str, color: str) -> str:
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m" if self.colored and color and text else text

    def fit(self, text: str, used: int = 0) -> str:
        """Cut to the rest of the terminal's width."""
        if self.width is None or used + len(text) <= self.width:
            return text
        return text[: max(0, self.width - used - 1)] + "…"


T = TypeVar("T")


def until_printed(
    items: Iterator[T], progress: Progress, output: Output, shows: Callable[[T], object] = bool
) -> Iterator[T]:
    """Yield the items. On a terminal, the first that `shows` something ends the progress line."""
    for item in items:
        if output.width is not None and shows(item):
            progress.end()
        yield item


def yaml_of(body: bytes) -> str:
    # Imported when needed: it imports much of the server.
    from rewound.gateway.wire.yaml import from_json

    return from_json(body).decode()


GAP = "  "
MAX_WIDTH = 70  # one long name should not move all later rows to the right
MIN_NAME_WIDTH = 14  # a shortened name keeps this much
MIN_LAST_WIDTH = 8  # with less space than this, the last column is not cut


class Columns:
    """Aligned columns of a table that is printed in batches: widths only grow.

    `log -f` prints a few rows at a time, and a reader has seen the rows before: its columns begin with widths
    for most names, and when one has to grow, the titles are printed again above the rows that have the new
    widths. Other tables have their titles once. On a terminal, long names are shortened in favour of the last
    column, which has the most information, and that one is cut at the edge.

    `right`: titles of right-aligned columns; `shares`: a name may take 1/n of the terminal's width.

    `reserved`: widths that columns have from the start, because rows come one by one.
    """

    def __init__(
        self,
        output: Output,
        titles: Sequence[str],
        right: Sequence[str] = (),
        shares: Mapping[str, int] | None = None,
        reserved: Mapping[str, int] | None = None,
    ) -> None:
        self._output, self._titles = output, titles
        self._right = [title in right for title in titles]
        self._shares = [(shares or {}).get(title, 0) for title in titles]
        self._widths = [
            max(len(title), self._allowed(number, (reserved or {}).get(title, 0)))
            for number, title in enumerate(titles)
        ]
        self._titled: list[int] = []  # the widths below the titles that were printed last
        self._short: dict[tuple[int, str], str] = {}  # whole texts, by column and shortened text
        self._one_by_one = bool(reserved)

    def rows(
        self,
        rows: Iterable[Sequence[str]],
        colors: Sequence[Sequence[str]] = (),
        below: Callable[[int], None] | None = None,
    ) -> None:
        """Print rows; `colors` has the colour of each cell, or is empty; `below` prints what follows a row."""
        cells = [[self._shown(number, cell) for number, cell in enumerate(row)] for row in rows]
        for row in cells:
            for number, cell in enumerate(row):
                self._widths[number] = max(self._widths[number], min(len(cell), MAX_WIDTH))
        padded = self._widths[:-1]  # the last column is not
        if cells and (not self._titled or (self._one_by_one and self._titled != padded)):
            self._titled = padded
            self._print(self._titles, ["dim"] * len(self._titles))
        for number, row in enumerate(cells):
            self._print(row, colors[number] if colors else [""] * len(row))
            if below is not None:
                below(number)

    def _shown(self, number: int, cell: str) -> str:
        """A cell as it is printed: two that differ are never shortened to the same text."""
        text = escaped(cell)
        short = _shorten(text, self._allowed(number, len(text)))
        return short if self._short.setdefault((number, short), text) == text else text

    def _allowed(self, number: int, wanted: int) -> int:
        """How wide a cell of this column may be on this terminal."""
        width, share = self._output.width, self._shares[number]
        if width is None or not share:
            return wanted
        return min(wanted, max(MIN_NAME_WIDTH, width // share))

    def _print(self, cells: Sequence[str], colors: Sequence[str]) -> None:
        padded = [self._padded(number, cell) for number, cell in enumerate(cells)]
        used = sum(map(len, padded[:-1])) + len(GAP) * (len(cells) - 1)
        if self._output.width is not None and self._output.width - used >= MIN_LAST_WIDTH:
            padded[-1] = self._output.fit(padded[-1], used)
        painted = [self._output.paint(text, color) for text, color in zip(padded, colors, strict=True)]
        self._output.line(GAP.join(painted).rstrip())

    def _padded(self, number: int, cell: str) -> str:
        if self._right[number]:
            return cell.rjust(self._widths[number])
        return cell if number == len(self._titles) - 1 else cell.ljust(self._widths[number])


def _shorten(text: str, width: int) -> str:
    """Leave out the middle, because names often differ at both ends."""
    if len(text) <= width:
        return text
    return text[: width // 2 - 1] + "…" + text[-(width - width // 2) :]


_TITLES = ("VERSION", "TIME", "USER", "VERB", "KIND", "OBJECT", "MANAGER", "WHAT")
_TITLES_OF_TERMINALS = ("VERSION", "TIME", "WHO", "VERB", "KIND", "OBJECT", "WHAT")
_TITLES_OF_NARROW_TERMINALS = ("VERSION", "TIME", "WHO", "OBJECT", "WHAT")
NARROW = 160  # a terminal with fewer columns shows kind and object as one, and no verb
VERB_COLORS = {"create": "green", "update": "yellow", "patch": "yellow", "apply": "yellow"}
_COLORS = {"VERSION": "cyan", "TIME": "dim", "OBJECT": "bold", "MANAGER": "dim"}


# Initial widths when later events are not known yet: most names fit.
_RESERVED = {
    "VERSION": 7,
    "USER": 24,
    "WHO": 24,
    "VERB": 6,
    "KIND": 16,
    "OBJECT": 36,
    "MANAGER": 20,
}
_SHARES = {"WHO": 5, "KIND": 6, "OBJECT": 3}


class LogLines:
    """Prints events in columns, whose widths are kept, so that later batches line up with earlier ones.

    A pipe gets every name in full. On a terminal, authors are as short as on the page, a line ends at its edge, and
    with `folds` the objects that the server creates for a new cluster are one line.

    `follows`: more events come later, so the columns begin wide enough for most names.
    """

    def __init__(
        self, output: Output, kind_of: Callable[[int], Kind], *, follows: bool = False, folds: bool = False
    ) -> None:
        self._kind_of, self._width = kind_of, output.width
        self._folds = folds and output.width is not None
        self._time = clock if output.width is not None else local
        self._titles: tuple[str, ...] = _TITLES
        if output.width is not None:
            self._titles = _TITLES_OF_TERMINALS if output.width >= NARROW else _TITLES_OF_NARROW_TERMINALS
        reserved = _RESERVED | ({} if output.width is None else {"OBJECT": output.width})
        self._columns = Columns(output, self._titles, ("VERSION",), _SHARES, reserved if follows else {})

    def print(self, entries: Sequence[Entry | Document]) -> None:
        """Print events, and refused requests and gaps, which have no version."""
        rows: list[tuple[Document, str]] = []  # cells by title, and the colour of the verb
        initial = _initial(entries) if self._folds else []
        skipped = {one.event.offset for one in initial[1:]}
        for one in entries:
            if not isinstance(one, Entry):
                is_gap = "why" in one
                rows.append((self._of_gap(one), "yellow") if is_gap else (self._of_refused(one), "red"))
            elif initial and one is initial[0]:
                rows.append((self._of_initial(initial), "green"))
            elif one.event.offset not in skipped:
                rows.append((self._cells(one), verb_color(one.event)))
        self._columns.rows(
            [[cells[title] for title in self._titles] for cells, _ in rows],
            [self._colors(cells, color) for cells, color in rows],
        )

    def _colors(self, cells: Document, verb: str) -> list[str]:
        is_event, has_verb = cells["VERSION"] != "-", "VERB" in self._titles
        own = {"VERB": verb, "WHAT": "" if is_event and has_verb else verb}
        return [own.get(title) or _COLORS.get(title, "") for title in self._titles]

    def _of_refused(self, request: Document) -> Document:
        manager = request["userAgent"].partition("/")[0]
        return self._row(
            VERSION="-",
            TIME=self._time(request["time"]),
            USER=request["user"],
            WHO=author(request["user"], manager),
            VERB=request["verb"],
            KIND=str(request.get("kind", request["type"])),
            OBJECT=object_name(request["namespace"], request["name"]),
            MANAGER=manager,
            WHAT=f"refused: {request['code']} {request['message'] or request['reason']}",
        )

    def _of_gap(self, gap: Document) -> Document:
        from rewound.rewind.gap_texts import text_of

        end = gap.get("toMicros")
        until = f"until {self._time(end)}" if end else "until now"
        return self._row(
            VERSION="-",
            TIME=self._time(gap["fromMicros"]),
            USER="",
            WHO="",
            VERB="gap",
            KIND="",
            OBJECT="",
            MANAGER="",
            WHAT=f"{until}: {text_of(gap)}",
        )

    def _of_initial(self, entries: Sequence[Entry]) -> Document:
        first, kinds = entries[0].event, Counter(self._kind_of(one.event.type_id).kind for one in entries)
        common = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(3))
        return self._row(
            VERSION=str(first.offset),
            TIME=self._time(first.time),
            WHO=author(first.user, ""),
            VERB=first.verb,
            KIND="",
            OBJECT=f"{len(entries)} initial ones",
            WHAT=f"up to {entries[-1].event.offset}: {common}, ...; a filter like --user or a pipe shows each",
        )

    def _cells(self, entry: Entry) -> Document:
        event = entry.event
        return self._row(
            VERSION=str(event.offset),
            TIME=self._time(event.time),
            USER=event.user_text,
            WHO=author(event.user, event.manager_text) + (" (guessed)" if event.is_user_guess else ""),
            VERB=event.verb,
            KIND=self._kind_of(event.type_id).kind,
            OBJECT=object_name(event.namespace, event.name),
            MANAGER=event.manager_text,
            WHAT=effect(entry),
        )

    def _row(self, **cells: str) -> Document:
        if self._titles is _TITLES_OF_NARROW_TERMINALS:
            cells["TIME"] = cells["TIME"].partition(".")[0][-len("05-01 12:00:00") :]  # without the year
            cells["OBJECT"] = " ".join(filter(None, (cells["KIND"], cells["OBJECT"])))
        return cells


_ACCOUNT = "system:serviceaccount:"


def author(user: str, manager: str) -> str:
    """Who wrote, for a terminal: a service account is NAMESPACE/NAME; a person also has a tool."""
    if user.startswith(_ACCOUNT):
        return user.removeprefix(_ACCOUNT).replace(":", "/", 1)
    if user.startswith("system:"):
        return user.removeprefix("system:")
    return " with ".join(filter(None, (user, manager)))


_FEWEST_FOLDED = 5
_PAUSE = 5_000_000  # microseconds without an initial object: a later one is news


def _initial(entries: Sequence[Entry | Document]) -> list[Entry]:
    """The writes by which a server creates the objects of a new cluster; empty if there are few."""
    found: list[Entry] = []
    for one in entries:
        if isinstance(one, Entry) and one.event.user == SERVER_USER and not one.event.removed:
            if found and abs(one.event.time - found[-1].event.time) > _PAUSE:
                break
            found.append(one)
    return found if len(found) >= _FEWEST_FOLDED else []


def effect(entry: Entry) -> str:
    """The effect of an event, in a few words."""
    # A guessed manager is marked in its own column.
    reason = entry.event.reason.removesuffix(GUESSED).removesuffix("; ")
    if entry.event.removed:
        return f"{reason}: removed" if reason else "removed"
    created = not entry.event.previous
    return change_words(entry.summary, reason, created=created)


def change_words(summary: Document, reason: str = "", *, created: bool = False) -> str:
    """Summarize a change on one line."""
    line = line_of(summary)
    if summary.get("compacted"):
        text = "what it changed is no longer in the journal"
    elif created:
        text = f"created: {line}" if line else "created"
    else:
        text = line or "nothing changed"
    return f"{reason}: {text}" if reason else text


def verb_color(event: Event) -> str:
    return "red" if event.removed else VERB_COLORS.get(event.verb, "")


def print_changes(output: Output, entry: Entry, indent: str, *, managed_fields: bool) -> None:
    for change in entry.compared(managed_fields=managed_fields):
        text = escaped(f"{indent}{change.sign} {describe(change)}")
        output.line(output.paint(output.fit(text), SIGN_COLORS[change.sign]))


def rate(per_second: float) -> str:
    """Per second, minute, hour or day: the first in which it is at least 1."""
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f}/{unit}"
    return f"{per_second * 86400:.1f}/day" if per_second else "0/s"


def identity(kind: Kind, namespace: str, name: str) -> Document:
    document: Document = {"kind": kind.kind, "apiVersion": kind.api_version, "resource": kind.type_name}
    if namespace:
        document["namespace"] = namespace
    return {**document, "name": name}


def version(offset: int) -> Document:
    """A version in JSON: a string, as in objects. `offset` is its name in earlier releases (decision 0083)."""
    return {"version": str(offset), "offset": offset}


def with_manager(item: Document) -> Document:
    """An item of the API in the words of our JSON: `fieldManager` is `manager` too (decision 0083)."""
    return {**item, "manager": item["fieldManager"]} if "fieldManager" in item else item


def event_document(entry: Entry, kind: Kind, *, managed_fields: bool = False) -> Document:
    from rewound.actors.store.stored_json import is_json_object

    event = entry.event
    changes = entry.compared(managed_fields=managed_fields)
    return {
        **version(event.offset),
        "time": rfc3339(event.time),
        "user": event.user,
        "verb": event.verb,
        "manager": event.manager,
        **({"reason": event.reason} if event.reason else {}),
        **({"guessed": True} if event.is_guess else {}),
        **({"userGuessed": True} if event.is_user_guess else {}),
        **identity(kind, event.namespace, event.name),
        "previous": event.previous,
        "removed": event.removed,
        "size": len(event.body),
        "changes": [change.document() for change in changes],
        "object": orjson.Fragment(object_bytes(kind, entry.body)) if is_json_object(entry.body) else None,
    }


# Documents of the API without the values of a Secret.


def masked_object(document: Document) -> Document:
    result: Document = orjson.loads(masked(unescaped(document)))
    return result


def masked_version(item: Document) -> Document:
    """Mask a version of a Secret in its history."""
    patch, changes = item["patch"], item.get("changes")
    return {
        **item,
        "patch": None if patch is None else [_masked_operation(one) for one in patch],
        **({} if changes is None else {"changes": [_masked_change(one) for one in changes]}),
    }


def _masked_operation(one: Document) -> Document:
    if "value" not in one:
        return one
    if one["path"] == "":
        return {**one, "value": masked_object(one["value"])}
    return {**one, "value": _mask_of(one["value"], MASK)} if _is_hidden(one["path"]) else one


def _masked_change(one: Document) -> Document:
    if not _is_hidden("/" + one["path"].replace(".", "/").replace("[", "/")):
        return one
    marks = {"before": MASK_BEFORE, "after": MASK_AFTER}
    if not ("before" in one and "after" in one):
        marks = dict.fromkeys(marks, MASK)
    return {key: _mask_of(value, marks[key]) if key in marks else value for key, value in one.items()}


def _mask_of(value: Any, mask: str) -> Any:
    return dict.fromkeys(value, mask) if isinstance(value, dict) else mask


def _is_hidden(pointer: str) -> bool:
    """Whether a JSON pointer leads to values of a Secret, or to annotations, which may have copies of them."""
    return pointer.split("/")[1] in ("data", "stringData") or pointer.startswith("/metadata/annotations")


def masked_field(one: Document) -> Document:
    """Mask a field of a Secret in blame."""
    # A path that is too long to be shown may lead to such a value.
    return {**one, "value": MASK} if "path" not in one or _is_hidden(one["path"]) else one


def difference_lines(
    before: Document | None, after: Document | None, *, mask: bool, managed_fields: bool
) -> list[Change | str]:
    """The changes between two contents of an object, or a line about the whole of it."""
    if before is None or after is None:
        if before is after:
            return ["nothing changed"]
        return ["+ the object" if before is None else "- the object"]
    if mask:
        before, after = masked_pair(before, after)
    ignored = RESOURCE_VERSION if managed_fields else RESOURCE_VERSION | {MANAGED_FIELDS}
    return [*difference(before, after, ignored)] or ["nothing changed"]
