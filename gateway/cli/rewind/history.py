"""`rewound history`: the versions of an object, newest first, also of a deleted one.

rewound history cm web                          who changed it, when, and what
rewound history deployments.apps web -n shop --limit 5
rewound history cm web --diff 9..12             what changed between two versions or times
rewound history cm web --diff 10m..             and since ten minutes ago
rewound history cm web --data-dir backup        from a data folder, without a server
"""

from __future__ import annotations

from rewound.gateway.cli.access.flags import Options, Parser, UsageError
from rewound.gateway.cli.journal.query.flags import count
from rewound.gateway.cli.rewind.flags import add_object, add_source, add_uid, ends, open_source, wanted
from rewound.gateway.cli.rewind.printing import (
    difference_lines,
    masked_patch,
    operation_lines,
    print_json,
    print_lines,
)
from rewound.gateway.cli.rewind.source import Document


def add_flags(parser: Parser) -> None:
    add_object(parser)
    parser.add_argument("--limit", type=count, metavar="N", help="only the newest N")
    parser.add_argument("--diff", type=ends, metavar="A..B", help="compare two versions or times instead")
    add_uid(parser)
    add_source(parser, "json")


def run(options: Options) -> int:
    if options.diff is not None and options.limit is not None:
        raise UsageError("--limit: has no effect with --diff; leave one of them out")
    target = wanted(options)
    with open_source(options) as source:
        mask = not options.show_secrets and source.is_secret(target)
        if options.diff is not None:
            if options.output == "json":
                print_json(_masked(source.diff(target, options.diff), mask))
            else:
                print_lines(difference_lines(*source.contents(target, options.diff), mask=mask))
            return 0
        items = (_masked(item, mask) for item in source.history(target, options.limit))
        if options.output == "json":
            print_json({"kind": "History", "items": list(items)})
            return 0
        for item in items:
            print_lines([_title(item), *operation_lines(item["patch"], " " * 8)])
    return 0


def _masked(document: Document, mask: bool) -> Document:
    return {**document, "patch": masked_patch(document["patch"])} if mask else document


def _title(item: Document) -> str:
    manager = f" with {item['fieldManager']}" if item["fieldManager"] else ""
    reason = f" ({item['reason']})" if item.get("reason") else ""
    gone = "; what it changed is no longer in the journal" if item.get("compacted") else ""
    when = item["time"].replace("T", " ")[:23]
    return f"{item['version']:>6}  {when}  {item['user']}  {item['verb']}{manager}{reason}{gone}"
