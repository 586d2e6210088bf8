"""Stored policies and their bindings, as far as matching needs them; `Policies` follows the feed.

A policy is in force with the first request after the reply to its write, and so are its bindings. Policies without a
binding do nothing. A request that no policy matches costs one lookup (`admission.webhooks.matching`); a binding's
selectors and rules count there too, so that policies for other namespaces cost nothing.

Policies run in the order of their names, and the bindings of one in the order of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import orjson

from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.webhooks.candidates import labels_of
from rewound.actors.admission.webhooks.hook import HookRule, rule_of
from rewound.actors.admission.webhooks.matching import Equivalents, Matcher
from rewound.actors.admission.webhooks.review import reviewed_name
from rewound.actors.admission.webhooks.selector import Selector, compile_selector
from rewound.actors.errors import Resource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event


class NamedRule(NamedTuple):
    """A rule of a policy; without names it matches objects of any name."""

    rule: HookRule
    names: frozenset[str]


class MatchResources:
    """The matchConstraints of a policy, or the matchResources of a binding."""

    __slots__ = (
        "_equivalent",
        "_excluded",
        "_rules",
        "by_name",
        "names",
        "namespace_selector",
        "object_selector",
    )

    def __init__(self, stored: Object) -> None:
        self._rules = _rules(stored, "resourceRules")
        self._excluded = _rules(stored, "excludeResourceRules")
        self._equivalent = stored.get("matchPolicy", "Equivalent") != "Exact"
        self.namespace_selector = compile_selector(stored.get("namespaceSelector"))
        self.object_selector = compile_selector(stored.get("objectSelector"))
        self.by_name = any(one.names for one in (*self._rules, *self._excluded))
        # It matches no object with another name; None: it may match any.
        self.names: frozenset[str] | None = None
        if self._rules and all(one.names for one in self._rules):
            self.names = frozenset().union(*(one.names for one in self._rules))

    def definition_for(
        self,
        definition: Definition,
        others: Sequence[Definition],
        operation: str,
        subresource: str,
        name: str | None = None,
    ) -> Definition | None:
        """The definition in whose version a rule matches. Without a name: whether one may match for some name."""
        key = definition, others, operation, subresource
        if self._excluded and self._first(self._excluded, *key, name, sure=True) is not None:
            return None
        return self._first(self._rules, *key, name, sure=False) if self._rules else definition

    def _first(
        self,
        rules: tuple[NamedRule, ...],
        definition: Definition,
        others: Sequence[Definition],
        operation: str,
        subresource: str,
        name: str | None,
        *,
        sure: bool,
    ) -> Definition | None:
        """`sure`: without a name, a rule with names does not match."""

        def matches(one: NamedRule, other: Definition) -> bool:
            if not one.rule.matches(other, operation, subresource):
                return False
            return not one.names or (not sure if name is None else name in one.names)

        if any(matches(one, definition) for one in rules):
            return definition
        if self._equivalent:
            return next((other for one in rules for other in others if matches(one, other)), None)
        return None


def _rules(stored: Object, field: str) -> tuple[NamedRule, ...]:
    return tuple(
        NamedRule(rule_of(one), frozenset(one.get("resourceNames") or ())) for one in stored.get(field) or ()
    )


EVERYTHING: Final = MatchResources({})


class Binding:
    """A stored binding of a policy."""

    __slots__ = ("actions", "name", "param_ref", "policy", "resources")

    def __init__(self, stored: Object, default_actions: tuple[str, ...]) -> None:
        spec = stored.get("spec") or {}
        self.name: str = stored["metadata"]["name"]
        self.policy: str = spec.get("policyName") or ""
        self.param_ref: Object | None = spec.get("paramRef")
        self.actions: tuple[str, ...] = tuple(spec.get("validationActions") or default_actions)
        resources = spec.get("matchResources")
        self.resources = EVERYTHING if resources is None else MatchResources(resources)


C = TypeVar("C")


class Policy(Generic[C]):
    """A stored policy with its bindings; `compiled` are its expressions, which its plugin compiles on first use."""

    __slots__ = (
        "bindings",
        "by_request",
        "compiled",
        "constraints",
        "fails_closed",
        "name",
        "param_kind",
        "size",
        "spec",
    )

    def __init__(self, stored: Object, size: int) -> None:
        self.name: str = stored["metadata"]["name"]
        self.spec: Object = stored.get("spec") or {}
        self.size = size  # bytes
        self.fails_closed = self.spec.get("failurePolicy") != "Ignore"
        self.param_kind: Object | None = self.spec.get("paramKind")
        self.constraints = MatchResources(self.spec.get("matchConstraints") or {})
        self.bindings: tuple[Binding, ...] = ()
        self.by_request = True  # whether it depends on names, or on what its bindings match
        self.compiled: C | None = None

    @property
    def object_selector(self) -> Selector | None:
        return self.constraints.object_selector

    @property
    def selects_namespaces(self) -> bool:
        return any(
            one.namespace_selector is not None
            for one in (self.constraints, *(binding.resources for binding in self.bindings))
        )

    def in_namespace(self, matches: Callable[[Selector | None], bool]) -> bool:
        return matches(self.constraints.namespace_selector) and (
            self.param_kind is not None
            or any(matches(one.resources.namespace_selector) for one in self.bindings)
        )

    def definition_for(
        self, definition: Definition, others: Sequence[Definition], operation: str, subresource: str
    ) -> Definition | None:
        key = definition, others, operation, subresource
        if self.param_kind is None and not any(one.resources.definition_for(*key) for one in self.bindings):
            return None
        return self.constraints.definition_for(*key)


class Invoked(NamedTuple, Generic[C]):
    """A policy that matches a request, with the bindings that match, and the version in which it gets the objects.

    A policy with parameters may have no such binding: it refuses the request if their kind does not exist.
    """

    policy: Policy[C]
    definition: Definition
    bindings: tuple[Binding, ...]


class Policies(Matcher[Policy[C]]):
    """All policies of one kind (validating, mutating), with their bindings."""

    def __init__(
        self,
        names: Names,
        kind: str,
        journal: Journal,
        feed: Feed,
        equivalents: Equivalents,
        exempt: frozenset[Resource],
        default_actions: tuple[str, ...] = (),
        *,
        with_unbound: bool = False,
    ) -> None:
        """`with_unbound`: those without a binding are invoked too, if they have parameters."""
        super().__init__(journal, feed, equivalents, exempt)
        group = names.group("admissionregistration")
        self._type_id = journal.type_id(str(Resource(group, f"{kind}admissionpolicies")))
        self._bindings_id = journal.type_id(str(Resource(group, f"{kind}admissionpolicybindings")))
        self._default_actions = default_actions
        self._with_unbound = with_unbound
        self._policies: dict[str, Policy[C]] = {}
        self._bindings: dict[str, Binding] = {}
        with journal.read() as view:
            each_usable(f"{kind}admissionpolicies", view.rows(self._type_id, ""), self._take_policy)
            rows = view.rows(self._bindings_id, "")
            each_usable(f"{kind}admissionpolicybindings", rows, self._take_binding)
        self._combine()
        self.seen = len(self._policies)  # those that were there at the start, and all that were created since
        feed.follow(self._committed, frozenset({self._type_id, self._bindings_id}))

    def invoked(self, request: AdmissionRequest) -> list[Invoked[C]]:
        """The policies that match a request, in their order. Any thread may call it."""
        found: list[Invoked[C]] = []
        selected: _Selected | None = None
        for match in self.matching(request):
            policy, definition, bindings = match.hook, match.definition, match.hook.bindings
            if policy.by_request:
                if selected is None:
                    selected = _Selected(self, request)
                if policy.constraints.by_name:
                    by_name = selected.definition(policy.constraints)
                    if by_name is None:
                        continue
                    definition = by_name
                bindings = tuple([one for one in bindings if selected.matches(one.resources)])
            if bindings or policy.param_kind is not None:
                found.append(Invoked(policy, definition, bindings))
        return found

    def _committed(self, events: Sequence[Event]) -> None:
        changed = False
        for event in events:
            if event.type_id == self._type_id:
                changed = True
                before = self._policies.pop(event.name, None)
                if not event.removed:
                    policy: Policy[C] = Policy(orjson.loads(event.body), len(event.body))
                    self.seen += before is None
                    if before is not None and before.spec == policy.spec:
                        policy.compiled = before.compiled
                    self._policies[event.name] = policy
            elif event.type_id == self._bindings_id:
                changed = True
                self._bindings.pop(event.name, None)
                if not event.removed:
                    self._take_binding("", event.name, event.body)
        if changed:
            self._combine()

    def _take_policy(self, _: str, name: str, body: bytes) -> None:
        self._policies[name] = Policy(orjson.loads(body), len(body))

    def _take_binding(self, _: str, name: str, body: bytes) -> None:
        self._bindings[name] = Binding(orjson.loads(body), self._default_actions)

    def _combine(self) -> None:
        """Set the bindings of policies, and those that are in force."""
        by_policy: dict[str, list[Binding]] = {}
        for name in sorted(self._bindings):
            by_policy.setdefault(self._bindings[name].policy, []).append(self._bindings[name])
        for name, policy in self._policies.items():
            bindings = policy.bindings = tuple(by_policy.get(name, ()))
            policy.by_request = policy.constraints.by_name or any(
                one.resources is not EVERYTHING for one in bindings
            )
        in_order = [self._policies[name] for name in sorted(self._policies)]
        self.set_hooks(tuple([one for one in in_order if one.bindings or self._matters_unbound(one)]))

    def _matters_unbound(self, policy: Policy[C]) -> bool:
        return self._with_unbound and policy.param_kind is not None


class _Selected:
    """What the selectors and rules of policies and bindings read of one request."""

    __slots__ = ("_key", "_labels", "_name", "_namespace")

    def __init__(self, matcher: Matcher[Any], request: AdmissionRequest) -> None:
        definition = request.definition
        others = matcher.equivalents_of(definition)
        self._key = definition, others, request.operation, request.subresource
        self._name = reviewed_name(request, None if request.operation == "CONNECT" else request.object)
        self._namespace = matcher.namespace_labels(request)
        self._labels = labels_of(request)

    def definition(self, resources: MatchResources) -> Definition | None:
        if resources.names is not None and self._name not in resources.names:
            return None
        return resources.definition_for(*self._key, self._name)

    def matches(self, resources: MatchResources) -> bool:
        if resources is EVERYTHING:
            return True
        selector = resources.namespace_selector
        if selector is not None and self._namespace is not None and not selector.matches(self._namespace):
            return False
        selector = resources.object_selector
        if selector is not None:
            new, old = self._labels
            if not (new is not None and selector.matches(new)) and not (
                old is not None and selector.matches(old)
            ):
                return False
        return self.definition(resources) is not None
