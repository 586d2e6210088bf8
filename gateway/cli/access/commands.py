"""The commands about access: runs one and reports its errors.

`gateway.cli.main` calls `run`. A command is a module with `add_flags(parser)` and `run(options)`, imported when needed.
Exit codes: 0, 1 for an error, 2 for wrong arguments, 130 after Ctrl-C. `can-i` returns 1 for no, so its errors are 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from actors.rewind.wording import escaped
from gateway.cli.access.flags import Parser, UsageError

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
    command = import_module(f"gateway.cli.access.{module}")
    # Imported after the command, which imports it anyway.
    from gateway.client.errors import ClientError

    parser = Parser(f"rewound {name}", command.__doc__)
    command.add_flags(parser)
    try:
        code: int = command.run(parser.parse_args(arguments))
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _fail(error, 2)
    except ClientError as error:
        return _fail(error, 2 if name == "can-i" else 1)
    except BrokenPipeError:
        # The interpreter would try to flush its buffer at exit and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130


def _fail(error: Exception, code: int) -> int:
    # An error may quote what the server sent. Only an install hint has several lines.
    print("rewound: " + "\n".join(map(escaped, str(error).split("\n"))), file=sys.stderr)
    return code
