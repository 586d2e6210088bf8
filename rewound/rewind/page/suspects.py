"""Suspects for the page and for `rewound suspects`: the search of `rewind/suspects`, with the rights of the caller.

The caller must be allowed to list the type of the object in its namespace. Everything else that the search reads is
subject to the same rule, type by type: in the namespace of the object or, for objects of the cluster, in all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from rewound.actors.access.authorize import Authorizer
from rewound.actors.errors import BadRequest, NotFound
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.registry import Registry
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.moments import Moment, resolve
from rewound.actors.rewind.rights import HistoryRights
from rewound.actors.rewind.timeline import Patterns
from rewound.gateway.pipeline.context import RequestContext
from rewound.journal.log import Journal
from rewound.rewind.page import parameters
from rewound.rewind.page.refused import refused_in
from rewound.rewind.page.visibility import Visibility, VisibleTypes
from rewound.rewind.suspects.past import Name, Past, short
from rewound.rewind.suspects.suspects import find_suspects
from rewound.rewind.turns import run_in_turns

MAX_REFUSED: Final = 20_000  # refused requests that are looked at, the newest

Document = dict[str, Any]


class SuspectsReader:
    def __init__(
        self,
        journal: Journal,
        registry: Registry,
        visibility: Visibility,
        authorizer: Authorizer,
        recording: Path,
        now: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._registry = registry
        self._visibility = visibility
        self._rights = HistoryRights(authorizer)
        self._recording = recording
        self._now = now

    async def read(self, context: RequestContext) -> Document:
        """The suspects of the object in a request. Raises BadRequest, NotFound or Expired."""
        text, name = _one(context, "type"), _one(context, "name")
        namespace = context.parameters.first("namespace") or ""
        catalog = self._registry.current
        kind = self._visibility.kind(catalog, text)
        if kind is None:
            raise BadRequest(f"type: {quoted(text)} is not a kind of this server")
        type_id, seen = kind
        if seen.definition.namespaced != bool(namespace):
            where = "Required value" if seen.definition.namespaced else "must be empty"
            raise BadRequest(f"namespace: {where} for {seen.name}")
        await self._rights.check(context.user, seen.definition, namespace, "", "list")
        sight = await self._sight(context, namespace)
        since, upto = self._moments(context)
        found: Document | None = await run_in_turns(
            self._search(sight, Name(short(seen.definition.type_name), namespace, name), since, upto)
        )
        if found is None or not type_id:
            raise NotFound(seen.definition.resource, name)
        return found

    async def _sight(self, context: RequestContext, namespace: str) -> _Sight:
        wide = await self._visibility.of(context.user, self._registry.current)
        if not namespace:
            return _Sight(wide, wide, namespace)
        within = Patterns((namespace,))
        near = await self._visibility.of(context.user, self._registry.current, namespaces=within)
        return _Sight(wide, near, namespace)

    def _moments(self, context: RequestContext) -> tuple[int | None, int]:
        since, until = parameters.moment_of(context, "since"), parameters.moment_of(context, "at")
        with self._journal.read() as view:
            upto = resolve(view, until or Moment(version=view.head), self._now(), "at")
            start = None if since is None else resolve(view, since, self._now(), "since")
        if start is not None and start > upto:
            raise BadRequest("since: must not be after at")
        return start, upto

    def _search(self, sight: _Sight, target: Name, since: int | None, upto: int) -> LongWork[Document | None]:
        past: Past = yield Piece(partial(Past, self._journal, upto, sight), waits=True)
        place = self._recording.parent if self._recording.name == "journal" else self._recording
        refused = yield Piece(partial(_newest_refused, place), waits=True)
        found: Document | None = yield from find_suspects(past, target, since, refused)
        return found


def _newest_refused(place: Path) -> list[Document]:
    return list(deque(refused_in(place), maxlen=MAX_REFUSED))


def _one(context: RequestContext, name: str) -> str:
    found = [value for value in context.parameters.all(name) if value]
    if len(found) != 1:
        raise BadRequest(f"{name}: Required value: that of one object")
    return found[0]


class _Sight:
    """What the caller may list: in all namespaces, or in that of the object."""

    def __init__(self, wide: VisibleTypes, near: VisibleTypes, namespace: str) -> None:
        self._wide, self._near, self._namespace = wide, near, namespace

    def sees(self, type_id: int, namespace: str) -> bool:
        if type_id in self._wide.types:
            return True
        return bool(namespace) and namespace == self._namespace and type_id in self._near.types

    def shows_user(self, type_id: int, namespace: str) -> bool:
        if self._wide.shows_users_in(type_id, namespace):
            return True
        return namespace == self._namespace and self._near.shows_users_in(type_id, namespace)
