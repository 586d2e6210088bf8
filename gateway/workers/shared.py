"""What the workers of a server share, over the channels between them and the writer process: one /metrics, one audit
log, and the health of what only the writer process has.

    worker                      writer process
    collect numbers   ----->    asks every other worker for "numbers", and responds with all
    condition         ----->    its health checks
    collect levels    ----->    asks every other worker for its "levels" of flow control, and responds with all
    audit lines       ----->    appends them to the file
    audit batch       ----->    sends it to the webhook
    last numbers      - - ->    a worker ends
    inheritance       - - ->    a worker has connected to the next writer process

`SharedOfWriter` and `SharedOfWorker` are the two ends; each gets every channel of its process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgpack
import trio

from rewound.gateway.audit.backends.remote import AuditCalls
from rewound.gateway.audit.build import build_audit_writer
from rewound.gateway.composition.extensions import Shared
from rewound.gateway.handlers.paths import LevelRows
from rewound.gateway.ops.checks import CHECK_NAMES, Checks
from rewound.gateway.ops.exposition import Snapshot
from rewound.gateway.ops.loop_watchdog import LoopWatchdog
from rewound.gateway.ops.meters import meter_store, meter_workers
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.ops.processes import Members, Numbers, NumbersOfAll, encode
from rewound.gateway.ops.request_series import RequestSeries
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Store
from rewound.gateway.workers.channel import CallFailed, Channel, ChannelClosed

NUMBERS: Final = "numbers"
COLLECT: Final = "collect numbers"
LAST_NUMBERS: Final = "last numbers"
INHERITANCE: Final = "inheritance"
CONDITION: Final = "condition"
LEVELS: Final = "levels"
COLLECT_LEVELS: Final = "collect levels"
AUDIT_LINES: Final = "audit lines"
AUDIT_BATCH: Final = "audit batch"
_ANSWER_SECONDS: Final = 1.0
_LEAVING_SECONDS: Final = 1.0  # for the last numbers to be sent


class Connection(Protocol):
    """Of a worker to the writer process, whichever runs."""

    @property
    def current(self) -> Channel | None:
        """None while the writer process is away."""

    async def channel(self) -> Channel:
        """The channel; waits while the writer process is away."""


class SharedOfWriter:
    """In the writer process."""

    def __init__(self, settings: Settings, store: Store) -> None:
        """SettingsError: audit events cannot be written as these say."""
        names = CHECK_NAMES[store.rules.health]
        self._checks = Checks(names, store, fairness=settings.enable_priority_and_fairness)
        self._audit = build_audit_writer(settings.audit)
        self._watchdog = LoopWatchdog()
        self._channels: list[Channel] = []
        metrics = Metrics(RequestSeries(lambda _: False, lambda _: None))
        self._members = Members(partial(metrics.numbers, of_writer=True))
        meter_store(metrics, store, self._watchdog)
        meter_workers(metrics, self._members)

    def connected(self, channel: Channel) -> None:
        """Handle the calls of a worker; before its channel runs."""

        async def condition(_: bytes) -> bytes:
            return self._checks.condition().encode()

        channel.calls.update(
            {
                COLLECT: partial(self._members.collect, channel),
                CONDITION: condition,
                COLLECT_LEVELS: partial(self._collect_levels, channel),
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

    async def _collect_levels(self, asking: Channel, _: bytes) -> bytes:
        """The levels of all other workers that answer in time."""
        answers: list[bytes] = []

        async def ask(channel: Channel) -> None:
            with trio.move_on_after(_ANSWER_SECONDS), suppress(ChannelClosed, CallFailed):
                answers.append(await channel.call(LEVELS, b""))

        async with trio.open_nursery() as nursery:
            for channel in self._channels:
                if channel is not asking:
                    nursery.start_soon(ask, channel)
        packed: bytes = msgpack.packb(answers)
        return packed

    async def run(self) -> None:
        """Measure how long tasks hold the event loop, and keep what audit events are written to, until cancelled."""
        self._watchdog.begin()
        trio.lowlevel.add_instrument(self._watchdog)
        try:
            if self._audit is not None:
                await self._audit.run()
            await trio.sleep_forever()
        finally:
            trio.lowlevel.remove_instrument(self._watchdog)


class SharedOfWorker:
    """In a worker."""

    def __init__(self, connection: Connection, workers: int) -> None:
        self._connection = connection
        self._numbers = NumbersOfAll(partial(self._call_now, COLLECT))
        self._own: Numbers = _no_numbers  # until there is a server
        self._levels: Callable[[], LevelRows] = dict
        self.shared = Shared(
            self._offer_numbers,
            self._numbers.collect,
            partial(self._call_now, CONDITION, b""),
            self._offer_levels,
            self._collect_levels,
            AuditCalls(partial(self._call, AUDIT_LINES), partial(self._call, AUDIT_BATCH), workers),
        )

    def connecting(self, channel: Channel) -> None:
        """Handle the calls of the writer process; before its channel runs."""
        channel.calls.update({NUMBERS: lambda _: self._own(), LEVELS: self._own_levels})

    def connected(self, channel: Channel) -> None:
        """The writer process takes calls."""
        if (inheritance := self._numbers.inheritance()) is not None:
            channel.notify(INHERITANCE, inheritance)

    async def leave(self) -> None:
        """Send the last numbers: this process ends in good order."""
        if (channel := self._connection.current) is not None:
            channel.notify(LAST_NUMBERS, await self._own())
            with trio.move_on_after(_LEAVING_SECONDS):
                await channel.drained()

    def _offer_numbers(self, numbers: Numbers) -> None:
        self._own = numbers

    def _offer_levels(self, levels: Callable[[], LevelRows]) -> None:
        self._levels = levels

    async def _own_levels(self, _: bytes) -> bytes:
        packed: bytes = msgpack.packb(self._levels())
        return packed

    async def _collect_levels(self, own: LevelRows) -> list[LevelRows]:
        """Of the workers that answer in time; of this one alone while the writer process is away."""
        try:
            with trio.fail_after(2 * _ANSWER_SECONDS):
                answers = msgpack.unpackb(await self._call_now(COLLECT_LEVELS, b""))
        except (ConnectionError, trio.TooSlowError):
            return [own]
        return [own, *map(msgpack.unpackb, answers)]

    async def _call_now(self, name: str, body: bytes) -> bytes:
        """ConnectionError: the writer process is away, or its handler failed."""
        channel = self._connection.current
        if channel is None:
            raise ConnectionError("the writer process is away")
        try:
            return await channel.call(name, body)
        except (ChannelClosed, CallFailed) as error:
            raise ConnectionError(str(error)) from error

    async def _call(self, name: str, body: bytes, seconds: float) -> bytes:
        """The same, but call the next writer process if it is there within so many seconds."""
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


async def _no_numbers() -> bytes:
    return encode(Snapshot([]))
