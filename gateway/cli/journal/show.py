"""`rewound journal show`: one event with its object.

Who wrote it, when and with what, how it differs from the version before, and the object as it was stored.

    rewound journal show 1042
    rewound journal show 1042 -o yaml --data-dir backup
"""

from __future__ import annotations

from rewound.actors.golang.json import unescaped
from rewound.actors.rewind.difference import escaped
from rewound.gateway.cli.command import Failure
from rewound.gateway.cli.journal.printing import (
    Output,
    event_document,
    object_bytes,
    object_name,
    print_changes,
    size,
    verb_color,
)
from rewound.gateway.cli.journal.query.events import Entry, entry_for
from rewound.gateway.cli.journal.query.flags import (
    Options,
    Parser,
    add_managed_fields,
    add_output,
    add_show_secrets,
    offset,
)
from rewound.gateway.cli.journal.query.folder import Folder, Kind, Masking, open_folder
from rewound.gateway.cli.journal.query.moments import exact
from rewound.journal import history
from rewound.journal.view import View


def add_flags(parser: Parser) -> None:
    parser.add_argument("offset", type=offset, metavar="OFFSET", help="as `rewound journal log` shows it")
    add_managed_fields(parser)
    add_show_secrets(parser)
    add_output(parser, "json", "yaml")


def run(options: Options, output: Output) -> int:
    with open_folder(options.data_dir) as folder:
        masking = Masking(folder.kinds, show_secrets=options.show_secrets)
        entry = _found(folder, options.offset, masking)
        kind = folder.kinds.of_type_id(entry.event.type_id)
    if options.output == "text":
        _print(output, entry, kind, managed_fields=options.show_managed_fields)
    else:
        document = event_document(entry, kind, managed_fields=options.show_managed_fields)
        _print_document(output, document, options.output)
    return 0


def _found(folder: Folder, wanted: int, masking: Masking) -> Entry:
    with folder.journal.read() as view:
        event = view.event(wanted)
        if event is None:
            raise Failure(_missing(view, wanted))
        return entry_for(view, event, masking)


def _missing(view: View, wanted: int) -> str:
    head, floor = view.head, view.floor
    if wanted > head:
        return f"there is no event {wanted} yet: the newest is {head}"
    if wanted <= floor:
        return f"event {wanted} is no longer in the journal, which has all events after {floor}"
    near = next(history.ascending(view, history.whole_log(view), wanted))
    return f"there is no event {wanted}: nothing was committed under that offset; the next one is {near}"


def _print(output: Output, entry: Entry, kind: Kind, *, managed_fields: bool) -> None:
    event = entry.event
    output.line(output.paint(f"event {event.offset}", "bold"))
    removed = "" if entry.follows or not event.previous else " (no longer in the journal)"
    fields = {
        "time": exact(event.time),
        "user": event.user,
        "manager": event.manager,
        **({"reason": event.reason} if event.reason else {}),
        "verb": event.verb + (", the object was removed" if event.removed else ""),
        "object": f"{kind.kind} {object_name(event.namespace, event.name)}",
        "type": " ".join(filter(None, (kind.type_name, kind.api_version))),
        "follows": f"{event.previous}{removed}" if event.previous else "nothing: it did not exist",
        "size": size(len(event.body)),
    }
    for name, value in fields.items():
        color = verb_color(event) if name == "verb" else ""
        output.line(f"  {output.paint(f'{name:8}', 'dim')} {output.paint(escaped(value), color)}")
    if entry.follows:
        _print_difference(output, entry, managed_fields=managed_fields)
    output.line(output.paint("object", "bold"))
    for line in _yaml(object_bytes(kind, entry.body)).splitlines():
        output.line(f"  {escaped(line)}")


def _print_difference(output: Output, entry: Entry, *, managed_fields: bool) -> None:
    output.line(output.paint(f"changes since {entry.event.previous}", "bold"))
    if not entry.compared(managed_fields=managed_fields):
        output.line("  none")
    print_changes(output, entry, "  ", managed_fields=managed_fields)


def _print_document(output: Output, document: object, form: str) -> None:
    if form == "json":
        output.json(document)
    else:
        output.stream.write(_yaml(unescaped(document)))


def _yaml(body: bytes) -> str:
    # Imported when needed: it imports much of the server.
    from rewound.gateway.wire.yaml import from_json

    return from_json(body).decode()
