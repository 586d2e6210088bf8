"""Marks of documents (ETag), by which a client that has one is spared it."""

from __future__ import annotations

import hashlib


def mark_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest().upper()


def quoted(mark: str) -> bytes:
    return f'"{mark}"'.encode()


def is_known(if_none_match: bytes | None, mark: str) -> bool:
    """Whether one of the marks that the client names is this one; * stands for any."""
    if not if_none_match:
        return False
    named = (one.strip().removeprefix(b"W/") for one in if_none_match.split(b","))
    return any(one in (quoted(mark), b"*") for one in named)
