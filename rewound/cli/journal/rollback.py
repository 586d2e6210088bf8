"""`rewound rollback`: update an object to what it was at a version or a time.

    rewound rollback cm web --to 9                            all of it
    rewound rollback deployments.apps web --to 10m --field spec.replicas --field spec.template
    rewound rollback cm web --to 9 --dry-run -o yaml          only show what would be written
    rewound rollback cm web --to 9 --data-dir backup          print the object; a folder is never written to

It is an ordinary update: admission and validation apply, and the journal records the reason.
"""

from __future__ import annotations

from rewound.cli.journal.flags import (
    MOMENT,
    Options,
    Parser,
    add_object,
    add_output,
    add_show_secrets,
    add_source,
    moment,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output, masked_object
from rewound.client.errors import print_warning
from rewound.recording.query.source import Document, Source, Wanted


def add_flags(parser: Parser) -> None:
    add_object(parser)
    parser.add_argument("--to", type=moment, required=True, metavar="MOMENT", help=MOMENT)
    parser.add_argument(
        "--field", action="append", default=[], metavar="FIELD", help="only this field; may be repeated"
    )
    add_write(parser)


def add_write(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="do everything but store the object")
    add_show_secrets(parser)
    add_output(parser, "json", "yaml")
    add_source(parser, writes=True)


def run(options: Options, output: Output) -> int:
    with open_source(options, writes=True) as source:
        wanted = source.wanted(options.kind, options.name, options.namespace)
        written = source.rollback(wanted, options.to, options.field, dry_run=options.dry_run)
        print_written(source, wanted, written, f"rolled back to {options.to.text or 'now'}", options, output)
    return 0


def print_written(
    source: Source, wanted: Wanted, written: Document, what: str, options: Options, output: Output
) -> None:
    """Print the object, or a line about it; for a folder or file, which is not written to, always the object."""
    if wanted.kind.is_secret and not options.show_secrets:
        written = masked_object(written)
        if not source.is_server:
            print_warning("values of the Secret are masked; --show-secrets prints an object that can be sent")
    if options.output == "json":
        output.json(written)
    elif options.output == "yaml" or not source.is_server:
        output.yaml(written)
    else:
        how = " (dry run)" if options.dry_run else ""
        version = written["metadata"].get("resourceVersion", "")
        output.line(f"{options.kind} {options.name} {what}{how}, version {version}")
