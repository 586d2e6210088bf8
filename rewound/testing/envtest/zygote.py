"""A process that has imported the server, and forks one for each test environment of one process that runs tests.

The first `etcd` of the process that runs the tests starts it (`programs`), with a listening socket, and with a lock
that says that it is there. It ends with that process. It runs no event loop and no thread, so that forking is safe.

A server that a signal kills cannot send its exit code: this process does it, over the same line.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

from rewound.testing.envtest.programs import DESCRIPTORS, LENGTH, decoded, end_code, end_of

_AT_START: Final = ("rewound.actors.access.authorization.chain", "rewound.testing.envtest.api_server")
_SECOND: Final = 1.0


def main(arguments: list[str]) -> int:
    listener, lock, path, parent = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    with socket.socket(fileno=int(listener)) as control:
        try:
            _serve(control, int(lock), int(parent))
        finally:
            for name in (path, f"{path}.lock"):
                with suppress(FileNotFoundError):
                    os.unlink(name)
    return 0


def _serve(listener: socket.socket, lock: int, parent: int) -> None:
    """Until the tests have ended. What first requests need is imported while nobody waits for a server."""
    ended = end_of(parent)
    woken, wake = socket.socketpair()  # readable after the end of a child
    for one in (woken, wake):
        one.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    lines: dict[int, int] = {}  # of the children that run, by pid
    watched: list[Any] = [listener, woken] if ended is None else [listener, woken, ended]
    for name in _AT_START:
        import_module(name)
    _prepare()
    from rewound.server.background_imports import USED_LATER

    later = list(USED_LATER)
    while _is_alive(parent):
        ready, _, _ = select.select(watched, [], [], 0 if later else _SECOND)
        if ended is not None and ended in ready:
            return
        if woken in ready:
            woken.recv(4096)
            _reap(lines)
        if listener in ready:
            _accept(listener, lock, lines)
        elif later and not ready:
            import_module(later.pop(0))


def _reap(lines: dict[int, int]) -> None:
    """Send over the lines of killed children what killed them, and close them all."""
    for pid in list(lines):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == 0:
            continue
        with socket.socket(fileno=lines.pop(pid)) as line:
            if os.WIFSIGNALED(status):
                with suppress(OSError):
                    line.send(bytes([end_code(status)]))


def _prepare() -> None:
    """What every server computes at its start."""
    from rewound.actors.bootstrap.objects import default_roles
    from rewound.actors.names import NAMES

    default_roles(NAMES["kubernetes"])
    gc.freeze()
    if sys.platform == "linux" and len(os.listdir("/proc/self/task")) != 1:
        raise SystemExit("an import has started a thread: forking is not safe")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _accept(listener: socket.socket, lock: int, lines: dict[int, int]) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(_SECOND)
        try:
            request, descriptors = _receive(connection)
        except (OSError, ValueError):
            return  # its sender has ended
        try:
            child = os.fork()
            if child == 0:
                for descriptor in (listener.detach(), connection.detach(), lock, *lines.values()):
                    os.close(descriptor)
                _run_child(request, descriptors)
            lines[child] = descriptors.pop(0)
            connection.sendall(b"f")
        except OSError:
            pass  # no further process is allowed; the caller starts one by itself, or reports that
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _receive(connection: socket.socket) -> tuple[list[list[str]], list[int]]:
    """A request, and the file descriptors with it. OSError, ValueError."""
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH, DESCRIPTORS)
    try:
        if len(head) != LENGTH or len(descriptors) != DESCRIPTORS:
            raise ValueError("not a request")
        size, body = int.from_bytes(head, "big"), b""
        while len(body) < size:
            if not (more := connection.recv(size - len(body))):
                raise ValueError("half of a request")
            body += more
        return decoded(body), descriptors
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _run_child(request: list[list[str]], descriptors: list[int]) -> NoReturn:
    """With the standard input, output and error, the folder and the environment of the program that asked."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line, *standard = descriptors
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        (assets, folder), arguments, environment = request
        os.environ.clear()
        os.environ.update((name, value) for name, _, value in (one.partition("=") for one in environment))
        os.chdir(folder)
        from rewound.testing.envtest.api_server import run_server

        status = run_server(arguments, assets, socket.socket(fileno=line))
    finally:
        os._exit(status)
