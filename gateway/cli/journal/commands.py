"""The commands of `rewound journal`: runs one and reports its errors.

`gateway.cli.main` calls it. A command is a module with `add_flags(parser)` and `run(options, output)`, imported
when it runs. Exit codes: 0, 1 for wrong data, 2 for wrong arguments, 130 after Ctrl-C, 141 when the reader of the
output has closed the pipe.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rewound.gateway.cli.command import Failure, UsageError, broken_pipe
from rewound.gateway.cli.journal.printing import Output
from rewound.gateway.cli.journal.query.flags import Parser
from rewound.gateway.cli.memory_faults import explain_memory_faults
from rewound.journal.errors import JournalError

COMMANDS = {
    "log": ("log", "who did what, when; -f follows a live server"),
    "show": ("show", "one event with its object, and what it changed"),
    "history": ("history", "all versions of one object"),
    "state": ("state", "all objects at a version or a time"),
    "diff": ("diff", "what changed between two versions or times"),
    "stats": ("stats", "sizes, counts and rates"),
    "verify": ("verify", "check every record, and that the state equals a replay"),
    "recover": ("recover", "save what is sound in a damaged folder into a new one"),
    "export": ("export", "write the journal to one portable file"),
    "import": ("importing", "create a new data folder from such a file"),
}
_LINES = "".join(f"  rewound journal {name:9} {text}\n" for name, (_, text) in COMMANDS.items())
USAGE = f"""\
usage: rewound journal <command> [flags]

{_LINES}
All of them take --data-dir (./rewound-data unless given) and --help.
A moment is an offset (1042), a time (2024-05-01T12:03:00Z, 12:03) or how long ago (10m).
"""


def journal(arguments: Sequence[str], called: str = "rewound journal") -> int:
    """`called` is what stands before the name of the command: some have a name without `journal` too."""
    name, *rest = arguments or [""]
    if name in ("--help", "-h", "help"):
        print(USAGE, end="")
        return 0
    if name not in COMMANDS:
        print(_unknown(name) + USAGE, end="", file=sys.stderr)
        return 2
    command = import_module(f"rewound.gateway.cli.journal.{COMMANDS[name][0]}")
    try:
        return _run(f"{called} {name}", command, rest)
    except BrokenPipeError:
        return broken_pipe()
    except KeyboardInterrupt:
        return 130
    except UsageError as error:
        return _fail(str(error), 2)
    except (Failure, JournalError) as error:
        return _fail(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}; check the path and its permissions", 1)


def _run(called: str, command: Any, rest: Sequence[str]) -> int:
    prefix, _, name = called.rpartition(" ")
    parser = Parser(called, command.__doc__.replace("rewound journal", prefix), COMMANDS[name][1])
    command.add_flags(parser)
    options = parser.parse_args(rest)
    explain_memory_faults(options.data_dir)
    output = Output.of(sys.stdout, options.color)
    code: int = command.run(options, output)
    output.flush()
    return code


def _unknown(name: str) -> str:
    if not name:
        return ""
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"rewound: {name!r} is not a command of the journal{meant}\n\n"


def _fail(text: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return broken_pipe()
    print(f"rewound: {text}", file=sys.stderr)
    return code
