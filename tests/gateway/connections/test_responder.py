"""The calls of codec and observer for each kind of response, which are the same for every protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from rewound.actors.errors import RequestError
from rewound.gateway.connections.responder import Responder
from rewound.gateway.connections.websocket.handshake import Accepted
from rewound.gateway.exchange import Exchange
from rewound.gateway.message import (
    BodyNotRead,
    CutOff,
    EndReason,
    Finished,
    Peer,
    Report,
    Request,
    Response,
    Stream,
)
from tests.cases import cases
from tests.gateway.observing import Observer

Calls = list[tuple[Any, ...]]
WHOLE = ["received", "complete"]
STARTED = ["received", "started", "complete"]
FAILED = ["received", "started", "panic", "complete"]
HEAD: tuple[Any, ...] = ("begin", 200, {})
FORWARDED = [("send_queued",), ("stream_body",)]
PATIENT = ("begin", 200, {"bare": False, "patient": True})


class RecordingCodec:
    """Records its calls; a response counts as sent at once."""

    def __init__(self, request: Request, *, may_upgrade: bool = False) -> None:
        self.request: Request | None = request
        self.exchange: Exchange | None = None
        self.may_upgrade = may_upgrade
        self.payload = 0
        self.calls: Calls = []

    def _ended(self, *, complete: bool) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            (exchange.complete if complete else exchange.cut_off)()

    def stream_body(self) -> None:
        self.calls.append(("stream_body",))

    async def receive_body(self) -> bytes:
        raise BodyNotRead(413, "too large")

    async def wait_disconnected(self) -> None:
        raise NotImplementedError

    def send(self, response: Response, length: int | None, body: bytes) -> None:
        self.calls.append(("send", response.status, length, body))
        self._ended(complete=True)

    async def send_queued(self) -> None:
        self.calls.append(("send_queued",))

    async def begin(self, response: Response, **options: bool) -> None:
        self.calls.append(("begin", response.status, options))

    async def send_part(self, part: bytes) -> None:
        self.calls.append(("part", part))
        self.payload += len(part)

    async def end(self, trailers: object) -> None:
        self.calls.append(("end", trailers))
        self._ended(complete=True)

    def abort(self, *, failed: bool = True) -> None:
        self.calls.append(("abort", failed))
        self._ended(complete=False)

    def run_watch(self, stream: Stream) -> Awaitable[Finished | None]:
        assert self.request is None, "a watch does not hold its request"
        return stream.run(self, bytes)

    async def end_watch(self, finished: Finished) -> None:
        await self.end(())

    async def begin_websocket(self, accepted: Accepted, fields: object) -> None:
        raise NotImplementedError

    async def run_websocket(self, stream: Stream) -> None:
        raise NotImplementedError

    async def upgrade(self, head: bytes) -> tuple[Any, bytes]:
        raise NotImplementedError


class Watch:
    binary = False

    def __init__(self, result: EndReason | Exception | None) -> None:
        self._result = result

    async def run(self, connection: RecordingCodec, framing: Callable[[bytes], bytes]) -> Any:
        await connection.send_part(b"event")
        if isinstance(self._result, Exception):
            raise self._result
        return None if self._result is None else Finished(self._result)

    async def start(self, connection: Any, framing: Callable[[bytes], bytes]) -> Any:
        raise NotImplementedError

    def should_end(self) -> bool:
        return False

    async def end(self) -> Finished:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError


class Forwarding:
    report: Report | None = None

    def __init__(self, *steps: Exception | str) -> None:
        self._steps = steps

    async def run(self, client: Any) -> None:
        for step in self._steps:
            if isinstance(step, Exception):
                raise step
            if step == "start":
                await client.start(Response(200, b""))
            elif step == "send":
                await client.send(b"part")
            elif step == "finish":
                await client.finish([(b"trailer", b"x")])
            elif step == "respond":
                await client.respond(Response(503, b"down"))
            else:
                await client.receive_body()


def parts(*made: bytes | Exception) -> Response:
    async def produce() -> AsyncIterator[bytes]:
        for one in made:
            if isinstance(one, Exception):
                raise one
            yield one

    return Response(200, b"", parts=produce())


def watch(result: EndReason | Exception | None) -> Response:
    return Response(200, b"", stream=Watch(result))


def forward(*steps: Exception | str) -> Response:
    return Response(200, b"", forwarding=Forwarding(*steps))


async def responded(
    method: str, response: Response, *, may_upgrade: bool = False
) -> tuple[Calls, list[str], tuple[int, int, bool] | None, Responder]:
    observer = Observer()

    async def handle(request: Request) -> Response:
        return response

    responder = Responder(handle, lambda status, message: Response(status, b"refused"), observer)
    request = Request(method, "/", "", {}, b"", Peer())
    codec = RecordingCodec(request, may_upgrade=may_upgrade)
    codec.exchange = responder.receive(request)
    rest = responder.respond(codec, await responder.handle(request))
    if rest is not None:
        await rest
    responder.release(codec)
    [record] = observer.records
    end = record.end if record.stages[-1] == "complete" else None
    return codec.calls, record.stages, end, responder


@cases(
    "method, make, call",
    [
        ("GET", lambda: Response(200, b"{}"), ("send", 200, 2, b"{}")),
        ("HEAD", lambda: Response(200, b"{}"), ("send", 200, 2, b"")),
        ("GET", lambda: Response(204, b"{}"), ("send", 204, None, b"")),
        ("GET", lambda: Response(304, b"{}"), ("send", 304, None, b"")),
        ("HEAD", lambda: parts(b"a"), ("send", 200, None, b"")),
        ("HEAD", lambda: watch(EndReason.TIME_UP), ("send", 200, 0, b"")),
    ],
)
async def test_whole_response(method: str, make: Callable[[], Response], call: tuple[Any, ...]) -> None:
    calls, stages, end, _ = await responded(method, make())
    assert (calls, stages, end) == ([call], WHOLE, (call[1], len(call[3]), False))


@cases(
    "make, calls, stages, failures",
    [
        (lambda: parts(b"a", b"", b"bc"), [("part", b"a"), ("part", b"bc"), ("end", ())], STARTED, 0),
        (lambda: parts(b"a", ValueError()), [("part", b"a"), ("abort", True)], FAILED, 1),
        (lambda: parts(b"a", RequestError()), [("part", b"a"), ("abort", True)], STARTED, 0),
        (lambda: watch(EndReason.TIME_UP), [("part", b"event"), ("end", ())], STARTED, 0),
        (lambda: watch(EndReason.FAILED), [("part", b"event"), ("end", ())], FAILED, 0),
        (lambda: watch(ConnectionResetError()), [("part", b"event"), ("abort", False)], STARTED, 0),
        (lambda: watch(ValueError()), [("part", b"event"), ("abort", True)], FAILED, 0),
    ],
)
async def test_response_in_parts(
    make: Callable[[], Response], calls: Calls, stages: list[str], failures: int
) -> None:
    made, seen, end, responder = await responded("GET", make())
    assert (made, seen, responder.failures) == ([HEAD, *calls], stages, failures)
    sent = sum(len(call[1]) for call in calls if call[0] == "part")
    assert end == (200, sent, calls[-1][0] == "abort")


async def test_watch_without_a_task_continues() -> None:
    calls, stages, end, _ = await responded("GET", watch(None))
    assert (calls, stages, end) == ([HEAD, ("part", b"event")], ["received", "started"], None)


@cases(
    "make, calls, stages",
    [
        (
            lambda: forward("start", "send", "finish"),
            [PATIENT, ("part", b"part"), ("end", [(b"trailer", b"x")])],
            STARTED,
        ),
        (lambda: forward("respond"), [("send", 503, 4, b"down"), ("send_queued",)], WHOLE),
        (lambda: forward("receive"), [("send", 413, 7, b"refused"), ("send_queued",)], WHOLE),
        (lambda: forward(BodyNotRead()), [("abort", True)], WHOLE),
        (lambda: forward("start", "receive"), [PATIENT, ("abort", True)], STARTED),
        (lambda: forward("start", CutOff("no end")), [PATIENT, ("abort", True)], STARTED),
        (lambda: forward("start", OSError()), [PATIENT, ("abort", True)], STARTED),
        (
            lambda: forward(ValueError()),
            [("send", 500, 7, b"refused"), ("send_queued",)],
            ["received", "panic", "complete"],
        ),
        (lambda: forward("start", ValueError()), [PATIENT, ("abort", True)], FAILED),
    ],
)
async def test_forwarded_response(make: Callable[[], Response], calls: Calls, stages: list[str]) -> None:
    made, seen, end, _ = await responded("GET", make())
    assert (made, seen) == ([*FORWARDED, *calls], stages)
    assert end is not None and end[2] == (calls[-1][0] == "abort")


async def test_websocket_without_a_valid_handshake_is_refused() -> None:
    calls, stages, end, responder = await responded("GET", watch(EndReason.TIME_UP), may_upgrade=True)
    assert (calls, stages, end) == ([("send", 426, 7, b"refused")], WHOLE, (426, 7, False))
    assert responder.refused == 1
