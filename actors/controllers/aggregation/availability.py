"""The availability controller: the condition Available of APIServices, as Kubernetes v1.25 sets it.

An APIService without a service is available. For another one its Service must exist, with the port, and its Endpoints
must have addresses; then the server must respond to a request for the discovery document of the group version. A
failed check is repeated after a growing pause, a passed one every 30 seconds, and each at once when a Service,
Endpoints or the APIService changes. Requests of clients check nothing: they read the condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from actors.access.remote.address import ServiceAddress
from actors.aggregation.api_services import AVAILABLE, ApiService, parse_api_service
from actors.aggregation.context import AggregationContext
from actors.aggregation.priorities import api_services_type
from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.loop import RetryLater
from actors.controllers.work_queue import WorkQueue
from actors.errors import Conflict, NotFound
from actors.kinds.values.times import seconds_text
from actors.messages import Object
from actors.quoting import quoted_start
from actors.store.document import decode
from actors.write_context import SERVER_USER
from journal.records import Event

MANAGER: Final = "kube-aggregator"
PROBE_AGAIN: Final = 30.0  # seconds after a check that passed
LONGEST_PAUSE: Final = 30.0
_MAX_MESSAGE: Final = 1024  # of a failure, which may quote what a server sent


class Outcome(NamedTuple):
    status: str
    reason: str
    message: str


LOCAL: Final = Outcome("True", "Local", "Local APIServices are always available")
PASSED: Final = Outcome("True", "Passed", "all checks passed")


class AvailabilityController:
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
                if event.manager != MANAGER:  # its own writes need no second check
                    self.queue.add(event.name)
            elif event.type_id in (self._services, self._endpoints):
                self._add_those_of(event.namespace, event.name)

    def _add_those_of(self, namespace: str, name: str) -> None:
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
            self.queue.add(stored["metadata"]["name"])  # it has changed meanwhile: check again


def _has_addresses(endpoints: Object, port_name: str) -> bool:
    return any(
        subset.get("addresses") and any(one.get("name", "") == port_name for one in subset.get("ports") or ())
        for subset in endpoints.get("subsets") or ()
    )
