"""Full-text search of the journal: finds events by words in names, changed fields, values or authors.

`TextIndex` reads events into the index file, newest first, and finds them. `parse_text` turns a person's query into
an FTS5 expression, `restricted` adds what a caller may see. An event has three columns of words:

    text    Deployment deployments.apps default web spec.replicas 2 5     what changed; of Secrets without values
    who     alice kubectl                                                 searched only for callers who see authors
    scope   t12 n64656661756c74 vpatch                                    type, namespace (in hexadecimal) and verb

`docs/decisions/0064-text-index.md` has figures, and what was rejected.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from rewound.actors.rewind.contents import parsed
from rewound.actors.rewind.difference import ABSENT, COMPARED_DEPTH, difference
from rewound.actors.rewind.index_file import BATCH, PARTITION, Batch, Covered, IndexFile, Statuses, Words
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.rights import SECRETS
from rewound.actors.rewind.timeline import (
    BYTES_PER_COST,
    EVENT_COST,
    MAX_COST,
    NOTHING,
    UPDATED,
    Cells,
    Filter,
    Found,
    Hit,
    LeftOut,
    Range,
    Track,
    event_mark,
    has,
    walk,
)
from rewound.actors.runtime import turns
from rewound.journal import keys
from rewound.journal.log import Journal
from rewound.journal.recording import Recording
from rewound.journal.records import Event
from rewound.journal.view import View

MAX_TEXT: Final = 2000  # characters of one event; a value has at most a tenth of that
_MAX_VALUE: Final = MAX_TEXT // 10
MAX_WORDS: Final = 20  # words of one search
_EVENTS, _BYTES = 24, 24 << 10  # events read per step
# Bytes of objects and their previous versions compared per step: less than what the event loop gives to a thread,
# unless an object is large.
_COMPARED: Final = 2 * _BYTES
_REMEMBERED: Final = 1 << 20  # bytes of parsed objects


# Queries.


def parse_text(text: str) -> str:
    """Return an expression for all these words, each as a prefix, and for quoted phrases. Raises ValueError for none.

        repl web       "repl" * AND "web" *
        "web server"   "web server"

    A query cannot contain syntax of FTS5: every word becomes a quoted string without quotes in it.
    """
    terms: list[str] = []
    for phrase, word in _TERM.findall(text.encode(errors="replace").decode().replace("\0", " ")):
        if any(_is_word_character(letter) for letter in phrase or word):
            terms.append(f'"{phrase}"' if phrase else f'"{word}" *')
    if not terms:
        raise ValueError("needs at least one letter or digit")
    if len(terms) > MAX_WORDS:
        raise ValueError(f"must not have more than {MAX_WORDS} words")
    return " AND ".join(terms)


_TERM: Final = re.compile(r'"([^"]*)"|([^\s"]+)')


def _is_word_character(letter: str) -> bool:
    """Whether FTS5 treats a character as part of a word; all others separate words."""
    category = unicodedata.category(letter)
    return category[0] in "LN" or category == "Co"


def has_terms(terms: str, text: str) -> bool:
    """Whether a text that is not indexed contains all these terms of `parse_text`."""
    words = _words(text)
    return all(_has_term(words, _words(phrase), bool(star)) for phrase, star in _PARSED.findall(terms))


_PARSED: Final = re.compile(r'"([^"]*)"( \*)?')


def _words(text: str) -> list[str]:
    """Split a text into words as FTS5 does: without upper case and diacritics."""
    plain = (one for one in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(one))
    return "".join(one if _is_word_character(one) else " " for one in plain).split()


def _has_term(words: list[str], phrase: list[str], from_beginning: bool) -> bool:
    *first, last = phrase
    for position in range(len(words) - len(first)):
        found = words[position + len(first)]
        is_last = found == last or (from_beginning and found.startswith(last))
        if is_last and words[position : position + len(first)] == first:
            return True
    return False


def narrowed(sought: Filter) -> str:
    """Return the terms of a filter, with the words of the names and users that it wants, so that fewer events are
    read.
    """
    parts = [f"({sought.terms})"]
    for column, wanted in (
        ("text", sought.name.wanted),
        ("who", sought.user.wanted),
        ("who", sought.manager.wanted),
    ):
        words = [_pattern_word(pattern) for pattern in wanted]
        if words and all(words):
            parts.append(f"{column} : ({' OR '.join(words)})")
    return " AND ".join(parts)


def _pattern_word(pattern: str) -> str:
    """Return an expression that matches everything that a pattern does, and perhaps more; empty if there is none."""
    text = pattern.removesuffix("*").replace('"', " ").replace("\0", " ").encode(errors="replace").decode()
    if not any(map(_is_word_character, text)):
        return ""
    return f'"{text}" *' if pattern.endswith("*") else f'"{text}"'


@dataclass(frozen=True, slots=True)
class Seen:
    """Types that a caller sees in the same namespaces; None: in all."""

    types: frozenset[int]
    namespaces: frozenset[str] | None
    users: bool  # whether the caller sees authors


def restricted(terms: str, seen: Iterable[Seen], written: Collection[int], verbs: Iterable[str] = ()) -> str:
    """Return an expression that matches these terms in events that a caller may see, or "" if there are none.

    With `verbs`, events must have one of these; each may end with `*`. Authors that the caller may not see are not
    searched: otherwise they could be guessed. `written` are all types that have events: naming the fewer types, those
    to find or those to exclude, makes the faster condition.
    """
    parts = [part for one in seen if (part := _restricted(terms, one, frozenset(written)))]
    expression = " OR ".join(parts)
    words = [_pattern_word(f"v{verb}") for verb in verbs]
    return f"({expression}) AND scope : ({' OR '.join(words)})" if expression and words else expression


def _restricted(terms: str, seen: Seen, written: frozenset[int]) -> str:
    found, left_out = written & seen.types, written - seen.types
    if not found:
        return ""
    expression = f"({'{text who}' if seen.users else 'text'} : ({terms}))"
    if seen.namespaces is not None:
        expression += f" AND scope : ({_any_of(map(_namespace_word, sorted(seen.namespaces)))})"
    if len(left_out) >= len(found):
        expression += f" AND scope : ({_any_of(map(_type_word, sorted(found)))})"
    elif left_out:
        expression = f"({expression}) NOT scope : ({_any_of(map(_type_word, sorted(left_out)))})"
    return f"({expression})"


def _any_of(words: Iterable[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


def _type_word(type_id: int) -> str:
    return f"t{type_id}"


@lru_cache(1000)
def _scope_words(type_id: int, namespace: str, verb: str) -> str:
    return f"{_type_word(type_id)} {_namespace_word(namespace)} v{verb}"


def _namespace_word(namespace: str) -> str:
    return "n" + namespace.encode(errors="replace").hex()


# Words of events.

_STATUS_NOISE: Final = frozenset(("resourceVersion", "managedFields", "generation"))
_METADATA_NOISE: Final = _STATUS_NOISE | {"creationTimestamp"}
_IGNORED: Final = frozenset(f"metadata.{name}" for name in _METADATA_NOISE)
_MAX_PARTS: Final = 500  # paths and values of one event


def is_status_only(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether an update changed only status, apart from what every write changes."""
    if before.get("status") == after.get("status"):
        return False
    for name in before.keys() | after.keys():
        if name == "metadata":
            one, other = before.get(name) or {}, after.get(name) or {}
            for key in one.keys() | other.keys():
                if one.get(key) != other.get(key) and key not in _STATUS_NOISE:
                    return False
        elif name != "status" and before.get(name) != after.get(name):
            return False
    return True


