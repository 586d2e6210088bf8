"""`rewound at`: objects as they were at a version or a time.

rewound at 10m pods                             ten minutes ago
rewound at 1042 cm web -o yaml                  one object at a version
rewound at 2026-11-15T04:07:33Z deployments.apps -A
rewound at 1042 pods --data-dir backup          from a data folder, without a server
"""

from __future__ import annotations

from rewound.gateway.cli.access.flags import Options, Parser, UsageError
from rewound.gateway.cli.rewind.flags import add_object, add_source, moment, open_source, wanted
from rewound.gateway.cli.rewind.printing import masked_object, print_json, print_lines, print_yaml
from rewound.gateway.cli.rewind.source import Document


def add_flags(parser: Parser) -> None:
    parser.add_argument("at", type=moment, metavar="MOMENT", help="a version, a time or how long ago")
    add_object(parser, name_optional=True)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="in every namespace")
    add_source(parser, "json", "yaml")


def run(options: Options) -> int:
    if options.name and options.all_namespaces:
        raise UsageError("--all-namespaces: leave it out for one object")
    target = wanted(options)
    with open_source(options) as source:
        objects = source.objects(target, options.at)
        if not options.show_secrets and source.is_secret(target):
            objects = [masked_object(one) for one in objects]
    if options.output == "text":
        print_lines(_table(objects))
        return 0
    document = objects[0] if options.name else {"apiVersion": "v1", "kind": "List", "items": objects}
    (print_json if options.output == "json" else print_yaml)(document)
    return 0


def _table(objects: list[Document]) -> list[str]:
    rows = [["NAMESPACE", "NAME", "VERSION", "CREATED"]]
    for one in objects:
        metadata = one["metadata"]
        created = metadata.get("creationTimestamp") or ""
        rows.append([metadata.get("namespace", ""), metadata["name"], metadata["resourceVersion"], created])
    if not any(row[0] for row in rows[1:]):
        rows = [row[1:] for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
