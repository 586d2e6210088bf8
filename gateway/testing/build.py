"""Builds the controls of a server that was started with --enable-test-controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.errors import BadRequest
from gateway.message import Response
from gateway.pipeline import render
from gateway.pipeline.context import RequestContext
from gateway.store import Store
from gateway.testing.clock import AdvancingClock
from gateway.testing.controls import Controls, json_body
from gateway.testing.snapshots import Snapshots

_LONGEST_ADVANCE = 100 * 365 * 86400.0  # seconds, of all advances: times have four digits for the year


def build_controls(
    store: Store | None, more: Sequence[Callable[[Callable[..., None]], None]] = ()
) -> Controls:
    """Each part adds its own paths, and so does each in `more`. Without a store there are only those."""
    controls = Controls()
    for add in more:
        add(controls.add)
    if store is None:
        return controls
    clock = store.clock

    async def status(context: RequestContext) -> Response:
        return await render.document(context, {"time": clock.now(), "version": str(store.feed.head)})

    controls.add("GET", "", status)
    Snapshots(store).add_to(controls)
    if isinstance(clock, AdvancingClock):
        _add_clock(controls, clock)
    return controls


def _add_clock(controls: Controls, clock: AdvancingClock) -> None:
    async def advance(context: RequestContext) -> Response:
        await clock.advance(_seconds_in(json_body(context), clock.offset))
        return await render.document(context, {"time": clock.now(), "advanced": clock.offset})

    controls.add("POST", "clock", advance)


def _seconds_in(body: object, advanced: float) -> float:
    seconds = body.get("advance") if isinstance(body, dict) else None
    if isinstance(seconds, (int, float)) and 0 <= seconds <= _LONGEST_ADVANCE - advanced:
        return float(seconds)
    raise BadRequest(
        'clock: the body must be like {"advance": 60}: seconds, at most a hundred years altogether'
    )