def text_of(
    head: str, event: Event, before: dict[str, Any] | None, after: dict[str, Any], *, values: bool
) -> str:
    """Return the words of an event: `head`, names, and what changed.

    A created object adds all its content, a deleted one nothing.
    """
    parts = [head, event.namespace, event.name]
    if not event.removed:
        if before is None:
            _add_object(parts, after, values=values)
        else:
            _add_changes(parts, before, after, values=values)
    return " ".join(parts)[:MAX_TEXT].replace("\0", " ")


def _add_object(parts: list[str], content: dict[str, Any], *, values: bool) -> None:
    for name, value in content.items():
        if name == "metadata" and isinstance(value, dict):
            value = {key: one for key, one in value.items() if key not in _METADATA_NOISE}
        parts.append(name)
        _add_value(parts, value, values=values)


def _add_value(parts: list[str], value: Any, *, values: bool) -> None:
    """Add a value with everything below it: the names of fields and their values."""
    left: list[tuple[str, Any]] = [("", value)]
    while left and len(parts) < _MAX_PARTS:
        name, one = left.pop()
        if name:
            parts.append(name)
        if isinstance(one, dict):
            left += reversed(one.items())
        elif isinstance(one, list):
            left += [("", item) for item in reversed(one)]
        elif values:
            _add_leaf(parts, one)


