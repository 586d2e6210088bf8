"""The endpointslicemirroring controller: EndpointSlices of Endpoints that clients write.

Those are the Endpoints of Services without a selector. Each subset becomes one slice for each address type in it, with
1000 endpoints at most. One Endpoints object may need tens of thousands of slices: a pass decides in turns and writes at
most `BURST` creates, updates and deletes each; these changes trigger the next pass. Endpoints with the label
skip-mirror, and those that leader election uses, are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from ipaddress import ip_address
from typing import Final

from rewound.actors.errors import Resource
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps
from rewound.actors.runtime.turns import in_turns
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.endpoint_slices import (
    Identity,
    SliceKeys,
    SliceWriter,
    comparable,
    identity,
    name_prefix,
    owner_of,
    replacing,
    reuse_deleted,
    same_endpoint,
    sorted_ports,
)
from rewound.actors.workloads.pods import is_terminating
from rewound.actors.workloads.service_pods import NewHash, Ports, family_of, hash_in
from rewound.actors.workloads.topology_hints import Writes

MAX_MIRRORED: Final = 1000  # addresses of a subset
BURST: Final = 500  # slices that one pass creates, updates or deletes at most


class MirrorKeys(SliceKeys):
    def __init__(self, names: Names) -> None:
        super().__init__(names, "endpointslicemirroring-controller")
        self.skip = names.key("skip-mirror", "endpointslice")
        self.leader = names.key("leader", "control-plane.alpha")
        self.not_mirrored = frozenset(
            {self.trigger_time, names.key("last-applied-configuration", "kubectl")}
        )  # annotations

    def mirrors(self, endpoints: Object) -> bool:
        metadata = endpoints["metadata"]
        skipped = metadata.get("labels", {}).get(self.skip) == "true"
        return not skipped and self.leader not in metadata.get("annotations", {})


@dataclass(slots=True)
class Mirror:
    """The writes for the slices of one Endpoints object, and how many addresses were left out."""

    writes: Writes = field(default_factory=Writes)
    invalid: int = 0
    skipped: int = 0  # invalid addresses, and those beyond the limit


def mirror(
    keys: MirrorKeys, endpoints: Object, slices: Sequence[Object], new_hash: NewHash = md5
) -> Steps[Mirror]:
    found = Mirror()
    wanted, ports = yield from _wanted(found, endpoints, new_hash)
    existing: dict[tuple[str, Ports], list[Object]] = {}
    for one in slices:
        key = one["addressType"], (yield from comparable(one["ports"]))
        existing.setdefault(key, []).append(one)
        yield
    for (family, listed), addresses in wanted.items():
        replaced = existing.pop((family, listed), [])
        _decide(found.writes, keys, endpoints, replaced, addresses, family, ports[listed])
        yield
    for unwanted in existing.values():
        found.writes.delete.extend(unwanted)
    yield
    reuse_deleted(found.writes, lambda _: True)
    return found


def _wanted(
    found: Mirror, endpoints: Object, new_hash: NewHash
) -> Steps[tuple[dict[tuple[str, Ports], dict[Identity, Object]], dict[Ports, list[Object]]]]:
    wanted: dict[tuple[str, Ports], dict[Identity, Object]] = {}
    written: dict[Ports, list[Object]] = {}
    for subset in endpoints.get("subsets", ()):
        ports = [{"name": "", **port} for port in subset.get("ports", ())]
        key = yield from comparable(ports)
        if key not in written:
            written[key] = yield from sorted_ports(ports, new_hash)
        by_family: dict[str, dict[Identity, Object]] = {}  # to look up thousands of ports once
        added = 0
        yield
        for address, ready in _addresses(subset):
            if added == MAX_MIRRORED:
                break
            yield
            if not _is_address(address["ip"]):
                found.invalid += 1
                continue
            endpoint = _endpoint(address, ready)
            family = family_of(address["ip"])
            if family not in by_family:
                by_family[family] = wanted.setdefault((family, key), {})
            by_family[family][identity(endpoint)] = endpoint
            added += 1
        found.skipped += len(subset.get("addresses", ())) + len(subset.get("notReadyAddresses", ())) - added
    return wanted, written


def _addresses(subset: Object) -> Iterable[tuple[Object, bool]]:
    yield from ((one, True) for one in subset.get("addresses", ()))
    yield from ((one, False) for one in subset.get("notReadyAddresses", ()))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _endpoint(address: Object, ready: bool) -> Object:
    kept: Object = {part: address[part] for part in ("hostname", "nodeName", "targetRef") if part in address}
    return {"addresses": [address["ip"]], "conditions": {"ready": ready}, **kept}


def _decide(
    writes: Writes,
    keys: MirrorKeys,
    endpoints: Object,
    slices: list[Object],
    wanted: dict[Identity, Object],
    family: str,
    ports: list[Object],
) -> None:
    made = _slice(keys, endpoints, family, ports, list(wanted.values()))
    if not slices:
        writes.create.append(made)
        return
    first, *others = slices
    writes.delete.extend(others)
    if not _is_mirrored(first, made, wanted):
        del made["metadata"]["generateName"]
        writes.update.append(replacing(first, made))


def _slice(
    keys: MirrorKeys, endpoints: Object, family: str, ports: list[Object], all_: list[Object]
) -> Object:
    metadata = endpoints["metadata"]
    annotations = {
        name: value
        for name, value in metadata.get("annotations", {}).items()
        if name not in keys.not_mirrored
    }
    labels = {
        **metadata.get("labels", {}),
        keys.service_name: metadata["name"],
        keys.managed_by: keys.manager,
    }
    return {
        "metadata": {
            "generateName": name_prefix(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_of("Endpoints", endpoints)],
        },
        "addressType": family,
        "endpoints": all_[:MAX_MIRRORED],
        "ports": ports,
    }


def _is_mirrored(stored: Object, made: Object, wanted: dict[Identity, Object]) -> bool:
    before = {identity(one): one for one in stored["endpoints"] or ()}
    if before.keys() != wanted.keys():
        return False
    parts = (
        stored["metadata"].get(part, {}) == made["metadata"].get(part, {})
        for part in ("labels", "annotations")
    )
    return all(parts) and all(same_endpoint(before[key], one) for key, one in wanted.items())


class EndpointSliceMirroring(WorkloadController):
    name, account = "endpointslicemirroring", "endpointslicemirroring-controller"
    component = "endpoint-slice-mirroring-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._keys = MirrorKeys(self.names)
        self._endpoints = self.keyed_by("endpoints")
        self._services = self.cache.collection("services")
        self._services.listen(self._service_changed)
        self._slices = self.cache.collection(str(Resource(self.names.group("discovery"), "endpointslices")))
        self._slices.listen(self._slice_changed)
        self._by_service = self._slices.index(self._service_keys)
        self._writer = SliceWriter(self, self._slices)
        self._reported: dict[Key, str] = {}  # the version of the Endpoints that Events were recorded about

    def _service_keys(self, one: Object) -> list[Key]:
        return [(one["metadata"]["namespace"], self._keys.service_of(one))] if self._keys.manages(one) else []

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = (one is not None and not one["spec"].get("selector") for one in (old, new))
        if before != after:
            one = new if new is not None else old
            assert one is not None
            self.queue.add(key_of(one))

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            if one is not None:
                for key in self._service_keys(one):
                    self.queue.add(key)

    async def catch_up(self) -> None:
        """Slices too: their Endpoints may have been deleted while the server was down."""
        await super().catch_up()
        for one in self._slices:
            for key in self._service_keys(one):
                self.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        endpoints, service = self._endpoints.get(*key), self._services.get(*key)
        slices = list(self._by_service.get(key))
        if (
            endpoints is None
            or service is None
            or service["spec"].get("selector")
            or not self._keys.mirrors(endpoints)
        ):
            self._reported.pop(key, None)
            await self._writer.write(Writes(delete=slices[:BURST]))
            return
        found = await in_turns(mirror(self._keys, endpoints, slices, hash_in(self.release.features)))
        self._report(key, endpoints, found)
        writes = found.writes
        now = Writes(writes.create[:BURST], writes.update[:BURST], writes.delete[:BURST])
        await self._writer.write(now, creates=not is_terminating(endpoints))

    def _report(self, key: Key, endpoints: Object, found: Mirror) -> None:
        version = endpoints["metadata"]["resourceVersion"]
        if self._reported.get(key) == version:
            return
        self._reported[key] = version
        if found.invalid:
            message = f"Skipped {found.invalid} invalid IP addresses when mirroring to EndpointSlices"
            self._warn(endpoints, "InvalidIPAddress", message)
        if found.skipped > found.invalid:
            message = (
                f"A max of {MAX_MIRRORED} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{found.skipped} addresses were skipped"
            )
            self._warn(endpoints, "TooManyAddressesToMirror", message)

    def _warn(self, endpoints: Object, reason: str, message: str) -> None:
        self.recorder.event(self._endpoints.definition, endpoints, "Warning", reason, message)
