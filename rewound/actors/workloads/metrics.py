"""Metrics for autoscalers, from the three metrics APIs.

Another server behind an APIService serves them, or objects of a custom kind, or this server for simulated pods.

`metrics.<domain>` has the usage of pods, `custom.metrics.<domain>` metrics of pods and other objects,
`external.metrics.<domain>` those from outside the cluster. Errors have the wording of client-go v1.25.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote, urlencode

import orjson

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.aggregation.content import NoResponse
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.stored_objects import each_stored
from rewound.actors.errors import NoSuchResource
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import duration_error, duration_seconds, micros_of
from rewound.actors.messages import Object
from rewound.actors.quantity import NotAQuantity
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.workloads.cache import CachedType
from rewound.actors.workloads.replica_counts import NoReplicaCount, PodMetric, milli_value
from rewound.actors.workloads.simulated_metrics import pod_metrics
from rewound.actors.workloads.usage_rules import UsageRules

RESOURCE_VERSION, EXTERNAL_VERSION = "v1beta1", "v1beta1"
CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")  # in order of preference
_DEFAULT_WINDOW: Final = 60_000_000
_ALL: Final = "*"
_UNAVAILABLE: Final = "the server is currently unable to handle the request"


class MetricsApis:
    def __init__(self, context: ControllerContext, pods: CachedType, user: User) -> None:
        self._context = context
        self._pods = pods
        self._user = user
        self._rules = UsageRules(context.names, context.registry, context.journal)
        self._resource_group = context.names.group("metrics")
        self._custom_group = context.names.group("custom.metrics")
        self._external_group = context.names.group("external.metrics")

    async def resource(
        self, namespace: str, selector: LabelSelector, resource: str, container: str
    ) -> dict[str, PodMetric]:
        """The usage of a resource by pod, of all containers or one. Raises NoReplicaCount if there is none."""
        try:
            items = await self._list(
                self._resource_group, RESOURCE_VERSION, namespace, "pods", str(selector), "resource"
            )
        except NoReplicaCount as error:
            raise NoReplicaCount(f"unable to get metrics for resource {resource}: {error}") from None
        found: dict[str, PodMetric] = {}
        turn = Turn()
        try:
            for item in items:
                used = (
                    _container_usage(item, resource, container) if container else _pod_usage(item, resource)
                )
                if used is not None:
                    name = _text(_object(item, "metadata"), "name")
                    found[name] = PodMetric(used, _time_of(item), _window(item))
                if turn.over():
                    await next_turn()
                    turn = Turn()
        except _Malformed as wrong:
            raise NoReplicaCount(f"unable to get metrics for resource {resource}: {wrong}") from None
        return found

    async def pods(
        self, namespace: str, selector: LabelSelector, metric: str, metric_selector: str
    ) -> dict[str, PodMetric]:
        """A custom metric by pod. Raises NoReplicaCount if there is none."""
        query = {"labelSelector": str(selector), "metricLabelSelector": metric_selector}
        items = await self._custom(namespace, "pods", _ALL, metric, query)
        if not items:
            raise NoReplicaCount("no metrics returned from custom metrics API")
        found: dict[str, PodMetric] = {}
        turn = Turn()
        try:
            for item in items:
                name = _text(_object(item, "describedObject"), "name")
                found[name] = PodMetric(_quantity(item, "value"), _time_of(item), _window_seconds(item))
                if turn.over():
                    await next_turn()
                    turn = Turn()
        except _Malformed as wrong:
            raise _custom_failed(str(wrong)) from None
        return found

    async def object(self, namespace: str, described: Object, metric: str, metric_selector: str) -> int:
        """A custom metric of one object. Raises NoReplicaCount if there is none."""
        query = {"metricLabelSelector": metric_selector}
        group = described.get("apiVersion", "").rpartition("/")[0]
        if described["kind"] == "Namespace" and not group:
            items = await self._custom(namespace, "metrics", metric, "", query)
        else:
            resource = self._resource_of(group, described["kind"])
            items = await self._custom(namespace, resource, described["name"], metric, query)
        if len(items) != 1:
            raise _custom_failed(
                f"the custom metrics API server returned {len(items)} results when we asked for exactly one"
            )
        try:
            return _quantity(items[0], "value")
        except _Malformed as wrong:
            raise _custom_failed(str(wrong)) from None

    async def external(self, namespace: str, metric: str, selector: str) -> int:
        """The sum of all values of an external metric. Raises NoReplicaCount if there is none."""
        items = await self._list(
            self._external_group, EXTERNAL_VERSION, namespace, metric, selector, "external"
        )
        try:
            return sum(_quantity(item, "value") for item in items)
        except _Malformed as wrong:
            raise NoReplicaCount(f"unable to fetch metrics from external metrics API: {wrong}") from None

    def _resource_of(self, group: str, kind: str) -> str:
        for definition in self._context.registry.current.definitions:
            if definition.group == group and definition.kind == kind:
                return str(definition.resource)
        asked = f"{kind}.{group}" if group else kind
        missing = f"no matches for kind {quoted(kind)} in group {quoted(group)}"
        raise _custom_failed(f"unable to map kind {asked} to resource: {missing}")

    async def _custom(
        self, namespace: str, resource: str, name: str, metric: str, query: Mapping[str, str]
    ) -> list[Object]:
        group = self._custom_group
        remote = self._remote_versions(group)
        if not remote:
            raise _custom_failed(f"no custom metrics API ({group}) registered")
        version = next((one for one in CUSTOM_VERSIONS if one in remote), None)
        if version is None:
            raise _custom_failed("no known available metric versions found")
        parts = (resource, name, metric) if metric else (resource, name)
        path = "/".join(quote(part, safe="*") for part in parts)
        asked = f"{resource}.{group} {name}"
        try:
            return await self._get(remote[version], f"namespaces/{quote(namespace)}/{path}", query, asked)
        except NoResponse as error:
            raise _custom_failed(str(error)) from None

    async def _list(
        self, group: str, version: str, namespace: str, plural: str, selector: str, api: str
    ) -> Collection[Object]:
        """The objects of a namespace, from whichever source has them."""
        remote = self._remote_versions(group).get(version)
        definition = self._context.registry.current.find(group, version, plural)
        try:
            if remote is not None:
                path = f"namespaces/{quote(namespace)}/{quote(plural)}"
                items = await self._get(remote, path, {"labelSelector": selector}, f"{plural}.{group}")
            elif definition is not None:
                items = await self._stored(definition, namespace, LabelSelector.parse(selector))
            else:
                raise NoResponse(f"{NoSuchResource.message} (get {plural}.{group})")
        except NoResponse as error:
            raise NoReplicaCount(f"unable to fetch metrics from {api} metrics API: {error}") from None
        if not items:
            raise NoReplicaCount(f"no metrics returned from {api} metrics API")
        return items

    async def _stored(self, definition: Definition, namespace: str, selector: LabelSelector) -> list[Object]:
        if definition.storage.computed:
            return await self._computed(namespace, selector)
        journal = self._context.journal
        stored = each_stored(journal, journal.type_id(definition.type_name), namespace)
        return [one async for one in stored if _matches(selector, one)]

    async def _computed(self, namespace: str, selector: LabelSelector) -> list[Object]:
        found, turn, now = [], Turn(), self._context.clock.now()
        rules = self._rules.current()
        for pod in tuple(self._pods.in_namespace(namespace)):
            if _matches(selector, pod) and (one := pod_metrics(pod, now, rules)) is not None:
                found.append(one)
            if turn.over():
                await next_turn()
                turn = Turn()
        return found

    def _remote_versions(self, group: str) -> dict[str, ApiService]:
        aggregation = self._context.aggregation
        remote = aggregation.api_services.remote if aggregation is not None else {}
        return {version: one for (name, version), one in remote.items() if name == group}

    async def _get(self, one: ApiService, path: str, query: Mapping[str, str], asked: str) -> list[Object]:
        """The items of a list from another server. Raises NoResponse if it does not respond with one."""
        aggregation = self._context.aggregation
        assert aggregation is not None and aggregation.get is not None
        if not one.available:
            raise NoResponse(f"{_UNAVAILABLE} (get {asked})")
        text = urlencode({name: value for name, value in query.items() if value})
        body = await aggregation.get(one, f"{one.discovery_path}/{path}", text, self._user, asked)
        try:
            items = orjson.loads(body)["items"]
        except (ValueError, KeyError, TypeError):
            raise NoResponse("the metrics API server returned no list") from None
        if items is None:
            return []
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise NoResponse("the metrics API server returned a list whose items are no objects")
        return items


def _matches(selector: LabelSelector, one: Object) -> bool:
    return selector.matches(one["metadata"].get("labels") or {})


def _custom_failed(why: str) -> NoReplicaCount:
    return NoReplicaCount(f"unable to fetch metrics from custom metrics API: {why}")


class _Malformed(Exception):
    """An item from another source violates the metrics API; the text names the field."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"the metrics API returned an item whose {field} is {why}")


