"""Tells from the stored bytes of an object what its deletion waits for.

Controllers check every committed event and, at start, every object. Therefore a search for bytes decides the common
case, not being deleted, and only the few objects that contain the bytes are parsed: they can occur anywhere in a body,
so a hit proves nothing.
"""

from __future__ import annotations

from actors.kinds.declaration.meta import FOREGROUND, ORPHAN
from actors.messages import Object
from actors.store.document import decode

_DELETION_TIMESTAMP = b'"deletionTimestamp"'
_FINALIZERS = {name: f'"{name}"'.encode() for name in (ORPHAN, FOREGROUND)}


def needs_garbage_collector(body: bytes) -> bool:
    """Whether the object is being deleted and has one of the garbage collector's finalizers."""
    # Not `in`: that first tries to convert the bytes to an integer, which costs an exception.
    return body.find(_DELETION_TIMESTAMP) >= 0 and (_waits_for(body, ORPHAN) or _waits_for(body, FOREGROUND))


def is_in_foreground_deletion(body: bytes) -> bool:
    """Whether the object waits for the deletion of its dependents."""
    return _DELETION_TIMESTAMP in body and _waits_for(body, FOREGROUND)


def deletion_waits_for(stored: Object, finalizer: str) -> bool:
    metadata = stored["metadata"]
    return "deletionTimestamp" in metadata and finalizer in metadata.get("finalizers", ())


def _waits_for(body: bytes, finalizer: str) -> bool:
    return _FINALIZERS[finalizer] in body and deletion_waits_for(decode(body), finalizer)
