"""Chooses the encoder for the representation that the client asked for: plain objects, a Table, or metadata alone.

Writes choose it before they read their body: a request whose representation cannot be given changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rewound.actors.conversion.reads import ConvertedObjects
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.store.reads import Listing
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.store import Store
from rewound.gateway.wire.encoders import PartialMetadataEncoder, TableEncoder, object_encoder
from rewound.gateway.wire.list_layouts import Element, ListType
from rewound.gateway.wire.worker_threads import encode_in_thread


class Encoder(Protocol):
    in_thread: int  # stored objects of more bytes are encoded in a worker thread

    def item(self, body: bytes) -> bytes:
        """An object inside another document, such as a watch event."""

    def document(self, body: bytes) -> bytes:
        """An object as a whole response, which ends with a newline."""

    def listing(self, listing: Listing) -> bytes:
        """A list as a whole response."""

    @property
    def list_type(self) -> ListType: ...

    @property
    def element(self) -> Element | None:
        """Makes an element of a list from a stored object; None if it is the stored object."""


async def encode_document(encoder: Encoder, body: bytes) -> bytes:
    """An object as a whole response; in a worker thread if it is or becomes large, and has to be parsed."""
    if len(body) <= encoder.in_thread or encoder.element is None:
        return encoder.document(body)
    return await encode_in_thread(encoder.document, body)


class Encoders:
    def __init__(self, store: Store) -> None:
        # Converts objects by webhooks, where definitions need that (`converts`), before they are encoded.
        self.converted = ConvertedObjects(store.converter)
        self._names = store.names
        self._now = store.write_contexts.now

    def of(self, context: RequestContext, definition: Definition, at: int | None = None) -> Encoder:
        """The encoder for this definition's objects and this request; refuses an unknown includeObject.

        `at` is the time to which ages in a Table are relative; None: the present.
        """
        if not context.representation.as_kind:
            return object_encoder(definition)
        return self.maker(context, at)(definition)

    def maker(self, context: RequestContext, at: int | None = None) -> Callable[[Definition], Encoder]:
        """Makes the encoders of other definitions for this request, and keeps nothing else of it."""
        names, chosen = self._names, context.representation
        now = self._now if at is None else lambda: at
        include = context.parameters.first("includeObject") or ""

        def make(definition: Definition) -> Encoder:
            if not chosen.as_kind:
                return object_encoder(definition)
            if chosen.as_kind != "Table":
                return PartialMetadataEncoder(definition, names, chosen.as_version)
            return TableEncoder(definition, names, chosen.as_version, include, now)

        return make
