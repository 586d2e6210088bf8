"""Why a connection or a request cannot go on, as the connection layer finds it: what HTTP/1.1 and HTTP/2 refuse."""

from __future__ import annotations

from journal.classes.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """The status and message of the response."""

    status: int
    message: str
