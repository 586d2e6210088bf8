"""Table columns of services."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.load_balancer import load_balancer_addresses
from actors.kinds.core.services.traits import TYPES
from actors.kinds.declaration.columns import AGE, NAME, NONE, UNKNOWN, Column, at
from actors.kinds.declaration.workloads import labels_or_none
from actors.messages import Object


def _cluster_ip(stored: Object, _: int) -> str:
    return str((stored["spec"].get("clusterIPs") or [NONE])[0])


def _external_ip(stored: Object, _: int) -> str:
    spec, kind = stored["spec"], stored["spec"]["type"]
    if kind not in TYPES:
        return UNKNOWN
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    balanced = load_balancer_addresses(stored["status"]["loadBalancer"]) if kind == "LoadBalancer" else []
    addresses = [*balanced, *spec.get("externalIPs", ())]
    return ",".join(addresses) or ("<pending>" if kind == "LoadBalancer" else NONE)


def _ports(stored: Object, _: int) -> str:
    return ",".join(_port(port) for port in stored["spec"].get("ports", ())) or NONE


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


COLUMNS: Final = (
    NAME,
    Column("Type", "string", "ClusterIP, NodePort, LoadBalancer or ExternalName.", at("spec", "type")),
    Column("Cluster-IP", "string", "Cluster IP address of the service.", _cluster_ip),
    Column("External-IP", "string", "External addresses of the service.", _external_ip),
    Column("Port(s)", "string", "Ports of the service, each followed by its node port.", _ports),
    AGE,
    Column(
        "Selector",
        "string",
        "Labels of the pods behind it.",
        lambda stored, _: labels_or_none(stored["spec"].get("selector", {})),
        priority=1,
    ),
)
