"""The fault rules and held watches of a running server: from `--faults` at the start, or set by tests.

GET     faults               the rules, and how many requests each matched and was applied to
POST    faults               replaces all rules; every count starts at 0
DELETE  faults               removes them
GET     holds, holds/NAME    what is held, and for whom
POST    holds                holds the watches of a match
POST    holds/NAME/release   lets the next events through; without a number all, and the hold ends
DELETE  holds, holds/NAME    ends all holds, or one

All below /debug/rewound/.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from rewound.actors.errors import BadRequest, NotFound, Resource
from rewound.gateway.message import Response
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.watch.watch import Watch
from rewound.gateway.wire import yaml
from rewound.rewind.past_reads import PastReads
from rewound.testing.faults.held_watches import MOST_PENDING, HeldWatches, Hold
from rewound.testing.faults.injection import Applied, FaultInjection, fault_request
from rewound.testing.faults.older_versions import OlderVersions
from rewound.testing.faults.parsing import (
    MAX_COUNT,
    FaultsError,
    match_of_watches,
    parse_faults,
    read_faults,
)
from rewound.testing.faults.rules import FaultRequest, Faults

PATH = "faults"
HOLDS = "holds"
MOST_HOLDS = 1000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")  # needs no escapes in a path
MAX_BYTES = 64 << 10  # of a document with rules: YAML is parsed in the event loop

Install = Callable[[FaultInjection | None], None]
AddControl = Callable[[str, str, Callable[..., Awaitable[Response]]], None]  # method, path, handler


class FaultSwitch:
    def __init__(
        self,
        install: Install,
        reads: PastReads,
        older: OlderVersions,
        held: HeldWatches,
        metrics: Metrics,
    ) -> None:
        """`install` puts an injection into the pipeline, or removes it with None."""
        self._install = install
        self._reads = reads
        self._older = older
        self._held = held
        self._applied: Applied = {}
        self._faults: Faults | None = None  # those in force
        self._given: Faults | None = None  # of --faults, or of a test
        self._chaos: Sequence[Faults] = ()
        metrics.counter(
            "rewound_faults_injected_total",
            "Faults that were injected by fault rules.",
            lambda: self._applied,
            "rule",
            "fault",
        )

    def set(self, faults: Faults | None) -> None:
        """Replace all rules, from the next request on; watches that run lag by the new rules at once."""
        self._given = faults if faults is not None and faults.rules else None
        self._combine()

    def set_chaos(self, chaos: Sequence[Faults]) -> None:
        """Replace the rules of Chaos objects, which come after the others."""
        self._chaos = chaos
        self._combine()

    def _combine(self) -> None:
        every = [one for one in (self._given, *self._chaos) if one is not None]
        if len(every) < 2:
            self._faults = every[0] if every else None
        else:
            rules = [rule for one in every for rule in one.rules]
            documents = [document for one in every for document in one.documents]
            self._faults = Faults(rules, every[0].seed, documents)
        self._held.set_rules(self._faults)
        self._update()

    def _update(self) -> None:
        if self._faults is None and not self._held.holds:
            self._install(None)
        else:
            faults = self._faults or Faults(())
            self._install(FaultInjection(faults, self._reads, self._older, self._held, self._applied))

    def watch_opened(self, context: RequestContext, watch: Watch) -> None:
        """Follow a new watch, which may be held or lag at once or later."""
        self._held.follow(fault_request(context), watch)

    def set_from_file(self, path: Path) -> None:
        """Set the rules of `--faults`. Raises SettingsError if they cannot be used."""
        try:
            self.set(read_faults(path))
        except FaultsError as error:
            raise SettingsError("--faults", f"{path}: {error}") from None

    def add_controls(self, add: AddControl) -> None:
        add("GET", PATH, self._get)
        add("POST", PATH, self._post)
        add("DELETE", PATH, self._delete)
        add("GET", HOLDS, self._list_holds)
        add("POST", HOLDS, self._hold)
        add("DELETE", HOLDS, self._end_holds)
        add("GET", HOLDS + "/{name}", self._get_hold)
        add("DELETE", HOLDS + "/{name}", self._end_hold)
        add("POST", HOLDS + "/{name}/release", self._release)

    async def _get(self, context: RequestContext) -> Response:
        return await render.document(context, self._document())

    async def _post(self, context: RequestContext) -> Response:
        if len(context.request.body) > MAX_BYTES:
            raise BadRequest(f"fault rules: more than {MAX_BYTES >> 10} KiB")
        try:
            self.set(parse_faults(context.request.body))
        except FaultsError as error:
            raise BadRequest(f"fault rules: {error}") from None
        return await render.document(context, self._document())

    async def _delete(self, context: RequestContext) -> Response:
        self.set(None)
        return await render.document(context, self._document())

    def _document(self) -> dict[str, Any]:
        faults = self._faults
        if faults is None:
            return {"seed": 0, "rules": []}
        return {
            "seed": faults.seed,
            "rules": [
                {**given, "name": rule.name, "matched": counts.matched, "applied": counts.applied}
                for given, rule, counts in zip(faults.documents, faults.rules, faults.counts, strict=True)
            ],
        }

    # Held watches.

    async def _list_holds(self, context: RequestContext) -> Response:
        items = [await self._hold_document(one) for one in self._held.holds]
        return await render.document(context, {"items": items})

    async def _hold(self, context: RequestContext) -> Response:
        given = _mapping(context, "holds", ("match", "name"))
        name, document = given.get("name", ""), given.get("match", {})
        if not isinstance(name, str) or (name and not _NAME.fullmatch(name)):
            raise BadRequest("holds: name: must be up to 253 letters, digits, dots, hyphens and underscores")
        if self._held.find(name) is not None:
            raise BadRequest(f"holds: name: there is a hold {name} already; release it first")
        if len(self._held.holds) >= MOST_HOLDS:
            raise BadRequest(f"holds: there are {MOST_HOLDS} already; release some first")
        try:
            match = match_of_watches(document)
        except FaultsError as error:
            raise BadRequest(f"holds: {error}") from None
        hold = self._held.hold(match, document, name)
        self._update()
        return await render.document(context, await self._hold_document(hold), 201)

    async def _get_hold(self, context: RequestContext, name: str) -> Response:
        return await render.document(context, await self._hold_document(self._find(name)))

    async def _release(self, context: RequestContext, name: str) -> Response:
        hold = self._find(name)
        if not context.request.body:
            return await self._end_hold(context, name)
        count = _mapping(context, "release", ("events",)).get("events")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_COUNT:
            raise BadRequest(
                'release: the body must be like {"events": 1}, or empty to release all and end the hold'
            )
        released = await self._held.release(hold, count)
        return await render.document(context, {**await self._hold_document(hold), "released": released})

    async def _end_hold(self, context: RequestContext, name: str) -> Response:
        hold = self._find(name)
        document = await self._hold_document(hold)
        self._held.end(hold)
        self._update()
        return await render.document(context, {**document, "released": document["pending"], "pending": 0})

    async def _end_holds(self, context: RequestContext) -> Response:
        for hold in self._held.holds:
            self._held.end(hold)
        self._update()
        return await render.document(context, {"items": []})

    def _find(self, name: str) -> Hold:
        hold = self._held.find(name)
        if hold is None:
            raise NotFound(Resource("", HOLDS), name)
        return hold

    async def _hold_document(self, hold: Hold) -> dict[str, Any]:
        pending = await self._held.pending(hold, MOST_PENDING)
        return {
            "name": hold.name,
            "match": hold.document,
            "version": str(hold.version),
            "pending": len(pending),
            "watches": [
                {**_client_of(request), "version": None if reached is None else str(reached), "open": is_open}
                for request, reached, is_open in self._held.watches_of(hold)
            ],
            "lists": [
                {**_client_of(request), "version": str(version)}
                for request, version in self._held.lists_of(hold)
            ],
        }


def _client_of(request: FaultRequest) -> dict[str, str]:
    resource = f"{request.resource}.{request.group}" if request.group else request.resource
    return {
        "user": request.user,
        "userAgent": request.user_agent,
        "resource": resource,
        "namespace": request.namespace,
    }


def _mapping(context: RequestContext, subject: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Parse a body, JSON or YAML; an empty one is an empty mapping. Raises BadRequest if it has unknown fields."""
    body = context.request.body
    if len(body) > MAX_BYTES:
        raise BadRequest(f"{subject}: more than {MAX_BYTES >> 10} KiB")
    try:
        loaded = yaml.load(body) if body else None
    except yaml.YamlError as error:
        raise BadRequest(f"{subject}: is neither JSON nor YAML: {error}") from None
    if loaded is not None and loaded.problems:
        raise BadRequest(f"{subject}: {'; '.join(loaded.problems)}")
    value = {} if loaded is None else loaded.value
    if not isinstance(value, dict):
        raise BadRequest(f"{subject}: must be a mapping with {' and '.join(known)}")
    for name in value:
        if name not in known:
            raise BadRequest(f"{subject}: {name}: is not a field; known here are {', '.join(known)}")
    return value
