"""One request of a load, independent of the transport that encodes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: bytes | None = None
    media: str = "application/json"


class BadResponse(Exception):
    """The server sent something that the harness cannot parse."""