def _add_leaf(parts: list[str], value: Any) -> None:
    if isinstance(value, str):
        if value and not _is_time(value):
            parts.append(value[:_MAX_VALUE] if len(value) > _MAX_VALUE else value)
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, (int, float)):
        parts.append(str(value))


def _add_changes(parts: list[str], before: dict[str, Any], after: dict[str, Any], *, values: bool) -> None:
    """Add the paths of fields that differ, with their old and new values."""
    left = [("", 0, before, after)]
    while left and len(parts) < _MAX_PARTS:
        path, depth, one, other = left.pop()
        for key, old in one.items():
            new = other.get(key, ABSENT)
            both = isinstance(old, dict) and isinstance(new, dict)
            # Each of these comparisons looks at everything below.
            if not (both and depth >= COMPARED_DEPTH) and not _differ(old, new):
                continue
            below = _below(path, key)
            if both:
                left.append((below, depth + 1, old, new))
            elif below in _IGNORED:
                continue
            elif isinstance(old, list) and isinstance(new, list):
                _add_items(parts, below, old, new, values=values)
            else:
                parts.append(below)
                _add_pair(parts, old, new, values=values)
        for key, new in other.items():
            if key not in one and (below := _below(path, key)) not in _IGNORED:
                parts.append(below)
                _add_value(parts, new, values=values)


def _below(path: str, key: str) -> str:
    """Return the end of a path, which is all of it in most objects."""
    return f"{path[-_MAX_VALUE:]}.{key[:_MAX_VALUE]}" if path else key[:_MAX_VALUE]


def _differ(old: Any, new: Any) -> bool:
    try:
        return bool(old != new)
    except RecursionError:  # nests deeper than Python can compare
        return True


def _add_items(parts: list[str], path: str, old: list[Any], new: list[Any], *, values: bool) -> None:
    try:
        changes = difference(old, new, (), loosely=True, most=_MAX_PARTS)
    except RecursionError:
        changes = difference(old, new, (), most=_MAX_PARTS)
    for change in changes:
        if len(parts) >= _MAX_PARTS:
            return
        parts.append(path + change.path)
        _add_pair(parts, change.before, change.after, values=values)


def _add_pair(parts: list[str], old: Any, new: Any, *, values: bool) -> None:
    if isinstance(old, str) and isinstance(new, str) and len(old) > _MAX_VALUE < len(new):
        at = _common_prefix(old, new)
        old, new = old[at:], new[at:]
    _add_value(parts, old, values=values)
    _add_value(parts, new, values=values)


