"""`rewound diff`: what changed between two versions or times, of one object, of some kinds, or of everything.

Objects created, deleted and changed in between, field by field. Only objects with events in between are read, so
two near versions of a large journal are compared quickly. With B before A it goes back in time: + and - are what B
has and lacks, and the words say what happened, so an object that was created in between is `- ... not yet created`.

    rewound diff 1042                            everything, from version 1042 to now
    rewound diff 12:00 12:10 pods,deploy -n shop
    rewound diff 10m deploy/web                  one object, from ten minutes ago to now
    rewound diff 9..12 cm/web --data-dir backup
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rewound.actors.rewind.difference import Change, describe, escaped
from rewound.cli.journal.flags import (
    KIND,
    Options,
    Parser,
    add_kinds,
    add_managed_fields,
    add_output,
    add_show_secrets,
    add_source,
    type_and_name,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import (
    SIGN_COLORS,
    Output,
    difference_lines,
    identity,
    until_printed,
    version,
)
from rewound.client.errors import UsageError
from rewound.recording.progress import Progress
from rewound.recording.query.entries import object_name
from rewound.recording.query.moments import Moment, exact, local, parse_moment, rfc3339
from rewound.recording.query.source import Difference, Source, Version, Wanted

_WORDS = {"+": "created", "-": "deleted", "~": "changed"}
_WORDS_BACK = {"-": "created", "+": "deleted", "~": "changed"}  # by sign, when B is before A


def add_flags(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help="a version, a time or how long ago; A..B is both")
    parser.add_argument(
        "rest",
        nargs="*",
        metavar="[B] [TYPE,...|TYPE/NAME]",
        help=f"B: the other moment (default now); TYPE: {KIND}",
    )
    add_kinds(parser)
    add_managed_fields(parser)
    add_show_secrets(parser)
    add_output(parser, "json")
    add_source(parser, "objects of this namespace (default all; of one object, that of the context)")


def run(options: Options, output: Output) -> int:
    (a, b), what = _arguments(options)
    if len(what) == 2:
        with open_source(options) as source:
            wanted = source.wanted(what[0], what[1], options.namespace)
            print_one(source, wanted, (a, b), options, output)
        return 0
    options.kind += what[0].split(",") if what else []
    with open_source(options) as source:
        selection = source.selection(options)
        ends = source.version(a), source.version(b)
        with Progress("diff", len(selection.kinds or source.kinds())) as progress:
            differences = source.differences(selection, (ends[0].offset, ends[1].offset), progress)
            found = until_printed(differences, progress, output)
            if options.output == "json":
                print_document(output, ends, found)
            else:
                print_differences(output, ends, found)
    return 0


def _arguments(options: Options) -> tuple[tuple[Moment, Moment], list[str]]:
    """The two moments, and KIND and NAME if given. Raises UsageError."""
    first, dots, second = options.a.partition("..")
    rest: list[str] = list(options.rest)
    try:
        a = parse_moment(first)
        if dots:
            b = parse_moment(second) if second else Moment()
        else:
            b = parse_moment(rest[0]) if rest and _is_moment(rest[0]) else Moment()
            rest = rest[1:] if rest and _is_moment(rest[0]) else rest
    except ValueError as wrong:
        raise UsageError(f"A: {wrong}; see rewound diff --help") from wrong
    if len(rest) == 1 and "/" in rest[0]:
        rest = [*type_and_name(rest[0], "")]
    if len(rest) > 2:
        raise UsageError(f"{rest[2]!r}: after the moments come a kind and a name, no more")
    if len(rest) == 2 and (options.kind or options.name):
        raise UsageError("--kind and --name: KIND and NAME are given already; leave these out")
    return (a, b), rest


def _is_moment(text: str) -> bool:
    """Whether an argument is a moment. No kind looks like one."""
    try:
        parse_moment(text)
    except ValueError:
        return text[:1].isdigit()  # meant as one, and reported as wrong
    return True


def print_one(
    source: Source, wanted: Wanted, ends: tuple[Moment, Moment], options: Options, output: Output
) -> None:
    """Print how one object differs."""
    mask = wanted.kind.is_secret and not options.show_secrets
    before, after = source.contents(wanted, ends)
    lines = difference_lines(before, after, mask=mask, managed_fields=options.show_managed_fields)
    if options.output == "json":
        versions = [None if one is None else one["metadata"]["resourceVersion"] for one in (before, after)]
        output.json(
            {
                "kind": "Difference",
                "apiVersion": "rewound.cluster.io/v1",
                "object": identity(wanted.kind, wanted.namespace or "", wanted.name),
                "from": {"version": ends[0].text or None, "objectVersion": versions[0]},
                "to": {"version": ends[1].text or None, "objectVersion": versions[1]},
                "changes": [one.document() for one in lines if isinstance(one, Change)],
            }
        )
        return
    for one in lines:
        text = one if isinstance(one, str) else f"{one.sign} {describe(one)}"
        output.line(output.paint(output.fit(escaped(text)), SIGN_COLORS.get(text[0], "")))


def _words(ends: tuple[Version, Version]) -> dict[str, str]:
    """What happened to an object, by the sign of its difference."""
    return _WORDS_BACK if _back(ends) else _WORDS


def _back(ends: tuple[Version, Version]) -> bool:
    return ends[0].offset > ends[1].offset


def print_differences(
    output: Output, ends: tuple[Version, Version], differences: Iterator[Difference]
) -> None:
    counts: Counter[str] = Counter()
    back = _back(ends)
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
    moments = [f"{one.offset} ({exact(one.time)})" if one.time else str(one.offset) for one in ends]
    where = f"going back from {' to '.join(moments)}" if back else f"between {' and '.join(moments)}"
    output.line(output.paint(f"{counted or 'nothing changed'} {where}", "dim"))


def _not_yet(sign: str, *, back: bool) -> str:
    return "not yet " if back and sign != "~" else ""


def _last_change(one: Difference, *, back: bool) -> str:
    versions = " -> ".join(str(version) for version in (one.before, one.after) if version)
    not_yet = _not_yet(one.sign, back=back)
    what = f" {not_yet}{_WORDS_BACK[one.sign]}," if not_yet else ""
    return f"{versions},{what} last {one.last.verb} by {one.last.user_text}{_with(one)} at {local(one.last.time)}"


def _with(one: Difference) -> str:
    """The field manager, if a recording guessed it, with its mark; -o json has the others too."""
    return f" with {one.last.manager_text}" if one.last.is_guess else ""


def print_document(output: Output, ends: tuple[Version, Version], differences: Iterator[Difference]) -> None:
    document: dict[str, Any] = {
        side: {**version(end.offset), "time": rfc3339(end.time) if end.time else None}
        for side, end in zip(("from", "to"), ends, strict=True)
    }
    words = _words(ends)
    document |= {"backward": _back(ends)} | {word: [] for word in _WORDS.values()}
    for one in differences:
        entry: dict[str, Any] = identity(one.kind, one.namespace, one.name)
        entry |= {side: at for side, at in (("before", one.before), ("after", one.after)) if at}
        entry["last"] = {
            **version(one.last.offset),
            "time": rfc3339(one.last.time),
            "user": one.last.user,
            "verb": one.last.verb,
            "manager": one.last.manager,
            **({"guessed": True} if one.last.is_guess else {}),
            **({"userGuessed": True} if one.last.is_user_guess else {}),
        }
        if one.sign == "~":
            entry["changes"] = [change.document() for change in one.changes]
        document[words[one.sign]].append(entry)
    output.json(document)
