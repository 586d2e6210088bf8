"""`rewound journal history`: all versions of one object that the journal still has.

Who wrote each version, when, and what changed, field by field; also across deletions.

    rewound journal history cm default/web
    rewound journal history clusterroles view -n 5       the newest five versions
"""

from __future__ import annotations

from collections.abc import Iterator

from rewound.actors.rewind.difference import escaped
from rewound.actors.rewind.documents import manager_text
from rewound.gateway.cli.command import Failure, UsageError
from rewound.gateway.cli.journal.printing import (
    Output,
    effect,
    event_document,
    identity,
    object_name,
    print_changes,
    size,
    verb_color,
)
from rewound.gateway.cli.journal.query.events import Entry, EventReader, Selection
from rewound.gateway.cli.journal.query.flags import (
    Options,
    Parser,
    add_limits,
    add_managed_fields,
    add_output,
    add_show_secrets,
)
from rewound.gateway.cli.journal.query.folder import Folder, Kind, Masking, open_folder
from rewound.gateway.cli.journal.query.moments import local


def add_flags(parser: Parser) -> None:
    parser.add_argument("kind", metavar="KIND", help="ConfigMap, configmaps, cm or configmaps.<group>")
    parser.add_argument("object", metavar="NAMESPACE/NAME", help="NAME alone for cluster-scoped kinds")
    add_limits(parser)
    add_managed_fields(parser)
    add_show_secrets(parser)
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    with open_folder(options.data_dir) as folder:
        kind = folder.kinds.find(options.kind)
        namespace, name = _names(kind, options.object)
        entries = _entries(folder, Selection((kind,), namespace, name), options)
        first = next(entries, None)
        if first is None:
            where = object_name(namespace, name)
            raise Failure(
                f"no version of {kind.type_name} {where} is in the journal; `rewound journal log` shows what is"
            )
        if options.output == "json":
            _print_document(output, kind, (namespace, name), [first, *entries], options)
        else:
            _print(output, first, options)
            for entry in entries:
                _print(output, entry, options)
    return 0


def _names(kind: Kind, text: str) -> tuple[str, str]:
    namespace, slash, name = text.rpartition("/")
    if kind.namespaced and not namespace:
        raise UsageError(f"{kind.type_name} are namespaced; write NAMESPACE/NAME, as in default/{name}")
    if kind.namespaced is False and slash:
        raise UsageError(f"{kind.type_name} are cluster-scoped; write the name alone: {name}")
    if "*" in text or "?" in text or "[" in text:
        raise UsageError(f"{text!r} is not one object; `rewound journal log --name` takes wildcards")
    return namespace, name


def _entries(folder: Folder, selection: Selection, options: Options) -> Iterator[Entry]:
    masking = Masking(folder.kinds, show_secrets=options.show_secrets)
    reader = EventReader(folder.journal, selection, masking)
    head = folder.journal.head
    first = reader.newest(options.limit, 0, head) if options.limit else 0
    for entries in (reader.backward if options.reverse else reader.forward)(first, head):
        yield from entries


def _print(output: Output, entry: Entry, options: Options) -> None:
    event = entry.event
    verb = output.paint(event.verb, verb_color(event))
    where = f"{output.paint(f'{event.offset:6}', 'cyan')}  {output.paint(local(event.time), 'dim')}"
    manager = f" with {escaped(manager_text(event))}" if event.manager else ""
    output.line(f"{where}  {escaped(event.user)}  {verb}{manager}: {_outcome(entry)}")
    print_changes(output, entry, " " * 8, managed_fields=options.show_managed_fields)


def _outcome(entry: Entry) -> str:
    if entry.event.removed:
        return "removed"
    if entry.event.previous and not entry.follows:
        return f"{size(len(entry.event.body))}; what it changed is no longer in the journal"
    if not entry.event.previous:
        return f"created, {size(len(entry.event.body))}"
    return effect(entry) if not entry.changes else f"{len(entry.changes)} changed"


def _print_document(
    output: Output, kind: Kind, names: tuple[str, str], entries: list[Entry], options: Options
) -> None:
    managed = options.show_managed_fields
    versions = [event_document(entry, kind, managed_fields=managed) for entry in entries]
    output.json({**identity(kind, *names), "versions": versions})
