"""Keeps allocated values on update, and clusterIP and clusterIPs of a service consistent. Pure.

Clients that know only clusterIP, or that send a manifest without the allocated values again, must not lose any.
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


def keep_allocated_values(spec: Object, before: Object) -> None:
    """Copy allocated values that an update leaves out."""
    if needs_address(spec) and needs_address(before):
        for part in ("clusterIP", "clusterIPs"):
            if not spec.get(part) and before.get(part):
                spec[part] = before[part]
    if needs_node_ports(spec) and needs_node_ports(before):
        _keep_node_ports(spec, before)
    if needs_health_check(spec) and needs_health_check(before):
        spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort", 0))


def _keep_node_ports(spec: Object, before: Object) -> None:
    """Match ports by their names."""
    used = set(node_ports(before)) & set(node_ports(spec))
    by_name = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports", ())}
    for index, port in enumerate(spec.get("ports", ())):
        known = by_name.get(port.get("name", ""), 0)
        if not port.get("nodePort") and known and known not in used:
            spec["ports"][index] = {**port, "nodePort": known}


def normalize_cluster_ips(spec: Object, before: Object | None) -> None:
    """Update clusterIPs if the client changed only clusterIP."""
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
