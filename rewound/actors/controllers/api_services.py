"""The controllers of APIServices: they register local ones, check the availability of others, and serve aggregation.

For aggregated servers they download OpenAPI documents and publish a ConfigMap with the CAs to trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rewound.actors.access.remote.address import ServiceAddress
from rewound.actors.aggregation.api_services import AVAILABLE, ApiService, parse_api_service
from rewound.actors.aggregation.context import AggregationContext
from rewound.actors.aggregation.priorities import (
    MANAGED,
    MANAGED_ON_START,
    api_services_group,
    api_services_type,
    automanaged_label,
    built_in_priorities,
    local_api_service,
)
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import Page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import AlreadyExists, Conflict, NotFound
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import REWIND_GROUP
from rewound.actors.store.document import decode
from rewound.journal.records import Event
from rewound.journal.view import View


class RegistrationController:
    """The registration controller: a local APIService for every group version that this server serves itself.

        v1.apps            label automanaged: onstart   created by bootstrap; recreated when deleted
        v1.example.com     label automanaged: "true"    for custom kinds; deleted with the last of them, and restored

    It follows the registry for group versions that appear and disappear. An APIService without the label belongs to a
    client and stays as it is, such as one that delegates a group version to another server.
    """

    name = "API service registration controller"

    def __init__(self, context: ControllerContext) -> None:
        self._names, self._registry, self._journal = context.names, context.registry, context.journal
        self._features = context.features
        self._type_id = context.journal.type_id(api_services_type(context.names))
        self.observed_types = frozenset({self._type_id})
        self._kind = context.registry.current.storage(api_services_type(context.names))
        self._label = automanaged_label(context.names)
        self._unlisted = (api_services_group(context.names), REWIND_GROUP)
        self._client = Client(
            context.directory, context.write_contexts, SERVER_USER, context.names.server_manager
        )
        self.queue: WorkQueue[str] = WorkQueue()
        context.registry.follow(self._kinds_changed)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self.queue.add(event.name)

    def _kinds_changed(self, previous: Catalog, following: Catalog) -> None:
        for type_name in following.changed_since(previous):
            for catalog in (previous, following):
                found = catalog.stored_type(type_name)
                for definition in found.served if found is not None else ():
                    self.queue.add(f"{definition.version}.{definition.group}")

    async def catch_up(self) -> None:
        """Add the group versions of custom kinds, which are already published. Bootstrap creates the built-in ones."""
        for group, versions in self._registry.current.groups().items():
            for version in versions:
                if (group, version) not in built_in_priorities(self._names, self._features):
                    self.queue.add(f"{version}.{group}")
        await take_pages(self._journal, self._type_id, "", self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, _ in page:
            self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", key)
        wanted = self._wanted(key)
        try:
            if row is None:
                if wanted is not None:
                    await self._client.create(self._kind, "", self._kind.schema.decode_object(wanted).object)
                return
            await self._maintain(decode(row.body), wanted)
        except (AlreadyExists, Conflict, NotFound):
            return  # its event adds the key again

    def _wanted(self, name: str) -> Object | None:
        version, _, group = name.partition(".")
        # Computed kinds yield to an APIService that registers their group version.
        stored = [
            one for one in self._registry.current.of_version(group, version) if not one.storage.computed
        ]
        if group in self._unlisted or not stored:
            return None
        return local_api_service(self._names, self._features, group, version)

    async def _maintain(self, stored: Object, wanted: Object | None) -> None:
        managed = (stored["metadata"].get("labels") or {}).get(self._label)
        if managed not in (MANAGED, MANAGED_ON_START):
            return
        if wanted is None:
            unchanged = DeleteOptions(resource_version=stored["metadata"]["resourceVersion"])
            await self._client.delete(self._kind, "", stored["metadata"]["name"], unchanged)
        elif managed == MANAGED and stored["spec"] != wanted["spec"]:
            stored["spec"] = wanted["spec"]
            await self._client.replace(self._kind, stored)


MANAGER: Final = "kube-aggregator"
PROBE_AGAIN: Final = 30.0  # seconds after a check that passed
LONGEST_PAUSE: Final = 30.0
_MAX_MESSAGE: Final = 1024  # of a failure, which may quote a server's response


class Outcome(NamedTuple):
    status: str
    reason: str
    message: str


LOCAL: Final = Outcome("True", "Local", "Local APIServices are always available")
PASSED: Final = Outcome("True", "Passed", "all checks passed")


class AvailabilityController:
    """The availability controller: sets the condition Available of APIServices as Kubernetes v1.25 does.

    An APIService without a service is available. Otherwise its Service must exist, with the port, and its Endpoints
    must have addresses; then the server must respond to a request for the discovery document of the group version. A
    failed check is repeated after a growing pause, a successful one every 30 seconds, and each at once when a Service,
    Endpoints or the APIService changes. Client requests check nothing: they read the condition.
    """

    name = "API service availability controller"

    def __init__(self, context: ControllerContext, aggregation: AggregationContext) -> None:
        self._journal = context.journal
        self._aggregation = aggregation
        self._api_services = context.journal.type_id(api_services_type(context.names))
        self._services = context.journal.type_id("services")
        self._endpoints = context.journal.type_id("endpoints")
        self.observed_types = frozenset({self._api_services, self._services, self._endpoints})
        self._kind = context.registry.current.storage(api_services_type(context.names))
        self._client = Client(context.directory, context.write_contexts, SERVER_USER, MANAGER)
        self.queue: WorkQueue[str] = WorkQueue(longest_pause=LONGEST_PAUSE)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._api_services:
                if event.manager != MANAGER:  # its own writes need no further check
                    self.queue.add(event.name)
            elif event.type_id in (self._services, self._endpoints):
                self._add_backed_by(event.namespace, event.name)

    def _add_backed_by(self, namespace: str, name: str) -> None:
        for one in self._aggregation.api_services.remote.values():
            if one.service is not None and one.service[:2] == (namespace, name):
                self.queue.add(one.name)

    async def catch_up(self) -> None:
        for one in self._aggregation.api_services.stored():
            if one.service is not None or not one.available:
                self.queue.add(one.name)

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._api_services, "", key)
        if row is None:
            return
        stored = decode(row.body)
        one = parse_api_service(stored)
        outcome = await self._check(one)
        await self._report(stored, outcome)
        if outcome.reason == "FailedDiscoveryCheck":
            raise RetryLater
        if one.service is not None and outcome is PASSED:
            self.queue.add_after(key, PROBE_AGAIN)

    async def _check(self, one: ApiService) -> Outcome:
        if one.service is None:
            return LOCAL
        missing = self._missing(one.service)
        if missing is not None:
            return missing
        why = await self._aggregation.probe(one)
        if why:
            return Outcome("False", "FailedDiscoveryCheck", why[:_MAX_MESSAGE])
        return PASSED

    def _missing(self, address: ServiceAddress) -> Outcome | None:
        """What the Service lacks; None if nothing."""
        shown = f"service/{address.name} in {quoted_start(address.namespace)}"
        service = self._read(self._services, address)
        if service is None:
            return Outcome("False", "ServiceNotFound", f"{shown} is not present")
        spec = service["spec"]
        if spec.get("type") != "ClusterIP":
            return None
        port = next((one for one in spec.get("ports") or () if one["port"] == address.port), None)
        if port is None:
            return Outcome("False", "ServicePortError", f"{shown} is not listening on port {address.port}")
        endpoints = self._read(self._endpoints, address)
        if endpoints is None:
            return Outcome("False", "EndpointsNotFound", f"cannot find endpoints for {shown}")
        name = port.get("name", "")
        if not _has_addresses(endpoints, name):
            text = f"endpoints for {shown} have no addresses with port name {quoted_start(name)}"
            return Outcome("False", "MissingEndpoints", text)
        return None

    def _read(self, type_id: int, address: ServiceAddress) -> Object | None:
        with self._journal.read() as view:
            row = view.get(type_id, address.namespace, address.name)
        return None if row is None else decode(row.body)

    async def _report(self, stored: Object, outcome: Outcome) -> None:
        status = stored.get("status") or {}
        conditions = status.get("conditions") or []
        current: Object = next((one for one in conditions if one.get("type") == AVAILABLE), {})
        if (current.get("status"), current.get("reason"), current.get("message")) == outcome:
            return
        since = current.get("lastTransitionTime")
        if current.get("status") != outcome.status or since is None:
            since = seconds_text(self._client.now())
        wanted = {
            "type": AVAILABLE,
            "status": outcome.status,
            "lastTransitionTime": since,
            "reason": outcome.reason,
            "message": outcome.message,
        }
        others = [one for one in conditions if one.get("type") != AVAILABLE]
        stored["status"] = {**status, "conditions": [*others, wanted]}
        try:
            await self._client.replace(self._kind, stored, "status")
        except (Conflict, NotFound):
            self.queue.add(stored["metadata"]["name"])  # it has changed in the meantime: check again


def _has_addresses(endpoints: Object, port_name: str) -> bool:
    return any(
        subset.get("addresses") and any(one.get("name", "") == port_name for one in subset.get("ports") or ())
        for subset in endpoints.get("subsets") or ()
    )


DOWNLOAD_AGAIN: Final = 60.0  # seconds


class DescriptionController:
    """The description controller: downloads the discovery and OpenAPI documents of available aggregated servers.

    It repeats that every minute. The documents are in the process's memory, so every process that serves requests runs
    one.
    """

    name = "API service description controller"

    def __init__(self, context: ControllerContext, aggregation: AggregationContext) -> None:
        self._aggregation = aggregation
        self._type_id = context.journal.type_id(api_services_type(context.names))
        self.observed_types = frozenset({self._type_id})
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self.queue.add(event.name)

    async def catch_up(self) -> None:
        for one in self._aggregation.api_services.remote.values():
            self.queue.add(one.name)

    async def reconcile(self, key: str) -> None:
        remote = self._aggregation.api_services.remote.values()
        found = next((one for one in remote if one.name == key), None)
        await self._aggregation.describe(found)
        if found is not None and found.available:
            self.queue.add_after(key, DOWNLOAD_AGAIN)


NAME: Final = "extension-apiserver-authentication"


class TrustPublisher:
    """The trust publisher: a ConfigMap with the CAs by which aggregated servers verify clients and this proxy.

        extension-apiserver-authentication    in the system namespace, as in Kubernetes v1.25

    Aggregated servers read it when they start. The controller restores it when a client changes or deletes it; other
    keys stay. A server without a secure port publishes it with the first APIService of another server, because it has
    no certificates before that.
    """

    name = "aggregation trust publisher"

    def __init__(self, context: ControllerContext, aggregation: AggregationContext) -> None:
        self._journal = context.journal
        self._aggregation = aggregation
        self._namespace = context.names.system_namespace
        self._config_maps = context.journal.type_id("configmaps")
        self._api_services = context.journal.type_id(api_services_type(context.names))
        self.observed_types = frozenset({self._config_maps, self._api_services})
        self._kind = context.registry.current.storage("configmaps")
        self._client = Client(
            context.directory, context.write_contexts, SERVER_USER, context.names.server_manager
        )
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._api_services:
                if not event.previous:
                    self.queue.add(NAME)
            elif event.name == NAME and self._is_published(event):
                self.queue.add(NAME)

    def _is_published(self, event: Event) -> bool:
        return event.type_id == self._config_maps and event.namespace == self._namespace

    async def catch_up(self) -> None:
        self.queue.add(NAME)

    async def reconcile(self, key: str) -> None:
        if not (self._aggregation.publishes_trust_at_start or self._aggregation.api_services.remote):
            return
        wanted = await self._aggregation.trust()
        with self._journal.read() as view:
            row = view.get(self._config_maps, self._namespace, key)
        try:
            if row is None:
                new = {"metadata": {"name": key}, "data": wanted}
                await self._client.create(
                    self._kind, self._namespace, self._kind.schema.decode_object(new).object
                )
                return
            stored = decode(row.body)
            data = stored.get("data") or {}
            if any(data.get(name) != value for name, value in wanted.items()):
                await self._client.replace(self._kind, {**stored, "data": {**data, **wanted}})
        except (AlreadyExists, Conflict, NotFound):
            self.queue.add(key)
