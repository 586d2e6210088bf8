"""`rewound promote`: make a standby the leader.

The standby must not run. Its journal gets a timeline of its own, and is then served like any other: with
writes, controllers and retention. Do not serve the old leader any more; it can follow the new one, unless it has events
that the new one lacks.

    rewound promote --data-dir standby
    rewound serve --data-dir standby
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rewound.cli.access.flags import Options, Parser
from rewound.cli.command import run_command
from rewound.client.errors import UsageError
from rewound.journal.errors import JournalError


def promote(arguments: Sequence[str]) -> int:
    parser = Parser("rewound promote", __doc__)
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path("rewound-data"),
        metavar="DIR",
        help="of the standby (default ./rewound-data)",
    )
    return run_command(
        lambda: _promote(parser.parse_args(arguments)),
        [(UsageError, 2), ((JournalError, OSError), 1)],
    )


def _promote(options: Options) -> int:
    from rewound.journal.copy import promote as begin_timeline

    folder: Path = options.data_dir
    timeline = begin_timeline(folder / "journal")
    print(f"{folder} is that of a leader now, on a timeline of its own since version {timeline.start}")
    print(f"serve it with: rewound serve --data-dir {shlex.quote(str(folder))}")
    return 0
