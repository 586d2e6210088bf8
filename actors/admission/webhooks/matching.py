"""Which webhooks a write must ask: rules, match policy, namespaceSelector and objectSelector.

`Configurations` follows the feed: a configuration is in force with the next request after the reply to its write. For
each (definition, operation, subresource) and namespace the candidates are computed once and kept until a
configuration, the served kinds or the labels of the namespace change, so that a write that no webhook matches costs
two lookups. What is left for each write is the objectSelector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from actors.admission.request import CONNECT, CREATE, UPDATE, AdmissionRequest
from actors.admission.webhooks.hook import Hook, hooks_of
from actors.errors import Resource
from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.label_selector import matches
from actors.messages import Object
from actors.names import Names
from actors.selectors.facts import unpack_labels
from actors.store.feed import Feed
from actors.write_context import SERVER_USER
from journal.log import Journal
from journal.records import Event

NAMESPACES: Final = Resource("", "namespaces")
# All definitions in which clients are served the objects of one; with itself.
Equivalents = Callable[[Definition], Sequence[Definition]]
Key = tuple[Definition, str, str]  # with operation and subresource


class Match(NamedTuple):
    """A webhook to ask, and the version of the kind in which it gets the object."""

    position: int  # among all webhooks, called or not
    hook: Hook
    definition: Definition


class Candidates(NamedTuple):
    """Webhooks whose rules, and maybe namespaceSelector, match; only the objectSelector is left to match."""

    matches: tuple[Match, ...]
    unlabelled: tuple[Match, ...]  # those that may match an object with none of `labels`
    labels: frozenset[str]  # the others need one of these
    selective: bool  # at least one has an objectSelector


def _candidates(found: Iterable[Match]) -> Candidates:
    every = tuple(found)
    return Candidates(
        every,
        tuple(one for one in every if not one.hook.needed_label),
        frozenset(one.hook.needed_label for one in every if one.hook.needed_label),
        any(one.hook.object_selector for one in every),
    )


NOTHING: Final = _candidates(())


class Configurations:
    """All webhooks of one kind of configuration, by the names of their configurations."""

    def __init__(
        self, names: Names, kind: str, journal: Journal, feed: Feed, equivalents: Equivalents
    ) -> None:
        group = names.group("admissionregistration")
        self._exempt = frozenset(
            Resource(group, f"{one}webhookconfigurations") for one in ("mutating", "validating")
        )
        self._equivalents = equivalents
        self._journal = journal
        self._type_id = journal.type_id(str(Resource(group, f"{kind}webhookconfigurations")))
        self._namespaces = journal.type_id("namespaces")
        self._configurations: dict[str, tuple[Hook, ...]] = {}
        self.hooks: tuple[Hook, ...] = ()  # without any, plugins ask no further
        self._candidates: dict[Key, Candidates] = {}
        self._in_namespaces: dict[str, dict[Key, Candidates]] = {}
        self._load()
        feed.follow(self._committed, frozenset({self._type_id, self._namespaces}))

    def may_match(self, request: AdmissionRequest) -> bool:
        """Whether a rule matches, whatever the selectors say."""
        return bool(self.hooks) and bool(
            self._matching_rules((request.definition, request.operation, request.subresource)).matches
        )

    def matching(self, request: AdmissionRequest) -> Sequence[Match]:
        """In the order in which they are called. Any thread may call it."""
        return matching_object(request, self.candidates(request)) if self.hooks else ()

    def candidates(self, request: AdmissionRequest) -> Candidates:
        """Those that match unless their objectSelector does not."""
        key = request.definition, request.operation, request.subresource
        # Taken before the candidates: what a thread computes from old ones must not get into a newer cache.
        in_namespaces = self._in_namespaces
        found = self._matching_rules(key)
        if not found.matches or _is_server(request):
            return NOTHING
        return self._matching_namespace(in_namespaces, key, request, found)

    def forget_kinds(self) -> None:
        """Kinds came or went: rules may match others."""
        self._candidates = {}
        self._in_namespaces = {}

    def _matching_rules(self, key: Key) -> Candidates:
        candidates = self._candidates
        found = candidates.get(key)
        if found is None:
            found = candidates[key] = _candidates(self._match_rules(*key))
        return found

    def _match_rules(self, definition: Definition, operation: str, subresource: str) -> Iterator[Match]:
        if definition.resource in self._exempt:
            return
        others = [one for one in self._equivalents(definition) if one is not definition]
        for position, hook in enumerate(self.hooks):
            matched = _matched_definition(hook, definition, others, operation, subresource)
            if matched is not None:
                yield Match(position, hook, matched)

    def _matching_namespace(
        self,
        in_namespaces: dict[str, dict[Key, Candidates]],
        key: Key,
        request: AdmissionRequest,
        candidates: Candidates,
    ) -> Candidates:
        definition = request.definition
        if definition.resource != NAMESPACES:
            if not definition.namespaced:
                return candidates
            namespace = request.namespace
        elif not request.subresource and request.operation in (CREATE, UPDATE):
            # A namespace has its own labels, those that it is about to get.
            return _with_labels(candidates, _labels(request.object))
        else:
            namespace = request.name
        known = in_namespaces.setdefault(namespace, {})
        found = known.get(key)
        if found is None:
            found = known[key] = _with_labels(candidates, self._labels_of(namespace))
        return found

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        with self._journal.read() as view:
            row = view.get(self._namespaces, "", namespace)
        return unpack_labels(row.facts) if row is not None else {}

    def _load(self) -> None:
        with self._journal.read() as view:
            for _, name, row in view.rows(self._type_id, ""):
                self._configurations[name] = hooks_of(orjson.loads(row.body))
        self._sort()

    def _committed(self, events: Sequence[Event]) -> None:
        changed = False
        for event in events:
            if event.type_id == self._namespaces:
                self._in_namespaces.pop(event.name, None)
            elif event.type_id == self._type_id:
                changed = True
                if event.removed:
                    self._configurations.pop(event.name, None)
                else:
                    self._configurations[event.name] = hooks_of(orjson.loads(event.body))
        if changed:
            self._sort()

    def _sort(self) -> None:
        self.hooks = tuple(
            hook for name in sorted(self._configurations) for hook in self._configurations[name]
        )
        self.forget_kinds()


def _is_server(request: AdmissionRequest) -> bool:
    """What the server itself writes when it starts must not depend on a webhook that may need the server."""
    context = request.context
    return context is not None and context.caller is None and context.user == SERVER_USER


def _matched_definition(
    hook: Hook, definition: Definition, others: Sequence[Definition], operation: str, subresource: str
) -> Definition | None:
    """The definition in whose version a rule matches: the request's own first, then equivalent ones."""
    if any(rule.matches(definition, operation, subresource) for rule in hook.rules):
        return definition
    if hook.equivalent:
        for rule in hook.rules:
            for other in others:
                if rule.matches(other, operation, subresource):
                    return other
    return None


