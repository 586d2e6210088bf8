"""State that the processes of a server share over their channels: one /metrics, one audit log, and the health checks of
the writer process.

    worker                      writer process
    collect numbers   ----->    asks every other worker for "numbers", and responds with all
    condition         ----->    its health checks
    collect levels    ----->    asks every other worker for its "levels" of flow control, and responds with all
    audit lines       ----->    appends them to the file
    audit batch       ----->    sends it to the webhook
    last numbers      - - ->    a worker ends
                      <- - -    collected: the numbers of all, when the writer process was scraped itself, or leaves
    inheritance       - - ->    a worker has connected to the next writer process, and sends it what was collected last

`SharedOfWriter` and `SharedOfWorker` are the two ends; each gets every channel of its process.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgpack
import trio

from rewound.gateway.audit.backends.remote import AuditCalls
from rewound.gateway.audit.build import build_audit_writer
from rewound.gateway.handlers.paths import LevelRows
from rewound.gateway.ops.exposition import Snapshot
from rewound.gateway.ops.meters import meter_workers
from rewound.gateway.ops.processes import Members, NumbersOfAll, encode
from rewound.gateway.settings.settings import AuditSettings
from rewound.server.extensions import Offered, Shared
from rewound.workers.channel import CallFailed, Channel, ChannelClosed

NUMBERS: Final = "numbers"
COLLECT: Final = "collect numbers"
LAST_NUMBERS: Final = "last numbers"
COLLECTED: Final = "collected"
INHERITANCE: Final = "inheritance"
CONDITION: Final = "condition"
LEVELS: Final = "levels"
COLLECT_LEVELS: Final = "collect levels"
AUDIT_LINES: Final = "audit lines"
AUDIT_BATCH: Final = "audit batch"
_ANSWER_SECONDS: Final = 1.0
_LEAVING_SECONDS: Final = 1.0  # for sending the last numbers


class Connection(Protocol):
    """A worker's connection to the current writer process."""

    @property
    def current(self) -> Channel | None:
        """None while the writer process is away."""

    async def channel(self) -> Channel:
        """The channel; waits while the writer process is away."""


class SharedOfWriter:
    """The writer process's end. The writer process serves requests too."""

    def __init__(self, settings: AuditSettings, workers: int) -> None:
        """Raises SettingsError if audit events cannot be written as the settings say."""
        self._audit = build_audit_writer(settings)
        self._channels: list[Channel] = []
        self._members = Members(self._numbers)
        self._own: Offered  # set at the start of the server, before there is a channel
        self.shared = Shared(
            self._offer,
            self._collect,
            None,
            self._collect_levels,
            AuditCalls(self._write_audit, self._send_audit, workers),
        )

    def connected(self, channel: Channel) -> None:
        """Add handlers for the calls of a worker, before its channel runs."""

        async def condition(_: bytes) -> bytes:
            return self._own.condition().encode()

        async def collect_levels(_: bytes) -> bytes:
            packed: bytes = msgpack.packb([self._own.levels(), *await self._levels_of_others(channel)])
            return packed

        channel.calls.update(
            {
                COLLECT: partial(self._members.collect, channel),
                CONDITION: condition,
                COLLECT_LEVELS: collect_levels,
            }
        )
        self._channels.append(channel)
        if self._audit is not None:
            channel.calls.update({AUDIT_LINES: self._audit.write, AUDIT_BATCH: self._audit.send})
        channel.notices.update(
            {LAST_NUMBERS: partial(self._members.report, channel), INHERITANCE: self._members.inherit}
        )
        self._members.join(channel, partial(channel.call, NUMBERS, b""))

    def disconnected(self, channel: Channel) -> None:
        self._channels.remove(channel)
        self._members.leave(channel)

    async def leave(self) -> None:
        """Send the last numbers to the workers, for the next writer process."""
        await self._collect(await self._numbers())

    async def run(self) -> None:
        """Run the audit backends until cancelled, which must be after the server has stopped."""
        if self._audit is not None:
            await self._audit.run()

    def _offer(self, own: Offered) -> None:
        self._own = own
        meter_workers(own.metrics, self._members)

    async def _numbers(self) -> bytes:
        return await self._own.metrics.numbers()

    async def _collect(self, own: bytes) -> list[bytes]:
        parts, packed = await self._members.collect_own(own)
        for channel in self._channels:
            channel.notify(COLLECTED, packed)
        return parts

    async def _collect_levels(self, own: LevelRows) -> list[LevelRows]:
        return [own, *await self._levels_of_others()]

    async def _levels_of_others(self, asking: Channel | None = None) -> list[LevelRows]:
        """The levels of the workers that reply in time, without the one that asks."""
        answers: list[LevelRows] = []

        async def ask(channel: Channel) -> None:
            with trio.move_on_after(_ANSWER_SECONDS), suppress(ChannelClosed, CallFailed):
                answers.append(msgpack.unpackb(await channel.call(LEVELS, b"")))

        async with trio.open_nursery() as nursery:
            for channel in self._channels:
                if channel is not asking:
                    nursery.start_soon(ask, channel)
        return answers

    async def _write_audit(self, lines: bytes, _: float) -> bytes:
        assert self._audit is not None, "the settings have a log"
        return await self._audit.write(lines)

    async def _send_audit(self, body: bytes, _: float) -> bytes:
        assert self._audit is not None, "the settings have a webhook"
        return await self._audit.send(body)


