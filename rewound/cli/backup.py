"""`rewound backup`: write the journal of a running server to a file, commit by commit.

Everything that the server commits is appended to FILE and durable there, Secrets too. A second run with the same
FILE goes on where it ended. Without --follow it ends when it has what the server has; Ctrl-C ends it otherwise.
The user needs the right to `get` /journal/feed. Certificates and keys are not in the journal: copy the folder pki.

rewound backup cluster.backup --follow https://127.0.0.1:6443       until it is stopped
rewound backup cluster.backup --kubeconfig leader/admin.kubeconfig  up to now
rewound restore cluster.backup --data-dir restored --at 12:03       as it was then
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from rewound.cli.access.flags import Options, Parser, add_connection
from rewound.cli.command import run_command
from rewound.cli.record import EscapingFormatter
from rewound.client.errors import ClientError, UsageError
from rewound.journal.errors import JournalError
from rewound.recording.progress import Progress


def backup(arguments: Sequence[str]) -> int:
    parser = Parser("rewound backup", __doc__)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="to write, or to go on with")
    # Its name in earlier releases. A flag of its own: the argument, if absent, would replace its value by None.
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--follow",
        nargs="?",
        const="",
        default=None,
        metavar="URL",
        help="go on until it is stopped; URL is that of the server, as with --server",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default text)")
    add_connection(parser, "has no effect here")
    return run_command(
        lambda: _backup(parser.parse_args(arguments)),
        [(UsageError, 2), ((ClientError, JournalError, OSError), 1)],
    )


def _backup(options: Options) -> int:
    from rewound.cli.journal.copying import follow_into
    from rewound.journal.backup import BackupFile

    if (options.file is None) is (options.to is None):
        raise UsageError("FILE is missing: name the file to write, as in: rewound backup cluster.backup")
    options.file = options.file or options.to
    if options.namespace:
        raise UsageError("--namespace: a backup has all namespaces; leave it out")
    if options.follow and options.server:
        raise UsageError("--follow: names a server, and so does --server; leave one of them out")
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("rewound: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("rewound.cluster.standby").setLevel(logging.INFO)
    file = BackupFile(options.file)
    with Progress(f"backup to {options.file}") as progress:

        def caught_up() -> bool:
            progress.end()
            _print(options, f"{options.file} has everything up to version {file.head}", file.head)
            return options.follow is None

        follow_into(file, options, options.follow or options.server, progress, caught_up)
    if options.follow is not None:
        _print(options, f"ended at version {file.head}", file.head)
    return 0


def _print(options: Options, text: str, head: int) -> None:
    """Print a line of text, or a JSON document on one line."""
    document = {"file": str(options.file), "head": head}
    print(json.dumps(document) if options.output == "json" else text, flush=True)
