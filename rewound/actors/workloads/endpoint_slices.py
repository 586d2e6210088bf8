"""EndpointSlices: the endpointslice controller, and what it shares with the one that mirrors Endpoints.

A slice has one address type, one set of ports and at most 100 endpoints. A change touches as few slices as possible:
endpoints stay in their slice, new ones fill slices that are written anyway, then the fullest slice that has room for
all the rest, then new slices. A slice that would be deleted is reused for one that would be created.

`Plan` decides all that from the Service, its pods and its slices, without a write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import md5
from typing import Any, Final

from rewound.actors.controllers.client import run_concurrently
from rewound.actors.errors import Conflict, NotFound, RequestError, Resource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps, in_order, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.workloads.cache import CachedType, Key, key_of
from rewound.actors.workloads.controller import CHANGED, OwnerFinder, Parts, WorkloadController
from rewound.actors.workloads.pods import is_namespace_terminating, is_ready, is_terminating, node_of
from rewound.actors.workloads.service_pods import (
    NewHash,
    Ports,
    ServicePorts,
    TriggerTimes,
    addresses_in,
    concerns_services,
    families_of,
    has_address,
    has_endpoints,
    hash_in,
    hashed,
    hostname_in,
    may_serve,
    pause_before,
    pods_of,
    publishes_unready,
    reference_to,
    selecting,
)
from rewound.actors.workloads.topology_hints import (
    Shares,
    Writes,
    add_hints,
    hint_close,
    is_overloaded,
    node_is_ready,
    remove_hints,
    shares_of,
)

MAX_ENDPOINTS: Final = 100
_NAME_LENGTH: Final = 253
_AFTER_CHANGED_SLICE: Final = 1.0  # seconds
_SAME_OBJECT: Final = ("name", "uid", "resourceVersion", "creationTimestamp", "generation")

Identity = tuple[tuple[str, ...], str]  # of an endpoint: addresses and hostname


class SliceKeys:
    """Labels and annotations of slices in the dialect of the server."""

    def __init__(self, names: Names, controller: str) -> None:
        self.service_name = names.key("service-name")
        self.managed_by = names.key("managed-by", "endpointslice")
        self.headless = names.key("headless", "service")
        self.trigger_time = names.key("last-change-trigger-time", "endpoints")
        self.hints = names.key("topology-aware-hints", "service")
        self.zone = names.key("zone", "topology")
        self.manager = names.group(controller)
        self.reserved = frozenset({self.service_name, self.managed_by, self.headless})

    def manages(self, one: Object) -> bool:
        return bool(one["metadata"].get("labels", {}).get(self.managed_by) == self.manager)

    def service_of(self, one: Object) -> str:
        found: str = one["metadata"].get("labels", {}).get(self.service_name, "")
        return found


def comparable(ports: Sequence[Object] | None) -> Steps[Ports]:
    """The ports in a form that is independent of their order."""
    described: list[tuple[tuple[str, Any], ...]] = []
    for part in parts_of(ports or ()):
        described += [tuple(sorted(port.items())) for port in part]
        yield
    return tuple((yield from in_order(described, tuple)))


def sorted_ports(ports: Iterable[Object], new_hash: NewHash = md5) -> Steps[list[Object]]:
    """In the order of Kubernetes: by the hash of the text that Go's debug printer makes of each."""
    return (yield from in_order(ports, lambda port: hashed(_port_text(port), new_hash)))


def _port_text(port: Object) -> str:
    return (
        f"(v1.EndpointPort){{Name:(*string){port['name']} Protocol:(*v1.Protocol){port['protocol']} "
        f"Port:(*int32){port['port']} AppProtocol:(*string){port.get('appProtocol', '<nil>')}}}"
    )


def identity(endpoint: Object) -> Identity:
    addresses = endpoint["addresses"]
    in_order = addresses if len(addresses) == 1 else sorted(addresses)
    return tuple(in_order), endpoint.get("hostname", "")


def same_endpoint(stored: Object, wanted: Object) -> bool:
    """Whether two endpoints of the same identity are equal.

    Hints make no difference, nor do serving and terminating if one of them does not set these.
    """
    if stored == wanted:
        return True
    if any(stored.get(part) != wanted.get(part) for part in ("nodeName", "zone")):
        return False
    before, after = stored.get("conditions", {}), wanted.get("conditions", {})
    if before.get("ready") != after.get("ready"):
        return False
    for part in ("serving", "terminating"):
        if part in before and part in after and before[part] != after[part]:
            return False
    return _target(stored) == _target(wanted)


