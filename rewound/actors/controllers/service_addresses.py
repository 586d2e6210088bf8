"""ServiceCIDRs and the IPAddress of each ClusterIP, in versions with the feature MultiCIDRServiceAllocator.

`ServiceAddresses` stores and removes IPAddress objects in the commit of their Service: first the address, then the
Service, and on removal the other way round, as clients see it in Kubernetes. `AddressRepair` corrects what differs
nevertheless: the services of a folder of an earlier version, an address that a client deleted. On etcd, where a commit
has one object, it writes the addresses of all services. `DefaultServiceCidr` maintains the ServiceCIDR with the ranges
of the flags, and `ServiceCidrController` decides which ServiceCIDRs are ready, and keeps those that are deleted while a
ClusterIP needs them.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from rewound.actors.allocation.allocated import DEFAULT_CIDR, addresses_in
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import AlreadyExists, Conflict, NotFound, ShuttingDown
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.kinds.validation import Network, parse_ip, parse_network
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Create, Delete, DeleteOptions, Object, Outcome
from rewound.actors.names import Names
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.document import decode
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)


def address_type(names: Names) -> str:
    return f"ipaddresses.{names.group('networking')}"


def cidr_type(names: Names) -> str:
    return f"servicecidrs.{names.group('networking')}"


class AddressObjects:
    """IPAddress objects as the allocator writes them."""

    def __init__(self, names: Names, definition: Definition) -> None:
        self._definition = definition
        self._family, self._manager = (
            names.key("ip-family", "ipaddress"),
            names.key("managed-by", "ipaddress"),
        )
        self._allocator = names.group("ipallocator")

    def new(self, address: str, namespace: str, service: str) -> Object:
        family = "IPv6" if ":" in address else "IPv4"
        labels = {self._family: family, self._manager: self._allocator}
        parent = {"resource": "services", "namespace": namespace, "name": service}
        document = {"metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}}
        return self._definition.schema.decode_object(document).object

    def is_managed(self, address: Object) -> bool:
        """Whether the allocator wrote the object, and nobody else."""
        found: Object = address["metadata"].get("labels", {})
        return found.get(self._manager) == self._allocator

    def is_labelled(self, address: Object) -> bool:
        family = "IPv6" if ":" in address["metadata"]["name"] else "IPv4"
        return self.is_managed(address) and address["metadata"]["labels"].get(self._family) == family


def canonical(address: str) -> str:
    return str(parse_ip(address) or address)


class ServiceAddresses:
    """Writes the IPAddresses of services in the commits of the services; the actor of services calls it."""

    def __init__(
        self,
        names: Names,
        registry: Registry,
        directory: Directory,
        write_contexts: WriteContexts,
        journal: Journal,
    ) -> None:
        self._definition = registry.current.storage(address_type(names))
        self._objects = AddressObjects(names, self._definition)
        self._manager = names.server_manager
        self._directory, self._write_contexts = directory, write_contexts
        self._journal, self._services = journal, journal.type_id("services")

    def submit(self, proposals: Sequence[Proposal]) -> Callable[[], None]:
        """Submit the addresses that services get; returns the function that removes those that they lose."""
        lost: list[str] = []
        for proposal in proposals:
            before = self._before(proposal)
            after = [] if proposal.removed else addresses_in(proposal.body)
            if after != before:
                for address in after:
                    if address not in before:
                        self._create(canonical(address), proposal)
                lost += [canonical(address) for address in before if address not in after]
        return partial(self._delete, lost)

    def _before(self, proposal: Proposal) -> list[str]:
        previous = proposal.previous
        if isinstance(previous, Proposal):
            return addresses_in(previous.body)
        if not previous:
            return []
        with self._journal.read() as view:
            row = view.get(self._services, proposal.namespace, proposal.name)
        return [] if row is None else addresses_in(row.body)

    def _create(self, address: str, proposal: Proposal) -> None:
        new = self._objects.new(address, proposal.namespace, proposal.name)
        context = self._write_contexts.new(SERVER_USER, self._manager)
        command = Create(self._definition.api_version, "", new, context)
        self._directory.actor(self._definition).write_now(command, partial(_written, address))

    def _delete(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            context = self._write_contexts.new(SERVER_USER, self._manager)
            command = Delete(self._definition.api_version, "", address, context, DeleteOptions(), "delete")
            self._directory.actor(self._definition).write_now(command, partial(_written, address))


def _written(address: str, result: Outcome | BaseException) -> None:
    if isinstance(result, BaseException) and not isinstance(result, ShuttingDown | NotFound):
        logger.warning("the IPAddress %s was not written with its service: %s", address, result)


Key = tuple[str, str]  # namespace and name of a service; no namespace and the name of an address
ALL: Final = ("", "")  # all services and addresses

# How long an address may wait for its service, and for an update of it, in seconds: as in Kubernetes.
WAIT_FOR_SERVICE: Final = 60.0
WAIT_FOR_UPDATE: Final = 5.0


class AddressRepair:
    """Creates missing IPAddresses of services, and deletes those of the allocator that no service has."""

    name = "service address repair"

    def __init__(self, context: ControllerContext) -> None:
        names = context.names
        self._journal, self._clock = context.journal, context.clock
        self._services = context.journal.type_id("services")
        self._addresses = context.journal.type_id(address_type(names))
        self._cidrs = context.journal.type_id(cidr_type(names))
        self.observed_types = frozenset({self._services, self._addresses, self._cidrs})
        self._definition = context.registry.current.storage(address_type(names))
        self._objects = AddressObjects(names, self._definition)
        self._client = Client(context.directory, context.write_contexts, SERVER_USER, names.server_manager)
        self._released: set[str] = set()  # addresses that a service has lost: they wait for nobody
        # Services that have just changed: an address that one of them lacks is new, and not lost.
        self._changed: set[Key] = set()
        self.queue: WorkQueue[Key] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        """Queue what may differ: not an address that came or went in one commit with its service."""
        of_addresses = [event for event in events if event.type_id == self._addresses]
        came = {event.name for event in of_addresses if not event.removed}
        gone = {event.name: event for event in of_addresses if event.removed}
        for event in events:
            if event.type_id == self._services:
                self._observe_service(event, came, gone)
            elif event.type_id == self._cidrs and not event.previous:
                self.queue.add(ALL)  # it may have addresses of existing services
        for name in came:
            self.queue.add(("", name))
        for event in gone.values():
            if parent := decode(event.body)["spec"].get("parentRef"):
                self.queue.add((parent.get("namespace", ""), parent["name"]))

    def _observe_service(self, event: Event, came: set[str], gone: dict[str, Event]) -> None:
        addresses = {canonical(address) for address in addresses_in(event.body)}
        if event.removed:
            self._release(addresses - gone.keys())
            for address in addresses:
                gone.pop(address, None)
        else:
            self._release(self._addresses_before(event) - addresses - gone.keys())
            if not addresses <= came:
                self._changed.add((event.namespace, event.name))
                self.queue.add((event.namespace, event.name))
            came -= addresses

    def _addresses_before(self, event: Event) -> set[str]:
        """The addresses of a service before an event, as far as the journal has it."""
        if not event.previous:
            return set()
        with self._journal.read() as view:
            before = view.event(event.previous)
        return set() if before is None else {canonical(one) for one in addresses_in(before.body)}

    def _release(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self._released.add(address)
            self.queue.add(("", address))

    async def catch_up(self) -> None:
        with self._journal.read() as view:
            for type_id in (self._services, self._addresses):
                for namespace, name, _ in view.rows(type_id, None):
                    self.queue.add((namespace, name))

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        if key == ALL:
            await self.catch_up()
        elif namespace:
            await self._reconcile_service(namespace, name)
        else:
            await self._reconcile_address(name)

    async def _reconcile_service(self, namespace: str, name: str) -> None:
        service, changed = self._read(self._services, namespace, name), (namespace, name) in self._changed
        self._changed.discard((namespace, name))
        for text in service["spec"].get("clusterIPs", ()) if service is not None else ():
            address = parse_ip(text)
            if address is None or not self._is_in_range(str(address)):
                continue  # headless, or its ServiceCIDR is gone: it has to be created again
            found = self._read(self._addresses, "", str(address))
            if found is None:
                if not changed:
                    logger.warning(
                        "the ClusterIP %s of %s/%s is not allocated; repairing", text, namespace, name
                    )
                await self._create(str(address), namespace, name)
            elif not self._is_right(found, namespace, name, str(address)):
                await self._delete(str(address))
                await self._create(str(address), namespace, name)

    def _is_right(self, found: Object, namespace: str, name: str, address: str) -> bool:
        """Whether an IPAddress is that of the service, or of another one with the same ClusterIP."""
        parent = found["spec"]["parentRef"]
        if parent.get("group") or parent["resource"] != "services" or not self._objects.is_labelled(found):
            return False
        owner = parent.get("namespace", ""), parent["name"]
        return owner == (namespace, name) or self._has(owner, address)

    async def _reconcile_address(self, name: str) -> None:
        found, released = self._read(self._addresses, "", name), name in self._released
        self._released.discard(name)
        if found is None or not self._objects.is_managed(found):
            return
        parent = found["spec"]["parentRef"]
        owner = parent.get("namespace", ""), parent["name"]
        if not parent.get("group") and parent["resource"] == "services":
            if self._has(owner, name):
                return
            missing = self._read(self._services, *owner) is None
            wait = WAIT_FOR_SERVICE if missing else WAIT_FOR_UPDATE
            age = (self._clock.now() - micros_of(found["metadata"]["creationTimestamp"])) / 1_000_000
            if age < wait and not released:
                self.queue.add_after(("", name), wait - age)
                return
        if not released:
            logger.warning("no service has the IPAddress %s: cleaning up", name)
        await self._delete(name)

    def _has(self, service: Key, address: str) -> bool:
        found = self._read(self._services, *service)
        return found is not None and address in map(canonical, found["spec"].get("clusterIPs", ()))

    def _is_in_range(self, address: str) -> bool:
        with self._journal.read() as view:
            cidrs = [decode(row.body) for _, _, row in view.rows(self._cidrs, None)]
        return any(contains(network, address) for one in cidrs for network in networks_of(one))

    def _read(self, type_id: int, namespace: str, name: str) -> Object | None:
        with self._journal.read() as view:
            row = view.get(type_id, namespace, name)
        return None if row is None else decode(row.body)

    async def _create(self, address: str, namespace: str, name: str) -> None:
        try:
            await self._client.create(self._definition, "", self._objects.new(address, namespace, name))
        except AlreadyExists:
            return

    async def _delete(self, address: str) -> None:
        try:
            await self._client.delete(self._definition, "", address, DeleteOptions())
        except NotFound:
            return


def networks_of(service_cidr: Object) -> list[Network]:
    return [found for text in service_cidr["spec"].get("cidrs", ()) if (found := parse_network(text))]


def contains(network: Network, address: str) -> bool:
    """Whether a ServiceCIDR with the network allocates the address: not that of the network, nor its broadcasts."""
    found = ipaddress.ip_address(address)
    if found == network.network_address or (found.version == 4 and found == network.broadcast_address):
        return False
    return found in network


def _covers(network: Network, other: Network) -> bool:
    """Whether the network has all addresses of the other one."""
    return network.version == other.version and (
        other.network_address in network and network.prefixlen <= other.prefixlen
    )


READY: Final = "Ready"
DEFAULT_MANAGER: Final = "kubernetes-service-cidr-controller"
CIDR_MANAGER: Final = "service-cidr-controller"
STILL_NEEDED: Final = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)


def _applied(definition: Definition, name: str, now: int, **condition: str) -> Object:
    times = {"lastTransitionTime": seconds_text(now)}
    return {
        "apiVersion": definition.api_version,
        "kind": definition.kind,
        "metadata": {"name": name},
        "status": {"conditions": [{"type": READY, **condition, **times}]},
    }


def _ready_condition(service_cidr: Object) -> Object:
    conditions = service_cidr["status"].get("conditions", ())
    return next((one for one in conditions if one["type"] == READY), {})


class DefaultServiceCidr:
    """Creates the ServiceCIDR with the ranges of the flags, adds a range of the other family, and says it is ready.

    It never changes ranges otherwise: a ServiceCIDR with others stays, with a warning in the log.
    """

    name = "default service CIDR"

    def __init__(self, context: ControllerContext, networks: Sequence[str]) -> None:
        self._networks = list(networks)
        self._journal, self._clock = context.journal, context.clock
        type_name = cidr_type(context.names)
        self._type_id = context.journal.type_id(type_name)
        self.observed_types = frozenset({self._type_id})
        self._definition = context.registry.current.storage(type_name)
        directory, contexts = context.directory, context.write_contexts
        self._client = Client(directory, contexts, SERVER_USER, context.names.server_manager)
        self._status_client = Client(directory, contexts, SERVER_USER, DEFAULT_MANAGER)
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        if any(event.type_id == self._type_id and event.name == DEFAULT_CIDR for event in events):
            self.queue.add(DEFAULT_CIDR)

    async def catch_up(self) -> None:
        self.queue.add(DEFAULT_CIDR)

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", key)
        try:
            if row is None:
                await self._create()
            else:
                await self._update(decode(row.body))
        except (AlreadyExists, Conflict, NotFound):
            return  # a change leads to another call

    async def _create(self) -> None:
        new = self._definition.schema.decode_object(default_cidr(self._networks)).object
        await self._client.create(self._definition, "", new)

    async def _update(self, found: Object) -> None:
        cidrs = found["spec"]["cidrs"]
        if "deletionTimestamp" in found["metadata"]:
            return
        if len(cidrs) == 1 and len(self._networks) == 2 and cidrs == self._networks[:1]:
            await self._client.replace(self._definition, {**found, "spec": {"cidrs": self._networks}})
        elif cidrs != self._networks:
            logger.warning("the default ServiceCIDR has %s, and not %s of the flags", cidrs, self._networks)
        elif _ready_condition(found).get("status", "Unknown") == "Unknown":
            text, now = "Kubernetes default Service CIDR is ready", self._clock.now()
            applied = _applied(self._definition, DEFAULT_CIDR, now, status="True", message=text)
            await self._status_client.apply(self._definition, "", DEFAULT_CIDR, applied, "status")


def default_cidr(networks: Sequence[str]) -> Object:
    return {"metadata": {"name": DEFAULT_CIDR}, "spec": {"cidrs": list(networks)}}


class ServiceCidrController:
    """Gives ServiceCIDRs a finalizer and the condition Ready; one that is deleted goes when no ClusterIP needs it.

    The controller of Kubernetes waits ten seconds more, so that all API servers know of the deletion; allocation here
    knows at once.
    """

    name = "service CIDR controller"

    def __init__(self, context: ControllerContext) -> None:
        names = context.names
        self._journal, self._clock = context.journal, context.clock
        self._cidrs = context.journal.type_id(cidr_type(names))
        self._addresses = context.journal.type_id(address_type(names))
        self.observed_types = frozenset({self._cidrs, self._addresses})
        self._definition = context.registry.current.storage(cidr_type(names))
        self._objects = AddressObjects(names, context.registry.current.storage(address_type(names)))
        self._finalizer = f"{names.group('networking')}/service-cidr-finalizer"
        directory, contexts, account = context.directory, context.write_contexts, "service-cidrs-controller"
        self._client = Client.of_controller(directory, contexts, names, account)
        self._status_client = Client(directory, contexts, self._client.user, CIDR_MANAGER)
        self._deleted: set[str] = set()  # names of ServiceCIDRs that are being deleted
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._cidrs:
                self.queue.add(event.name)
        for name in self._deleted:  # a new range, or an address that is gone, may let it go
            self.queue.add(name)

    async def catch_up(self) -> None:
        with self._journal.read() as view:
            for _, name, _ in view.rows(self._cidrs, None):
                self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._cidrs, "", key)
        self._deleted.discard(key)
        if row is None:
            return
        found = decode(row.body)
        try:
            if "deletionTimestamp" in found["metadata"]:
                await self._end(key, found)
            else:
                await self._begin(key, found)
        except (Conflict, NotFound):
            return  # a change leads to another call

    async def _begin(self, name: str, found: Object) -> None:
        finalizers = found["metadata"].get("finalizers", [])
        if self._finalizer not in finalizers:
            patch = {"metadata": {"finalizers": [self._finalizer]}}
            await self._client.patch(self._definition, "", name, patch, "strategic")
        await self._set_ready(
            name, found, status="True", reason="", message="Kubernetes Service CIDR is ready"
        )

    async def _end(self, name: str, found: Object) -> None:
        if self._is_needed(name, found):
            self._deleted.add(name)
            await self._set_ready(name, found, status="False", reason="Terminating", message=STILL_NEEDED)
        elif self._finalizer in found["metadata"].get("finalizers", ()):
            patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [self._finalizer]}}
            await self._client.patch(self._definition, "", name, patch, "strategic")

    async def _set_ready(self, name: str, found: Object, **condition: str) -> None:
        current = _ready_condition(found)
        if any(current.get(part) != value for part, value in condition.items()):
            applied = _applied(self._definition, name, self._clock.now(), **condition)
            await self._status_client.apply(self._definition, "", name, applied, "status")

    def _is_needed(self, name: str, found: Object) -> bool:
        """Whether an address of the allocator would be in no other ServiceCIDR."""
        with self._journal.read() as view:
            others = [
                network
                for _, other, row in view.rows(self._cidrs, None)
                for network in (networks_of(decode(row.body)) if other != name else ())
            ]
            own = networks_of(found)
            if all(any(_covers(other, network) for other in others) for network in own):
                return False
            return any(
                any(contains(network, address) for network in own)
                and not any(contains(network, address) for network in others)
                for _, address, row in view.rows(self._addresses, None)
                if self._objects.is_managed(decode(row.body))
            )