class SharedOfWorker:
    """A worker's end."""

    def __init__(self, connection: Connection, workers: int) -> None:
        self._connection = connection
        self._numbers = NumbersOfAll(partial(self._call_now, COLLECT))
        self._own: Offered | None = None  # until there is a server
        self.shared = Shared(
            self._offer,
            self._numbers.collect,
            partial(self._call_now, CONDITION, b""),
            self._collect_levels,
            AuditCalls(partial(self._call, AUDIT_LINES), partial(self._call, AUDIT_BATCH), workers),
        )

    def connecting(self, channel: Channel) -> None:
        """Add handlers for the calls of the writer process, before its channel runs."""
        channel.calls.update({NUMBERS: self._own_numbers, LEVELS: self._own_levels})
        channel.notices[COLLECTED] = self._numbers.keep

    def connected(self, channel: Channel) -> None:
        """Send the new writer process the numbers that were collected last."""
        if (inheritance := self._numbers.inheritance()) is not None:
            channel.notify(INHERITANCE, inheritance)

    async def leave(self) -> None:
        """Send the last numbers, because this process shuts down."""
        if (channel := self._connection.current) is not None:
            channel.notify(LAST_NUMBERS, await self._own_numbers())
            with trio.move_on_after(_LEAVING_SECONDS):
                await channel.drained()

    def _offer(self, own: Offered) -> None:
        self._own = own

    async def _own_numbers(self, _: bytes = b"") -> bytes:
        return encode(Snapshot([])) if self._own is None else await self._own.metrics.numbers()

    async def _own_levels(self, _: bytes) -> bytes:
        packed: bytes = msgpack.packb({} if self._own is None else self._own.levels())
        return packed

    async def _collect_levels(self, own: LevelRows) -> list[LevelRows]:
        """The levels of the workers that reply in time; only this one's while the writer process is away."""
        try:
            with trio.fail_after(2 * _ANSWER_SECONDS):
                answers = msgpack.unpackb(await self._call_now(COLLECT_LEVELS, b""))
        except (ConnectionError, trio.TooSlowError):
            return [own]
        return [own, *answers]

    async def _call_now(self, name: str, body: bytes) -> bytes:
        """Call the writer process. Raises ConnectionError if it is away, or its handler failed."""
        channel = self._connection.current
        if channel is None:
            raise ConnectionError("the writer process is away")
        try:
            return await channel.call(name, body)
        except (ChannelClosed, CallFailed) as error:
            raise ConnectionError(str(error)) from error

    async def _call(self, name: str, body: bytes, seconds: float) -> bytes:
        """Like `_call_now`, but wait up to so many seconds for the next writer process."""
        while True:
            channel = None
            with trio.move_on_after(seconds):
                channel = await self._connection.channel()
            if channel is None:
                raise ConnectionError("the writer process is away")
            try:
                return await channel.call(name, body)
            except ChannelClosed:
                continue
            except CallFailed as error:
                raise ConnectionError(str(error)) from error
