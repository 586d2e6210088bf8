"""The frame around stored bytes: kind and apiVersion before an object, a list around its items.

Built once per definition and kept, because every get and list uses it. An object stored in another version than
the one asked for is converted here, the only case in which a read parses anything.
"""

from __future__ import annotations

from functools import lru_cache

import orjson

from actors.kinds.declaration.definition import Definition
from actors.store.document import decode, type_prefix
from actors.store.reads import Listing


class Frame:
    """How one definition's objects are shown."""

    __slots__ = ("_convert", "_list_head", "_prefix")

    def __init__(self, definition: Definition) -> None:
        self._prefix = type_prefix(definition.kind, definition.api_version)
        self._list_head = type_prefix(definition.kind + "List", definition.api_version)
        self._convert = definition.storage.conversion.from_storage if definition.storage.conversion else None

    def item(self, body: bytes) -> bytes:
        """An object as part of something else, such as an event."""
        return self._prefix + self._shown(body)[1:]

    def document(self, body: bytes) -> bytes:
        """An object as a whole response; the newline at its end costs no further copy of it."""
        return b"".join((self._prefix, self._shown(body)[1:], b"\n"))

    def listing(self, listing: Listing) -> bytes:
        bodies = listing.bodies
        head = self._list_head + b'"metadata":' + orjson.dumps(list_metadata(listing)) + b',"items":['
        if not bodies:
            return head + b"]}\n"
        if self._convert is not None:
            bodies = [self._shown(body) for body in bodies]
        bodies[0] = head + bodies[0]
        bodies[-1] += b"]}\n"
        return b",".join(bodies)

    def _shown(self, body: bytes) -> bytes:
        return body if self._convert is None else orjson.dumps(self._convert(decode(body)))


@lru_cache(maxsize=4096)
def frame_of(definition: Definition) -> Frame:
    return Frame(definition)


def list_metadata(listing: Listing) -> dict[str, object]:
    metadata: dict[str, object] = {"resourceVersion": str(listing.version)} if listing.version else {}
    if listing.token:
        metadata["continue"] = listing.token
    if listing.remaining:
        metadata["remainingItemCount"] = listing.remaining
    return metadata
