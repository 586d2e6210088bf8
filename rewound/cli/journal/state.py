"""`rewound state`: all objects at a version or a time; `rewound at` is the same with kinds as arguments.

rewound state --at 10m --kind pods                   the pods of ten minutes ago
rewound state --at 1042 -o yaml > all.yaml           every object at a version
"""

from __future__ import annotations

from rewound.cli.journal.at import Names, add_flags_of_objects, print_objects, scopes
from rewound.cli.journal.flags import MOMENT, Options, Parser, add_kinds, moment
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output
from rewound.recording.query.moments import Moment


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "--at", type=moment, default=Moment(), metavar="MOMENT", help=f"{MOMENT} (default now)"
    )
    add_kinds(parser)
    add_flags_of_objects(parser)


def run(options: Options, output: Output) -> int:
    options.all_namespaces = options.all_namespaces or not options.namespace
    names = Names(options.namespace or "*", options.name or "*")
    with open_source(options) as source:
        print_objects(source, scopes(source, options.kind, options), options.at, names, options, output)
    return 0
