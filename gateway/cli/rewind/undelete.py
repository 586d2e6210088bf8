"""`rewound undelete`: create a deleted object again, from its last content.

    rewound undelete cm web                         the last object of this name
    rewound undelete cm web --uid 69a8b9fc-...      one of several; `rewound history` shows the uids
    rewound undelete cm web --dry-run -o yaml       only show what would be written
    rewound undelete cm web --data-dir backup       print the object; a folder is never written to

It is an ordinary create, with a new uid: admission and validation apply, and the journal records the reason.
"""

from __future__ import annotations

from rewound.gateway.cli.access.flags import Options, Parser
from rewound.gateway.cli.rewind.flags import add_object, add_source, add_uid, open_source, wanted
from rewound.gateway.cli.rewind.rollback import show


def add_flags(parser: Parser) -> None:
    add_object(parser)
    add_uid(parser)
    parser.add_argument("--dry-run", action="store_true", help="do everything but store the object")
    add_source(parser, "json", "yaml")


def run(options: Options) -> int:
    target = wanted(options)
    with open_source(options) as source:
        written = source.undelete(target, dry_run=options.dry_run)
        mask = not options.show_secrets and source.is_secret(target)
    show(written, options, "undeleted", mask=mask)
    return 0
