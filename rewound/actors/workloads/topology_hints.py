"""Topology hints: which zone's clients an endpoint of a slice should serve.

Each zone gets a share of the ready endpoints according to the CPUs of its nodes. An endpoint serves its own zone if
possible; zones with more than their share give some away. No endpoint gets hints if a zone could not have enough: fewer
endpoints than zones, a node without a zone or CPUs, or an endpoint without a zone.

Hints of slices that are not written anyway stay as long as they still fit, so that a change of one endpoint does not
rewrite all slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import nanos_of

OVERLOAD: Final = 0.2  # how much more than its share an endpoint may have to serve

Shares = Mapping[str, float]  # of all CPUs, by zone


@dataclass(slots=True)
class Writes:
    """Slices of a Service and an address type by planned write. Those to write are our own copies."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    unchanged: list[Object] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Range:
    """How many endpoints a zone gets."""

    minimum: int
    maximum: int
    desired: float


def shares_of(nodes: Iterable[Object], names: Names) -> Shares:
    """The share of each zone in the CPUs of ready nodes; empty if hints are not possible."""
    zone_label = names.key("zone", "topology")
    excluded = {names.key(role, "node-role") for role in ("control-plane", "master")}
    by_zone: Counter[str] = Counter()
    for node in nodes:
        labels = node["metadata"].get("labels", {})
        if not excluded.isdisjoint(labels) or not node_is_ready(node):
            continue
        cpu = nanos_of(node["status"].get("allocatable", {}).get("cpu", "0"))
        if not labels.get(zone_label) or not cpu:
            return {}
        by_zone[labels[zone_label]] += cpu
    total = by_zone.total()
    return {zone: cpu / total for zone, cpu in sorted(by_zone.items())} if len(by_zone) > 1 else {}


def node_is_ready(node: Object) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_overloaded(hints: Mapping[str, int], shares: Shares) -> bool:
    """Whether a zone has too few of the endpoints of a Service with these hints."""
    total = sum(hints.values())
    if not hints or not shares:
        return bool(hints)
    return any(
        hints.get(zone, 0) < ceil(total * share * (1 / (1 + OVERLOAD))) for zone, share in shares.items()
    )


def remove_hints(writes: Writes) -> None:
    for one in (*writes.create, *writes.update):
        one["endpoints"] = [_without_hints(endpoint) for endpoint in one["endpoints"]]
    hinted = [
        one for one in writes.unchanged if any("hints" in endpoint for endpoint in one["endpoints"] or ())
    ]
    for one in hinted:
        writes.unchanged.remove(one)
        writes.update.append(
            {**one, "endpoints": [_without_hints(endpoint) for endpoint in one["endpoints"]]}
        )


def _without_hints(endpoint: Object) -> Object:
    return {name: value for name, value in endpoint.items() if name != "hints"}


def hint_close(writes: Writes, *, by_node: bool) -> None:
    """Let every ready endpoint serve the clients of its own zone, and with `by_node` first those of its node."""
    for one in (*writes.create, *writes.update):
        one["endpoints"] = [_hinted_close(endpoint, by_node) for endpoint in one["endpoints"]]
    for one in tuple(writes.unchanged):
        endpoints = [_hinted_close(endpoint, by_node) for endpoint in one["endpoints"] or ()]
        if endpoints != list(one["endpoints"] or ()):
            writes.unchanged.remove(one)
            writes.update.append({**one, "endpoints": endpoints})


def _hinted_close(endpoint: Object, by_node: bool) -> Object:
    if not _is_ready(endpoint):
        return endpoint
    hints: Object = {}
    if endpoint.get("zone"):
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if by_node and endpoint.get("nodeName"):
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    plain = _without_hints(endpoint)
    return {**plain, "hints": hints} if hints else plain


