"""Calls, replies and notices between two processes; here both ends are in one."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from rewound.workers.channel import (
    VERSION,
    CallFailed,
    Channel,
    ChannelClosed,
    HandleCall,
    HandleNotice,
    greeting,
    refusal,
)


def streams() -> tuple[trio.SocketStream, trio.SocketStream]:
    one, other = socket.socketpair()
    return tuple(trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in (one, other))  # type: ignore[return-value]


@asynccontextmanager
async def connected(
    calls: dict[str, HandleCall] | None = None, notices: dict[str, HandleNotice] | None = None
) -> AsyncIterator[tuple[Channel, Channel]]:
    """Two ends; the second one handles."""
    here, there = streams()
    caller, handler = Channel(here), Channel(there, calls, notices)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run)
        nursery.start_soon(handler.run)
        with trio.fail_after(10):
            yield caller, handler
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.001)


async def reversed_body(body: bytes) -> bytes:
    return body[::-1]


async def test_a_call_gets_its_reply() -> None:
    async with connected({"reverse": reversed_body}) as (caller, _):
        assert await caller.call("reverse", b"abc") == b"cba"
        assert await caller.call("reverse", b"") == b""


async def test_a_body_of_many_reads_arrives_whole() -> None:
    body = bytes(range(256)) * 40_000
    async with connected({"reverse": reversed_body}) as (caller, _):
        assert await caller.call("reverse", body) == body[::-1]


async def test_replies_find_their_calls_in_any_order() -> None:
    first, results = trio.Event(), {}

    async def wait(body: bytes) -> bytes:
        if body == b"first":
            await first.wait()
        else:
            first.set()
        return body

    async with connected({"wait": wait}) as (caller, _), trio.open_nursery() as nursery:

        async def ask(body: bytes) -> None:
            results[body] = await caller.call("wait", body)

        nursery.start_soon(ask, b"first")
        nursery.start_soon(ask, b"second")
    assert results == {b"first": b"first", b"second": b"second"}


async def test_notices_arrive_in_order_and_before_a_later_call() -> None:
    seen: list[bytes] = []

    async def read(_: bytes) -> bytes:
        return b",".join(seen)

    async with connected({"read": read}, {"note": seen.append}) as (caller, _):
        for number in range(5):
            caller.notify("note", b"%d" % number)
        caller.notify("unknown", b"ignored")
        assert await caller.call("read", b"") == b"0,1,2,3,4"


async def test_a_notice_whose_handler_fails_does_not_end_the_channel(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: bytes) -> None:
        raise ValueError("no")

    async with connected({"reverse": reversed_body}, {"fail": fail}) as (caller, _):
        caller.notify("fail")
        assert await caller.call("reverse", b"ab") == b"ba"
    assert "the notice fail" in caplog.text


async def test_a_handler_that_fails_fails_its_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: bytes) -> bytes:
        raise ValueError("no such thing")

    async with connected({"fail": fail, "reverse": reversed_body}) as (caller, _):
        with pytest.raises(CallFailed, match="ValueError: no such thing"):
            await caller.call("fail", b"")
        with pytest.raises(CallFailed, match="handles no call other"):
            await caller.call("other", b"")
        assert await caller.call("reverse", b"ab") == b"ba"
    assert "the call fail" in caplog.text


async def test_a_caller_that_is_cancelled_cancels_the_handler() -> None:
    began, cancelled = trio.Event(), trio.Event()

    async def wait(_: bytes) -> bytes:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with connected({"wait": wait}) as (caller, handler), trio.open_nursery() as nursery:
        nursery.start_soon(caller.call, "wait", b"")
        await began.wait()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await cancelled.wait()
    assert caller.waiting == handler.running == 0


async def test_calls_fail_when_the_other_end_closes() -> None:
    began = trio.Event()

    async def wait(_: bytes) -> bytes:
        began.set()
        await trio.sleep_forever()

    async with connected({"wait": wait}) as (caller, handler), trio.open_nursery() as nursery:

        async def close() -> None:
            await began.wait()
            handler.close()

        nursery.start_soon(close)
        with pytest.raises(ChannelClosed):
            await caller.call("wait", b"")
    with pytest.raises(ChannelClosed):
        await caller.call("wait", b"")
    caller.notify("late")  # nobody gets it


async def test_bytes_that_are_no_frame_end_the_channel() -> None:
    here, there = streams()
    channel = Channel(there)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            await here.send_all(struct.pack(">IBI", 1 << 31, 0, 0))
            assert await here.receive_some(1) == b""
    await here.aclose()
    assert channel.closed


async def test_calls_without_a_task_reply_at_once_or_later() -> None:
    later: list[Callable[[bytes], None]] = []
    cancelled: list[bytes] = []

    def begin(body: bytes, reply: Callable[[bytes], None]) -> Callable[[], None]:
        if body == b"now":
            reply(b"at once")
        else:
            later.append(reply)
        return lambda: cancelled.append(body)

    async with connected() as (caller, handler):
        handler.begins["begin"] = begin
        assert await caller.call("begin", b"now") == b"at once"
        assert handler.running == 0
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert await caller.call("begin", b"later") == b"done"

            nursery.start_soon(ask)
            await until(lambda: bool(later))
            assert handler.running == 1
            later.pop()(b"done")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller.call, "begin", b"cancelled")
            await until(lambda: bool(later))
            nursery.cancel_scope.cancel()
        await until(lambda: bool(cancelled))
        later.pop()(b"too late")
        assert await caller.call("begin", b"now") == b"at once"
    assert cancelled == [b"cancelled"]


async def test_a_call_without_a_task_that_fails_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: bytes, __: Callable[[bytes], None]) -> Callable[[], None]:
        raise ValueError("no such thing")

    async with connected({"reverse": reversed_body}) as (caller, handler):
        handler.begins["fail"] = fail
        with pytest.raises(CallFailed, match="ValueError: no such thing"):
            await caller.call("fail", b"")
        assert await caller.call("reverse", b"ab") == b"ba"
    assert "the call fail" in caplog.text


async def test_a_notice_that_is_queued_once_arrives_once() -> None:
    seen: list[bytes] = []

    async def count(_: bytes) -> bytes:
        return b"%d" % len(seen)

    async with connected({"count": count}, {"note": seen.append}) as (caller, _):
        for _ in range(1000):
            caller.notify_once("note")
        assert await caller.call("count", b"") == b"1"
        caller.notify_once("note")
        assert await caller.call("count", b"") == b"2"


def test_releases_that_are_one_version_of_messages_apart_work_together() -> None:
    """Releases up to 0.11 send no version with the first notice, and have version 1."""
    assert VERSION == 1
    for greeted in (b"", b"1", b"2", greeting()):
        assert refusal(greeted) == ""
    assert refusal(b"3").endswith("restart the whole server")
