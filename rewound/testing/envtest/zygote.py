"""The zygote of `rewound envtest`: forks an API server for each test environment of one process that runs tests.

The first `etcd` of that process starts it (`programs`), with a listening socket and a lock that says that it runs.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from contextlib import suppress
from functools import partial
from typing import Final

from rewound.testing.envtest.programs import DESCRIPTORS, decoded
from rewound.testing.zygote import Zygote, import_server, receive

_MODULES: Final = ("rewound.actors.access.authorization.chain", "rewound.testing.envtest.api_server")
_SECONDS: Final = 1.0  # for a program to send its request


def main(arguments: list[str]) -> int:
    listener, lock, path, parent = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    with socket.socket(fileno=int(listener)) as control:
        try:
            import_server(_MODULES, ["kubernetes"])
            from rewound.server.background_imports import USED_LATER

            Zygote(control, int(parent)).serve(partial(_handle, int(lock)), USED_LATER)
        finally:
            for name in (path, f"{path}.lock"):
                with suppress(FileNotFoundError):
                    os.unlink(name)
    return 0


def _handle(lock: int, zygote: Zygote) -> bool:
    connection, _ = zygote.control.accept()
    with connection:
        connection.settimeout(_SECONDS)
        # ValueError or OSError: the program has ended, or the system allows no more processes. Without the byte it
        # starts a server itself, or reports why that fails.
        with suppress(OSError, ValueError):
            body, descriptors = receive(connection, DESCRIPTORS)
            zygote.fork(descriptors, partial(_run_child, [lock, connection.fileno()], body))
            connection.sendall(b"f")
    return True


def _run_child(inherited: list[int], body: bytes, descriptors: list[int]) -> int:
    """Run a server with the standard streams, the folder and the environment of the program that asked for it."""
    for descriptor in inherited:
        os.close(descriptor)
    line, *standard = descriptors
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    (assets, folder), arguments, environment = decoded(body)
    os.environ.clear()
    os.environ.update((name, value) for name, _, value in (one.partition("=") for one in environment))
    os.chdir(folder)
    from rewound.testing.envtest.api_server import run_server

    return run_server(arguments, assets, socket.socket(fileno=line))
