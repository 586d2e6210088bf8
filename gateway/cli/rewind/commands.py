"""The commands about the past: runs one and reports its errors.

`gateway.cli.main` calls `run`. Exit codes: 0, 1 for an error, 2 for wrong arguments, 130 after Ctrl-C, 141 when the
reader of the output has closed the pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from actors.errors import RequestError
from actors.rewind.wording import escaped
from gateway.cli.access.flags import Parser, UsageError
from gateway.cli.journal.query.failure import Failure
from gateway.cli.journal.query.failure import UsageError as JournalUsageError
from gateway.client.errors import ClientError
from journal.errors import JournalError

COMMANDS = ("history", "blame", "rollback", "undelete", "at")


def run(name: str, arguments: Sequence[str]) -> int:
    command = import_module(f"gateway.cli.rewind.{name}")
    parser = Parser(f"rewound {name}", command.__doc__)
    command.add_flags(parser)
    try:
        code: int = command.run(parser.parse_args(arguments))
        sys.stdout.flush()
        return code
    except (UsageError, JournalUsageError) as error:
        return _fail(error, 2)
    except (ClientError, Failure, JournalError, RequestError) as error:
        return _fail(error, 1)
    except BrokenPipeError:
        # The interpreter would try to flush its buffer at exit and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130


def _fail(error: Exception, code: int) -> int:
    print("rewound: " + "\n".join(map(escaped, str(error).split("\n"))), file=sys.stderr)
    return code
