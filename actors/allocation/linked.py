"""Fields of a service that say one thing together, put in step with what the client meant. Pure.

Clients that know only the older of two fields, or send a manifest again without what was allocated, must not
lose anything by it.
"""

from __future__ import annotations

from actors.kinds.core.services.traits import (
    needs_address,
    needs_health_check,
    needs_node_ports,
    node_ports,
    same,
)
from actors.messages import Object


def keep_allocated(spec: Object, before: Object) -> None:
    """What was allocated for the service, where an update leaves it out."""
    if needs_address(spec) and needs_address(before):
        for part in ("clusterIP", "clusterIPs"):
            if not spec.get(part) and before.get(part):
                spec[part] = before[part]
    if needs_node_ports(spec) and needs_node_ports(before):
        _keep_node_ports(spec, before)
    if needs_health_check(spec) and needs_health_check(before):
        spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort", 0))


def _keep_node_ports(spec: Object, before: Object) -> None:
    """Ports are known again by their names."""
    used = set(node_ports(before)) & set(node_ports(spec))
    by_name = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports", ())}
    for index, port in enumerate(spec.get("ports", ())):
        known = by_name.get(port.get("name", ""), 0)
        if not port.get("nodePort") and known and known not in used:
            spec["ports"][index] = {**port, "nodePort": known}


def align_addresses(spec: Object, before: Object | None) -> None:
    """The list of addresses follows the single one, which older clients know alone."""
    ip = spec.get("clusterIP", "")
    if before is None:
        if ip and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [ip]
        return
    if ip == before.get("clusterIP", ""):
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = before["clusterIPs"]
    elif same("clusterIPs", spec, before):
        spec.pop("clusterIPs", None)
        if ip:
            spec["clusterIPs"] = [ip]
