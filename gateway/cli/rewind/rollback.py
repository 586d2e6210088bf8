"""`rewound rollback`: update an object to what it was at a version or a time.

    rewound rollback cm web --to 9                            all of it
    rewound rollback deployments.apps web --to 10m --field spec.replicas --field spec.template
    rewound rollback cm web --to 9 --dry-run -o yaml          only show what would be written
    rewound rollback cm web --to 9 --data-dir backup          print the object; a folder is never written to

It is an ordinary update: admission and validation apply, and the journal records the reason.
"""

from __future__ import annotations

from rewound.gateway.cli.access.flags import Options, Parser
from rewound.gateway.cli.rewind.flags import add_object, add_source, moment, open_source, wanted
from rewound.gateway.cli.rewind.printing import masked_object, print_json, print_yaml
from rewound.gateway.cli.rewind.source import Document
from rewound.gateway.client.errors import print_warning


def add_flags(parser: Parser) -> None:
    add_object(parser)
    parser.add_argument(
        "--to", type=moment, required=True, metavar="MOMENT", help="a version, a time or how long ago"
    )
    parser.add_argument(
        "--field", action="append", default=[], metavar="FIELD", help="only this field; may be repeated"
    )
    parser.add_argument("--dry-run", action="store_true", help="do everything but store the change")
    add_source(parser, "json", "yaml")


def run(options: Options) -> int:
    target = wanted(options)
    with open_source(options) as source:
        written = source.rollback(target, options.to, options.field, dry_run=options.dry_run)
        mask = not options.show_secrets and source.is_secret(target)
    show(written, options, f"rolled back to {options.to}", mask=mask)
    return 0


def show(written: Document, options: Options, what: str, *, mask: bool) -> None:
    """The object, or a line about it; a folder has only the object."""
    if mask:
        written = masked_object(written)
        if options.data_dir is not None:
            print_warning("values of the Secret are masked; --show-secrets prints an object that can be sent")
    if options.output == "json":
        print_json(written)
    elif options.output == "yaml" or options.data_dir is not None:
        print_yaml(written)
    else:
        how = " (dry run)" if options.dry_run else ""
        print(
            f"{options.kind} {options.name} {what}{how}, version {written['metadata'].get('resourceVersion', '')}"
        )
