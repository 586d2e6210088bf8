"""The endpoints controller: the Endpoints of each Service with a selector.

The subsets of an Endpoints object have a canonical form: addresses with the same ports share a subset, addresses are
sorted by IP and uid, and ports and subsets by the hash (MD5, since 1.35 FNV) of the text that Go's debug printer makes
of them (`_port_text`, `_subset_text`), so that clients that compare see no difference to other servers.

An object has at most 1000 addresses: ready ones come first, and each subset keeps its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import md5
from math import ceil
from operator import itemgetter
from typing import Any, Final

from rewound.actors.errors import Conflict, NotFound, RequestError
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import Steps, in_order, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.versions.features import MANAGED_ENDPOINTS
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import CHANGED, OwnerFinder, Parts, WorkloadController
from rewound.actors.workloads.pods import is_namespace_terminating, is_ready
from rewound.actors.workloads.service_pods import (
    NewHash,
    ServicePorts,
    TriggerTimes,
    concerns_services,
    first_address,
    has_address,
    has_endpoints,
    hash_in,
    hashed,
    hostname_in,
    is_headless,
    long_hashed,
    may_serve,
    pause_before,
    pods_of,
    publishes_unready,
    reference_to,
    selecting,
)

MAX_ADDRESSES: Final = 1000
TRUNCATED: Final = "truncated"

_Address = tuple[Object, bool]  # and whether it is ready


def subsets_of(service: Object, pods: Iterable[Object], new_hash: NewHash = md5) -> Steps[list[Object]]:
    """The addresses of the pods by the ports that they offer, in canonical form, however many there are."""
    unready = publishes_unready(service)
    portless = is_headless(service) and not service["spec"].get("ports")
    ports = ServicePorts(service)
    addresses: list[_Address] = []
    offered: dict[tuple[tuple[str, Any], ...], list[int]] = {}  # by port: positions in `addresses`
    for pod in tuple(pods):
        yield
        ip = first_address(service, pod) if may_serve(pod, terminating=unready) else ""
        if not ip:
            continue
        position = len(addresses)
        addresses.append((_address(service, pod, ip), unready or is_ready(pod)))
        for port in ((),) if portless else (yield from ports.of(pod)):
            offered.setdefault(port, []).append(position)
    together: dict[tuple[int, ...], list[Object]] = {}  # by positions: the ports that exactly these offer
    for port, positions in offered.items():
        together.setdefault(tuple(positions), []).append(dict(port))
        yield
    subsets: list[Object] = []
    for where, shared in together.items():
        subsets.append((yield from _subset([addresses[one] for one in where], shared, new_hash)))
    if len(subsets) < 2:
        return subsets
    ordered: list[tuple[bytes, Object]] = []
    for subset in subsets:
        text = yield from _subset_text(subset)
        ordered.append(((yield from long_hashed(text, new_hash)), subset))
    return [subset for _, subset in sorted(ordered, key=itemgetter(0))]


def _address(service: Object, pod: Object, ip: str) -> Object:
    found = {"ip": ip, "nodeName": pod["spec"].get("nodeName", ""), "targetRef": reference_to(pod)}
    if hostname := hostname_in(service, pod):
        found["hostname"] = hostname
    return found


def _subset(addresses: list[_Address], ports: list[Object], new_hash: NewHash) -> Steps[Object]:
    ordered = yield from in_order(addresses, lambda one: (one[0]["ip"], one[0]["targetRef"]["uid"]))
    ready = [address for address, is_up in ordered if is_up]
    not_ready = [address for address, is_up in ordered if not is_up]
    real = [_written_port(port) for port in ports if port]
    real = yield from in_order(real, lambda port: hashed(f"(v1.EndpointPort){_port_text(port)}", new_hash))
    found = {"addresses": ready, "notReadyAddresses": not_ready, "ports": real}
    return {name: value for name, value in found.items() if value}


def _written_port(port: Object) -> Object:
    return {name: value for name, value in port.items() if value != ""}


def _subset_text(subset: Object) -> Steps[str]:
    parts = (
        ("Addresses", "v1.EndpointAddress", _address_text, subset.get("addresses")),
        ("NotReadyAddresses", "v1.EndpointAddress", _address_text, subset.get("notReadyAddresses")),
        ("Ports", "v1.EndpointPort", _port_text, subset.get("ports")),
    )
    fields: list[str] = []
    for name, kind, text, values in parts:
        written: list[str] = []
        for part in parts_of(values or ()):
            written += map(text, part)
            yield
        fields.append(f"{name}:([]{kind})" + (f"[{' '.join(written)}]" if written else "<nil>"))
    return f"(v1.EndpointSubset){{{' '.join(fields)}}}"


def _port_text(port: Object) -> str:
    return (
        f"{{Name:(string){port.get('name', '')} Port:(int32){port['port']} Protocol:(v1.Protocol){port['protocol']} "
        f"AppProtocol:(*string){port.get('appProtocol', '<nil>')}}}"
    )


def _address_text(address: Object) -> str:
    target = address["targetRef"]
    reference = (
        f"{{Kind:(string){target['kind']} Namespace:(string){target['namespace']} Name:(string){target['name']} "
        f"UID:(types.UID){target['uid']} APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}"
    )
    return (
        f"{{IP:(string){address['ip']} Hostname:(string){address.get('hostname', '')} "
        f"NodeName:(*string){address['nodeName']} TargetRef:(*v1.ObjectReference){reference}}}"
    )


def truncate(subsets: list[Object]) -> tuple[list[Object], bool]:
    """At most `MAX_ADDRESSES`, and whether some were dropped: unready ones first.

    Each subset keeps a share, rounded up, so the last ones may get less.
    """
    ready = sum(len(subset.get("addresses", ())) for subset in subsets)
    not_ready = sum(len(subset.get("notReadyAddresses", ())) for subset in subsets)
    if ready + not_ready <= MAX_ADDRESSES:
        return subsets, False
    cut, total, room = (
        ("addresses", ready, MAX_ADDRESSES)
        if ready > MAX_ADDRESSES
        else ("notReadyAddresses", not_ready, MAX_ADDRESSES - ready)
    )
    kept, left = [], room
    for subset in subsets:
        addresses = subset.get(cut, [])
        share = min(ceil(len(addresses) / total * room), left)
        left -= min(share, len(addresses))
        shorter = {**subset, cut: addresses[:share]}
        if cut == "addresses":
            shorter.pop("notReadyAddresses", None)
        kept.append({name: value for name, value in shorter.items() if value})
    return kept, True


def same_subsets(stored: list[Object], wanted: list[Object]) -> bool:
    """Compare subsets, ignoring the resourceVersion of pods, which others may have written."""
    return stored == wanted or [_without_versions(one) for one in stored] == wanted


def _without_versions(subset: Object) -> Object:
    found = dict(subset)
    for part in ("addresses", "notReadyAddresses"):
        if part in found:
            found[part] = [_without_version(address) for address in found[part]]
    return found


def _without_version(address: Object) -> Object:
    target = address.get("targetRef")
    if not target or "resourceVersion" not in target:
        return address
    return {
        **address,
        "targetRef": {name: value for name, value in target.items() if name != "resourceVersion"},
    }


class Endpoints(WorkloadController):
    name, account = "endpoint", "endpoint-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._services = self.keyed_by("services")
        self._pods = self.cache.collection("pods")
        self._owner_finder = OwnerFinder(self.queue, self._services, selecting, self._selected)
        self._pods.listen(self._pod_changed)
        self._endpoints = self.cache.collection("endpoints")
        self._endpoints.listen(self._endpoints_changed)
        self._times = TriggerTimes()
        self._new_hash = hash_in(self.release.features)
        self._sizes: dict[Key, int] = {}  # pods of each Service
        self._headless = self.names.key("headless", "service")
        self._managed_by = self.names.key("managed-by", "endpoints")
        self._trigger_time = self.names.key("last-change-trigger-time", "endpoints")
        self._over_capacity = self.names.key("over-capacity", "endpoints")
        self._leader = self.names.key("leader", "control-plane.alpha")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if concerns_services(old, new):
            self._owner_finder.changed(old, new)

    def _selected(self, _: Object, services: Sequence[Object]) -> None:
        for key in map(key_of, services):
            self.queue.add_after(key, pause_before(self._sizes.get(key, 0)))

    def _endpoints_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self.queue.add(key_of(old))

    async def catch_up(self) -> None:
        """Endpoints too: their Service may have been deleted while the server was down."""
        await super().catch_up()
        for stored in self._endpoints:
            if self._leader not in stored["metadata"].get("annotations", {}):
                self.queue.add(key_of(stored))

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        if name == CHANGED:
            await self._owner_finder.find_deferred(namespace)
            return
        service, stored = self._services.get(*key), self._endpoints.get(*key)
        if service is None:
            self._times.forget(key)
            self._sizes.pop(key, None)
            if stored is not None:
                await self._delete(stored)
            return
        if not has_endpoints(service, self.release.features):
            self._times.forget(key)
            self._sizes.pop(key, None)
            return
        pods = await in_turns(pods_of(self._pods, service))
        self._sizes[key] = len(pods)
        trigger = await in_turns(self._times.since_last(service, pods))
        wanted = self._wanted(
            service, stored, *truncate(await in_turns(subsets_of(service, pods, self._new_hash)))
        )
        if stored is None or not self._is_same(stored, wanted):
            await self._write(stored, self._with_time(wanted, trigger))

    async def _delete(self, stored: Object) -> None:
        try:
            options = DeleteOptions(uid=stored["metadata"]["uid"])
            await self.client.delete(self._endpoints.definition, *key_of(stored), options)
        except NotFound:
            return

    def _wanted(self, service: Object, stored: Object | None, subsets: list[Object], cut: bool) -> Object:
        metadata = {"name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"]}
        if stored is not None:
            metadata = dict(stored["metadata"])
        labels = dict(service["metadata"].get("labels", {}))
        labels.pop(self._headless, None)
        if not has_address(service):
            labels[self._headless] = ""
        if MANAGED_ENDPOINTS in self.release.features:
            labels[self._managed_by] = self.account
        annotations = dict(metadata.get("annotations", {}))
        annotations.pop(self._over_capacity, None)
        if cut:
            annotations[self._over_capacity] = TRUNCATED
        return {
            **(stored or {}),
            "metadata": {**metadata, "labels": labels, "annotations": annotations},
            "subsets": subsets,
        }

    def _is_same(self, stored: Object, wanted: Object) -> bool:
        before, after = stored["metadata"], wanted["metadata"]
        return (
            before.get("annotations", {}) == after["annotations"]
            and self._service_labels(before) == self._service_labels(after)
            and same_subsets(stored.get("subsets", []), wanted["subsets"])
        )

    def _service_labels(self, metadata: Object) -> dict[str, str]:
        """The labels without that of headless Services, which alone causes no write: v1.25 ignores it here."""
        return {name: value for name, value in metadata.get("labels", {}).items() if name != self._headless}

    def _with_time(self, wanted: Object, trigger: str) -> Object:
        annotations = {
            name: value
            for name, value in wanted["metadata"]["annotations"].items()
            if name != self._trigger_time
        }
        if trigger:
            annotations[self._trigger_time] = trigger
        metadata = {**wanted["metadata"], "annotations": annotations}
        written = {**wanted, "metadata": {part: value for part, value in metadata.items() if value}}
        return {part: value for part, value in written.items() if value}

    async def _write(self, stored: Object | None, wanted: Object) -> None:
        definition = self._endpoints.definition
        namespace, name = key_of(wanted)
        decoded = await self.decoded(definition, wanted)
        try:
            if stored is None:
                await self.client.create(definition, namespace, decoded)
            else:
                await self.client.replace(definition, decoded)
        except Conflict:
            raise
        except RequestError as error:
            if stored is None and is_namespace_terminating(error):
                return
            reason, text = (
                ("FailedToCreateEndpoint", f"Failed to create endpoint for service {namespace}/{name}")
                if stored is None
                else ("FailedToUpdateEndpoint", f"Failed to update endpoint {namespace}/{name}")
            )
            self.recorder.event(definition, wanted, "Warning", reason, f"{text}: {error}")
            raise
