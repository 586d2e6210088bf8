"""Metrics for autoscalers, from whoever serves the three metrics APIs: another server behind an APIService, objects of
a custom kind, or this server for simulated pods.

`metrics.<domain>` has the usage of pods, `custom.metrics.<domain>` metrics of pods and other objects,
`external.metrics.<domain>` those of something outside. Errors read as client-go v1.25 words them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote, urlencode

import orjson

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.aggregation.content import NoResponse
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.errors import NoSuchResource
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.quantity import NotAQuantity
from rewound.actors.kinds.values.times import duration_error, duration_seconds, micros_of
from rewound.actors.messages import Object
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.store.document import decode
from rewound.actors.workloads.cache import CachedType
from rewound.actors.workloads.replica_counts import NoReplicaCount, PodMetric, milli_value
from rewound.actors.workloads.simulated_metrics import pod_metrics

RESOURCE_VERSION, EXTERNAL_VERSION = "v1beta1", "v1beta1"
CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")  # the preferred one first
_DEFAULT_WINDOW: Final = 60_000_000
_ALL: Final = "*"
_UNAVAILABLE: Final = "the server is currently unable to handle the request"


class MetricsApis:
    def __init__(self, context: ControllerContext, pods: CachedType, user: User) -> None:
        self._context = context
        self._pods = pods
        self._user = user
        self._resource_group = context.names.group("metrics")
        self._custom_group = context.names.group("custom.metrics")
        self._external_group = context.names.group("external.metrics")

    async def resource(
        self, namespace: str, selector: LabelSelector, resource: str, container: str
    ) -> dict[str, PodMetric]:
        """The usage of a resource by pod, of all containers or one. NoReplicaCount."""
        try:
            items = await self._list(
                self._resource_group, RESOURCE_VERSION, namespace, "pods", str(selector), "resource"
            )
        except NoReplicaCount as error:
            raise NoReplicaCount(f"unable to get metrics for resource {resource}: {error}") from None
        found: dict[str, PodMetric] = {}
        for item in items:
            used = _container_usage(item, resource, container) if container else _pod_usage(item, resource)
            if used is not None:
                window = item.get("window", "0s")
                micros = 0 if duration_error(window) else round(duration_seconds(window) * 1_000_000)
                found[item["metadata"]["name"]] = PodMetric(used, _time_of(item), micros)
        return found

    async def pods(
        self, namespace: str, selector: LabelSelector, metric: str, metric_selector: str
    ) -> dict[str, PodMetric]:
        """A custom metric by pod. NoReplicaCount."""
        query = {"labelSelector": str(selector), "metricLabelSelector": metric_selector}
        items = await self._custom(namespace, "pods", _ALL, metric, query)
        if not items:
            raise NoReplicaCount("no metrics returned from custom metrics API")
        found: dict[str, PodMetric] = {}
        for item in items:
            seconds = item.get("windowSeconds", item.get("window"))
            window = _DEFAULT_WINDOW if seconds is None else int(seconds) * 1_000_000
            found[item["describedObject"]["name"]] = PodMetric(_value(item), _time_of(item), window)
        return found

    async def object(self, namespace: str, described: Object, metric: str, metric_selector: str) -> int:
        """A custom metric of one object. NoReplicaCount."""
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
        return _value(items[0])

    async def external(self, namespace: str, metric: str, selector: str) -> int:
        """The sum of all values of an external metric. NoReplicaCount."""
        items = await self._list(
            self._external_group, EXTERNAL_VERSION, namespace, metric, selector, "external"
        )
        return sum(map(_value, items))

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
        """The objects of a namespace, wherever they are."""
        remote = self._remote_versions(group).get(version)
        definition = self._context.registry.current.find(group, version, plural)
        try:
            if remote is not None:
                path = f"namespaces/{quote(namespace)}/{quote(plural)}"
                items = await self._get(remote, path, {"labelSelector": selector}, f"{plural}.{group}")
            elif definition is not None:
                items = self._stored(definition, namespace, LabelSelector.parse(selector))
            else:
                raise NoResponse(f"{NoSuchResource.message} (get {plural}.{group})")
        except NoResponse as error:
            raise NoReplicaCount(f"unable to fetch metrics from {api} metrics API: {error}") from None
        if not items:
            raise NoReplicaCount(f"no metrics returned from {api} metrics API")
        return items

    def _stored(self, definition: Definition, namespace: str, selector: LabelSelector) -> list[Object]:
        if definition.storage.computed:
            now = self._context.clock.now()
            pods = (pod for pod in self._pods.in_namespace(namespace) if _matches(selector, pod))
            return [one for pod in pods if (one := pod_metrics(pod, now)) is not None]
        type_id = self._context.journal.type_id(definition.type_name)
        with self._context.journal.read() as view:
            found = [decode(row.body) for _, _, row in view.rows(type_id, namespace)]
        return [one for one in found if _matches(selector, one)]

    def _remote_versions(self, group: str) -> dict[str, ApiService]:
        aggregation = self._context.aggregation
        remote = aggregation.api_services.remote if aggregation is not None else {}
        return {version: one for (name, version), one in remote.items() if name == group}

    async def _get(self, one: ApiService, path: str, query: Mapping[str, str], asked: str) -> list[Object]:
        """The items of a list that another server has. NoResponse."""
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
        return items if isinstance(items, list) else []


def _matches(selector: LabelSelector, one: Object) -> bool:
    return selector.matches(one["metadata"].get("labels") or {})


def _custom_failed(why: str) -> NoReplicaCount:
    return NoReplicaCount(f"unable to fetch metrics from custom metrics API: {why}")


def _value(item: Object) -> int:
    try:
        return milli_value(str(item["value"]))
    except NotAQuantity as error:
        raise NoReplicaCount(f"the value of a metric is no quantity: {error}") from None


def _time_of(item: Object) -> int:
    try:
        return micros_of(item["timestamp"])
    except (KeyError, ValueError):
        return 0


def _pod_usage(item: Object, resource: str) -> int | None:
    """None if a container lacks it."""
    containers = item.get("containers") or []
    usages = [one.get("usage", {}).get(resource) for one in containers]
    if not usages or None in usages:
        return None
    return sum(milli_value(str(one)) for one in usages)


def _container_usage(item: Object, resource: str, container: str) -> int | None:
    for one in item.get("containers") or ():
        if one["name"] == container:
            used = one.get("usage", {}).get(resource)
            return None if used is None else milli_value(str(used))
    metadata = item["metadata"]
    missing = f"container {container} not present in metrics for pod {metadata.get('namespace', '')}/{metadata['name']}"
    raise NoReplicaCount(
        f"unable to get metrics for resource {resource}: failed to get container metrics: {missing}"
    )
