"""`rewound journal diff`: what changed between two versions or times.

Objects created, deleted and changed in between, field by field. Only objects with events in between are read, so
two near versions of a large journal are compared quickly. With B before A it goes back in time: + and - are what B
has and lacks, and the words say what happened, so an object that was created in between is `- ... not yet created`.

    rewound journal diff 1042                            from version 1042 to now
    rewound journal diff 12:00 12:10 --kind pods
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from rewound.actors.rewind.difference import Change, describe, escaped
from rewound.gateway.cli.journal.printing import SIGN_COLORS, Output, identity, object_name
from rewound.gateway.cli.journal.query.events import Selection, compared, parse_selection
from rewound.gateway.cli.journal.query.flags import (
    Options,
    Parser,
    add_kinds,
    add_managed_fields,
    add_output,
    add_show_secrets,
    moment,
)
from rewound.gateway.cli.journal.query.folder import Folder, Kind, Masking, open_folder
from rewound.gateway.cli.journal.query.moments import Moment, exact, local, resolve, rfc3339
from rewound.journal import history, keys
from rewound.journal.errors import Compacted
from rewound.journal.history import ObjectChange
from rewound.journal.records import Event
from rewound.journal.view import View

SLICE = 200  # objects compared in one view

Compare = Callable[[bytes, bytes], list[Change]]  # of two stored contents

_WORDS = {"+": "created", "-": "deleted", "~": "changed"}
_WORDS_BACK = {"-": "created", "+": "deleted", "~": "changed"}  # what happened, by sign, when B is before A


@dataclass(frozen=True, slots=True)
class Difference:
    kind: Kind
    namespace: str
    name: str
    before: int  # 0: did not exist
    after: int
    last: Event  # its last event in between
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
    add_show_secrets(parser)
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    with open_folder(options.data_dir) as folder:
        selection = parse_selection(folder.kinds, options)
        with folder.journal.read() as view:
            a, b = resolve(view, options.a), resolve(view, options.b)
            times = [_time(view, version) for version in (a, b)]
        differences = _differences(folder, selection, (a, b), options)
        if options.output == "json":
            _print_document(output, (a, b), times, differences)
        else:
            _print(output, (a, b), times, differences)
    return 0


def _time(view: View, version: int) -> int:
    """Of the newest event up to a version; 0 when the journal has none."""
    offset = next(history.descending(view, history.whole_log(view), version), 0)
    event = view.event(offset)
    return event.time if event is not None else 0


def _differences(
    folder: Folder, selection: Selection, ends: tuple[int, int], options: Options
) -> Iterator[Difference]:
    low, high = sorted(ends)
    masking = Masking(folder.kinds, show_secrets=options.show_secrets)
    for kind in selection.kinds or folder.kinds.all():
        with folder.journal.read() as view:
            _check_floor(view, low)
            number = folder.kinds.type_id(kind)
            changed = history.changed_objects(view, number, low, high)
        compare = partial(compared, managed_fields=options.show_managed_fields, mask=masking.applies(number))
        objects = iter(sorted(item for item in changed.items() if _matches(selection, item[0])))
        while some := list(islice(objects, SLICE)):
            with folder.journal.read() as view:
                _check_floor(view, low)
                found = [_one(view, kind, one, ends, compare) for one in some]
            yield from (one for one in found if one is not None)


def _check_floor(view: View, low: int) -> None:
    """Retention may remove events meanwhile, which must not look like damage."""
    if low < view.floor:
        raise Compacted(low, view.floor)


def _matches(selection: Selection, key: bytes) -> bool:
    return selection.matches_names(*keys.names_of(key))


def _one(
    view: View, kind: Kind, item: tuple[bytes, ObjectChange], ends: tuple[int, int], compare: Compare
) -> Difference | None:
    key, (before, after, last) = item
    if ends[0] > ends[1]:
        before, after = after, before
    if before == after:
        return None
    changes: list[Change] = []
    if before and after:
        one, other = view.event_of(key, before), view.event_of(key, after)
        changes = compare(one.body, other.body)
    return Difference(kind, *keys.names_of(key), before, after, view.event_of(key, last), changes)


def _words(ends: tuple[int, int]) -> dict[str, str]:
    """What happened to an object, by the sign of its difference."""
    return _WORDS_BACK if ends[0] > ends[1] else _WORDS


def _print(
    output: Output, ends: tuple[int, int], times: list[int], differences: Iterator[Difference]
) -> None:
    counts: Counter[str] = Counter()
    back = ends[0] > ends[1]
    for one in differences:
        counts[one.sign] += 1
        title = f"{one.sign} {one.kind.kind} {object_name(one.namespace, one.name)}"
        painted = output.paint(escaped(title), SIGN_COLORS[one.sign])
        output.line(f"{painted}  {output.paint(escaped(_last_change(one, back=back)), 'dim')}")
        for change in one.changes:
            text = output.fit(escaped(f"    {change.sign} {describe(change)}"))
            output.line(output.paint(text, SIGN_COLORS[change.sign]))
    counted = ", ".join(
        f"{counts[sign]} {_not_yet(sign, back=back)}{word}"
        for sign, word in _words(ends).items()
        if counts[sign]
    )
    moments = [
        f"{version} ({exact(at)})" if at else str(version) for version, at in zip(ends, times, strict=True)
    ]
    where = f"going back from {' to '.join(moments)}" if back else f"between {' and '.join(moments)}"
    output.line(output.paint(f"{counted or 'nothing changed'} {where}", "dim"))


def _not_yet(sign: str, *, back: bool) -> str:
    return "not yet " if back and sign != "~" else ""


def _last_change(one: Difference, *, back: bool) -> str:
    versions = " -> ".join(str(version) for version in (one.before, one.after) if version)
    not_yet = _not_yet(one.sign, back=back)
    what = f" {not_yet}{_WORDS_BACK[one.sign]}," if not_yet else ""
    return f"{versions},{what} last {one.last.verb} by {one.last.user} at {local(one.last.time)}"


def _print_document(
    output: Output, ends: tuple[int, int], times: list[int], differences: Iterator[Difference]
) -> None:
    document: dict[str, Any] = {
        side: {"offset": version, "time": rfc3339(at) if at else None}
        for side, version, at in zip(("from", "to"), ends, times, strict=True)
    }
    words = _words(ends)
    document |= {"backward": ends[0] > ends[1]} | {word: [] for word in _WORDS.values()}
    for one in differences:
        entry: dict[str, Any] = identity(one.kind, one.namespace, one.name)
        entry |= {side: at for side, at in (("before", one.before), ("after", one.after)) if at}
        entry["last"] = {
            "offset": one.last.offset,
            "time": rfc3339(one.last.time),
            "user": one.last.user,
            "verb": one.last.verb,
            "manager": one.last.manager,
            **({"guessed": True} if one.last.is_guess else {}),
        }
        if one.sign == "~":
            entry["changes"] = [change.document() for change in one.changes]
        document[words[one.sign]].append(entry)
    output.json(document)
