"""The form in which a caller sees objects: as they are, as rows of a table, or their metadata alone.

Writes choose it before they read their body: a request whose representation cannot be given changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from actors.kinds.declaration.definition import Definition
from actors.names import Names
from actors.store.reads import Listing
from gateway.requests.call import Call
from gateway.wire.documents import frame_of
from gateway.wire.forms import PartialForm, TableForm


class Form(Protocol):
    def item(self, body: bytes) -> bytes:
        """An object as part of something else, such as an event."""

    def document(self, body: bytes) -> bytes:
        """An object as a whole response, which ends with a newline."""

    def listing(self, listing: Listing) -> bytes:
        """A list as a whole response."""


class Forms:
    def __init__(self, names: Names, now: Callable[[], int]) -> None:
        self._names = names
        self._now = now

    def of(self, call: Call, definition: Definition) -> Form:
        """How this definition's objects are shown to this caller; refuses an includeObject that does not exist."""
        wanted = call.representation
        if not wanted.form:
            return frame_of(definition)
        if wanted.form != "Table":
            return PartialForm(definition, self._names, wanted.form_version)
        include = call.parameters.first("includeObject") or ""
        return TableForm(definition, self._names, wanted.form_version, include, self._now)
