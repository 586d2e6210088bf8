"""ETags of documents: a client that already has the document gets a 304 response instead of the body."""

from __future__ import annotations

import hashlib


def etag_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest().upper()


def quoted(etag: str) -> bytes:
    return f'"{etag}"'.encode()


def matches(if_none_match: bytes | None, etag: str) -> bool:
    """Whether the If-None-Match header lists this ETag; * matches any."""
    if not if_none_match:
        return False
    listed = (one.strip().removeprefix(b"W/") for one in if_none_match.split(b","))
    return any(one in (quoted(etag), b"*") for one in listed)
