"""`rewound blame`: who set each field of an object, when, and with which version and manager.

    rewound blame deploy/web                         every field, one per line
    rewound blame pod/web-1 --field spec.containers  fields that begin so
    rewound blame cm/web --at 10m                    as it was ten minutes ago
    rewound blame cm/web --data-dir backup           from a data folder, without a server

-o json has the Blame of the API. A ^ marks fields that may be older than what the journal keeps.
"""

from __future__ import annotations

from rewound.actors.rewind.difference import COLUMN_WIDTH, escaped, left_out_text, shortened
from rewound.cli.journal.flags import (
    MOMENT,
    Options,
    Parser,
    add_object,
    add_output,
    add_show_secrets,
    add_source,
    add_uid,
    moment,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output, identity, masked_field, with_manager
from rewound.client.errors import Failure
from rewound.recording.query.entries import Document
from rewound.recording.query.moments import Moment, local, micros_of


def add_flags(parser: Parser) -> None:
    add_object(parser)
    parser.add_argument(
        "--at", type=moment, default=Moment(), metavar="MOMENT", help=f"{MOMENT} (default now)"
    )
    parser.add_argument("--field", default="", metavar="PREFIX", help="only fields that begin with this")
    add_uid(parser)
    add_show_secrets(parser)
    add_output(parser, "json")
    add_source(parser)


def run(options: Options, output: Output) -> int:
    with open_source(options) as source:
        wanted = source.wanted(options.kind, options.name, options.namespace, uid=options.uid)
        document = source.blame(wanted, options.at)
    mask = wanted.kind.is_secret and not options.show_secrets
    left_out = document.get("leftOut", 0)
    chosen = [one for one in document["fields"] if one["field"].startswith(options.field)]
    if options.field and not chosen:
        among = f" among those shown ({left_out_text(left_out)})" if left_out else ""
        raise Failure(f"--field: {wanted.text} has no field that begins with {options.field!r}{among}")
    fields = [masked_field(one) if mask else one for one in chosen]
    if options.output == "json":
        named = identity(wanted.kind, wanted.namespace or "", wanted.name)
        ends = {name: document[name] for name in ("version", "time")}
        output.json(
            {
                "kind": "Blame",
                "apiVersion": "rewound.cluster.io/v1",
                **ends,
                "object": named,
                "fields": [with_manager(one) for one in fields],
                **({"leftOut": left_out} if left_out else {}),
            }
        )
    else:
        for line in _lines(fields):
            output.line(escaped(line))
        if left_out:
            output.line(left_out_text(left_out))
    return 0


def _user(one: Document) -> str:
    return f"{one['user']} (guessed)" if one.get("userGuessed") else str(one["user"])


def _manager(one: Document) -> str:
    return f"{one['fieldManager']} (guessed)" if one.get("guessed") else str(one["fieldManager"])


def _lines(fields: list[Document]) -> list[str]:
    rows = [(one["version"], local(micros_of(one["time"]))[:19], _user(one), _manager(one)) for one in fields]
    widths = [min(COLUMN_WIDTH, max((len(row[at]) for row in rows), default=0)) for at in range(4)]
    lines = []
    for (version, *rest), one in zip(rows, fields, strict=True):
        cells = [
            version.rjust(widths[0]),
            *(cell.ljust(width) for cell, width in zip(rest, widths[1:], strict=True)),
        ]
        mark = "^" if one.get("compacted") else " "
        lines.append(f"{mark}{'  '.join(cells)}  {one['field']}: {shortened(one['value'])}")
    return lines
