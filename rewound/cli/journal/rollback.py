"""`rewound rollback`: update an object to what it was at a version or a time.

    rewound rollback cm/web --to 9                            all of it
    rewound rollback deploy/web --to 10m --field spec.replicas --field spec.template
    rewound rollback cm/web --to 9 --dry-run                  only show what would change; -o yaml the object
    rewound rollback cm/web --to 9 --data-dir backup          print the object; a folder is never written to

It is an ordinary update: admission and validation apply, and the journal records the reason.
"""

from __future__ import annotations

import orjson

from rewound.actors.rewind.difference import (
    MANAGED_FIELDS,
    RESOURCE_VERSION,
    Change,
    describe,
    difference,
    escaped,
)
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
from rewound.cli.journal.printing import SIGN_COLORS, Output, masked_object
from rewound.client.errors import ClientError, Failure, print_warning
from rewound.recording.query.entries import Document, masked_pair
from rewound.recording.query.moments import Moment
from rewound.recording.query.source import Source, Wanted


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
        before = _present(source, wanted) if source.is_server and options.output == "text" else None
        written = source.rollback(wanted, options.to, options.field, dry_run=options.dry_run)
        what = f"rolled back to {options.to.text or 'now'}"
        print_written(source, wanted, written, what, options, output, before)
    return 0


def _present(source: Source, wanted: Wanted) -> Document | None:
    """The object now; None if it cannot be read: the rollback itself says why, or needs other rights."""
    try:
        return next(source.objects(wanted, Moment()), None)
    except (ClientError, Failure):
        return None


def print_written(
    source: Source,
    wanted: Wanted,
    written: Document,
    what: str,
    options: Options,
    output: Output,
    before: Document | None = None,
) -> None:
    """Print the object, or a line about it; for a folder or file, which is not written to, always the object.

    `before` is the object before the write, if it can be read. A dry run also prints what would change.
    """
    mask = wanted.kind.is_secret and not options.show_secrets
    if options.output == "text" and source.is_server:
        changes = _changes(before, written, mask=mask) if before or what == "undeleted" else None
        version = written["metadata"].get("resourceVersion", "")
        named = f"{options.kind}/{options.name}"
        if changes == []:
            output.line(f"{named} not {what}: it is the same already, nothing changed, version {version}")
            return
        output.line(
            f"{named} {what}{' (dry run, nothing is stored)' if options.dry_run else ''}, version {version}"
        )
        for one in changes or () if options.dry_run else ():
            text = escaped(f"  {one.sign} {describe(one)}")
            output.line(output.paint(output.fit(text), SIGN_COLORS[one.sign]))
        return
    if mask:
        written = masked_object(written)
        if not source.is_server:
            print_warning("values of the Secret are masked; --show-secrets prints an object that can be sent")
    (output.json if options.output == "json" else output.yaml)(written)


def _changes(before: Document | None, after: Document, *, mask: bool) -> list[Change]:
    """What a write changed, besides what every write changes."""
    empty: Document = {"kind": after.get("kind"), "apiVersion": after.get("apiVersion"), "metadata": {}}
    pair = before or empty, after
    earlier, later = masked_pair(*(orjson.loads(orjson.dumps(one)) for one in pair)) if mask else pair
    return difference(earlier, later, RESOURCE_VERSION | {MANAGED_FIELDS, "metadata.generation"})