def add_hints(writes: Writes, shares: Shares) -> dict[str, int]:
    """Add hints to all ready endpoints; returns how many each zone has. If there are not enough, remove all."""
    every = (*writes.create, *writes.update, *writes.unchanged)
    ranges = _ranges(shares, sum(_is_ready(one) for slice_ in every for one in slice_["endpoints"] or ()))
    if not ranges or any(
        _is_ready(one) and not one.get("zone") for slice_ in every for one in slice_["endpoints"] or ()
    ):
        remove_hints(writes)
        return {}
    hints = _kept_hints(writes, ranges)
    written = [*writes.create, *writes.update]
    for one in written:
        one["endpoints"] = [_with_own_zone(endpoint) for endpoint in one["endpoints"]]
        hints.update(endpoint["zone"] for endpoint in one["endpoints"] if _is_ready(endpoint))
    giving, receiving = _exchange(ranges, hints)
    _redistribute(written, giving, receiving, hints)
    return dict(hints)


def _is_ready(endpoint: Object) -> bool:
    return endpoint.get("conditions", {}).get("ready") is True


def _with_own_zone(endpoint: Object) -> Object:
    return _with_zone(endpoint, endpoint["zone"]) if _is_ready(endpoint) else _without_hints(endpoint)


def _with_zone(endpoint: Object, zone: str) -> Object:
    return {**endpoint, "hints": {"forZones": [{"name": zone}]}}


def _ranges(shares: Shares, endpoints: int) -> dict[str, _Range]:
    """Empty if no zone would have enough."""
    if len(shares) < 2 or len(shares) > endpoints:
        return {}
    wanted = {zone: share * endpoints for zone, share in shares.items()}
    minimum = {zone: ceil(desired * (1 / (1 + OVERLOAD))) for zone, desired in wanted.items()}
    spare = endpoints - sum(minimum.values())
    if spare < 0:
        return {}
    return {
        zone: _Range(lowest, lowest + spare, max(wanted[zone], float(lowest)))
        for zone, lowest in minimum.items()
    }


def _kept_hints(writes: Writes, ranges: Mapping[str, _Range]) -> Counter[str]:
    """The hints of slices that stay unchanged; a slice whose hints do not fit must be updated."""
    kept: Counter[str] = Counter()
    for one in tuple(writes.unchanged):
        found = _hints_of(one["endpoints"] or (), kept, ranges)
        if found is None:
            writes.unchanged.remove(one)
            writes.update.append(dict(one))
        else:
            kept.update(found)
    return kept


def _hints_of(
    endpoints: Sequence[Object], kept: Counter[str], ranges: Mapping[str, _Range]
) -> Counter[str] | None:
    found: Counter[str] = Counter()
    for endpoint in filter(_is_ready, endpoints):
        zones = [one["name"] for one in endpoint.get("hints", {}).get("forZones", ())]
        if not zones or any(zone not in ranges for zone in zones):
            return None
        found.update(zones)
    if any(count + kept[zone] > ranges[zone].maximum for zone, count in found.items()):
        return None
    return found


def _exchange(ranges: Mapping[str, _Range], hints: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    """How many endpoints each zone gives to others, and gets from others."""
    surplus = {zone: hints[zone] - one.desired for zone, one in ranges.items()}
    to_give = {zone: excess for zone, excess in surplus.items() if excess > 0}
    to_receive = {zone: -excess for zone, excess in surplus.items() if excess < 0}
    giving: Counter[str] = Counter()
    receiving: Counter[str] = Counter()
    while to_give and to_receive:
        giver, receiver = max(to_give, key=to_give.__getitem__), max(to_receive, key=to_receive.__getitem__)
        excess, lack = to_give[giver], to_receive[receiver]
        if excess < 0.5 or lack < 0.5 or (excess < 1.0 and lack < 1.0):
            break
        giving[giver] += 1
        to_give[giver] -= 1
        receiving[receiver] += 1
        to_receive[receiver] -= 1
    return giving, receiving


def _redistribute(
    slices: Iterable[Object], giving: Counter[str], receiving: Counter[str], hints: Counter[str]
) -> None:
    for one in slices:
        endpoints = one["endpoints"]
        for position, endpoint in enumerate(endpoints):
            zone = endpoint.get("zone", "")
            if not _is_ready(endpoint) or not giving[zone] or not receiving.total():
                continue
            to = next(name for name, count in receiving.items() if count)
            endpoints[position] = _with_zone(endpoint, to)
            giving[zone] -= 1
            receiving[to] -= 1
            hints[zone] -= 1
            hints[to] += 1