def _target(endpoint: Object) -> Object:
    return {name: value for name, value in endpoint.get("targetRef", {}).items() if name != "resourceVersion"}


def owner_of(kind: str, one: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": one["metadata"]["name"],
        "uid": one["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_owned(one: Object, owner: Object, kind: str) -> bool:
    return any(
        reference["uid"] == owner["metadata"]["uid"]
        and reference["kind"] == kind
        and reference["apiVersion"] == "v1"
        for reference in one["metadata"].get("ownerReferences", ())
    )


def name_prefix(service: str) -> str:
    return f"{service}-" if len(service) < _NAME_LENGTH else service


class Plan:
    """The planned writes for the slices of one address type of a Service."""

    def __init__(
        self,
        keys: SliceKeys,
        service: Object,
        family: str,
        limit: int = MAX_ENDPOINTS,
        new_hash: NewHash = md5,
    ) -> None:
        self._keys, self._service, self._family, self._limit = keys, service, family, limit
        self._new_hash = new_hash
        self.missing_nodes: dict[
            str, str
        ] = {}  # name of a pod without endpoint -> its node, which does not exist

    def decide(
        self, pods: Iterable[Object], slices: Sequence[Object], node: Callable[[str], Object | None]
    ) -> Steps[Writes]:
        existing: dict[Ports, list[Object]] = {}
        writes = Writes()
        for one in slices:
            if is_owned(one, self._service, "Service"):
                existing.setdefault((yield from comparable(one["ports"])), []).append(one)
            else:
                writes.delete.append(one)
            yield
        wanted, ports = yield from self._wanted(pods, node)
        for key, endpoints in wanted.items():
            yield from self._fill(writes, existing.pop(key, []), endpoints, ports[key])
        for unwanted in existing.values():
            writes.delete.extend(unwanted)
        self._keep_placeholder(writes, len(slices))
        touched = {one["metadata"].get("name") for one in (*writes.update, *writes.delete)}
        writes.unchanged = [one for one in slices if one["metadata"]["name"] not in touched]
        return writes

    def _wanted(
        self, pods: Iterable[Object], node: Callable[[str], Object | None]
    ) -> Steps[tuple[dict[Ports, dict[Identity, Object]], dict[Ports, list[Object]]]]:
        """The endpoints by their ports, and these ports as in slices."""
        wanted: dict[Ports, dict[Identity, Object]] = {}
        written: dict[Ports, list[Object]] = {}
        by_ports: dict[Ports, dict[Identity, Object]] = {}  # as in the Service
        ports, publishes = ServicePorts(self._service), publishes_unready(self._service)
        for pod in tuple(pods):
            yield
            if not may_serve(pod, terminating=True):
                continue
            offered = yield from ports.of(pod)
            endpoints = by_ports.get(offered)
            if endpoints is None:
                listed = [dict(port) for port in offered]
                key = yield from comparable(listed)
                endpoints = by_ports[offered] = wanted[key] = {}
                written[key] = yield from sorted_ports(listed, self._new_hash)
            name = pod["spec"].get("nodeName", "")
            found = node(name)
            if found is None and not publishes:
                self.missing_nodes[pod["metadata"]["name"]] = name
                continue
            if addresses := addresses_in(pod, self._family):
                endpoint = self._endpoint(pod, found, addresses, publishes)
                endpoints[identity(endpoint)] = endpoint
        return wanted, written

    def _endpoint(self, pod: Object, node: Object | None, addresses: list[str], publishes: bool) -> Object:
        serving, terminating = is_ready(pod), is_terminating(pod)
        ready = publishes or (serving and not terminating)
        found: Object = {
            "addresses": addresses,
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "targetRef": reference_to(pod),
        }
        if name := pod["spec"].get("nodeName"):
            found["nodeName"] = name
        if node is not None and (zone := node["metadata"].get("labels", {}).get(self._keys.zone)):
            found["zone"] = zone
        if hostname := hostname_in(self._service, pod):
            found["hostname"] = hostname
        return found

    def _fill(
        self, writes: Writes, slices: list[Object], wanted: dict[Identity, Object], ports: list[Object]
    ) -> Steps[None]:
        updated: list[Object] = []
        untouched: list[Object] = []
        for one in slices:
            kept, changed = _still_wanted(one, wanted)
            if changed and not kept:
                writes.delete.append(one)
            elif changed or self._lacks_labels(one):
                updated.append(_changed(one, endpoints=kept, labels=self.labels()))
            else:
                untouched.append(one)
            yield
        rest = deque(wanted.values())
        for one in sorted(updated, key=lambda one: -len(one["endpoints"])):
            self._top_up(one, rest)
        while rest:
            yield
            roomy = self._with_room(untouched, len(rest))
            if roomy is None:
                filled = self.new_slice(ports)
                writes.create.append(filled)
            else:
                untouched.remove(roomy)
                filled = _changed(roomy, endpoints=list(roomy["endpoints"] or ()))
                updated.append(filled)
            self._top_up(filled, rest)
        writes.update.extend(updated)

    def _top_up(self, one: Object, rest: deque[Object]) -> None:
        endpoints: list[Object] = one["endpoints"]
        while rest and len(endpoints) < self._limit:
            endpoints.append(rest.popleft())

    def _with_room(self, slices: Iterable[Object], count: int) -> Object | None:
        """The slice that this many more endpoints make fullest."""
        if count >= self._limit:
            return None
        fitting = [one for one in slices if len(one["endpoints"] or ()) + count <= self._limit]
        return max(fitting, key=lambda one: len(one["endpoints"] or ()), default=None)

    def _keep_placeholder(self, writes: Writes, existing: int) -> None:
        """A Service always has a slice; without endpoints, an empty one without ports."""
        if writes.create or len(writes.delete) != existing:
            return
        placeholder = self.new_slice([])
        if len(writes.delete) == 1 and self._is_placeholder(writes.delete[0], placeholder):
            writes.delete.clear()
        else:
            writes.create.append(placeholder)

    def _is_placeholder(self, one: Object, placeholder: Object) -> bool:
        return (
            not one["endpoints"]
            and not one["ports"]
            and one["addressType"] == self._family
            and one["metadata"].get("labels", {}) == placeholder["metadata"]["labels"]
        )

    def new_slice(self, ports: list[Object]) -> Object:
        metadata = self._service["metadata"]
        return {
            "metadata": {
                "generateName": name_prefix(metadata["name"]),
                "namespace": metadata["namespace"],
                "labels": self.labels(),
                "ownerReferences": [owner_of("Service", self._service)],
            },
            "addressType": self._family,
            "endpoints": [],
            "ports": ports,
        }

    def labels(self) -> dict[str, str]:
        """The labels of the Service, and those that identify its slices."""
        keys, metadata = self._keys, self._service["metadata"]
        found = self._labels_of(self._service)
        if not has_address(self._service):
            found[keys.headless] = ""
        found[keys.service_name] = metadata["name"]
        found[keys.managed_by] = keys.manager
        return found

    def _labels_of(self, one: Object) -> dict[str, str]:
        labels: dict[str, str] = one["metadata"].get("labels", {})
        return {name: value for name, value in labels.items() if name not in self._keys.reserved}

    def _lacks_labels(self, one: Object) -> bool:
        return self._labels_of(one) != self._labels_of(self._service)


def reuse_deleted(writes: Writes, is_reusable: Callable[[Object], bool]) -> None:
    """Turn creates into updates of slices of the same address type that would be deleted."""
    deleted, writes.delete = writes.delete, []
    for one in deleted:
        made = writes.create[-1] if writes.create else None
        if made is not None and one["addressType"] == made["addressType"] and is_reusable(one):
            writes.update.append(replacing(one, writes.create.pop()))
        else:
            writes.delete.append(one)


def replacing(one: Object, made: Object) -> Object:
    """A new slice under the name of a stored one, of which nothing else remains."""
    same = {part: value for part, value in one["metadata"].items() if part in _SAME_OBJECT}
    return {**made, "metadata": {**made["metadata"], **same}}


def _still_wanted(one: Object, wanted: dict[Identity, Object]) -> tuple[list[Object], bool]:
    """The endpoints of a slice as they should be, taken out of `wanted`, and whether that changes it."""
    kept: list[Object] = []
    changed = False
    for endpoint in one["endpoints"] or ():
        found = wanted.pop(identity(endpoint), None)
        if found is not None:
            kept.append(found)
        changed = changed or found is None or not same_endpoint(endpoint, found)
    return kept, changed


def _changed(one: Object, *, endpoints: list[Object], labels: dict[str, str] | None = None) -> Object:
    metadata = one["metadata"] if labels is None else {**one["metadata"], "labels": labels}
    return {**one, "metadata": metadata, "endpoints": endpoints}


class SliceWriter:
    """Carries out planned writes of slices."""

    def __init__(self, controller: WorkloadController, slices: CachedType) -> None:
        self._client, self._decoded = controller.client, controller.decoded
        self._definition: Definition = slices.definition

    async def write(self, writes: Writes, *, creates: bool = True) -> None:
        """Without `creates` nothing is created: the owner is being deleted. Raises RequestError if a write fails."""
        errors = await run_concurrently(self._create, writes.create if creates else ())
        if any(map(is_namespace_terminating, errors)):
            return
        errors += await run_concurrently(self._update, writes.update)
        errors += await run_concurrently(self.delete, writes.delete)
        if errors:
            raise errors[0]

    async def _create(self, one: Object) -> None:
        decoded = await self._decoded(self._definition, one)
        await self._client.create(self._definition, one["metadata"]["namespace"], decoded)

    async def _update(self, one: Object) -> None:
        await self._client.replace(self._definition, await self._decoded(self._definition, one))

    async def delete(self, one: Object) -> None:
        try:
            await self._client.delete(self._definition, *key_of(one), DeleteOptions())
        except NotFound:
            return


class EndpointSlices(WorkloadController):
    name, account, component = "endpointslice", "endpointslice-controller", "endpoint-slice-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._keys = SliceKeys(self.names, "endpointslice-controller")
        self._services = self.keyed_by("services")
        self._pods = self.cache.collection("pods")
        self._owner_finder = OwnerFinder(self.queue, self._services, selecting, self._selected)
        self._pods.listen(self._pod_changed)
        self._pods_on = self._pods.index(node_of)
        self._nodes = self.cache.collection("nodes")
        self._nodes.listen(self._node_changed)
        self._slices = self.cache.collection(str(Resource(self.names.group("discovery"), "endpointslices")))
        self._slices.listen(self._slice_changed)
        self._by_service = self._slices.index(self._service_keys)
        self._writer = SliceWriter(self, self._slices)
        self._times = TriggerTimes()
        self._new_hash = hash_in(self.release.features)
        self._sizes: dict[Key, int] = {}  # pods of each Service
        self._waiting: dict[str, set[Key]] = {}  # by missing node: Services with pods there
        self._missing: dict[Key, frozenset[str]] = {}  # the same by Service
        self._shares: Shares | None = None  # None: nodes have changed
        self._hints: dict[tuple[Key, str], dict[str, int]] = {}  # by Service and address type: by zone

    def _service_keys(self, one: Object) -> list[Key]:
        return [(one["metadata"]["namespace"], self._keys.service_of(one))] if self._keys.manages(one) else []

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if concerns_services(old, new):
            self._owner_finder.changed(old, new)

    def _selected(self, _: Object, services: Sequence[Object]) -> None:
        for key in map(key_of, services):
            self.queue.add_after(key, pause_before(self._sizes.get(key, 0)))

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        """Another client may have changed it; we see our own changes, too."""
        for one in (old, new):
            if one is not None:
                for key in self._service_keys(one):
                    self.queue.add_after(key, _AFTER_CHANGED_SLICE)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = (None if one is None else self._facts_of(one) for one in (old, new))
        if before == after:
            return
        self._shares = None
        one = new if new is not None else old
        assert one is not None
        name = one["metadata"]["name"]
        for key in self._waiting.get(name, ()) if new is not None else ():
            self.queue.add(key)
        if before is None or after is None or before[0] != after[0]:
            for pod in self._pods_on.get(name) if old is not None else ():
                self._pod_changed(None, pod)
        for key, _ in [
            one for one, hints in self._hints.items() if is_overloaded(hints, self._current_shares())
        ]:
            self.queue.add(key)

    def _facts_of(self, node: Object) -> tuple[str | None, bool]:
        return node["metadata"].get("labels", {}).get(self._keys.zone), node_is_ready(node)

    def _current_shares(self) -> Shares:
        if self._shares is None:
            self._shares = shares_of(self._nodes, self.names)
        return self._shares

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        if name == CHANGED:
            await self._owner_finder.find_deferred(namespace)
            return
        service = self._services.get(*key)
        if service is None:
            self._forget(key)
            return
        if not has_endpoints(service, self.release.features):
            self._forget(key)
            return
        pods = await in_turns(pods_of(self._pods, service))
        self._sizes[key] = len(pods)
        slices = [one for one in self._by_service.get(key) if not is_terminating(one)]
        writes, missing = await in_turns(self._decide(service, pods, slices))
        nodes = frozenset(missing.values())
        self._wait_for(key, nodes)  # before the writes: a node may appear meanwhile
        if any(self._nodes.get("", name) is not None for name in nodes):
            self.queue.add(key)  # one appeared while this was decided
        self._add_times(writes, await in_turns(self._times.since_last(service, pods)))
        refused: RequestError | None = None
        try:
            await self._writer.write(writes, creates=not is_terminating(service))
        except Conflict:
            raise
        except RequestError as error:
            refused = error
        self._report(service, missing, refused)

    def _wait_for(self, key: Key, nodes: frozenset[str]) -> None:
        """Record that the Service waits for these nodes only."""
        for node in self._missing.pop(key, frozenset()) - nodes:
            self._waiting[node].discard(key)
            if not self._waiting[node]:
                del self._waiting[node]
        for node in nodes:
            self._waiting.setdefault(node, set()).add(key)
        if nodes:
            self._missing[key] = nodes

    def _forget(self, key: Key) -> None:
        self._wait_for(key, frozenset())
        self._times.forget(key)
        self._sizes.pop(key, None)
        for one in [one for one in self._hints if one[0] == key]:
            del self._hints[one]

    def _decide(
        self, service: Object, pods: list[Object], slices: list[Object]
    ) -> Steps[tuple[Writes, dict[str, str]]]:
        """The writes for all address types, and the pods whose nodes do not exist."""
        families = families_of(service)
        every = Writes(delete=[one for one in slices if one["addressType"] not in families])
        missing: dict[str, str] = {}
        for family in families:
            plan = Plan(self._keys, service, family, new_hash=self._new_hash)
            same = [one for one in slices if one["addressType"] == family]
            writes = yield from plan.decide(pods, same, partial(self._nodes.get, ""))
            missing |= plan.missing_nodes
            self._hint(service, family, writes)
            reuse_deleted(writes, lambda one: is_owned(one, service, "Service"))
            every.create += writes.create
            every.update += writes.update
            every.delete += writes.delete
        return every, missing

    def _hint(self, service: Object, family: str, writes: Writes) -> None:
        place = key_of(service), family
        hints: dict[str, int] = {}
        if service["metadata"].get("annotations", {}).get(self._keys.hints) in ("Auto", "auto"):
            hints = add_hints(writes, self._current_shares())
        elif distribution := service["spec"].get("trafficDistribution"):
            hint_close(writes, by_node=distribution == "PreferSameNode")
        else:
            remove_hints(writes)
        if hints:
            self._hints[place] = hints
        else:
            self._hints.pop(place, None)

    def _add_times(self, writes: Writes, time: str) -> None:
        for one in (*writes.create, *writes.update):
            annotations = dict(one["metadata"].get("annotations", {}))
            annotations.pop(self._keys.trigger_time, None)
            if time:
                annotations[self._keys.trigger_time] = time
            one["metadata"] = {**one["metadata"], "annotations": annotations}

    def _report(self, service: Object, missing: dict[str, str], refused: RequestError | None) -> None:
        """Record an Event about problems. Pods of missing nodes wait for these; rejected writes are retried."""
        namespace, name = key_of(service)
        errors = [
            f"skipping Pod {pod} for Service {namespace}/{name}: Node {node} Not Found"
            for pod, node in missing.items()
        ]
        if refused is not None:
            errors.append(str(refused))
        if not errors:
            return
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        message = f"Error updating Endpoint Slices for Service {namespace}/{name}: {text}"
        reason = "FailedToUpdateEndpointSlices"
        self.recorder.event(self._services.definition, service, "Warning", reason, message)
        if refused is not None:
            raise refused
