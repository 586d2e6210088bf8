"""What --enable-test-controls and --faults add to a server: fault rules, held watches, a clock, snapshots."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from rewound.actors.errors import BadRequest, NotFound, Resource
from rewound.actors.rewind.state_restore import StateRestore
from rewound.actors.store.proposal import Proposal
from rewound.gateway.message import Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext, new_write_context
from rewound.gateway.store import Store
from rewound.journal.errors import Compacted
from rewound.rewind.turns import run_in_turns
from rewound.server.controls import json_body
from rewound.server.extensions import Controlled, InstalledControls
from rewound.testing.clock import AdvancingClock, Working, wait_until_idle
from rewound.testing.faults.chaos_rules import ChaosRules
from rewound.testing.faults.held_watches import HeldWatches
from rewound.testing.faults.older_versions import OlderVersions
from rewound.testing.faults.switch import AddControl, FaultSwitch

_LONGEST_ADVANCE = 100 * 365 * 86400.0  # seconds, of all advances: times have four digits for the year


def install(server: Controlled) -> InstalledControls:
    """Install fault rules, held watches, the clock and snapshots in a server."""
    store = server.store
    older = OlderVersions(store.journal, store.horizon.floor, store.write_contexts.now)
    held = HeldWatches(server.hub, store.journal, store.feed, older, store.clock.now)
    faults = FaultSwitch(server.inject, server.past_reads, older, held, server.metrics)

    def start() -> None:
        if server.settings.faults is not None:
            faults.set_from_file(server.settings.faults)
        ChaosRules(store, faults).start()

    def add_all(add: AddControl) -> None:
        faults.add_controls(add)
        _add_status(add, store)
        Snapshots(store).add_to(add)
        if isinstance(store.clock, AdvancingClock):
            _add_clock(add, store.clock, partial(_is_working, store), partial(_is_committing, store))

    return InstalledControls(add_all, faults.watch_opened, start)


def _add_status(add: AddControl, store: Store) -> None:
    async def status(context: RequestContext) -> Response:
        return await render.document(context, {"time": store.clock.now(), "version": str(store.feed.head)})

    add("GET", "", status)


def _is_working(store: Store) -> bool:
    """Whether a controller has work to do."""
    queues = [loop.controller.queue for loop in store.loops]
    counts = (queue.statistics() for queue in queues)
    return any(one.ready or one.active for one in counts) or any(queue.is_overdue() for queue in queues)


def _is_committing(store: Store) -> bool:
    """Whether writes wait for their commit."""
    return store.committer.statistics().waiting > 0


def _add_clock(add: AddControl, clock: AdvancingClock, working: Working, committing: Working) -> None:
    async def advance(context: RequestContext) -> Response:
        await clock.advance(_seconds_in(json_body(context), clock.offset), working, committing)
        return await render.document(context, {"time": clock.now(), "advanced": clock.offset})

    add("POST", "clock", advance)


def _seconds_in(body: object, advanced: float) -> float:
    seconds = body.get("advance") if isinstance(body, dict) else None
    if isinstance(seconds, (int, float)) and 0 <= seconds <= _LONGEST_ADVANCE - advanced:
        return float(seconds)
    raise BadRequest(
        'clock: the body must be like {"advance": 60}: seconds, at most a hundred years altogether'
    )


_MOST: Final = 10_000  # snapshots of one server
LARGE: Final = 100  # objects: a few milliseconds; restores of more are written in a worker thread
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")  # needs no escapes in a path


class Snapshots:
    """Snapshots of the whole state, and their restoring: POST snapshots, POST snapshots/NAME/restore.

    A snapshot is the offset of a moment under a name; the journal has the state of every offset. See
    `actors/rewind/state_restore.py` for what a restore writes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._working, self._committing = partial(_is_working, store), partial(_is_committing, store)
        self._offsets: dict[str, int] = {}
        self._made = 0

    def add_to(self, add: AddControl) -> None:
        add("GET", "snapshots", self._list)
        add("POST", "snapshots", self._take)
        add("POST", "snapshots/{name}/restore", self._restore)

    async def _list(self, context: RequestContext) -> Response:
        items = [{"name": name, "version": str(offset)} for name, offset in self._offsets.items()]
        return await render.document(context, {"items": items})

    async def _take(self, context: RequestContext) -> Response:
        """Give the current state a name. If the name exists, it now means the current state."""
        name = self._wanted_name(json_body(context))
        await wait_until_idle(working=self._working, committing=self._committing)
        self._offsets[name] = offset = self._store.feed.head
        return await render.document(context, {"name": name, "version": str(offset)}, 201)

    def _wanted_name(self, body: object) -> str:
        given = {} if body is None else body
        name = given.get("name", "") if isinstance(given, dict) else None
        if not isinstance(name, str) or (name and not _NAME.fullmatch(name)):
            raise BadRequest(
                'snapshots: the body must be like {"name": "before"}, or empty; '
                "a name has up to 253 letters, digits, dots, hyphens and underscores"
            )
        if len(self._offsets) >= _MOST and name not in self._offsets:
            raise BadRequest(f"snapshots: there are {_MOST} already; use one of their names again")
        if name:
            return name
        self._made += 1
        return f"snapshot-{self._made}"

    async def _restore(self, context: RequestContext, name: str) -> Response:
        offset = self._offsets.get(name)
        if offset is None:
            raise NotFound(Resource("", "snapshots"), name)
        store = self._store
        await wait_until_idle(working=self._working, committing=self._committing)
        restore = StateRestore(store.journal, store.registry.current, offset)
        made = new_write_context(store.write_contexts, context)
        made = made._replace(reason=f"snapshot {name} restored")

        def propose() -> list[Proposal]:
            nonlocal offset
            proposals = restore.proposals(made)
            offset = store.committer.next_offset() + len(proposals) - 1 if proposals else store.feed.head
            return proposals

        try:
            await run_in_turns(restore.read())
            commit = store.committer.commit_alone if len(restore) > LARGE else store.committer.commit_at_once
            changed = await commit(propose)
        except Compacted as error:
            raise BadRequest(
                f"snapshots: {name} is older than what the journal keeps (--journal-retention)"
            ) from error
        # The state there is the same, and the next restore has fewer events to read.
        self._offsets[name] = offset
        await wait_until_idle(working=self._working, committing=self._committing)
        document = {"name": name, "version": str(store.feed.head), "changed": changed}
        return await render.document(context, document)
