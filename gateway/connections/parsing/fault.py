"""Why a connection or a request cannot go on, as the connection layer finds it: what HTTP/1.1 and HTTP/2 refuse."""

from __future__ import annotations

from dataclasses import dataclass

from actors.quoting import quoted
from gateway.pipeline.parameters import INVALID_ESCAPE


@dataclass(frozen=True, slots=True)
class Fault:
    """The status and message of the response."""

    status: int
    message: str


def escape_fault(path: str) -> Fault | None:
    """What is wrong with the escapes of a path; call it for paths with a percent sign."""
    invalid = INVALID_ESCAPE.search(path)
    if invalid is None:
        return None
    return Fault(400, f"the path of the request has an invalid URL escape {quoted(invalid[0])}")
