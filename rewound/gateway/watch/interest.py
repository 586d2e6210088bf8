"""What a watcher requested: which objects, in which encoding. Watchers with equal keys share a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from rewound.gateway.watch.framing import Encode
from rewound.gateway.watch.selection import Selection
from rewound.gateway.watch.watched_type import SentEvents

Wrap = Callable[[str, bytes], bytes]  # event type and object as JSON, as clients see it -> watch event


# Estimated memory of a group with its task and its first watcher, and per byte of a selector's text.
GROUP_BYTES = 8 << 10
SELECTOR_FACTOR = 40


class Account(msgspec.Struct):
    """The memory that the watchers of an interest hold of the server's budget."""

    user: str = ""  # the user who requested it first
    size: int = 0
    reserved: int = 0
    watchers: int = 0


def account(user: str, *selectors: str) -> Account:
    return Account(user, GROUP_BYTES + SELECTOR_FACTOR * sum(map(len, selectors)))


class Conversion(Protocol):
    """Converts the objects of events by a webhook before they are encoded."""

    @property
    def needed(self) -> bool:
        """Whether conversion may be necessary now."""

    async def __call__(self, bodies: Sequence[bytes]) -> list[bytes]:
        """The objects in the version of the watch, in the same order. Raises ConversionFailed."""


class Interest(msgspec.Struct, frozen=True, weakref=True, eq=False):
    key: tuple[Any, ...]
    type_id: int
    type_name: str
    selection: Selection
    encode: Encode
    encode_first: Encode | None  # for the first event of a stream, if it differs (a Table with columns)
    wrap: Wrap
    bookmark: Callable[[int], bytes] | None  # offset -> BOOKMARK event; None if not requested
    # The bookmark after the existing objects; None if bookmarks were not requested, or the server does not send it.
    initial_events_end: Callable[[int], bytes] | None = None
    binary: bool = False  # events are protobuf or CBOR, not text
    definition: object = None  # the watched kind: the watch ends when it is no longer served
    account: Account = msgspec.field(default_factory=Account)
    conversion: Conversion | None = None  # of a custom kind
    sent: SentEvents = msgspec.field(default_factory=SentEvents)
