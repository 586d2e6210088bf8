"""`rewound at`: objects as they were at a version or a time, with the columns that their kind has.

    rewound at 10m pods                             ten minutes ago, in the namespace of the context
    rewound at 1042 cm/web -o yaml                  one object at a version
    rewound at 2026-11-15T04:07:33Z pods,deploy -A -l app=web
    rewound at 12:03                                everything that there was
    rewound at 1042 pods --data-dir backup          of a data folder, without a server

Ages are those of that moment. -o json and -o yaml have one object, or a List of them; -o name their names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from rewound.actors.errors import BadRequest
from rewound.actors.golang.json import unescaped
from rewound.actors.rewind.difference import escaped
from rewound.actors.selectors.labels import LabelSelector
from rewound.cli.journal.flags import (
    KIND,
    MOMENT,
    Options,
    Parser,
    add_output,
    add_show_secrets,
    add_source,
    moment,
    type_and_name,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Columns, Output, masked_object, until_printed, yaml_of
from rewound.client.errors import UsageError
from rewound.recording.progress import Progress
from rewound.recording.query.entries import Document, Kind
from rewound.recording.query.moments import Moment
from rewound.recording.query.source import Source, Wanted

_WILD = frozenset("*?[")
FORMS = ("wide", "name", "json", "yaml")


def add_flags(parser: Parser) -> None:
    parser.add_argument("at", type=moment, metavar="MOMENT", help=MOMENT)
    parser.add_argument(
        "kinds",
        metavar="TYPE[/NAME]",
        nargs="?",
        default="",
        help=f"{KIND}; several with commas (default all)",
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="or NAMESPACE/NAME; * is a wildcard (default all)"
    )
    add_flags_of_objects(parser)


def add_flags_of_objects(parser: Parser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="in every namespace")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="such as app=web,tier!=db")
    add_show_secrets(parser)
    add_output(parser, *FORMS)
    add_source(parser, "of the objects (default: that of the context, or default; without a kind all)")


def run(options: Options, output: Output) -> int:
    options.kinds, options.name = type_and_name(options.kinds, options.name)
    kinds = [one for one in options.kinds.split(",") if one]
    one = options.name and not _WILD & set(options.name)
    if one and options.all_namespaces:
        raise UsageError("--all-namespaces: leave it out for one object")
    if one and len(kinds) > 1:
        raise UsageError(f"{options.name!r}: one object has one kind, not {len(kinds)}")
    if one and options.selector:
        raise UsageError("--selector: has no effect with a name; leave one of them out")
    with open_source(options) as source:
        if one:
            wanted = [source.wanted(kinds[0], options.name, options.namespace)]
            print_objects(source, wanted, options.at, Names(), options, output)
        else:
            names = Names(options.namespace if _WILD & set(options.namespace) else "*", options.name or "*")
            wanted = scopes(source, kinds, options)
            print_objects(source, wanted, options.at, names, options, output)
    return 0


@dataclass(frozen=True, slots=True)
class Names:
    """Patterns that select namespaces and names."""

    namespace: str = "*"
    name: str = "*"

    def match(self, one: Document) -> bool:
        metadata = one["metadata"]
        return fnmatchcase(metadata["name"], self.name) and (
            self.namespace == "*" or fnmatchcase(metadata.get("namespace", ""), self.namespace)
        )


def _one(namespace: str) -> str:
    """The pattern if it has no wildcards, or else None."""
    return "" if _WILD & set(namespace) else namespace


def scopes(source: Source, kinds: list[str], options: Options) -> list[Wanted]:
    """What to list for some kinds. Raises UsageError or Failure if the source does not have them."""
    try:
        LabelSelector.parse(options.selector)
    except BadRequest as wrong:
        raise UsageError(f"--selector: {wrong}") from None
    if options.all_namespaces and options.namespace:
        raise UsageError("--namespace: has no effect with --all-namespaces; leave one of them out")
    everywhere = options.all_namespaces or bool(_WILD & set(options.namespace))
    everywhere = everywhere or (not kinds and not options.namespace)
    chosen: list[str] | list[Kind] = kinds or source.kinds(_one(options.namespace))
    found = [
        source.all_of(one, options.namespace, everywhere=everywhere, labels=options.selector)
        for one in chosen
    ]
    if kinds:
        if options.namespace and all(one.kind.namespaced is False for one in found):
            raise UsageError(f"--namespace: {found[0].kind.type_name} are cluster-scoped; leave it out")
        return list(dict.fromkeys(found))
    return [one for one in found if not options.namespace or one.kind.namespaced is not False]


def print_objects(
    source: Source, wanted: list[Wanted], at: Moment, names: Names, options: Options, output: Output
) -> None:
    if options.output in ("json", "yaml"):
        _print_documents(source, wanted, at, names, options, output)
        return
    several, found = len(wanted) > 1, 0
    with Progress("at", len(wanted)) as progress:
        for number, one in enumerate(wanted):
            progress(number)
            read = until_printed(source.table(one, at), progress, output, lambda table: table["rows"])
            tables = (_matching(table, names) for table in read)
            found += _print_table(tables, one, options.output, output, several and bool(found))
    if not found:
        version = source.version(at)  # raises an error if the journal does not have the moment
        kinds = ", ".join(one.kind.type_name for one in wanted) if 0 < len(wanted) <= 3 else "objects"
        where = f" in namespace {wanted[0].namespace}" if wanted and wanted[0].namespace else ""
        print(f"rewound: there were no {kinds}{where} at version {version.offset}", file=sys.stderr)


def _matching(table: Document, names: Names) -> Document:
    return {**table, "rows": [row for row in table["rows"] if names.match(row["object"])]}


def _print_table(tables: Iterator[Document], wanted: Wanted, form: str, output: Output, follows: bool) -> int:
    """Print the objects of one kind, and return their number. `follows`: a table of another kind is above."""
    columns: Columns | None = None
    shown: list[int] = []
    count = 0
    for table in tables:
        rows = table["rows"]
        if form == "name":
            for row in rows:
                output.line(escaped(f"{_prefix(wanted.kind)}/{row['object']['metadata']['name']}"))
        elif rows:
            if columns is None:
                definitions = table["columnDefinitions"]
                shown = [
                    at for at, one in enumerate(definitions) if form == "wide" or not one.get("priority")
                ]
                titles = [definitions[at]["name"].upper() for at in shown]
                if follows:
                    output.line()
                columns = Columns(output, [*_more_titles(wanted, form), *titles])
            columns.rows([_cells(row, wanted, form, shown) for row in rows])
        count += len(rows)
    return count


def _more_titles(wanted: Wanted, form: str) -> list[str]:
    namespaces = ["NAMESPACE"] if wanted.namespace is None and wanted.kind.namespaced is not False else []
    return [*namespaces, *(["VERSION"] if form == "wide" else [])]


def _cells(row: Document, wanted: Wanted, form: str, shown: list[int]) -> list[str]:
    metadata = row["object"]["metadata"]
    values = {"NAMESPACE": metadata.get("namespace", ""), "VERSION": metadata.get("resourceVersion", "")}
    return [
        *(values[title] for title in _more_titles(wanted, form)),
        *(_cell(row["cells"][at]) for at in shown),
    ]


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        return unescaped(value).decode()
    return "<none>" if value is None else str(value)


def _prefix(kind: Kind) -> str:
    """The prefix of names in kubectl's form, such as deployment.apps."""
    group = kind.type_name.partition(".")[2]
    return f"{kind.kind.lower()}.{group}" if group and kind.api_version else kind.kind.lower()