def _object(item: Object, field: str) -> Object:
    found = item.get(field)
    if not isinstance(found, dict):
        raise _Malformed(field, "no object")
    return found


def _text(item: Object, field: str) -> str:
    found = item.get(field)
    if not isinstance(found, str):
        raise _Malformed(field, "no text")
    return found


def _quantity(item: Object, field: str) -> int:
    """The quantity in thousandths."""
    found = item.get(field)
    if not isinstance(found, str | int | float) or isinstance(found, bool):
        raise _Malformed(field, "no quantity")
    try:
        return milli_value(str(found))
    except NotAQuantity as error:
        raise _Malformed(field, f"no quantity: {error}") from None


def _time_of(item: Object) -> int:
    """The time of an item; 0 if it has none."""
    if item.get("timestamp") is None:
        return 0
    try:
        return micros_of(_text(item, "timestamp"))
    except (ValueError, OverflowError) as error:
        raise _Malformed("timestamp", f"no time: {error}") from None


def _window(item: Object) -> int:
    """The window of a resource metric, in microseconds."""
    text = _text(item, "window") if item.get("window") is not None else "0s"
    if wrong := duration_error(text):
        raise _Malformed("window", f"no duration: {wrong}")
    return round(duration_seconds(text) * 1_000_000)


def _window_seconds(item: Object) -> int:
    """The window of a custom metric, in microseconds: `windowSeconds` in v1beta1, `window` from some servers."""
    field = "windowSeconds" if "windowSeconds" in item else "window"
    seconds = item.get(field)
    if seconds is None:
        return _DEFAULT_WINDOW
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise _Malformed(field, "no whole number of seconds")
    return seconds * 1_000_000


def _containers(item: Object) -> list[Object]:
    found = item.get("containers") or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _Malformed("containers", "no list of objects")
    return found


def _usage(container: Object, resource: str) -> int | None:
    usage = _object(container, "usage") if container.get("usage") is not None else {}
    return _quantity(usage, resource) if usage.get(resource) is not None else None


def _pod_usage(item: Object, resource: str) -> int | None:
    """The usage of all containers; None if one lacks it."""
    total, containers = 0, _containers(item)
    for one in containers:
        used = _usage(one, resource)
        if used is None:
            return None
        total += used
    return total if containers else None


def _container_usage(item: Object, resource: str, container: str) -> int | None:
    for one in _containers(item):
        if one.get("name") == container:
            return _usage(one, resource)
    metadata = _object(item, "metadata")
    where = f"{metadata.get('namespace', '')}/{_text(metadata, 'name')}"
    missing = f"container {container} not present in metrics for pod {where}"
    raise NoReplicaCount(
        f"unable to get metrics for resource {resource}: failed to get container metrics: {missing}"
    )
