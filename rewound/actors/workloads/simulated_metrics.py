"""The usage of simulated pods as the API `metrics.<domain>`, for `kubectl top` and autoscalers.

Annotations set it, or else kwok's ResourceUsages (`usage_rules`):

    sim/cpu: 250m            of the first container
    sim/memory: 64Mi
    sim/cpu.sidecar: 10m     of the container `sidecar`

Every running pod has metrics; the default is 0. Usage is momentary, so the window is 0. A node uses what its pods use.

The server has these kinds while at least one pod has such an annotation, or there is a ResourceUsage, and nobody else
serves them: a CustomResourceDefinition or an APIService of the group takes precedence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from rewound.actors.controllers.stored_objects import Position, each_stored
from rewound.actors.kinds import metrics
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.registry import Registry
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import NotAQuantity, nanos_of, quantity_text
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.workloads.usage_rules import USAGES, CurrentUsage, UsageRules
from rewound.journal.log import Journal
from rewound.journal.records import Event

STYLES: Final = {"cpu": "decimal", "memory": "binary"}  # of the quantities of each resource
_PREFIX: Final = "sim/"
_MARKS: Final = tuple(f'"{_PREFIX}{resource}'.encode() for resource in STYLES)

Usage = dict[str, int]  # by resource, in nano-units


def pod_metrics(pod: Object, now: int, rules: CurrentUsage | None) -> Object | None:
    """The PodMetrics of a pod; None if it is not running."""
    if pod["status"].get("phase") != "Running":
        return None
    metadata = pod["metadata"]
    kept = {part: metadata[part] for part in ("name", "namespace", "labels") if part in metadata}
    time = seconds_text(now)
    return {
        "metadata": {**kept, "creationTimestamp": time},
        "timestamp": time,
        "window": "0s",
        "containers": [
            {"name": name, "usage": _written(usage)} for name, usage in _usage_of(pod, now, rules)
        ],
    }


def node_metrics(node: Object, usage: Usage, now: int) -> Object:
    metadata = node["metadata"]
    kept = {part: metadata[part] for part in ("name", "labels") if part in metadata}
    time = seconds_text(now)
    return {
        "metadata": {**kept, "creationTimestamp": time},
        "timestamp": time,
        "window": "0s",
        "usage": _written(usage),
    }


def _usage_of(pod: Object, now: int, rules: CurrentUsage | None) -> list[tuple[str, Usage]]:
    """The usage by container."""
    annotations = pod["metadata"].get("annotations") or {}
    found: list[tuple[str, Usage]] = []
    for position, container in enumerate(pod["spec"]["containers"]):
        name = container["name"]
        ruled = rules.usage(pod, container, now) if rules is not None else {}
        usage: Usage = {}
        for resource in STYLES:
            whole = annotations.get(f"{_PREFIX}{resource}") if position == 0 else None
            text = annotations.get(f"{_PREFIX}{resource}.{name}", whole)
            usage[resource] = ruled.get(resource, 0) if text is None else _amount(text)
        found.append((name, usage))
    return found


def _amount(text: str) -> int:
    try:
        return max(nanos_of(text), 0)
    except NotAQuantity:
        return 0


def _written(usage: Usage) -> dict[str, str]:
    return {resource: quantity_text(amount, STYLES[resource]) for resource, amount in usage.items()}


class SimulatedMetrics:
    def __init__(self, names: Names, registry: Registry, journal: Journal, feed: Feed, clock: Clock) -> None:
        self._registry, self._journal, self._feed, self._clock = registry, journal, feed, clock
        self._definitions = metrics.declare(names)
        self._rules = UsageRules(names, registry, journal)
        self._pods, self._nodes = journal.type_id("pods"), journal.type_id("nodes")
        self._types: frozenset[int] = frozenset()  # followed: pods, and kinds of kwok while there are any
        self._reasons: set[tuple[int, Position]] = set()  # annotated pods and ResourceUsages
        self._follow()
        self._update()
        registry.follow(self._catalog_changed)

    @property
    def sources(self) -> dict[str, UsageOfPods | UsageOfNodes]:
        """The sources of the computed objects, by type name."""
        pods, nodes = (one.type_name for one in self._definitions)
        return {
            pods: UsageOfPods(self._journal, self._pods, self._clock, self._rules),
            nodes: UsageOfNodes(self._journal, self._pods, self._nodes, self._clock, self._rules),
        }

    def _follow(self) -> None:
        """Follow the types that can be a reason to serve the kinds, and read those that are new."""
        stored = self._registry.current.stored_type
        kinds = [self._journal.type_id(name) for name in USAGES if stored(name) is not None]
        types = frozenset({self._pods, *kinds})
        if types == self._types:
            return
        if self._types:
            self._feed.unfollow(self._committed)
        self._feed.follow(self._committed, types)
        new, self._types = types - self._types, types
        self._reasons = {reason for reason in self._reasons if reason[0] in types}
        with self._journal.read() as view:
            for type_id in new:
                for namespace, name, row in view.rows(type_id, None):
                    if self._is_reason(type_id, row.body):
                        self._reasons.add((type_id, (namespace, name)))

    def _is_reason(self, type_id: int, body: bytes) -> bool:
        return type_id != self._pods or _is_annotated(body)

    def _committed(self, events: Sequence[Event]) -> None:
        before = bool(self._reasons)
        for event in events:
            if event.type_id not in self._types:
                continue
            reason = (event.type_id, (event.namespace, event.name))
            if not event.removed and self._is_reason(event.type_id, event.body):
                self._reasons.add(reason)
            else:
                self._reasons.discard(reason)
        if before != bool(self._reasons):
            self._update()

    def _update(self) -> None:
        """Start or stop serving the kinds; kinds of others stay as they are."""
        catalog = self._registry.current
        if self._reasons:
            free = [one for one in self._definitions if catalog.stored_type(one.type_name) is None]
            if free:
                self._registry.publish(free)
            return
        for one in filter(catalog.holds, self._definitions):
            self._registry.remove(one.type_name)

    def _catalog_changed(self, _: Catalog, following: Catalog) -> None:
        """Serve the kinds again when the kinds of others are gone."""
        before = bool(self._reasons)
        self._follow()
        is_missing = any(following.stored_type(one.type_name) is None for one in self._definitions)
        if before != bool(self._reasons) or (self._reasons and is_missing):
            self._update()


class UsageOfPods:
    """PodMetrics of stored pods."""

    def __init__(self, journal: Journal, pods: int, clock: Clock, rules: UsageRules) -> None:
        self._journal, self._pods, self._clock, self._rules = journal, pods, clock, rules

    async def get(self, namespace: str, name: str) -> Object | None:
        with self._journal.read() as view:
            row = view.get(self._pods, namespace, name)
        if row is None:
            return None
        return pod_metrics(decode(row.body), self._clock.now(), self._rules.current())

    async def each(self, namespace: str) -> AsyncGenerator[Object, None]:
        """The metrics of one namespace, or without it of all."""
        now, rules, turn = self._clock.now(), self._rules.current(), Turn()
        async with aclosing(each_stored(self._journal, self._pods, namespace or None)) as pods:
            async for pod in pods:
                if (found := pod_metrics(pod, now, rules)) is not None:
                    yield found
                if turn.over():
                    await next_turn()
                    turn = Turn()


class UsageOfNodes:
    """NodeMetrics of stored nodes."""

    def __init__(self, journal: Journal, pods: int, nodes: int, clock: Clock, rules: UsageRules) -> None:
        self._journal, self._pods, self._nodes = journal, pods, nodes
        self._clock, self._rules = clock, rules

    async def get(self, _: str, name: str) -> Object | None:
        usage = (await self._usage()).get(name) or _nothing()
        with self._journal.read() as view:
            row = view.get(self._nodes, "", name)
        return None if row is None else node_metrics(decode(row.body), usage, self._clock.now())

    async def each(self, _: str) -> AsyncGenerator[Object, None]:
        usage = await self._usage()
        now = self._clock.now()
        async with aclosing(each_stored(self._journal, self._nodes, "")) as nodes:
            async for node in nodes:
                yield node_metrics(node, usage.get(node["metadata"]["name"]) or _nothing(), now)

    async def _usage(self) -> dict[str, Usage]:
        """The usage of the running pods of each node."""
        found: dict[str, Usage] = defaultdict(_nothing)
        now, rules, turn = self._clock.now(), self._rules.current(), Turn()
        async for pod in each_stored(self._journal, self._pods, None):
            if pod["status"].get("phase") == "Running":
                total = found[pod["spec"].get("nodeName", "")]
                for _, usage in _usage_of(pod, now, rules):
                    for resource, amount in usage.items():
                        total[resource] += amount
            if turn.over():
                await next_turn()
                turn = Turn()
        return found


def _nothing() -> Usage:
    return dict.fromkeys(STYLES, 0)


def _is_annotated(body: bytes) -> bool:
    return any(mark in body for mark in _MARKS)
