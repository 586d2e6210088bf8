"""Errors, exit codes and signals of all commands but `rewound serve`.

Exit codes: 130 after Ctrl-C, 141 when the reader of the output has closed the pipe, and those of errors. An error is
reported in one sentence that says what is wrong and what to do next.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from rewound.actors.rewind.difference import escaped
from rewound.client.errors import Failure

Failures = Sequence[
    tuple[type[Exception] | tuple[type[Exception], ...], int]
]  # errors, and the exit code of each


def run_command(run: Callable[[], int], failures: Failures) -> int:
    """Run a command and report the errors that it expects; any other error is a bug."""
    try:
        code = run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return broken_pipe()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        for kinds, code in failures:
            if isinstance(error, kinds):
                return _fail(error, code)
        raise


def broken_pipe() -> int:
    # The interpreter would try to flush its buffer at exit and print an error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _fail(error: Exception, code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return broken_pipe()
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space" if full else "check the path and its permissions"
        error = Failure(f"{where}{error.strerror or error}; {advice}")
    # An error may quote what the server sent. Only an install hint has several lines.
    print("rewound: " + "\n".join(map(escaped, str(error).split("\n"))), file=sys.stderr)
    return code


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that an interrupted command removes its temporary files.

    Without this, SIGTERM would end the process at once and leave a temporary folder or file.
    """
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


async def cancel_on_signal(scope: Any) -> None:
    """Cancel a scope at SIGTERM or Ctrl-C."""
    import trio

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            scope.cancel()
            return


def only_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Unwrap the error that ended all tasks."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