def _with_labels(candidates: Candidates, labels: Mapping[str, str]) -> Candidates:
    """Those whose namespaceSelector matches the labels of a namespace."""
    return _candidates(one for one in candidates.matches if matches(one.hook.namespace_selector, labels))


def matching_object(request: AdmissionRequest, candidates: Candidates) -> Sequence[Match]:
    """Those whose objectSelector matches the object or the one before."""
    if not candidates.selective:
        return candidates.matches
    new, old = labels_of(request)
    labelled = not (candidates.labels.isdisjoint(new or ()) and candidates.labels.isdisjoint(old or ()))
    return [
        one
        for one in (candidates.matches if labelled else candidates.unlabelled)
        if matches_object(one.hook, new, old)
    ]


def labels_of(request: AdmissionRequest) -> tuple[Mapping[str, str] | None, Mapping[str, str] | None]:
    """The labels of the object and of the one before; None without an object, or if it cannot have labels."""
    if request.operation == CONNECT:
        return None, None
    definition = request.definition
    new = _labels(request.object) if request.object is not None else None
    if request.old is None:
        return new, None
    whole = definition.definition_at(request.subresource) is definition
    return new, _labels(request.old) if whole else {}  # a view such as Scale shows no labels


def matches_object(hook: Hook, new: Mapping[str, str] | None, old: Mapping[str, str] | None) -> bool:
    return not hook.object_selector or _selects(hook, new) or _selects(hook, old)


def _selects(hook: Hook, labels: Mapping[str, str] | None) -> bool:
    if labels is None or (hook.needed_label and hook.needed_label not in labels):
        return False
    return matches(hook.object_selector, labels)


def _labels(stored: Object | None) -> Mapping[str, str]:
    if stored is None:
        return {}
    found: Mapping[str, str] | None = stored["metadata"].get("labels")
    return found or {}
