"""`rewound show`: one event with its object.

Who wrote it, when and with what, how it differs from the version before, and the object as it was stored.

    rewound show 1042
    rewound show 1042 -o yaml --data-dir backup
"""

from __future__ import annotations

import orjson

from rewound.actors.rewind.difference import escaped
from rewound.cli.journal.flags import (
    Options,
    Parser,
    add_managed_fields,
    add_output,
    add_show_secrets,
    add_source,
    offset,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import (
    Output,
    event_document,
    print_changes,
    verb_color,
    yaml_of,
)
from rewound.journal.records import Event
from rewound.recording.query.entries import Entry, Kind, object_bytes, object_name, size
from rewound.recording.query.moments import exact


def add_flags(parser: Parser) -> None:
    parser.add_argument("offset", type=offset, metavar="VERSION", help="as `rewound log` shows it")
    add_managed_fields(parser)
    add_show_secrets(parser)
    add_output(parser, "json", "yaml")
    add_source(parser, "of its object: needed by a user who sees only this one")


def run(options: Options, output: Output) -> int:
    with open_source(options) as source:
        entry = source.event(options.offset, options.namespace, show_secrets=options.show_secrets)
        kind = source.kind_of(entry.event.type_id)
    if options.output == "text":
        _print(output, entry, kind, managed_fields=options.show_managed_fields)
        return 0
    document = event_document(entry, kind, managed_fields=options.show_managed_fields)
    (output.json if options.output == "json" else output.yaml)(document)
    return 0


def _print(output: Output, entry: Entry, kind: Kind, *, managed_fields: bool) -> None:
    event = entry.event
    output.line(output.paint(f"event {event.offset}", "bold"))
    removed = "" if entry.follows or not event.previous else " (no longer in the journal)"
    fields = {
        "time": exact(event.time),
        "user": event.user_text,
        "manager": event.manager_text,
        **({"reason": event.reason} if event.reason else {}),
        "verb": event.verb + (", the object was removed" if event.removed else ""),
        "object": f"{kind.kind} {object_name(event.namespace, event.name)}",
        "type": " ".join(filter(None, (kind.type_name, kind.api_version))),
        "follows": f"{event.previous}{removed}" if event.previous else _follows_nothing(event),
        "size": size(len(event.body)),
    }
    for name, value in fields.items():
        color = verb_color(event) if name == "verb" else ""
        output.line(f"  {output.paint(f'{name:8}', 'dim')} {output.paint(escaped(value), color)}")
    if entry.follows:
        _print_difference(output, entry, managed_fields=managed_fields)
    output.line(output.paint("object", "bold"))
    try:
        lines = yaml_of(object_bytes(kind, entry.body)).splitlines()
    except orjson.JSONDecodeError:
        lines = ["its bytes are no object in JSON: another program wrote them, or they cannot be read"]
    for line in lines:
        output.line(f"  {escaped(line)}")


def _print_difference(output: Output, entry: Entry, *, managed_fields: bool) -> None:
    output.line(output.paint(f"changes since {entry.event.previous}", "bold"))
    if not entry.compared(managed_fields=managed_fields):
        output.line("  none")
    print_changes(output, entry, "  ", managed_fields=managed_fields)


def _follows_nothing(event: Event) -> str:
    return "versions that are no longer in the journal" if event.is_cut else "nothing: it did not exist"
