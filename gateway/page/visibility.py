"""Which events a caller sees: those of types that it may list, in all namespaces or in those that it names.

list on the type             its events: version, time, verb, name and contents
rewind on secrets            also needed for Secrets, as for all of their past
get on RESOURCE/history      who wrote them, with which field manager and for which reason

As with lists, all namespaces at once need the right in all of them. Who has it in some has to name these: looking
for rights in each of thousands of namespaces would be thousands of decisions per request, perhaps of a webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision, refusal
from rewound.actors.identity import User
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.rewind.rights import REWIND, SECRETS
from rewound.actors.rewind.timeline import Track
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.gateway.describe.discovery import rewindable
from rewound.journal.log import Journal

ALL: Final = None  # in the place of a namespace


@dataclass(frozen=True, slots=True)
class SeenType:
    """A type whose events a caller sees, at least in one namespace."""

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
        }


class VisibleTypes:
    """What one caller sees with one request."""

    def __init__(self) -> None:
        self.types: dict[int, SeenType] = {}
        self._scopes: dict[tuple[int, str | None], bool] = {}  # whether users are shown too

    def add(self, type_id: int, seen: SeenType, namespace: str | None, *, users: bool) -> None:
        self.types[type_id] = seen
        self._scopes[type_id, namespace] = users

    def sees(self, track: Track) -> bool:
        scopes = self._scopes
        return (track.type_id, ALL) in scopes or (track.type_id, track.namespace) in scopes

    def shows_user(self, track: Track) -> bool:
        scopes = self._scopes
        return scopes.get((track.type_id, ALL)) or scopes.get((track.type_id, track.namespace), False)


class Visibility:
    def __init__(self, journal: Journal, authorizer: Authorizer) -> None:
        self._journal = journal
        self._authorizer = authorizer
        self._listed: tuple[Catalog, list[tuple[int, SeenType]]] | None = None

    def _types(self, catalog: Catalog) -> list[tuple[int, SeenType]]:
        """Every stored type once, by its number in the journal; one that several groups serve has its first name."""
        if self._listed is None or self._listed[0] is not catalog:
            found: dict[int, SeenType] = {}
            for name, definition in rewindable(catalog):
                found.setdefault(self._journal.type_id(definition.type_name), SeenType(name, definition))
            found.pop(0, None)  # never written
            self._listed = catalog, sorted(found.items(), key=lambda one: one[1].name)
        return self._listed[1]

    async def of(
        self, user: User, catalog: Catalog, types: Sequence[str], namespaces: Sequence[str]
    ) -> VisibleTypes:
        """What a user sees of these types and namespaces; empty: of all."""
        visible, turn = VisibleTypes(), Turn()
        for type_id, seen in self._types(catalog):
            if types and seen.name not in types:
                continue
            for namespace in _asked(seen.definition, namespaces):
                where = namespace or ""
                if await self._may_list(user, seen.definition, where):
                    users = await self._may(user, "get", seen.definition, where, "history")
                    visible.add(type_id, seen, namespace, users=users)
                if turn.over():  # many types and namespaces are thousands of decisions
                    await next_turn()
                    turn = Turn()
        return visible

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
    """The namespaces to decide about: a cluster-scoped type is not in any."""
    if not namespaces:
        yield ALL
    elif definition.namespaced:
        yield from namespaces
