"""One webhook of a stored configuration, compiled: what the server needs to match and to call it.

Objects come from the journal. They were valid when they were written, by the rules of that time: what is missing has
the default of the kind, and a webhook without a known review version fails when it is called.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rewound.actors.access.remote.address import ServiceAddress
from rewound.actors.admission.webhooks.selector import Selector, compile_selector
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
ANY: Final = "*"


class HookRule(NamedTuple):
    """A rule of a webhook; `*` stands for everything in each of its lists."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # resource and subresource
    scope: str

    def matches(self, definition: Definition, operation: str, subresource: str) -> bool:
        return (
            _has(self.operations, operation)
            and _has(self.groups, definition.group)
            and _has(self.versions, definition.version)
            and self.scope in (ANY, "Namespaced" if definition.namespaced else "Cluster")
            and any(
                resource in (ANY, definition.plural) and part in (ANY, subresource)
                for resource, part in self.resources
            )
        )


def _has(values: frozenset[str], value: str) -> bool:
    return value in values or ANY in values


class Conditions:
    """The expressions of the match conditions of a webhook; `compiled` when a write first needs them."""

    __slots__ = ("compiled", "expressions")

    def __init__(self, expressions: tuple[str, ...]) -> None:
        self.expressions = expressions
        self.compiled: tuple[Any, ...] | None = None


class Hook(msgspec.Struct, frozen=True, eq=False):
    configuration: str
    name: str
    identity: tuple[str, int]  # the configuration and the place in it
    url: str  # of a service, only the path
    service: ServiceAddress | None
    ca_bundle: bytes  # empty: the roots of the system
    rules: tuple[HookRule, ...]
    fails_closed: bool
    equivalent: bool
    namespace_selector: Selector | None  # None: matches everything
    object_selector: Selector | None
    safe_in_dry_run: bool
    seconds: int
    review_version: str  # "" if the server knows none of its versions
    reinvoked: bool
    conditions: Conditions | None  # None: it has none

    @property
    def selects_namespaces(self) -> bool:
        return self.namespace_selector is not None

    def in_namespace(self, matches: Callable[[Selector | None], bool]) -> bool:
        return matches(self.namespace_selector)

    def definition_for(
        self, definition: Definition, others: Sequence[Definition], operation: str, subresource: str
    ) -> Definition | None:
        """The definition in whose version a rule matches: the request's own first, then equivalent ones."""
        if any(rule.matches(definition, operation, subresource) for rule in self.rules):
            return definition
        if self.equivalent:
            for rule in self.rules:
                for other in others:
                    if rule.matches(other, operation, subresource):
                        return other
        return None


def hooks_of(configuration: Object) -> tuple[Hook, ...]:
    name = configuration["metadata"]["name"]
    hooks = configuration.get("webhooks") or ()
    return tuple(_hook(name, index, one) for index, one in enumerate(hooks))


def _hook(configuration: str, index: int, stored: Object) -> Hook:
    client = stored.get("clientConfig") or {}
    service = client.get("service")
    versions = stored.get("admissionReviewVersions") or ()
    conditions = stored.get("matchConditions")
    return Hook(
        configuration,
        stored["name"],
        (configuration, index),
        (service.get("path") or "/") if service else client.get("url") or "",
        ServiceAddress(service["namespace"], service["name"], service.get("port") or 443)
        if service
        else None,
        _bytes(client.get("caBundle")),
        tuple(rule_of(one) for one in stored.get("rules") or ()),
        stored.get("failurePolicy", "Fail") != "Ignore",
        stored.get("matchPolicy", "Equivalent") != "Exact",
        compile_selector(stored.get("namespaceSelector")),
        compile_selector(stored.get("objectSelector")),
        stored.get("sideEffects") in ("None", "NoneOnDryRun"),
        stored.get("timeoutSeconds") or 10,
        next((one for one in versions if one in REVIEW_VERSIONS), ""),
        stored.get("reinvocationPolicy") == "IfNeeded",
        Conditions(tuple(one["expression"] for one in conditions)) if conditions else None,
    )


def rule_of(stored: Object) -> HookRule:
    resources = [one.partition("/") for one in _strings(stored, "resources")]
    return HookRule(
        frozenset(_strings(stored, "operations")),
        frozenset(_strings(stored, "apiGroups")),
        frozenset(_strings(stored, "apiVersions")),
        tuple((resource, subresource) for resource, _, subresource in resources),
        stored.get("scope") or ANY,
    )


def _strings(stored: Object, name: str) -> Sequence[str]:
    found: Any = stored.get(name)
    return found or ()


def _bytes(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except (binascii.Error, ValueError):
        return b"\0"  # no certificates: calls fail and say so
