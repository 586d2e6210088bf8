"""What pods use by kwok's ResourceUsage and ClusterResourceUsage: quantities, or CEL expressions over the pod.

    kind: ClusterResourceUsage
    spec:
      selector: {matchNamespaces: [shop]}
      usages:
      - containers: [web]
        usage:
          cpu: {expression: "pod.SinceSecond() < 60.0 ? Quantity('1') : Quantity('100m')"}
          memory: {value: 64Mi}

A ResourceUsage is for the pod of its name; it comes first, then the ClusterResourceUsages by name. Of the usages of one
object the first counts that names the container, else the first that names none.

Objects are read when somebody asks, and compiled once; nothing follows them. `Rand()` depends on the pod and the second
only, so that two readers see the same, and readers change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from random import Random
from typing import Any, Final, NamedTuple

from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import NotAQuantity, nanos_of
from rewound.actors.runtime.budget import Budget, StepBudget
from rewound.actors.store.document import decode
from rewound.journal.log import Journal

RESOURCE_USAGES: Final = "resourceusages.kwok.x-k8s.io"
CLUSTER_RESOURCE_USAGES: Final = "clusterresourceusages.kwok.x-k8s.io"
USAGES: Final = (RESOURCE_USAGES, CLUSTER_RESOURCE_USAGES)
_RESOURCES: Final = ("cpu", "memory")
_VARIABLES: Final = ("node", "pod", "container")
_MOST_USAGES: Final = 100  # of one object
_MOST_RULES: Final = 100  # ClusterResourceUsages that count
_MOST_TEXT: Final = (
    4_096  # characters of the expressions of one object: compiling takes 5 microseconds for each
)
_MOST_COMPILED: Final = 1000  # objects that are remembered
_LARGEST: Final = 2.0**62  # of a usage, in units
Evaluate = Callable[[Mapping[str, Object], int, Random, Budget], Any]  # of `cel.kwok`


class UsageError(ValueError):
    """A ResourceUsage is invalid; the text says why."""


class _Usage(NamedTuple):
    containers: frozenset[str]
    amounts: Mapping[str, int | Evaluate]  # by resource: nano-units, or what computes units


class UsageRule:
    """One object, compiled. Raises UsageError."""

    def __init__(self, stored: Object, names: Names) -> None:
        spec = _object(stored.get("spec"), "spec")
        selector = _object(spec.get("selector"), "spec.selector")
        self._namespaces = frozenset(_texts(selector, "matchNamespaces", "spec.selector"))
        self._names = frozenset(_texts(selector, "matchNames", "spec.selector"))
        usages = spec.get("usages") or ()
        if not isinstance(usages, list) or len(usages) > _MOST_USAGES:
            raise UsageError(f"spec.usages: must be a list of at most {_MOST_USAGES}")
        if (size := sum(map(_size_of_expressions, usages))) > _MOST_TEXT:
            raise UsageError(
                f"spec.usages: the expressions have {size:,} characters in all; at most {_MOST_TEXT:,} are allowed"
            )
        self._usages = [_usage(one, f"spec.usages[{index}]", names) for index, one in enumerate(usages)]

    def matches(self, pod: Object) -> bool:
        metadata = pod["metadata"]
        return (not self._namespaces or metadata["namespace"] in self._namespaces) and (
            not self._names or metadata["name"] in self._names
        )

    def amounts(self, container: str) -> Mapping[str, int | Evaluate]:
        """Of a container; empty if the object says nothing about it."""
        default: Mapping[str, int | Evaluate] = {}
        for one in self._usages:
            if container in one.containers:
                return one.amounts
            if not one.containers and not default:
                default = one.amounts
        return default


class UsageRules:
    """The stored objects of both kinds."""

    def __init__(self, names: Names, registry: Registry, journal: Journal) -> None:
        self._names, self._registry, self._journal = names, registry, journal
        self._compiled: dict[tuple[str, int], UsageRule | None] = {}  # by uid and generation

    def current(self) -> CurrentUsage | None:
        """The rules as they are now; None if there are none of these kinds."""
        stored = self._registry.current.stored_type
        if stored(CLUSTER_RESOURCE_USAGES) is None and stored(RESOURCE_USAGES) is None:
            return None
        rules: list[UsageRule] = []
        if stored(CLUSTER_RESOURCE_USAGES) is not None:
            with self._journal.read() as view:
                rows = view.rows(self._journal.type_id(CLUSTER_RESOURCE_USAGES), None)
                bodies = [bytes(row.body) for _, (_, _, row) in zip(range(_MOST_RULES), rows, strict=False)]
            rules = [rule for body in bodies if (rule := self._rule(decode(body))) is not None]
        return CurrentUsage(self, rules, has_own=stored(RESOURCE_USAGES) is not None)

    def of_pod(self, pod: Object) -> UsageRule | None:
        found = self._find(RESOURCE_USAGES, pod["metadata"]["namespace"], pod["metadata"]["name"])
        return None if found is None else self._rule(found)

    def node_of(self, pod: Object) -> Object:
        return self._find("nodes", "", pod["spec"].get("nodeName", "")) or {}

    def _find(self, type_name: str, namespace: str, name: str) -> Object | None:
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(type_name), namespace, name)
            return None if row is None else decode(bytes(row.body))

    def _rule(self, stored: Object) -> UsageRule | None:
        key = (stored["metadata"]["uid"], stored["metadata"].get("generation", 0))
        if key not in self._compiled:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            try:
                self._compiled[key] = UsageRule(stored, self._names)
            except UsageError:
                self._compiled[key] = None
        return self._compiled[key]


_MOST_PAUSES: Final = 15  # about three milliseconds


class CurrentUsage:
    """The rules at one moment."""

    def __init__(self, rules: UsageRules, of_cluster: Sequence[UsageRule], *, has_own: bool) -> None:
        self._rules, self._of_cluster, self._has_own = rules, of_cluster, has_own

    def usage(self, pod: Object, container: Object, now: int) -> dict[str, int]:
        """What a container uses, in nano-units by resource; resources about which nothing is said are missing."""
        own = self._rules.of_pod(pod) if self._has_own else None
        for rule in (*((own,) if own is not None else ()), *self._of_cluster):
            if (rule is own or rule.matches(pod)) and (amounts := rule.amounts(container["name"])):
                return {
                    name: amount if isinstance(amount, int) else self._computed(amount, pod, container, now)
                    for name, amount in amounts.items()
                }
        return {}

    def _computed(self, evaluate: Evaluate, pod: Object, container: Object, now: int) -> int:
        values = {"pod": pod, "container": container, "node": self._rules.node_of(pod)}
        source = Random(f"{pod['metadata']['uid']} {container['name']} {now // 1_000_000}")
        try:
            found = evaluate(values, now, source, StepBudget(_MOST_PAUSES))
        except ValueError:  # it takes too long
            return 0
        if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
            return 0
        return round(min(max(found, 0), _LARGEST) * 10**9)


def _usage(given: Any, where: str, names: Names) -> _Usage:
    one = _object(given, where)
    amounts: dict[str, int | Evaluate] = {}
    for name, source in _object(one.get("usage"), f"{where}.usage").items():
        if name in _RESOURCES:
            amounts[name] = _amount(_object(source, f"{where}.usage.{name}"), f"{where}.usage.{name}", names)
    return _Usage(frozenset(_texts(one, "containers", where)), amounts)


def _size_of_expressions(usage: Any) -> int:
    amounts = usage.get("usage") if isinstance(usage, dict) else None
    sources = amounts.values() if isinstance(amounts, dict) else ()
    texts = [source.get("expression") for source in sources if isinstance(source, dict)]
    return sum(len(text) for text in texts if isinstance(text, str))


def _amount(source: Object, where: str, names: Names) -> int | Evaluate:
    if (value := source.get("value")) is not None:
        try:
            return max(nanos_of(str(value)), 0)
        except NotAQuantity as error:
            raise UsageError(f"{where}.value: {error}") from None
    expression = source.get("expression")
    if not isinstance(expression, str):
        raise UsageError(f"{where}: needs a value or an expression")
    # Imported here, because a server without such objects does not need it.
    from rewound.actors.cel.kwok import QueryError, compile_expression, language_of_stages

    try:
        return compile_expression(expression, _VARIABLES, language_of_stages(names))
    except QueryError as error:
        raise UsageError(f"{where}.expression: {error}") from None


def _object(given: Any, where: str) -> Object:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise UsageError(f"{where}: is no object")
    return given


def _texts(given: Object, name: str, where: str) -> list[str]:
    found = given.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise UsageError(f"{where}.{name}: is no list of texts")
    return found
