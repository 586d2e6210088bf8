"""Properties that follow from the type of a service: which fields it needs and uses."""

from __future__ import annotations

from typing import Any, Final

from actors.messages import Object

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HEADLESS: Final = "None"  # in place of an address: a headless service


def needs_address(spec: Object) -> bool:
    return bool(spec["type"] != "ExternalName")


def needs_node_ports(spec: Object) -> bool:
    return spec["type"] in ("NodePort", "LoadBalancer")


def needs_health_check(spec: Object) -> bool:
    """Whether each node answers health checks on a separate port: does it run a pod of the service?"""
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIPs") == [HEADLESS])


def node_ports(spec: Object) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")]


def same(part: str, spec: Object, before: Object) -> bool:
    return bool(_value_or_none(spec, part) == _value_or_none(before, part))


def _value_or_none(spec: Object, part: str) -> Any:
    return spec.get(part) or None
