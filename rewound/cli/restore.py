"""`rewound restore`: create a data folder from a backup, as the server was at any version or time in it.

Versions, contents, users and the cluster id are those of the server that was backed up; the journal goes on by itself
from there, on a timeline of its own. Every checksum is verified, and a damaged file leaves nothing. Copy the folder
pki of the old data folder, too: tokens, certificates and kubeconfig files stay valid.

    rewound restore cluster.backup --data-dir restored                all of it
    rewound restore cluster.backup --data-dir restored --at 1042      up to a version
    rewound restore cluster.backup --data-dir restored --at 12:03     up to a time
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from rewound.cli.access.flags import Options, Parser
from rewound.cli.command import exit_on_sigterm, run_command
from rewound.cli.journal.flags import moment
from rewound.client.errors import UsageError
from rewound.journal.errors import JournalError
from rewound.recording.progress import Progress
from rewound.recording.query.moments import Moment, exact, rfc3339


def restore(arguments: Sequence[str]) -> int:
    parser = Parser("rewound restore", __doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="that `rewound backup` has written")
    parser.add_argument(
        "--data-dir", type=Path, required=True, metavar="DIR", help="which must not have a journal"
    )
    parser.add_argument(
        "--at",
        type=moment,
        default=Moment(),
        metavar="MOMENT",
        help="a version (1042), a time (2024-05-01T12:03:00Z, 12:03) or how long ago (10m); default the newest",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default text)")
    return run_command(
        lambda: _restore(parser.parse_args(arguments)),
        [(UsageError, 2), ((JournalError, OSError), 1)],
    )


def _restore(options: Options) -> int:
    from rewound.journal.backup import restore_backup

    folder: Path = options.data_dir
    with exit_on_sigterm(), Progress("restore") as progress:
        found = restore_backup(
            options.file,
            folder / "journal",
            offset=options.at.offset,
            time=options.at.time,
            progress=progress,
        )
    if options.output == "json":
        document = {"folder": str(folder), "events": found.events, "head": found.head, "floor": found.base}
        print(json.dumps({**document, "time": rfc3339(found.time)}))
        return 0
    print(f"restored {found.events} events up to version {found.head} of {exact(found.time)} into {folder}")
    if found.base:
        print(f"its oldest version is {found.base}")
    print(f"serve it with: rewound serve --data-dir {shlex.quote(str(folder))}")
    return 0
