"""Which webhooks a write must ask: rules, match policy, namespaceSelector and objectSelector.

`Configurations` follows the feed: a configuration is in force with the next request after the reply to its write. For
each (definition, operation, subresource), and for each namespace if a webhook has a namespaceSelector, the candidates
are computed once and cached until a configuration, the served kinds or the labels of the namespace change. A write that
no rule matches costs one lookup; what is left for others is the objectSelector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from rewound.actors.admission.plugin import AsyncPlugin
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.admission.webhooks.candidates import (
    NOTHING,
    Candidates,
    Match,
    matching_namespace,
    own_labels,
)
from rewound.actors.admission.webhooks.hook import Hook, hooks_of
from rewound.actors.errors import Resource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from rewound.actors.runtime.write_context import SERVER_USER
from rewound.actors.selectors.facts import unpack_labels
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal
from rewound.journal.records import Event

NAMESPACES: Final = Resource("", "namespaces")
# All definitions in which clients are served the objects of one; with itself.
Equivalents = Callable[[Definition], Sequence[Definition]]
Key = tuple[Definition, str, str]  # with operation and subresource


class RuleMatches(NamedTuple):
    """The webhooks whose rules match; without `everywhere` it depends on the namespace which of them are candidates."""

    matches: tuple[Match, ...]
    everywhere: Candidates | None


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
        self._plugin: AsyncPlugin | None = None
        self._by_rules: dict[Key, RuleMatches] = {}
        self._in_namespaces: dict[str, dict[Key, Candidates]] = {}
        self._load()
        feed.follow(self._committed, frozenset({self._type_id, self._namespaces}))

    def set_plugin(self, plugin: AsyncPlugin) -> None:
        """The plugin that calls them: it is idle as long as there are none."""
        self._plugin = plugin
        plugin.idle = not self.hooks

    def may_match(self, request: AdmissionRequest) -> bool:
        """Whether a rule matches, whatever the selectors say."""
        if not self.hooks or request.evicts:
            return False
        return bool(
            self._matching_rules((request.definition, request.operation, request.subresource)).matches
        )

    def matching(self, request: AdmissionRequest) -> Sequence[Match]:
        """In the order in which they are called. Any thread may call it."""
        if not self.hooks or request.evicts:
            return ()
        candidates = self.candidates(request)
        if not candidates.matches:
            return ()
        found = candidates.selecting(request)
        return () if found and _is_server(request) else found

    def candidates(self, request: AdmissionRequest) -> Candidates:
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

    def _matching_rules(self, key: Key) -> RuleMatches:
        by_rules = self._by_rules
        found = by_rules.get(key)
        if found is None:
            found = by_rules[key] = self._match_rules(*key)
        return found

    def _match_rules(self, definition: Definition, operation: str, subresource: str) -> RuleMatches:
        matches = tuple(self._matches(definition, operation, subresource))
        if not matches:
            return RuleMatches((), NOTHING)
        in_namespace = definition.namespaced or definition.resource == NAMESPACES
        if in_namespace and any(one.hook.namespace_selector is not None for one in matches):
            return RuleMatches(matches, None)
        return RuleMatches(matches, Candidates(matches))

    def _matches(self, definition: Definition, operation: str, subresource: str) -> Iterator[Match]:
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
        matches: tuple[Match, ...],
    ) -> Candidates:
        if request.definition.namespaced:
            namespace = request.namespace
        elif not request.subresource and request.operation in (CREATE, UPDATE):
            # A namespace has its own labels, those that it is about to get.
            return matching_namespace(matches, own_labels(request.object))
        else:
            namespace = request.name
        known = in_namespaces.setdefault(namespace, {})
        found = known.get(key)
        if found is None:
            found = known[key] = matching_namespace(matches, self._labels_of(namespace))
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
        if self._plugin is not None:
            self._plugin.idle = not self.hooks
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
