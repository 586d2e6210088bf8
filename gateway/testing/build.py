"""Builds the controls of a server that was started with --enable-test-controls."""

from __future__ import annotations

from actors.clock import Clock
from gateway.requests import render
from gateway.requests.context import RequestContext
from gateway.requests.request import Response
from gateway.store import Store
from gateway.testing.controls import Controls


def build_controls(store: Store, clock: Clock) -> Controls:
    """Each part adds its own paths."""
    controls = Controls()

    async def status(context: RequestContext) -> Response:
        return await render.document(context, {"time": clock.now(), "version": str(store.feed.head)})

    controls.add("GET", "", status)
    return controls