def _print_documents(
    source: Source, wanted: list[Wanted], at: Moment, names: Names, options: Options, output: Output
) -> None:
    named = bool(wanted and wanted[0].name)
    version = 0 if named else source.version(at).offset
    with Progress("at: reading objects") as progress:
        found = chain.from_iterable(_objects(source, one, at, options) for one in wanted)
        objects = until_printed(filter(names.match, found), progress, output)
        if named:
            (output.json if options.output == "json" else output.yaml)(next(objects))
        else:
            # Written one by one: everything at once may be more than fits into memory.
            (_print_json if options.output == "json" else _print_yaml)(output, version, objects)


def _objects(source: Source, wanted: Wanted, at: Moment, options: Options) -> Iterator[Document]:
    mask = wanted.kind.is_secret and not options.show_secrets
    for one in source.objects(wanted, at):
        yield masked_object(one) if mask else one


def _print_json(output: Output, version: int, objects: Iterator[Document]) -> None:
    write, comma = output.stream.write, ""
    write(f'{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[')
    for one in objects:
        write(comma + unescaped(one).decode())
        comma = ","
    write("]}\n")


def _print_yaml(output: Output, version: int, objects: Iterator[Document]) -> None:
    write, title = output.stream.write, "items:\n"
    write("apiVersion: v1\n")
    for one in objects:
        # A list of one prints as its item would inside the document.
        write(title + yaml_of(b"[%b]" % unescaped(one)))
        title = ""
    write("items: []\n" if title else "")
    write(f'kind: List\nmetadata:\n  resourceVersion: "{version}"\n')
