"""Publishes the kinds that CustomResourceDefinitions declare to the registry.

It follows the feed with a synchronous callback: a kind is served, and a changed schema applies, before the client gets
the response to the write that caused it. The naming controller reserves the type id in the journal before it writes the
condition with which the kind is published. At start all stored definitions are published at once, before the server
listens.

It also holds the facts about all definitions that controllers need, so that one change does not parse a thousand of
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import orjson
from msgspec.structs import replace

from rewound.actors.kinds.apiextensions import ADDED_BY_RECORDER, ESTABLISHED, definition_type, is_true
from rewound.actors.kinds.custom import (
    TERMINATING,
    CustomDefinition,
    DeclaredKind,
    definitions_of,
    is_served,
    parsed,
)
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.stored_form import misfit
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)


class Known(msgspec.Struct, frozen=True):
    """The remembered facts of one definition."""

    name: str
    uid: str
    group: str
    accepted: Object  # names
    generation: int
    established: bool
    published: bool
    terminating: bool
    lacks_names: bool  # some requested names are not accepted

    @property
    def resource_names(self) -> set[str]:
        accepted = self.accepted
        names = {accepted["plural"], accepted.get("singular", ""), *accepted.get("shortNames", ())}
        return names - {""}

    @property
    def kinds(self) -> set[str]:
        return {self.accepted["kind"], self.accepted.get("listKind", "")} - {""}

    def same_kind(self, other: Known) -> bool:
        """Whether both declare the same: spec, names and served versions are equal."""
        return (
            self.uid == other.uid
            and self.generation == other.generation
            and self.accepted == other.accepted
            and self.published == other.published
            and self.terminating == other.terminating
        )


class Publication:
    def __init__(
        self,
        names: Names,
        registry: Registry,
        journal: Journal,
        feed: Feed,
        next_offset: Callable[[], int],
        rules: Rules = DOCUMENTED,
        features: frozenset[str] = frozenset(),
    ) -> None:
        """`next_offset`: the first offset that no write decided before now can get."""
        self._names, self._registry, self._journal = names, registry, journal
        self._next_offset, self._rules, self._features = next_offset, rules, features
        self._left_out: set[str] = set()  # definitions that do not have the form of their kind
        self._own = registry.built_in.storage(definition_type(names))
        self._type_id = journal.type_id(definition_type(names))
        self._known: dict[str, Known] = {}
        self._by_group: dict[str, dict[str, Known]] = {}
        self._publish_stored()
        feed.follow(self._committed, frozenset({self._type_id}))

    def of_group(self, group: str) -> Iterator[Known]:
        return iter(list(self._by_group.get(group, {}).values()))

    def find(self, name: str) -> Known | None:
        return self._known.get(name)

    def terminating(self) -> list[Known]:
        return [one for one in self._known.values() if one.terminating]

    def overlaps_built_in(self, type_name: str) -> bool:
        return self._registry.built_in.stored_type(type_name) is not None

    def establishes(self, events: Sequence[Event]) -> bool:
        """Whether a batch has the first condition Established of a definition.

        A client that reads the condition expects the kind to be served: no read may return it before the feed has it.
        """
        return any(event.type_id == self._type_id and self._is_established_by(event) for event in events)

    def _is_established_by(self, event: Event) -> bool:
        known = self._known.get(event.name)
        if event.removed or (known is not None and known.established):
            return False
        return is_true(outline(event.body), ESTABLISHED)

    def _publish_stored(self) -> None:
        served: list[Any] = []
        unserved: list[Any] = []
        since = self._next_offset()
        with self._journal.read() as view:

            def take(_: str, name: str, body: bytes) -> None:
                self._check(name, body)
                stored = parsed(body)
                known, kind = _known(name, stored), self._kind(stored, body, since)
                self._remember(known)
                served.extend(kind.served)
                unserved.extend(kind.unserved)

            each_usable("customresourcedefinitions", view.rows(self._type_id, ""), take)
        if served or unserved:
            self._registry.publish(served, unserved)

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._type_id:
                continue
            try:
                if event.removed:
                    self._left_out.discard(event.name)
                    self._forget(event.name)
                else:
                    self._changed(event)
            except Exception:
                logger.exception("the kind of %s cannot be published", event.name)

    def _changed(self, event: Event) -> None:
        known = _known(event.name, outline(event.body))
        before = self._remember(known)
        if before is not None and before.same_kind(known):
            return
        if not known.published and (before is None or not before.published):
            return
        if before is not None and known.terminating and replace(before, terminating=True).same_kind(known):
            self._stop_creates(event.name)
            return
        if event.name in self._left_out:
            self._check(event.name, event.body)
        kind = self._kind(parsed(event.body), event.body, self._next_offset())
        if kind.definitions:
            self._registry.publish(kind.served, kind.unserved)
        elif before is not None and before.published:
            self._withdraw(event.name)

    def _check(self, name: str, body: bytes) -> None:
        """Raise ValueError for a definition whose schemas cannot be read: OpenAPI has those of all kinds.

        This server has checked all others that it stores.
        """
        self._left_out.discard(name)
        if not self._own.schema.is_canonical(body) and (problem := misfit(self._own, "", name, body)):
            self._left_out.add(name)
            raise ValueError(problem)

    def _stop_creates(self, name: str) -> None:
        """A definition is being deleted. Nothing else about its kind has changed, so no schema is parsed."""
        found = self._registry.current.stored_type(name)
        if found is None or self.overlaps_built_in(name):
            return
        refusing = {
            one: one.without_creates(TERMINATING)
            for one in found.definitions
            if isinstance(one, CustomDefinition)
        }
        served = [made for one, made in refusing.items() if one in found.served]
        self._registry.publish(served, [made for made in refusing.values() if made not in served])

    def _forget(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            del self._by_group[known.group][name]
            if not self._by_group[known.group]:
                del self._by_group[known.group]
            self._withdraw(name)

    def _withdraw(self, name: str) -> None:
        """Drop the declaration: the finalizer of the definition has removed all objects."""
        if not self.overlaps_built_in(name) and self._registry.current.stored_type(name) is not None:
            self._registry.remove(name)

    def _remember(self, known: Known) -> Known | None:
        before = self._known.get(known.name)
        self._known[known.name] = known
        self._by_group.setdefault(known.group, {})[known.name] = known
        return before

    def _kind(self, stored: Object, body: bytes, since: int) -> DeclaredKind:
        """The kind to serve; None for a definition that is not served, or that no request could reach."""
        name = stored["metadata"]["name"]
        if not is_served(stored) or self.overlaps_built_in(name) or not self._journal.type_id(name):
            return DeclaredKind()
        kind = definitions_of(stored, body, since, self._names, self._rules, self._features)
        recorded = ADDED_BY_RECORDER in stored["metadata"].get("annotations", ())
        reachable = [one for one in kind.served if self._is_reachable(one, recorded)]
        hidden = [one for one in kind.definitions if one not in reachable and not one.storage.stored_as]
        return DeclaredKind(tuple(reachable), tuple(hidden))

    def _is_reachable(self, one: Definition, recorded: bool) -> bool:
        """Whether requests can reach a kind: a group version with built-in kinds belongs to these alone.

        Kinds of a recorded server are the exception: its release may have more kinds in that group version.
        """
        built_in = self._registry.built_in
        if not built_in.of_version(one.group, one.version):
            return True
        has_names = (
            built_in.find(one.group, one.version, one.plural),
            built_in.of_kind(one.api_version, one.kind),
        )
        return recorded and has_names == (None, None)


def _known(name: str, stored: Object) -> Known:
    metadata, spec, status = stored["metadata"], stored["spec"], stored["status"]
    return Known(
        name,
        metadata["uid"],
        spec["group"],
        status["acceptedNames"],
        metadata.get("generation", 0),
        is_true(stored, ESTABLISHED),
        is_served(stored),
        "deletionTimestamp" in metadata,
        spec["names"] != status["acceptedNames"],
    )


_VERSIONS: Final = b',"versions":['
_STATUS: Final = b',"status":{'


def outline(body: bytes) -> Object:
    """Read a stored CustomResourceDefinition without its versions, from the bytes around them.

    Schemas are most of a definition: parsing a megabyte of them holds the interpreter lock for 20 milliseconds, in any
    thread. Controllers need only names and conditions, which are before and after the versions:

        {"metadata":{...},"spec":{"group":"example.com","names":{...},"scope":"Cluster","versions":[...]},"status":{...}}

    Nothing before the versions can look like the mark below: strings have no unescaped quotes, the values of labels and
    annotations are strings, and the names in managedFields start with f:. The status has no member `status` that is an
    object, so the last one in the text is the status itself.

    The spec of the result has group, names and scope. A small definition is parsed completely.
    """
    found: Object = orjson.loads(_without_versions(body) if len(body) > LARGE_BYTES else body)
    return found


def _without_versions(body: bytes) -> bytes:
    begin, end = body.find(_VERSIONS), body.rfind(_STATUS)
    return body[:begin] + b"}" + body[end:] if 0 < begin < end else body
