"""The commands about history: runs one and reports its errors.

`gateway.cli.main` calls `run`. Exit codes: 0, 1 for an error, 2 for wrong arguments, 130 after Ctrl-C, 141 when the
reader of the output has closed the pipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from rewound.actors.errors import RequestError
from rewound.gateway.cli.access.flags import Parser, UsageError
from rewound.gateway.cli.command import Failure, Failures, run_command
from rewound.gateway.cli.command import UsageError as JournalUsageError
from rewound.gateway.client.errors import ClientError
from rewound.journal.errors import JournalError

COMMANDS = ("history", "blame", "rollback", "undelete", "at", "why")


def run(name: str, arguments: Sequence[str]) -> int:
    command = import_module(f"rewound.gateway.cli.rewind.{name}")
    parser = Parser(f"rewound {name}", command.__doc__)
    command.add_flags(parser)
    failures: Failures = (
        ((UsageError, JournalUsageError), 2),
        ((ClientError, Failure, JournalError, RequestError), 1),
    )
    return run_command(lambda: command.run(parser.parse_args(arguments)), failures)