def _common_prefix(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts, up to the start of the word in which they differ."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    while low and one[low - 1].isalnum():
        low -= 1
    return low


def _is_time(value: str) -> bool:
    """Whether a text is a time like 2026-11-17T14:00:00Z: searched by range, because it would be five words."""
    return 20 <= len(value) <= 30 and value[4] == "-" and value[10] == "T" and value[-1] == "Z"


# The index.


class _ReadEvent(NamedTuple):
    """An event with the previous version of its object: as bytes, or parsed if that is cached."""

    event: Event
    before: bytes | dict[str, Any] | None
    size: int  # bytes of both versions


_Name = tuple[int, str, str]  # of an object: type, namespace and name


@dataclass(slots=True)
class _ParsedObjects:
    """A cache of the newest indexed version of some objects, parsed."""

    size: int = 0
    objects: OrderedDict[_Name, tuple[int, int, dict[str, Any]]] = field(default_factory=OrderedDict)

    def get(self, key: _Name, offset: int) -> tuple[int, dict[str, Any]] | None:
        """Return its size and the parsed object."""
        found = self.objects.get(key)
        return found[1:] if found is not None and found[0] == offset else None

    def put(self, key: _Name, offset: int, size: int, parsed: dict[str, Any]) -> None:
        self.remove(key)
        self.objects[key] = offset, size, parsed
        self.size += size
        while self.size > _REMEMBERED:
            self.remove(next(iter(self.objects)))

    def remove(self, key: _Name) -> None:
        if (known := self.objects.pop(key, None)) is not None:
            self.size -= known[1]


class TextIndex:
    """The words of events in the file, and which events it covers. `describe` names a type: `Deployment
    deployments.apps`.
    """

    def __init__(self, journal: Journal, file: IndexFile, describe: Callable[[int], str]) -> None:
        self._journal = journal
        self._file = file
        self._describe = describe
        self._parsed = _ParsedObjects()
        self.covered: Covered | None = None
        self.statuses = StatusOnly(file)

    def refresh(self) -> LongWork[None]:
        """Read which events the index covers: other processes write it too. Raises Unavailable if there is no index."""
        self.covered = yield Piece(self._file.covered, waits=True)

    def index_next(self, start: int, head: int) -> LongWork[bool]:
        """Index some events after `start` up to `head`. Returns False if there are none, or another process indexes
        them.

        Events committed since come first, then older ones, step by step. Raises Unavailable if there is no index.
        """
        yield from self.refresh()
        wanted = _next_range(self.covered, start, head)
        if wanted is None:
            return False
        words: list[Words] = []
        statuses: Statuses = {}
        at = wanted.low
        while at < wanted.high:
            some, at = yield Piece(partial(self._read, at, wanted.high))
            yield Piece(partial(self._add_words, some, words, statuses), sum(one.size for one in some))
        batch = self._batch(wanted, words, statuses)
        stored: bool = yield Piece(partial(self._file.add, batch), waits=True)
        if stored:
            self.covered = batch.covered
        return stored

    def _read(self, after: int, upto: int) -> tuple[list[_ReadEvent], int]:
        """Return some events, and the offset up to which they are complete."""
        some: list[_ReadEvent] = []
        with _view_of_all(self._journal) as view:
            found = view.newer_events(max(after, view.floor), _EVENTS, _BYTES)
            left = _COMPARED
            for event in found:
                if event.offset > upto:
                    break
                some.append(self._with_before(view, event))
                left -= some[-1].size
                if left <= 0:
                    return some, event.offset
        return some, some[-1].event.offset if some and len(some) == len(found) else upto

    def _with_before(self, view: View, event: Event) -> _ReadEvent:
        size = len(event.body)
        if event.removed or not event.previous:
            return _ReadEvent(event, None, size)
        known = self._parsed.get(_key(event), event.previous)
        if known is not None:
            return _ReadEvent(event, known[1], size + known[0])
        previous = view.readable(event.previous)
        return (
            _ReadEvent(event, None, size)
            if previous is None
            else _ReadEvent(event, previous.body, size + len(previous.body))
        )

    def _add_words(self, some: list[_ReadEvent], words: list[Words], statuses: Statuses) -> None:
        secrets = self._journal.type_id(SECRETS)
        for event, stored, _ in some:
            before: dict[str, Any] | None = parsed(stored) if isinstance(stored, bytes) else stored
            after: dict[str, Any] = parsed(event.body)
            self._cache(event, after)
            head = self._describe(event.type_id)
            text = text_of(head, event, before, after, values=event.type_id != secrets)
            scope = _scope_words(event.type_id, event.namespace, event.verb)
            who = f"{event.user} {event.manager} {event.reason}".replace("\0", " ")
            words.append((event.offset, text, who, scope))
            if before is not None and _changes_status_only(before, after):
                statuses.setdefault(scope_of(event), array("Q")).append(event.offset)

    def _cache(self, event: Event, parsed: dict[str, Any]) -> None:
        if event.removed:
            self._parsed.remove(_key(event))
        else:
            self._parsed.put(_key(event), event.offset, len(event.body), parsed)

    def _batch(self, wanted: Covered, words: list[Words], statuses: Statuses) -> Batch:
        before, last, mark = self.covered, 0, b""
        covered = (
            wanted if before is None else Covered(min(before.low, wanted.low), max(before.high, wanted.high))
        )
        if words and covered.high == wanted.high:
            last = words[-1][0]
            with _view_of_all(self._journal) as view:
                mark = event_mark(view, last)
        return Batch(before, covered, last, mark, (wanted.high - 1) // BATCH, words, statuses)

    def find(
        self, expression: str, after: int, upto: int, limit: int, *, descending: bool
    ) -> LongWork[tuple[list[int], int]]:
        """See `IndexFile.find`. Raises Unavailable if there is no index."""
        work = partial(self._file.find, expression, after, upto, limit, _SECONDS, descending=descending)
        found: tuple[list[int], int] = yield Piece(work, waits=True)
        return found

    def partitions(self, after: int, upto: int) -> LongWork[list[int]]:
        """See `IndexFile.partitions`. Raises Unavailable if there is no index."""
        found: list[int] = yield Piece(partial(self._file.partitions, after, upto), waits=True)
        return found

    def find_all(self, expression: str, after: int, upto: int, partition: int) -> LongWork[list[int]]:
        """See `IndexFile.find_all`. Raises Unavailable if there is no index."""
        work = partial(self._file.find_all, expression, after, upto, partition)
        found: list[int] = yield Piece(work, waits=True)
        return found


_SECONDS: Final = 1.0  # seconds of one search, checked between two partitions
_CANDIDATES: Final = 500  # found at once, if a filter does not accept all of them
_SLICE: Final = 20  # events read per step


def find_events(
    journal: Journal,
    text: TextIndex,
    expression: str,
    wanted: Range,
    check: Callable[[Event], Hit | None],
    *,
    limit: int,
    max_bytes: int,
) -> LongWork[Found]:
    """Find events with these words that pass a check, in order. Bounds their number and the work, as `scan` does."""
    hits: list[Hit] = []
    size = cost = 0
    after, upto = wanted.after, wanted.upto
    while after < upto:
        many = min(limit - len(hits) + 1, _CANDIDATES)
        found, stopped = yield from text.find(expression, after, upto, many, descending=wanted.descending)
        at = 0
        while at < len(found):
            events, looked = yield Piece(partial(_events_at, journal, found[at : at + _SLICE]))
            at += looked
            for event in events:
                if len(hits) >= limit or cost >= MAX_COST or size >= max_bytes:
                    return Found(hits, event.offset, size)
                cost += EVENT_COST + len(event.body) // BYTES_PER_COST
                if (hit := check(event)) is not None:
                    hits.append(hit)
                    size += len(event.body)
        if stopped or len(found) < many:
            return Found(hits, stopped, size)
        after, upto = (after, found[-1] - 1) if wanted.descending else (found[-1], upto)
    return Found(hits, 0, size)


def _events_at(journal: Journal, offsets: list[int]) -> tuple[list[Event], int]:
    """Return the first of these events, without removed ones, and how many offsets they took."""
    events: list[Event] = []
    left = _BYTES
    with journal.read() as view:
        for looked, offset in enumerate(offsets, 1):
            if (event := view.readable(offset)) is not None:
                events.append(event)
                left -= len(event.body)
                if left <= 0:
                    return events, looked
    return events, len(offsets)


_COUNTED: Final = 4000  # events, per step
_TRACKS: Final = 500  # per step
_COUNT_SECONDS: Final = 3.0


class Counted(NamedTuple):
    merged: int  # how many buckets were merged into one
    searched_from: int  # events before this offset are not counted; 0: all are


def count_found(
    text: TextIndex,
    expression: str,
    rows: Sequence[tuple[Cells, Sequence[Track]]],
    edges: Sequence[int],
    most: int,
    left_out: LeftOut | None,
) -> LongWork[Counted]:
    """Count the events of every row that have these words, newest first, in at most `most` cells in total."""
    merged, first, last = 1, edges[0], edges[-1]
    if not expression:
        return Counted(merged, 0)
    partitions = yield from text.partitions(first, last)
    until = turns.now() + _COUNT_SECONDS
    for number in partitions:
        if turns.now() > until:
            return Counted(merged, (number + 1) * PARTITION)
        found = yield from text.find_all(expression, first, last, number)
        if not found:
            continue
        hits = yield Piece(partial(set, found))
        pairs = ((cells, track) for cells, tracks in rows for track in tracks)
        while some := list(islice(pairs, _TRACKS)):
            parts = yield Piece(partial(_parts, some, found[0], found[-1]))
            for cells, scope, change, offsets in parts:
                without = left_out(scope) if left_out is not None and change == UPDATED else NOTHING
                for at in range(0, len(offsets), _COUNTED):
                    counted = offsets[at : at + _COUNTED]
                    yield Piece(partial(_count_hits, counted, hits, without, edges, change, cells))
        while (yield from _count_cells(rows)) > most and len(edges) > 2:
            merged *= 2
            edges = [*edges[:-1:2], edges[-1]]
            for cells, _ in rows:
                yield Piece(partial(cells.merge, 2))
    return Counted(merged, 0)


_Part: TypeAlias = "tuple[Cells, bytes, int, array[int]]"  # row, scope, change and offsets


def _parts(some: Iterable[tuple[Cells, Track]], first: int, last: int) -> list[_Part]:
    """Return the offsets in the range, by track and change."""
    return [
        (cells, track.scope, change, offsets[start:end])
        for cells, track in some
        for change, offsets in enumerate(track.offsets)
        if (start := bisect_left(offsets, first)) < (end := bisect_right(offsets, last))
    ]


def _count_cells(rows: Sequence[tuple[Cells, Sequence[Track]]]) -> LongWork[int]:
    many = 0
    for at in range(0, len(rows), _TRACKS):
        many += yield Piece(partial(_cells_of, rows[at : at + _TRACKS]))
    return many


def _cells_of(rows: Iterable[tuple[Cells, Sequence[Track]]]) -> int:
    return sum(len(cells) for cells, _ in rows)


def _count_hits(
    offsets: array[int], hits: set[int], without: array[int], edges: Sequence[int], change: int, cells: Cells
) -> None:
    matching = array("Q", [offset for offset in offsets if offset in hits and not has(without, offset)])
    cells.total += len(matching)
    walk(matching, edges, change, cells.counts)


def _next_range(covered: Covered | None, start: int, head: int) -> Covered | None:
    """Return the offsets of the batch to index next."""
    if covered is None:
        low, high = start, head
    elif covered.high < head:
        low, high = covered.high, min(head, covered.high - covered.high % BATCH + BATCH)
    else:
        low, high = start, covered.low
    if low >= high or (covered is not None and covered.high < start):
        return None
    return Covered(max(low, (high - 1) // BATCH * BATCH), high)


def _view_of_all(journal: Journal) -> View:
    """Return a view of all events, also those after the position of a replay.

    The replay may step back while a batch is read, which must have no gaps.
    """
    return journal.read_all() if isinstance(journal, Recording) else journal.read()


def _key(event: Event) -> _Name:
    return event.type_id, event.namespace, event.name


def scope_of(event: Event) -> bytes:
    return keys.pack_type(event.type_id) + event.namespace.encode()


def _changes_status_only(before: dict[str, Any], after: dict[str, Any]) -> bool:
    try:
        return is_status_only(before, after)
    except RecursionError:
        return False


class StatusOnly:
    """The updates that changed only status, by type and namespace, as far as events are indexed."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._change = 0
        self._offsets: Statuses = {}

    def refresh(self, start: int) -> LongWork[None]:
        """Read what was added since, and drop events up to `start`. Raises Unavailable if there is no index."""
        change, found = yield Piece(partial(self._file.statuses, self._change), waits=True)
        together: dict[bytes, list[array[int]]] = {}
        for statuses in found:
            for scope, offsets in statuses.items():
                together.setdefault(scope, []).append(offsets)
        for scope, some in together.items():
            yield Piece(partial(self._merge, scope, some, start))
        self._change = change

    def _merge(self, scope: bytes, some: list[array[int]], start: int) -> None:
        """Replace arrays instead of changing them: another task may be counting."""
        merged = self._offsets.get(scope, array("Q"))
        fresh = array("Q")
        for offsets in some:
            fresh += offsets
        if merged and fresh and fresh[0] <= merged[-1]:
            newer = fresh[bisect_right(fresh, merged[-1]) :]
            older = fresh[: bisect_left(fresh, merged[0])]
            within = fresh[len(older) : len(fresh) - len(newer)]
            if not set(within) <= set(merged):
                merged = array("Q", sorted({*merged, *within}))
            merged = older + merged + newer
        else:
            merged = merged + fresh
        self._offsets[scope] = merged[bisect_right(merged, start) :]

    def of(self, scope: bytes) -> array[int]:
        return self._offsets.get(scope) or _NONE


_NONE: Final = array("Q")
