"""The commands that read a journal, of a server, a data folder or a file: runs one and reports its errors.

`cli.main` calls it, for `rewound log` as for `rewound journal log`. A command is a module with
`add_flags(parser)` and `run(options, output)`, imported when it runs. Exit codes: 0, 1 when what is asked for is not
there or not sound, 2 for wrong arguments, 130 after Ctrl-C, 141 when the reader of the output has closed the pipe.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rewound.actors.errors import RequestError
from rewound.cli.access.flags import Parser
from rewound.cli.command import Failures, run_command
from rewound.cli.journal.flags import split_object
from rewound.cli.journal.printing import Output
from rewound.client.errors import ClientError, Failure, UsageError
from rewound.journal.errors import JournalError

COMMANDS = {
    "log": ("log", "who did what, when; -f follows"),
    "history": ("history", "the versions of an object, and what changed"),
    "show": ("show", "one event with its object, and what it changed"),
    "at": ("at", "objects as they were at a version or a time"),
    "diff": ("diff", "what changed between two versions or times"),
    "since": ("since", "what differs from a moment when all was well, without noise"),
    "compare": ("compare", "what differs between two recordings, or two moments of one"),
    "blame": ("blame", "who set each field of an object"),
    "suspects": ("suspects", "what changed before an object broke, ranked, each with its reasons"),
    "why": ("why", "which node won a pod and by what, and which nodes do not fit"),
    "rollback": ("rollback", "update an object to what it was"),
    "undelete": ("undelete", "create a deleted object again"),
    "stats": ("stats", "sizes, counts and rates"),
    "verify": ("verify", "check every record, and that the state equals a replay"),
    "recover": ("recover", "save what is sound in a damaged folder into a new one"),
    "export": ("export", "write the journal to one portable file"),
    "import": ("importing", "create a new data folder from such a file"),
}
OLD_COMMANDS = {"state": "state"}  # names of earlier releases, which no help lists
_LINES = "".join(f"  rewound journal {name:9} {text}\n" for name, (_, text) in COMMANDS.items())
USAGE = f"""\
usage: rewound journal <command> [flags]

{_LINES}
Each is a command without `journal` too: `rewound log`. They read a server (--kubeconfig, --server), a data folder
(--data-dir) or a file (--file).
A moment is a version (1042), a time (2024-05-01T12:03:00Z, 12:03) or how long ago (10m).
"""
_EXAMPLE = re.compile(rf"\brewound ({'|'.join([*COMMANDS, *OLD_COMMANDS])})\b")


def journal(arguments: Sequence[str], called: str = "rewound journal") -> int:
    """Run a command. `called` is the part of the command line before its name."""
    name, *rest = arguments or [""]
    if name in ("--help", "-h", "help"):
        if not rest:
            print(USAGE, end="")
            return 0
        name, rest = rest[0], ["--help"]
    module = OLD_COMMANDS.get(name) or COMMANDS.get(name, ("",))[0]
    if not module:
        print(_unknown(name) + USAGE, end="", file=sys.stderr)
        return 2
    command = import_module(f"rewound.cli.journal.{module}")
    parser = Parser(f"{called} {name}", _EXAMPLE.sub(rf"{called} \1", command.__doc__ or ""))
    command.add_flags(parser)
    failures: Failures = (
        (UsageError, 2),
        ((ClientError, Failure, JournalError, RequestError, OSError), 1),
    )
    return run_command(lambda: _run(command, parser, rest), failures)


def _run(command: Any, parser: Parser, rest: Sequence[str]) -> int:
    options = parser.parse_intermixed_args(rest)
    split_object(options)
    output = Output.of(sys.stdout, getattr(options, "color", "never"))
    code: int = command.run(options, output)
    output.flush()
    return code


def _unknown(name: str) -> str:
    if not name:
        return ""
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"rewound: {name!r} is not a command of the journal{meant}\n\n"
