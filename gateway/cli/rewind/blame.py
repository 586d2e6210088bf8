"""`rewound blame`: who set each field of an object, when, and with which version and manager.

    rewound blame deployments.apps web               every field, one per line
    rewound blame pod web-1 --field spec.containers  fields that begin so
    rewound blame cm web --at 10m                    as it was ten minutes ago
    rewound blame cm web --data-dir backup           from a data folder, without a server

A ^ marks fields that may be older than what the journal keeps.
"""

from __future__ import annotations

from rewound.actors.rewind.difference import shortened
from rewound.gateway.cli.access.flags import Options, Parser
from rewound.gateway.cli.command import Failure
from rewound.gateway.cli.rewind.flags import add_object, add_source, add_uid, moment, open_source, wanted
from rewound.gateway.cli.rewind.printing import masked_field, print_json, print_lines
from rewound.gateway.cli.rewind.source import Document


def add_flags(parser: Parser) -> None:
    add_object(parser)
    parser.add_argument(
        "--at", type=moment, default="now", metavar="MOMENT", help="a version, a time or how long ago"
    )
    parser.add_argument("--field", default="", metavar="PREFIX", help="only fields that begin with this")
    add_uid(parser)
    add_source(parser, "json")


def run(options: Options) -> int:
    target = wanted(options)
    with open_source(options) as source:
        document = source.blame(target, options.at)
        mask = not options.show_secrets and source.is_secret(target)
    chosen = [one for one in document["fields"] if one["field"].startswith(options.field)]
    if options.field and not chosen:
        raise Failure(
            f"--field: {options.kind} {options.name} has no field that begins with {options.field!r}"
        )
    fields = [masked_field(one) if mask else one for one in chosen]
    if options.output == "json":
        print_json({**document, "fields": fields})
    else:
        print_lines(_lines(fields))
    return 0


def _manager(one: Document) -> str:
    return f"{one['fieldManager']} (guessed)" if one.get("guessed") else str(one["fieldManager"])


def _lines(fields: list[Document]) -> list[str]:
    rows = [
        (one["version"], one["time"].replace("T", " ")[:19], one["user"], _manager(one)) for one in fields
    ]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
    lines = []
    for (version, *rest), one in zip(rows, fields, strict=True):
        cells = [
            version.rjust(widths[0]),
            *(cell.ljust(width) for cell, width in zip(rest, widths[1:], strict=True)),
        ]
        mark = "^" if one.get("compacted") else " "
        lines.append(f"{mark}{'  '.join(cells)}  {one['field']}: {shortened(one['value'])}")
    return lines
