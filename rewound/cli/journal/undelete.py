"""`rewound undelete`: create a deleted object again, from its last content.

    rewound undelete cm/web                         the last object of this name
    rewound undelete cm/web --uid 69a8b9fc-...      one of several; `rewound history` shows the uids
    rewound undelete cm/web --dry-run               only show what would be written; -o yaml the object
    rewound undelete cm/web --data-dir backup       print the object; a folder is never written to

It is an ordinary create, with a new uid: admission and validation apply, and the journal records the reason.
"""

from __future__ import annotations

from rewound.cli.journal.flags import Options, Parser, add_object, add_uid
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output
from rewound.cli.journal.rollback import add_write, print_written


def add_flags(parser: Parser) -> None:
    add_object(parser)
    add_uid(parser)
    add_write(parser)


def run(options: Options, output: Output) -> int:
    with open_source(options, writes=True) as source:
        wanted = source.wanted(options.kind, options.name, options.namespace, uid=options.uid)
        written = source.undelete(wanted, dry_run=options.dry_run)
        print_written(source, wanted, written, "undeleted", options, output)
    return 0
