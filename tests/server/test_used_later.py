"""Soon after it is ready, a server imports in a thread the modules that first requests need."""

from __future__ import annotations

import sys

import trio
from trio.testing import MockClock

from rewound.actors.kinds.schema import pydantic_decoder
from rewound.server.background_imports import USED_LATER, import_used_later


async def test_modules_are_imported_and_bodies_decoded_with_pydantic_from_then_on(
    autojump_clock: MockClock,
) -> None:
    began = trio.current_time()
    with pydantic_decoder.postponed():
        await import_used_later()
        assert not pydantic_decoder.is_postponed()
    assert trio.current_time() > began, "requests that waited for the server come first"
    assert [name for name in USED_LATER if name not in sys.modules] == []
