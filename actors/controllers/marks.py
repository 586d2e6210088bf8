"""Which objects are being deleted, told from their stored bytes.

Every committed event and, at start, every object passes by here, so the common no is a search for bytes;
only the few that may be marked are parsed. A quoted word can stand anywhere in a body, so a hit proves
nothing.
"""

from __future__ import annotations

from actors.kinds.declaration.meta import FOREGROUND, ORPHAN
from actors.messages import Object
from actors.store.document import decode

_MARK = b'"deletionTimestamp"'
_POLICIES = {name: f'"{name}"'.encode() for name in (ORPHAN, FOREGROUND)}


def is_marked(body: bytes) -> bool:
    return _MARK in body and "deletionTimestamp" in decode(body)["metadata"]


def awaits_collector(body: bytes) -> bool:
    """Whether the object is being deleted and the garbage collector has to act before it can go."""
    return _MARK in body and (_holds(body, ORPHAN) or _holds(body, FOREGROUND))


def awaits_dependents(body: bytes) -> bool:
    """Whether the object is being deleted in the foreground: it goes after its dependents."""
    return _MARK in body and _holds(body, FOREGROUND)


def held_by(stored: Object, finalizer: str) -> bool:
    metadata = stored["metadata"]
    return "deletionTimestamp" in metadata and finalizer in metadata.get("finalizers", ())


def _holds(body: bytes, finalizer: str) -> bool:
    return _POLICIES[finalizer] in body and held_by(decode(body), finalizer)
