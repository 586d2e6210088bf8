"""What dispatch needs of the handlers of the past, which are above it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from actors.kinds.declaration.definition import Definition
from gateway.requests.context import RequestContext
from gateway.requests.request import Response


class Rewind(Protocol):
    def __call__(self, context: RequestContext) -> Awaitable[Response]:
        """Serve a path of the group of the past."""

    def check(self, context: RequestContext) -> object:
        """Raise if such a path or its method is not served."""

    def read_at(self, context: RequestContext, definition: Definition) -> Awaitable[Response]:
        """Serve a get or list of objects as they were."""
