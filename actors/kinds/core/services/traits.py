"""What follows from the type of a service: what it needs, and what of an old one a new one still has."""

from __future__ import annotations

from typing import Any, Final

from actors.messages import Object

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HEADLESS: Final = "None"  # in place of an address: a service without any


def needs_address(spec: Object) -> bool:
    return bool(spec["type"] != "ExternalName")


def needs_node_ports(spec: Object) -> bool:
    return spec["type"] in ("NodePort", "LoadBalancer")


def needs_health_check(spec: Object) -> bool:
    """Nodes without a pod of their own behind the service say so on a port kept for that."""
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIPs") == [HEADLESS])


def node_ports(spec: Object) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")]


def same(part: str, spec: Object, before: Object) -> bool:
    return bool(_said(spec, part) == _said(before, part))


def _said(spec: Object, part: str) -> Any:
    return spec.get(part) or None
