"""A zygote: a process that has imported the server and forks it. The fixture and `rewound envtest` each run one.

Importing the server takes longer than starting it. A forked child has the modules already, shares their memory, and
is ready a few hundredths of a second later. A zygote runs no event loop and no thread, so forking it is safe.

A request is four bytes of length and a body, sent over a Unix socket together with file descriptors. To the first of
these the zygote writes the child's exit code when it has ended, which a killed child cannot do itself; the others are
for the child. The zygote ends with the process that runs the tests.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

from rewound.testing.killed import exit_code

LENGTH: Final = 4  # bytes before the body of a request
_SECONDS: Final = 1.0  # between two looks whether the tests still run, where the system reports no end


class Zygote:
    def __init__(self, control: socket.socket, parent: int) -> None:
        """Requests arrive at `control`; `parent` is the process that runs the tests."""
        self.control, self._parent = control, parent
        self._reports: dict[int, int] = {}  # by pid of a running child: where to write its exit code
        self._child_ended, self._wake = socket.socketpair()

    def serve(self, handle: Callable[[Zygote], bool], later: Iterable[str] = ()) -> None:
        """Call `handle` when a request arrives, until it returns False or the parent ends.

        Modules named in `later` are imported while no request waits.
        """
        ended = _end_of(self._parent)
        self._watch_children()
        watched: list[Any] = [self.control, self._child_ended, *([] if ended is None else [ended])]
        pending = list(later)
        try:
            while _is_alive(self._parent):
                ready, _, _ = select.select(watched, [], [], 0 if pending else _SECONDS)
                if ended is not None and ended in ready:
                    return
                if self._child_ended in ready:
                    self._child_ended.recv(4096)
                    self._reap()
                if self.control in ready:
                    if not handle(self):
                        return
                elif pending and not ready:
                    import_module(pending.pop(0))
        finally:
            signal.set_wakeup_fd(-1)  # children that end with this process must not write to a closed socket

    def fork(self, descriptors: list[int], run: Callable[[list[int]], int]) -> None:
        """Call `run` in a child, with all descriptors but the first. Raises OSError if the system allows no child."""
        report, *others = descriptors
        try:
            child = os.fork()
            if child == 0:
                self._run_child(report, others, run)
            self._reports[child] = report
        except OSError:
            os.close(report)
            raise
        finally:
            for descriptor in others:
                os.close(descriptor)

    def _run_child(self, report: int, descriptors: list[int], run: Callable[[list[int]], int]) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (self.control, self._child_ended, self._wake):
                one.close()
            for descriptor in (report, *self._reports.values()):
                os.close(descriptor)
            status = run(descriptors)
        finally:
            os._exit(status)

    def _watch_children(self) -> None:
        for one in (self._child_ended, self._wake):
            one.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _reap(self) -> None:
        for pid in list(self._reports):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found == 0:
                continue
            with socket.socket(fileno=self._reports.pop(pid)) as report, suppress(OSError):
                report.send(bytes([exit_code(os.waitstatus_to_exitcode(status))]), socket.MSG_DONTWAIT)


def import_server(modules: Iterable[str], dialects: Iterable[str]) -> None:
    """Import modules and compute the default roles, which every server needs at its start."""
    from rewound.actors.bootstrap.objects import default_roles
    from rewound.actors.kinds.catalog import Catalog
    from rewound.actors.names import NAMES

    for dialect in dialects:
        default_roles(NAMES[dialect], Catalog().structs)
    import_modules(modules)


def import_modules(modules: Iterable[str]) -> None:
    for name in modules:
        import_module(name)
    gc.freeze()
    if sys.platform == "linux" and len(os.listdir("/proc/self/task")) != 1:
        raise SystemExit("an import has started a thread: forking is not safe")


def receive(connection: socket.socket, count: int) -> tuple[bytes, list[int]]:
    """The body of a request, and the file descriptors with it. Raises OSError or ValueError if it is not whole."""
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH, count)
    try:
        body = _exactly(connection, int.from_bytes(head + _exactly(connection, LENGTH - len(head)), "big"))
        if len(descriptors) != count:
            raise ValueError("not a request")
        return body, descriptors
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def watch_line(line: socket.socket, asked: Callable[[], None], closed: Callable[[], NoReturn]) -> None:
    """Call `asked` for each byte that arrives over a child's line, and `closed` when its other end is closed.

    This runs in a thread, so that it also ends a server whose event loop hangs.
    """

    def watch() -> None:
        try:
            while line.recv(1):
                asked()
        except OSError:
            pass
        closed()

    threading.Thread(target=watch, daemon=True, name="lifeline").start()


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        if not (more := connection.recv(size - len(received))):
            raise ValueError("half of a request")
        received += more
    return received


def _end_of(process: int) -> int | None:
    """A descriptor that becomes readable when a process ends; None where the system has none, and after its end."""
    with suppress(OSError):
        return os.pidfd_open(process) if hasattr(os, "pidfd_open") else None
    return None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
