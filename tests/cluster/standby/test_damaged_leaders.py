"""Leaders that are damaged, break off, or send invalid data: a follower pauses, or ends with a clear message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.client.credentials import Credential, FixedCredential
from rewound.client.errors import ClientError
from rewound.client.target import Target
from rewound.cluster.standby import follower as following_module
from rewound.cluster.standby.follower import LONGEST_PAUSE, Follower
from rewound.cluster.standby.sinks import BackupSink, StandbySink
from rewound.journal import Journal, keys, stream
from rewound.journal.backup import BackupFile
from rewound.journal.errors import CannotFollow
from rewound.journal.frames import FrameChain
from rewound.journal.stream import Message, Stored, encode_message
from tests.cluster.standby.pairs import url_of
from tests.cluster.standby.test_interruptions import follower_into, write
from tests.gateway.api import served
from tests.gateway.journal_commands import put, write_history
from tests.journal.streaming import messages, stream_of

Sends = Callable[[int], bytes]  # what a leader sends for the connection with a number, before it breaks off


class Leader:
    """The session of a follower with a leader that breaks every stream off."""

    def __init__(self, sends: Sends) -> None:
        self._sends = sends
        self.connections = 0
        self.target = Target("https://leader", FixedCredential(Credential()), "--follow")

    async def read_parts(
        self, path: str, seconds: float, take: Callable[[bytes], Awaitable[None]], **query: str
    ) -> None:
        self.connections += 1
        await trio.lowlevel.checkpoint()
        await take(self._sends(self.connections))
        raise ClientError("cannot reach https://leader: is the server running?")


@pytest.fixture
def filled(tmp_path: Path) -> Journal:
    write_history(tmp_path / "leader", [put(f"n{number}", {"a": "b"}) for number in range(20)])
    return Journal.open(tmp_path / "leader" / "journal", readonly=True)


def framed(found: list[Message]) -> bytes:
    chain = FrameChain(stream.MAGIC)
    return stream.MAGIC + b"".join(chain.frame(encode_message(one)) for one in found)


@asynccontextmanager
async def sink_of(kind: str, folder: Path) -> AsyncIterator[StandbySink | BackupSink]:
    if kind == "standby":
        sink = StandbySink(folder / "standby", "https://leader")
        yield sink
        sink.close()
    else:
        file = BackupFile(folder / "backup")
        yield BackupSink(file, "https://leader")
        file.close()


@pytest.mark.parametrize("kind", ["standby", "backup"])
async def test_connections_that_bring_nothing_come_after_growing_pauses(
    kind: str, filled: Journal, tmp_path: Path, autojump_clock: MockClock
) -> None:
    """As of a leader that dies at a damaged event: the follower once asked it up to 84 times a second."""
    header = framed(messages(stream_of(filled))[:1])
    leader = Leader(lambda _: header)
    async with sink_of(kind, tmp_path) as sink:
        follower = Follower(leader, sink)
        with trio.move_on_after(600):
            await follower.run()
        assert 100 < leader.connections < 20 + 600 / LONGEST_PAUSE
        assert follower.status.problem.startswith("the stream of https://leader broke off")
    filled.close()


async def test_connection_that_brought_something_is_followed_by_the_next_at_once(
    filled: Journal, tmp_path: Path, autojump_clock: MockClock
) -> None:
    def sends(number: int) -> bytes:
        """One more event each time."""
        found = messages(stream_of(filled, min(number - 1, 20) or None))
        return framed([*found[:2], stream.Commit(min(number, 20), 20, 0)])

    leader = Leader(sends)
    async with sink_of("standby", tmp_path) as sink:
        follower = Follower(leader, sink)
        with trio.move_on_after(0.05):
            await follower.run()
        assert sink.head == 20
    filled.close()


@pytest.mark.parametrize("kind", ["standby", "backup"])
async def test_events_without_the_end_of_a_commit_do_not_fill_the_memory(
    kind: str, filled: Journal, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following_module, "LONGEST_COMMIT", 10_000)
    events = [one for one in messages(stream_of(filled)) if not isinstance(one, stream.Commit)]
    held: list[int] = []

    class Watched(Follower):
        async def _take(self, message: Message) -> None:
            await super()._take(message)
            held.append(self._pending_bytes)

    async with sink_of(kind, tmp_path) as sink:
        follower = Watched(Leader(lambda number: framed(events) if number == 1 else b""), sink)
        with trio.move_on_after(0.05):
            await follower.run()
        assert 8 < sink.head <= 20 and max(held) <= 12_000
        assert not follower.caught_up.is_set()
    filled.close()


async def test_leader_says_what_is_damaged_and_the_follower_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as leader:
        await write(leader, 12)
        assert leader.store is not None
        journal = leader.store.journal
        damaged = journal.head - 3
        key = keys.pack_offset(damaged)
        with journal.read() as view:
            value = bytearray(view.txn.get(key, db=view.databases.events))
        value[-1] ^= 1
        events = journal.environment.databases.events
        journal.environment.write(lambda txn: txn.put(key, bytes(value), db=events))
        async with follower_into(tmp_path / "standby", url_of(leader)) as (follower, sink):
            with trio.fail_after(30), pytest.raises(CannotFollow) as found:
                await follower.run()
            why = f"event {damaged} does not match its checksum"
            assert f"cannot send what follows offset {damaged - 1}: its journal is damaged ({why})" in str(
                found.value
            )
            assert "run `rewound journal verify` on its data folder" in str(found.value)
            assert follower.status.connections == 1
            # What is before it has arrived.
            assert sink.head == damaged - 1
    assert "Traceback" not in caplog.text
    assert f"a follower cannot get the events after {damaged - 1}: {why}" in caplog.text


def of_first(filled: Journal, **wrong: bytes) -> bytes:
    """A stream whose first event has other contents, and nothing after it."""
    header, first = messages(stream_of(filled))[:2]
    assert isinstance(first, Stored) and first.event is not None
    value = stream.records.encode_event(keys.pack_offset(1), first.event._replace(**wrong))  # type: ignore[arg-type]
    return framed([header, Stored(1, value), stream.Commit(1, 1, 0)])


async def test_facts_that_cannot_be_read_are_refused(filled: Journal, tmp_path: Path) -> None:
    sent = of_first(filled, facts=b"\x01")
    async with sink_of("standby", tmp_path) as sink:
        with pytest.raises(CannotFollow, match="event 1: facts: cannot be read"):
            await Follower(Leader(lambda _: sent), sink).run()
        assert sink.head == 0
    filled.close()


@pytest.mark.parametrize(
    ("body", "why"),
    [(b"no", "body: is not JSON"), (b"[]", "body: is not an object"), (b"", "body: is not JSON")],
)
async def test_body_that_is_no_object_is_copied_and_named(
    filled: Journal, tmp_path: Path, body: bytes, why: str, autojump_clock: MockClock
) -> None:
    """The leader serves everything else too."""
    sent = of_first(filled, body=body)
    async with sink_of("standby", tmp_path) as sink:
        assert isinstance(sink, StandbySink)
        with trio.move_on_after(1):
            await Follower(Leader(lambda number: sent if number == 1 else b""), sink).run()
        assert sink.head == 1
        assert [text.split(": ", 1)[1][: len(why)] for text in sink.journal.unreadable] == [why]
        with sink.journal.read() as view:
            assert [event.body for event in view.all_events(0)] == [body]
    filled.close()


async def test_stream_that_begins_elsewhere_is_refused(filled: Journal, tmp_path: Path) -> None:
    sent = stream_of(filled, 7)
    async with sink_of("standby", tmp_path) as sink:
        with pytest.raises(CannotFollow, match=r"sends the events after 7 .* in place of those after 0"):
            await Follower(Leader(lambda _: sent), sink).run()
        assert sink.head == 0
    filled.close()
