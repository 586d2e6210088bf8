"""Handlers for tests of the protocol: they return, record or hold back requests."""

from __future__ import annotations

import trio

from rewound.gateway.message import Request, Response


async def echo(request: Request) -> Response:
    return Response(200, request.body, b"text/plain")


class Recorder:
    """Keeps the requests and returns one response to all of them."""

    def __init__(self, response: Response | None = None) -> None:
        self.requests: list[Request] = []
        self._response = response or Response(200, b"recorded", b"text/plain")

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return self._response

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


class Gate:
    """Responds with the request's path, to those under /wait only once `open` is set."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.entered = trio.Event()
        self.paths: list[str] = []

    async def __call__(self, request: Request) -> Response:
        self.paths.append(request.path)
        if request.path.startswith("/wait"):
            self.entered.set()
            await self.open.wait()
        return Response(200, request.path.encode(), b"text/plain")


def body_of(size: int) -> Recorder:
    """A handler whose every response has a body of this size."""
    return Recorder(Response(200, bytes(index % 251 for index in range(size)), b"text/plain"))
