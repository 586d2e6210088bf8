"""Which webhooks a write must ask: rules, match policy, namespaceSelector and objectSelector.

`Configurations` follows the feed: a configuration is in force with the next request after the reply to its write.

`Matcher` serves webhooks and policies. For each (definition, operation, subresource), and for each namespace if one of
them has a namespaceSelector, the candidates are computed once and cached until a configuration, the served kinds or the
labels of the namespace change. A write that no rule matches costs one lookup; what is left for others is the
objectSelector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import orjson

from rewound.actors.admission.plugin import AsyncPlugin
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.admission.webhooks.candidates import (
    Candidates,
    Match,
    Matched,
    Selecting,
    matching_namespace,
    own_labels,
)
from rewound.actors.admission.webhooks.hook import Hook, hooks_of
from rewound.actors.errors import Resource
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from rewound.actors.selectors.facts import unpack_labels
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event

NAMESPACES: Final = Resource("", "namespaces")
# All definitions in which clients are served the objects of one; with itself.
Equivalents = Callable[[Definition], Sequence[Definition]]
Key = tuple[Definition, str, str]  # with operation and subresource


class Matchable(Selecting, Protocol):
    def definition_for(
        self, definition: Definition, others: Sequence[Definition], operation: str, subresource: str
    ) -> Definition | None:
        """The definition in whose version a rule may match; `others` are equivalent to that of the request."""


T = TypeVar("T", bound=Matchable)


class RuleMatches(NamedTuple, Generic[T]):
    """The webhooks whose rules match; without `everywhere` it depends on the namespace which of them are candidates."""

    matches: tuple[Matched[T], ...]
    everywhere: Candidates[T] | None


_NONE: Final[RuleMatches[Any]] = RuleMatches((), Candidates(()))


class Matcher(Generic[T]):
    """Finds the webhooks or policies, here all called hooks, that match a request."""

    def __init__(
        self, journal: Journal, feed: Feed, equivalents: Equivalents, exempt: frozenset[Resource]
    ) -> None:
        self._exempt = exempt
        self._equivalents = equivalents
        self._journal = journal
        self._namespaces = journal.type_id("namespaces")
        self.hooks: tuple[T, ...] = ()  # without any, plugins ask no further
        self._plugin: AsyncPlugin | None = None
        self._by_rules: dict[Key, RuleMatches[T]] = {}
        self._in_namespaces: dict[str, dict[Key, Candidates[T]]] = {}
        self._labels: dict[str, Mapping[str, str]] = {}  # of namespaces
        feed.follow(self._namespaces_changed, frozenset({self._namespaces}))

    def set_plugin(self, plugin: AsyncPlugin) -> None:
        """The plugin that calls them: it is idle as long as there are none."""
        self._plugin = plugin
        plugin.idle = not self.hooks

    def set_hooks(self, hooks: tuple[T, ...]) -> None:
        self.hooks = hooks
        if self._plugin is not None:
            self._plugin.idle = not hooks
        self.forget_kinds()

    def may_match(self, request: AdmissionRequest) -> bool:
        """Whether a rule matches, whatever the selectors say."""
        if not self.hooks or request.evicts:
            return False
        return bool(
            self._matching_rules((request.definition, request.operation, request.subresource)).matches
        )

    def matching(self, request: AdmissionRequest) -> Sequence[Matched[T]]:
        """In the order in which they are called. Any thread may call it."""
        if not self.hooks or request.evicts:
            return ()
        candidates = self.candidates(request)
        if not candidates.matches:
            return ()
        found = candidates.selecting(request)
        return () if found and _is_server(request) else found

    def candidates(self, request: AdmissionRequest) -> Candidates[T]:
        """Those that match unless their objectSelector does not."""
        key = request.definition, request.operation, request.subresource
        # Taken before the matching rules: what a thread computes from old ones must not get into a newer cache.
        in_namespaces = self._in_namespaces
        found = self._by_rules.get(key) or self._matching_rules(key)
        return found.everywhere or self._matching_namespace(in_namespaces, key, request, found.matches)

    def forget_kinds(self) -> None:
        """Kinds came or went: rules may match others."""
        self._by_rules = {}
        self._in_namespaces = {}

    def equivalents_of(self, definition: Definition) -> Sequence[Definition]:
        return [one for one in self._equivalents(definition) if one is not definition]

    def namespace_labels(self, request: AdmissionRequest) -> Mapping[str, str] | None:
        """The labels that a namespaceSelector selects by; None: it matches every such request."""
        if request.definition.namespaced:
            return self._labels_of(request.namespace)
        if request.definition.resource != NAMESPACES:
            return None
        if not request.subresource and request.operation in (CREATE, UPDATE):
            # A namespace has its own labels, those that it is about to get.
            return own_labels(request.object)
        return self._labels_of(request.name)

    def _matching_rules(self, key: Key) -> RuleMatches[T]:
        by_rules = self._by_rules
        found = by_rules.get(key)
        if found is None:
            found = by_rules[key] = self._match_rules(*key)
        return found

    def _match_rules(self, definition: Definition, operation: str, subresource: str) -> RuleMatches[T]:
        matches = tuple(self._matches(definition, operation, subresource))
        if not matches:
            return _NONE
        in_namespace = definition.namespaced or definition.resource == NAMESPACES
        if in_namespace and any(one.hook.selects_namespaces for one in matches):
            return RuleMatches(matches, None)
        return RuleMatches(matches, Candidates(matches))

    def _matches(self, definition: Definition, operation: str, subresource: str) -> Iterator[Matched[T]]:
        if definition.resource in self._exempt:
            return
        others = self.equivalents_of(definition)
        for position, hook in enumerate(self.hooks):
            matched = hook.definition_for(definition, others, operation, subresource)
            if matched is not None:
                yield Matched(position, hook, matched)

    def _matching_namespace(
        self,
        in_namespaces: dict[str, dict[Key, Candidates[T]]],
        key: Key,
        request: AdmissionRequest,
        matches: tuple[Matched[T], ...],
    ) -> Candidates[T]:
        if request.definition.namespaced:
            namespace = request.namespace
        elif not request.subresource and request.operation in (CREATE, UPDATE):
            return matching_namespace(matches, own_labels(request.object))
        else:
            namespace = request.name
        known = in_namespaces.setdefault(namespace, {})
        found = known.get(key)
        if found is None:
            found = known[key] = matching_namespace(matches, self._labels_of(namespace))
        return found

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        labels = self._labels  # a thread that has read old ones must not put them into a newer cache
        known = labels.get(namespace)
        if known is None:
            with self._journal.read() as view:
                row = view.get(self._namespaces, "", namespace)
            if row is None:
                return {}
            known = labels[namespace] = unpack_labels(row.facts)
        return known

    def _namespaces_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._namespaces:
                self._in_namespaces.pop(event.name, None)
                self._labels = {}


# Whether the match conditions of a webhook are met; raises an error that refuses the write.
ConditionsMet = Callable[[Match, AdmissionRequest], Awaitable[bool]]


class Configurations(Matcher[Hook]):
    """All webhooks of one kind of configuration, by the names of their configurations."""

    def __init__(
        self, names: Names, kind: str, journal: Journal, feed: Feed, equivalents: Equivalents
    ) -> None:
        super().__init__(journal, feed, equivalents, exempt_resources(names))
        group = names.group("admissionregistration")
        self._type_id = journal.type_id(str(Resource(group, f"{kind}webhookconfigurations")))
        self._configurations: dict[str, tuple[Hook, ...]] = {}
        with journal.read() as view:
            each_usable(f"{kind}webhookconfigurations", view.rows(self._type_id, ""), self._take)
        self._sort()
        feed.follow(self._committed, frozenset({self._type_id}))

    def _committed(self, events: Sequence[Event]) -> None:
        changed = False
        for event in events:
            if event.type_id == self._type_id:
                changed = True
                if event.removed:
                    self._configurations.pop(event.name, None)
                else:
                    self._take("", event.name, event.body)
        if changed:
            self._sort()

    def _take(self, _: str, name: str, body: bytes) -> None:
        self._configurations[name] = hooks_of(orjson.loads(body))

    def _sort(self) -> None:
        found = self._configurations
        self.set_hooks(tuple(hook for name in sorted(found) for hook in found[name]))


def exempt_resources(names: Names) -> frozenset[Resource]:
    """What configures admission is never subject to webhooks."""
    group, kinds = names.group("admissionregistration"), ("mutating", "validating")
    parts = ("webhookconfigurations", "admissionpolicies", "admissionpolicybindings")
    return frozenset(Resource(group, f"{kind}{part}") for kind in kinds for part in parts)


def _is_server(request: AdmissionRequest) -> bool:
    """What the server itself writes when it starts must not depend on a webhook that may need the server."""
    context = request.context
    return context is not None and context.caller is None and context.user == SERVER_USER
