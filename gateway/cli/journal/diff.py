"""`rewound journal diff`: what changed between two versions or times.

Objects created, deleted and changed in between, and how, field by field. Only what was touched is looked at, so
two near versions of a large journal are compared at once. With B before A the difference is told backwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gateway.cli.journal.printing.document import identity
from gateway.cli.journal.printing.lines import object_name
from gateway.cli.journal.printing.output import OF_SIGN, Output, harmless
from gateway.cli.journal.printing.wording import told
from gateway.cli.journal.query.difference import Change
from gateway.cli.journal.query.flags import (
    Options,
    Parser,
    add_kinds,
    add_managed_fields,
    add_output,
    moment,
)
from gateway.cli.journal.query.folder import Folder, opened
from gateway.cli.journal.query.kinds import Kind
from gateway.cli.journal.query.moments import Moment
from gateway.cli.journal.query.reading import compared
from gateway.cli.journal.query.selection import Selection, selected
from gateway.cli.journal.query.times import exact, local, rfc3339
from gateway.cli.journal.query.versions import reach
from journal import history, keys
from journal.errors import Compacted
from journal.history import ObjectChange
from journal.records import Event
from journal.view import View

SLICE = 200  # objects compared in one view

_WORDS = {"+": "created", "-": "deleted", "~": "changed"}


@dataclass(frozen=True, slots=True)
class Difference:
    kind: Kind
    namespace: str
    name: str
    before: int  # 0: was not there
    after: int
    last: Event  # what happened to it last in between
    changes: list[Change]

    @property
    def sign(self) -> str:
        if not self.before:
            return "+"
        return "~" if self.after else "-"


def add_flags(parser: Parser) -> None:
    parser.add_argument("a", type=moment, metavar="A", help="an offset or a time")
    parser.add_argument("b", type=moment, nargs="?", default=Moment(), metavar="B", help="(default now)")
    add_kinds(parser)
    add_managed_fields(parser)
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    with opened(options.data_dir) as folder:
        selection = selected(folder.kinds, options)
        with folder.journal.read() as view:
            a, b = reach(view, options.a), reach(view, options.b)
            times = [_time(view, version) for version in (a, b)]
        differences = _differences(folder, selection, (a, b), managed_fields=options.show_managed_fields)
        if options.output == "json":
            _print_document(output, (a, b), times, differences)
        else:
            _print(output, (a, b), times, differences)
    return 0


def _time(view: View, version: int) -> int:
    """Of the newest event up to a version; 0 when none is kept."""
    offset = next(history.descending(view, history.whole_log(view), version), 0)
    event = view.event(offset)
    return event.time if event is not None else 0


def _differences(
    folder: Folder, selection: Selection, ends: tuple[int, int], *, managed_fields: bool
) -> Iterator[Difference]:
    low, high = sorted(ends)
    for kind in selection.kinds or folder.kinds.all():
        with folder.journal.read() as view:
            _prove_kept(view, low)
            touched = history.changed_objects(view, folder.kinds.number(kind), low, high)
        objects = iter(sorted(item for item in touched.items() if _wanted(selection, item[0])))
        while some := list(islice(objects, SLICE)):
            with folder.journal.read() as view:
                _prove_kept(view, low)
                found = [_one(view, kind, one, ends, managed_fields=managed_fields) for one in some]
            yield from (one for one in found if one is not None)


def _prove_kept(view: View, low: int) -> None:
    """Retention goes on meanwhile, and what it took must not look like damage."""
    if low < view.floor:
        raise Compacted(low, view.floor)


def _wanted(selection: Selection, key: bytes) -> bool:
    return selection.names(*keys.names_of(key))


def _one(
    view: View, kind: Kind, item: tuple[bytes, ObjectChange], ends: tuple[int, int], *, managed_fields: bool
) -> Difference | None:
    key, (before, after, last) = item
    if ends[0] > ends[1]:
        before, after = after, before
    if before == after:
        return None
    changes: list[Change] = []
    if before and after:
        one, other = view.event_of(key, before), view.event_of(key, after)
        changes = compared(one.body, other.body, managed_fields=managed_fields)
    return Difference(kind, *keys.names_of(key), before, after, view.event_of(key, last), changes)


def _print(
    output: Output, ends: tuple[int, int], times: list[int], differences: Iterator[Difference]
) -> None:
    counts: Counter[str] = Counter()
    for one in differences:
        counts[one.sign] += 1
        title = f"{one.sign} {one.kind.kind} {object_name(one.namespace, one.name)}"
        painted = output.paint(harmless(title), OF_SIGN[one.sign])
        output.line(f"{painted}  {output.paint(harmless(_by(one)), 'dim')}")
        for change in one.changes:
            text = output.fit(harmless(f"    {change.sign} {told(change)}"))
            output.line(output.paint(text, OF_SIGN[change.sign]))
    said = ", ".join(f"{counts[sign]} {word}" for sign, word in _WORDS.items() if counts[sign])
    moments = [
        f"{version} ({exact(at)})" if at else str(version) for version, at in zip(ends, times, strict=True)
    ]
    output.line(output.paint(f"{said or 'nothing changed'} between {' and '.join(moments)}", "dim"))


def _by(one: Difference) -> str:
    versions = " -> ".join(str(version) for version in (one.before, one.after) if version)
    return f"{versions}, last {one.last.verb} by {one.last.user} at {local(one.last.time)}"


def _print_document(
    output: Output, ends: tuple[int, int], times: list[int], differences: Iterator[Difference]
) -> None:
    document: dict[str, Any] = {
        side: {"offset": version, "time": rfc3339(at) if at else None}
        for side, version, at in zip(("from", "to"), ends, times, strict=True)
    }
    document |= {word: [] for word in _WORDS.values()}
    for one in differences:
        told_as: dict[str, Any] = identity(one.kind, one.namespace, one.name)
        told_as |= {side: at for side, at in (("before", one.before), ("after", one.after)) if at}
        told_as["last"] = {
            "offset": one.last.offset,
            "time": rfc3339(one.last.time),
            "user": one.last.user,
            "verb": one.last.verb,
            "manager": one.last.manager,
        }
        if one.sign == "~":
            told_as["changes"] = [change.document() for change in one.changes]
        document[_WORDS[one.sign]].append(told_as)
    output.json(document)
