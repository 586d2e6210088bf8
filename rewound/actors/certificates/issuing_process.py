"""The child process that creates certificates (`issue.py`); keys pass only through pipes.

It loads the certificate library, which takes longer than creating three certificates. So a start in a new folder
launches it first (`begin_early`), and the library loads while this process imports its own modules. A child without a
request exits when its standard input is closed, at the latest when this process exits.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from subprocess import Popen

_SECONDS: Final = 60

_waiting: list[Popen[bytes]] = []  # at most one, which has no request yet


class IssuingFailed(Exception):
    """The child created no certificates; the text says why."""


@contextmanager
def begin_early(*, wanted: bool) -> Iterator[None]:
    """Start the child now if certificates will be needed; on exit, stop it if it was not used."""
    if wanted:
        _waiting.append(_begin())
    try:
        yield
    finally:
        while _waiting:
            _waiting.pop().communicate()


def make_certificates(request: dict[str, Any]) -> dict[str, Any]:
    """Let the child run `issue.renew` with this request. Raises IssuingFailed if it fails or takes too long."""
    import subprocess  # here, because most starts do not need it

    child = _waiting.pop() if _waiting else _begin()
    try:
        output, errors = child.communicate(json.dumps(request).encode(), _SECONDS)
    except subprocess.TimeoutExpired as error:
        raise IssuingFailed("making certificates took more than a minute; try again") from error
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    if child.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise IssuingFailed(f"certificates could not be made: {lines[-1]}")
    response: dict[str, Any] = json.loads(output)
    return response


def _begin() -> Popen[bytes]:
    from subprocess import PIPE, Popen

    # The child imports from the same places as this process, never from the current folder.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "rewound.actors.certificates.issue"]
    return Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)
