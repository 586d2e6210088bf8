"""Routes the paths below /debug/rewound/ to their handlers.

A server has them only with --enable-test-controls; otherwise they are 404. They are not resources: the pipeline has
authorized the method on the path (`post` on `/debug/rewound/clock`) before it calls `Controls`.

    controls.add("POST", "snapshots/{name}/restore", restore)  # restore(context, name)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from rewound.actors.errors import BadRequest
from rewound.gateway.handlers.paths import TEST_CONTROLS
from rewound.gateway.message import Response
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import MethodNotAllowed, NoSuchPath

# Gets the request, and the values of the placeholders in its path.
Handler = Callable[..., Awaitable[Response]]


class Controls:
    def __init__(self) -> None:
        self._handlers: dict[tuple[str, ...], dict[str, Handler]] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Serve a path below the prefix; a segment in braces is a placeholder."""
        self._handlers.setdefault(_segments(path), {})[method] = handler

    async def __call__(self, context: RequestContext) -> Response:
        segments = _segments(context.route.path.removeprefix(TEST_CONTROLS))
        for pattern, handlers in self._handlers.items():
            if not _matches(pattern, segments):
                continue
            handler = handlers.get(context.request.method)
            if handler is None:
                raise MethodNotAllowed(list(handlers))
            return await handler(context, *_placeholders(pattern, segments))
        raise NoSuchPath


def json_body(context: RequestContext) -> Any:
    """The JSON document in the body of a request; None if it is empty. Raises BadRequest if it is not JSON."""
    if not context.request.body:
        return None
    try:
        return orjson.loads(context.request.body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def _matches(pattern: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    return len(pattern) == len(segments) and all(
        one == segment or (bool(segment) and one.startswith("{"))
        for one, segment in zip(pattern, segments, strict=True)
    )


def _placeholders(pattern: tuple[str, ...], segments: tuple[str, ...]) -> list[str]:
    return [segment for one, segment in zip(pattern, segments, strict=True) if one.startswith("{")]
