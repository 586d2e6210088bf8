"""The commands about access: runs one and reports its errors.

`cli.main` calls `run`. A command is a module with `add_flags(parser)` and `run(options)`, imported when needed.
Exit codes: 0, 1 for an error, 2 for wrong arguments, 130 after Ctrl-C. `can-i` returns 1 for no, so its errors are 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from rewound.cli.access.flags import Parser
from rewound.cli.command import Failures, run_command
from rewound.client.errors import UsageError

COMMANDS = {
    "kubeconfig": "kubeconfig",
    "token": "token",
    "certificate": "certificate",
    "can-i": "can_i",
    "cluster-info": "cluster_info",
}


def run(name: str, arguments: Sequence[str]) -> int:
    module = COMMANDS[name]
    if name == "token" and arguments[:1] == ["bootstrap"]:
        name, module, arguments = "token bootstrap", "bootstrap_token", arguments[1:]
    command = import_module(f"rewound.cli.access.{module}")
    # Imported after the command, which imports it anyway.
    from rewound.client.errors import ClientError

    parser = Parser(f"rewound {name}", command.__doc__)
    command.add_flags(parser)
    failures: Failures = ((UsageError, 2), (ClientError, 2 if name == "can-i" else 1))
    return run_command(lambda: command.run(parser.parse_args(arguments)), failures)
