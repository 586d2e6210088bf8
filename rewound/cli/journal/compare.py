"""`rewound compare`: what differs between two recordings, such as staging and production, or two moments of one.

    rewound compare staging.journal.gz production.journal.gz --map namespace shop-staging=shop
    rewound compare rewound-data@10:00 rewound-data@12:00 deploy,cm -n shop
    rewound compare staging/ production/ --map text registry.staging=registry --map name web-staging=web

A and B are data folders, or files of `rewound export`, `record` or `backup`; PATH@MOMENT is one as it was then. Names
of A are mapped: `namespace` also in names of Services (`db.NAMESPACE.svc`) and accounts, `name` where a text is the
whole name, `text` everywhere. Versions, uids, times, statuses, cluster IPs, node ports, hashes and the ends of
generated names are ignored, and so are objects that a controller made of others: their owners are compared. `-` is only
in A, `+` only in B, `~` differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rewound.actors.rewind.difference import describe, escaped
from rewound.cli.journal.flags import KIND, Options, Parser, add_output, add_show_secrets
from rewound.cli.journal.printing import SIGN_COLORS, Output, until_printed
from rewound.client.errors import UsageError
from rewound.recording.progress import Progress
from rewound.recording.query.comparing import MAPPED, Compared, Maps, compared, is_compared
from rewound.recording.query.entries import Document, Kind, object_name
from rewound.recording.query.folder import open_file, open_folder
from rewound.recording.query.folder_source import FolderSource
from rewound.recording.query.moments import Moment, parse_moment

Side = tuple[FolderSource, Moment]


def add_flags(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help="a data folder or a file, or one as it was: PATH@MOMENT")
    parser.add_argument("b", metavar="B", help="another one, or the same at another moment")
    parser.add_argument("kinds", nargs="?", default="", metavar="TYPE,...", help=f"(default all); {KIND}")
    parser.add_argument(
        "--map",
        nargs=2,
        action="append",
        default=[],
        metavar=("WHAT", "A=B"),
        help=f"WHAT is {', '.join(MAPPED)}: how A's is written in B; may be repeated",
    )
    parser.add_argument("-n", "--namespace", default="", metavar="NAME", help="of B (default all)")
    add_show_secrets(parser)
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    maps = maps_of(options.map)
    with ExitStack() as stack:
        sides = _open(stack, options.a, options.b)
        kinds = list(_kinds(sides, options.kinds))
        with Progress("compare", len(kinds)) as progress:
            found = until_printed(_found(sides, kinds, maps, options, progress), progress, output)
            (_print_document if options.output == "json" else _print)(output, options, found)
    return 0


def maps_of(given: list[list[str]]) -> Maps:
    """Parse the values of --map. Raises UsageError."""
    found: dict[str, dict[str, str]] = {what: {} for what in MAPPED}
    for what, pair in given:
        one, equals, other = pair.partition("=")
        if what not in found:
            raise UsageError(f"--map: {what!r} is not one of {', '.join(MAPPED)}")
        if not (equals and one and other):
            raise UsageError(f"--map: {pair!r} is no pair A=B, such as shop-staging=shop")
        if found[what].get(one, other) != other:
            raise UsageError(
                f"--map: {what} {one} is mapped to {found[what][one]} and to {other}; leave one out"
            )
        found[what][one] = other
    return Maps(found["namespace"], found["name"], found["text"])


def _open(stack: ExitStack, *texts: str) -> tuple[Side, ...]:
    """Open each PATH or PATH@MOMENT; a path that is given twice once. Raises UsageError if there is nothing."""
    opened: dict[Path, FolderSource] = {}
    sides = []
    for text in texts:
        path, moment = _place(text)
        if (known := path.resolve()) not in opened:
            folder = stack.enter_context(open_folder(path) if path.is_dir() else open_file(path))
            opened[known] = FolderSource(folder)
        source = opened[known]
        # At one version: a live server may go on writing.
        sides.append((source, Moment(offset=source.version(moment).offset)))
    return tuple(sides)


def _place(text: str) -> tuple[Path, Moment]:
    path, moment = Path(text), Moment()
    before, at, after = text.rpartition("@")
    if at and not path.exists():
        path = Path(before)
        try:
            moment = parse_moment(after)
        except ValueError as wrong:
            raise UsageError(f"{text}: {wrong}") from None
    if not path.exists():
        raise UsageError(f"{path}: there is no such folder or file")
    return path, moment


def _kinds(sides: tuple[Side, ...], wanted: str) -> Iterator[tuple[Kind | None, Kind | None]]:
    """The kinds of both sides by name."""
    named = [{one.type_name: one for one in source.kinds()} for source, _ in sides]
    names = sorted(named[0].keys() | named[1].keys())
    if wanted:
        names = sorted({_kind(sides, text).type_name for text in wanted.split(",")})
    else:
        names = [name for name in names if is_compared(name)]
    for name in names:
        yield named[0].get(name), named[1].get(name)


def _kind(sides: tuple[Side, ...], text: str) -> Kind:
    try:
        return sides[1][0].kind(text)
    except UsageError:
        return sides[0][0].kind(text)


def _found(
    sides: tuple[Side, ...],
    kinds: list[tuple[Kind | None, Kind | None]],
    maps: Maps,
    options: Options,
    progress: Progress,
) -> Iterator[Compared]:
    for done, pair in enumerate(kinds):
        progress(done)
        kind = pair[1] or pair[0]
        assert kind is not None, "one of the recordings has it"
        first, second = (_objects(*side, one) for side, one in zip(sides, pair, strict=True))
        masks = kind.is_secret and not options.show_secrets
        for one in compared(kind.type_name, kind.kind, first, second, maps, secrets=masks):
            if not options.namespace or options.namespace == one.key[0]:
                yield one


def _objects(source: FolderSource, at: Moment, kind: Kind | None) -> Iterator[Document]:
    if kind is None or not source.folder.kinds.type_id(kind):
        return iter(())
    return source.objects(source.all_of(kind, "", everywhere=True), at)


def _print(output: Output, options: Options, found: Iterator[Compared]) -> None:
    counts: Counter[str] = Counter()
    where = {"-": f"only in {options.a}", "+": f"only in {options.b}", "~": ""}
    for one in found:
        counts[one.sign] += 1
        name = object_name(*one.own) if one.sign == "-" else object_name(*one.key)
        was = f" ({object_name(*one.own)} in A)" if one.sign == "~" and one.own != one.key else ""
        title = output.paint(escaped(f"{one.sign} {one.kind} {name}{was}"), SIGN_COLORS[one.sign])
        output.line(f"{title}  {output.paint(escaped(where[one.sign]), 'dim')}".rstrip())
        for change in one.changes:
            text = output.fit(escaped(f"    {change.sign} {describe(change)}"))
            output.line(output.paint(text, SIGN_COLORS[change.sign]))
    words = {"-": "only in A", "+": "only in B", "~": "different"}
    counted = ", ".join(f"{counts[sign]} {word}" for sign, word in words.items() if counts[sign])
    output.line(output.paint(counted or "no difference", "dim"))


def _print_document(output: Output, options: Options, found: Iterator[Compared]) -> None:
    items: list[dict[str, Any]] = [
        {
            "difference": {"-": "onlyA", "+": "onlyB", "~": "different"}[one.sign],
            "type": one.type_name,
            "kind": one.kind,
            "namespace": one.key[0],
            "name": one.key[1],
            **({"a": {"namespace": one.own[0], "name": one.own[1]}} if one.sign != "+" else {}),
            "changes": [change.document() for change in one.changes],
        }
        for one in found
    ]
    output.json(
        {
            "kind": "Comparison",
            "apiVersion": "rewound.cluster.io/v1",
            "a": options.a,
            "b": options.b,
            "items": items,
        }
    )
