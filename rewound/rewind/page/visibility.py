"""Decides which events a caller may see: those of types that it may list, in all namespaces or in those that it names.

list on the type             its events: version, time, verb, name and contents
rewind on secrets            also needed for Secrets, as for all of their past
get on RESOURCE/history      who wrote them, with which field manager and for which reason

As with lists, all namespaces at once need the right in all of them. A user who has it in some has to name these:
checking each of thousands of namespaces would be thousands of decisions per request, perhaps by a webhook.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision, refusal
from rewound.actors.errors import BadRequest
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import User
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.rights import REWIND, SECRETS
from rewound.actors.rewind.search import Seen
from rewound.actors.rewind.timeline import Patterns, Track
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.gateway.describe.discovery import rewindable
from rewound.gateway.wire.worker_threads import encode_in_thread
from rewound.journal.log import Journal

ALL: Final = None  # in place of a namespace
NOTHING: Final = Patterns()


@dataclass(frozen=True, slots=True)
class SeenType:
    """A type whose events a caller may see in at least one namespace."""

    name: str  # RESOURCE[.GROUP]
    definition: Definition

    def document(self) -> dict[str, Any]:
        definition = self.definition
        return {
            "type": self.name,
            "apiVersion": definition.api_version,
            "resource": definition.plural,
            "kind": definition.kind,
            "namespaced": definition.namespaced,
            "singular": definition.names.singular or definition.kind.lower(),
            "shortNames": list(definition.names.short_names),
        }

    @property
    def is_secret(self) -> bool:
        """Whether values are masked, for every caller."""
        return self.definition.type_name == SECRETS

    @property
    def accepted_names(self) -> set[str]:
        """The names that users may write: `deploy`, `deployment`, `deployments.apps`."""
        definition = self.definition
        names = {definition.plural, definition.kind.lower(), definition.names.singular}
        names |= {name.lower() for name in definition.names.short_names}
        names.discard("")
        group, version = definition.group, definition.version
        with_group = {f"{name}{suffix}" for name in names for suffix in (f".{group}", f".{version}.{group}")}
        return names | (with_group if group else set())


class VisibleTypes:
    """The types and namespaces that one request may see."""

    def __init__(self, excluded: Patterns = NOTHING) -> None:
        self.types: dict[int, SeenType] = {}
        self._excluded = excluded  # namespaces
        self._scopes: dict[tuple[int, str | None], bool] = {}  # whether users are shown too

    def add(self, type_id: int, seen: SeenType, namespace: str | None, *, users: bool) -> None:
        self.types[type_id] = seen
        self._scopes[type_id, namespace] = users

    @property
    def key(self) -> object:
        """A key that is equal for callers and filters that see the same tracks, and users of the same tracks."""
        return self._excluded, frozenset(self._scopes.items())

    def sees(self, track: Track) -> bool:
        scopes = self._scopes
        if (track.type_id, ALL) not in scopes and (track.type_id, track.namespace) not in scopes:
            return False
        return not self._excluded or not track.namespace or self._excluded.matches(track.namespace)

    def groups(self) -> list[Seen]:
        """The visible types grouped by their namespaces, for the index of words."""
        namespaces: dict[tuple[int, bool], set[str | None]] = {}
        for (type_id, namespace), users in self._scopes.items():
            namespaces.setdefault((type_id, users), set()).add(namespace)
        types: dict[tuple[frozenset[str] | None, bool], set[int]] = {}
        for (type_id, users), some in namespaces.items():
            key = None if ALL in some else frozenset(one for one in some if one is not None)
            types.setdefault((key, users), set()).add(type_id)
        return [Seen(frozenset(some), where, users) for (where, users), some in types.items()]

    def shows_user(self, track: Track) -> bool:
        scopes = self._scopes
        return scopes.get((track.type_id, ALL)) or scopes.get((track.type_id, track.namespace), False)

    def shows_users_in(self, type_id: int, namespace: str) -> bool:
        """Whether users of a type and namespace are shown, even without events there; not if the filter excludes it."""
        scopes = self._scopes
        if not (scopes.get((type_id, ALL)) or scopes.get((type_id, namespace), False)):
            return False
        return not self._excluded or not namespace or self._excluded.matches(namespace)


_TRACKS: Final = 1000  # looked at in one step


def seen_tracks(tracks: list[Track], visible: VisibleTypes) -> LongWork[list[Track]]:
    seen: list[Track] = []
    for at in range(0, len(tracks), _TRACKS):
        some = tracks[at : at + _TRACKS]
        seen += yield Piece(partial(list, filter(visible.sees, some)))
    return seen


def _names(found: dict[str, list[SeenType]]) -> set[str]:
    return {seen.name for some in found.values() for seen in some}


class _Kinds:
    """The stored types of a catalog, each once; one that several groups serve has its first name."""

    def __init__(self, journal: Journal, catalog: Catalog) -> None:
        self.all = [SeenType(name, definition) for name, definition in rewindable(catalog)]
        self._by_name: dict[str, list[SeenType]] = {}
        found: dict[int, SeenType] = {}
        for seen in self.all:
            found.setdefault(journal.type_id(seen.definition.type_name), seen)
            for name in seen.accepted_names:
                self._by_name.setdefault(name, []).append(seen)
        found.pop(0, None)  # never written
        self.written = sorted(found.items(), key=lambda one: one[1].name)
        self._shown = {seen.definition.type_name: seen for _, seen in self.written}

    def named(self, texts: Sequence[str]) -> dict[str, list[SeenType]]:
        """The kinds that each name means; unknown names are left out.

        `events` is served by two groups, and stored once: the name that is shown counts.
        """
        return {
            text: [self._shown.get(seen.definition.type_name, seen) for seen in self._by_name[text.lower()]]
            for text in texts
            if text.lower() in self._by_name
        }


class Visibility:
    def __init__(self, journal: Journal, authorizer: Authorizer) -> None:
        self._journal = journal
        self._authorizer = authorizer
        self._listed: tuple[Catalog, _Kinds] | None = None

    def _kinds(self, catalog: Catalog) -> _Kinds:
        if self._listed is None or self._listed[0] is not catalog:
            self._listed = catalog, _Kinds(self._journal, catalog)
        return self._listed[1]

    async def of(
        self, user: User, catalog: Catalog, types: Patterns = NOTHING, namespaces: Patterns = NOTHING
    ) -> VisibleTypes:
        """The part of these types and namespaces that a user may see. Raises BadRequest for an unknown kind."""
        kinds = self._kinds(catalog)
        wanted, excluded = kinds.named(types.wanted), kinds.named(types.excluded)
        if unknown := next(
            (text for text in types.wanted + types.excluded if text not in wanted | excluded), ""
        ):
            raise await self._unknown(user, kinds, unknown)
        chosen, left_out = _names(wanted), _names(excluded)
        visible, turn = VisibleTypes(Patterns(excluded=namespaces.excluded)), Turn()
        for type_id, seen in kinds.written:
            if (chosen and seen.name not in chosen) or seen.name in left_out:
                continue
            for namespace in _asked(seen.definition, namespaces.wanted):
                where = namespace or ""
                if await self._may_list(user, seen.definition, where):
                    users = await self._may(user, "get", seen.definition, where, "history")
                    visible.add(type_id, seen, namespace, users=users)
                if turn.over():  # many types and namespaces are thousands of decisions
                    await next_turn()
                    turn = Turn()
        return visible

    def kind(self, catalog: Catalog, text: str) -> tuple[int, SeenType] | None:
        """The kind of a name, whoever may see it, and its type id, 0 if no object of it was ever written."""
        found = self._kinds(catalog).named((text,)).get(text)
        return None if not found else (self._journal.type_id(found[0].definition.type_name), found[0])

    async def may_list(self, user: User, catalog: Catalog, name: str) -> bool:
        """Whether a user may list all objects of a RESOURCE[.GROUP], which the catalog may not have."""
        found = self._kinds(catalog).named((name,)).get(name)
        if found:
            return await self._may_list(user, found[0].definition, "")
        resource, _, group = name.partition(".")
        decision = self._authorizer.authorize(Attributes(user, "list", group, "*", resource, "", "", ""))
        return (decision if isinstance(decision, Decision) else await decision).allowed

    async def _unknown(self, user: User, kinds: _Kinds, text: str) -> BadRequest:
        """The error for an unknown name, with the nearest one that the user may list."""
        known, turn = dict[str, str](), Turn()
        for seen in kinds.all:
            if await self._may_list(user, seen.definition, ""):
                known |= dict.fromkeys(seen.accepted_names, seen.name)
            if turn.over():
                await next_turn()
                turn = Turn()
        near = await encode_in_thread(partial(difflib.get_close_matches, text.lower(), known, n=1))
        hint = f": did you mean {quoted(known[near[0]])}?" if near else ""
        return BadRequest(f"type: {quoted(text)} is not a kind that you may list{hint}")

    async def _may_list(self, user: User, definition: Definition, namespace: str) -> bool:
        if not await self._may(user, "list", definition, namespace):
            return False
        return definition.type_name != SECRETS or await self._may(user, REWIND, definition, namespace)

    async def _may(
        self, user: User, verb: str, definition: Definition, namespace: str, subresource: str = ""
    ) -> bool:
        attributes = Attributes(
            user, verb, definition.group, definition.version, definition.plural, subresource, namespace, ""
        )
        decision = self._authorizer.authorize(attributes)
        if not isinstance(decision, Decision):
            decision = await decision
        if decision.error and not decision.allowed:
            raise refusal(attributes, decision)
        return decision.allowed


def _asked(definition: Definition, namespaces: Sequence[str]) -> Iterator[str | None]:
    """The namespaces to check: a cluster-scoped type is in none."""
    if not namespaces:
        yield ALL
    elif definition.namespaced:
        yield from namespaces
