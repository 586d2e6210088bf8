"""`rewound journal state`: all objects at a version or a time.

A table for people; with -o json or -o yaml the objects, in one document of kind List.

    rewound journal state --at 10m --kind pods           the pods of ten minutes ago
    rewound journal state --at 1042 -o yaml > all.yaml   every object at a version
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import orjson

from rewound.gateway.cli.journal.printing import Columns, Output, object_bytes, size
from rewound.gateway.cli.journal.query.events import Selection, parse_selection
from rewound.gateway.cli.journal.query.flags import (
    Options,
    Parser,
    add_kinds,
    add_output,
    add_show_secrets,
    moment,
)
from rewound.gateway.cli.journal.query.folder import Folder, Kind, Masking, masked, open_folder
from rewound.gateway.cli.journal.query.moments import Moment, local, resolve
from rewound.journal.view import View

SLICE = 500  # objects read in one view


@dataclass(frozen=True)
class Stored:
    kind: Kind
    body: bytes
    time: int = 0  # of the event that wrote it; 0 when not requested or compacted
    masked: bool = False  # a Secret whose values are not printed

    @cached_property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = orjson.loads(self.body)["metadata"]
        return metadata

    @property
    def names(self) -> tuple[str, str]:
        return self.metadata.get("namespace", ""), self.metadata["name"]

    @property
    def printed(self) -> bytes:
        return object_bytes(self.kind, masked(self.body) if self.masked else self.body)

    def with_time(self, view: View) -> Stored:
        event = view.event(int(self.metadata["resourceVersion"]))
        return self if event is None else replace(self, time=event.time)


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "--at", type=moment, default=Moment(), metavar="MOMENT", help="an offset or a time (default now)"
    )
    add_kinds(parser)
    add_show_secrets(parser)
    add_output(parser, "json", "yaml")


def run(options: Options, output: Output) -> int:
    with open_folder(options.data_dir) as folder:
        selection = parse_selection(folder.kinds, options)
        with folder.journal.read() as view:
            version = resolve(view, options.at)
            view.at(version)
        printing = {"text": _print_list, "json": _print_json, "yaml": _print_yaml}[options.output]
        masking = Masking(folder.kinds, show_secrets=options.show_secrets)
        with_time = options.output == "text"
        printing(output, version, _objects(folder, selection, version, masking, with_time=with_time))
    return 0


def _objects(
    folder: Folder, selection: Selection, version: int, masking: Masking, *, with_time: bool
) -> Iterator[list[Stored]]:
    """In slices, each from its own view, all at the same version."""
    for kind in selection.kinds or folder.kinds.all():
        number, where = folder.kinds.type_id(kind), selection.one_namespace
        mask = masking.applies(number)
        after: tuple[str, str] | None = None
        more = True
        while more:
            with folder.journal.read() as view:
                page = view.at(version).page(number, where, after=after, limit=SLICE)
                found = [Stored(kind, body, masked=mask) for body in page.bodies]
                if selection.selects_names:
                    found = [one for one in found if selection.matches_names(*one.names)]
                if with_time:
                    found = [one.with_time(view) for one in found]
            after, more = page.last, page.more
            yield found


def _print_list(output: Output, version: int, slices: Iterator[list[Stored]]) -> None:
    columns = Columns(
        output, ("KIND", "NAMESPACE", "NAME", "VERSION", "CHANGED", "SIZE"), ("VERSION", "SIZE")
    )
    count, each = 0, chain.from_iterable(slices)
    # Many kinds have a few objects each: print them as one table.
    while objects := list(islice(each, SLICE)):
        columns.rows([_cells(one) for one in objects], [_COLORS] * len(objects))
        count += len(objects)
    counted = "1 object" if count == 1 else f"{count} objects"
    output.line(output.paint(f"{counted} at version {version}", "dim"))


_COLORS = ["", "", "bold", "cyan", "dim", ""]


def _cells(stored: Stored) -> list[str]:
    metadata = stored.metadata
    changed = local(stored.time) if stored.time else ""
    return [stored.kind.kind, *stored.names, metadata["resourceVersion"], changed, size(len(stored.body))]


def _print_json(output: Output, version: int, slices: Iterator[list[Stored]]) -> None:
    write, comma = output.stream.write, ""
    write(f'{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[')
    for objects in slices:
        for stored in objects:
            write(comma + stored.printed.decode())
            comma = ","
    write("]}\n")


def _print_yaml(output: Output, version: int, slices: Iterator[list[Stored]]) -> None:
    from rewound.gateway.wire.yaml import from_json

    write, title = output.stream.write, "items:\n"
    write("apiVersion: v1\n")
    for objects in slices:
        for stored in objects:
            # A list of one prints as its item would inside the document.
            write(title + from_json(b"[%b]" % stored.printed).decode())
            title = ""
    write("items: []\n" if title else "")
    write(f'kind: List\nmetadata:\n  resourceVersion: "{version}"\n')
