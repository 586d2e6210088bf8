"""Table columns of core kinds whose cells need more than the path of a field."""

from __future__ import annotations

from itertools import islice

from actors.kinds.declaration.columns import AGE, NAME, NONE, UNKNOWN, Cell, Column, at, since
from actors.messages import Object
from actors.names import Names

MAX_ENDPOINTS = 3


def _endpoints(stored: Object, _: int) -> str:
    subsets = stored.get("subsets", ())
    if not subsets:
        return NONE
    shown = (
        _with_port(address["ip"], port["port"]) if port else address["ip"]
        for subset in subsets
        for port in (subset.get("ports") or [None] if subset.get("addresses") else ())
        for address in subset["addresses"]
    )
    count = sum(len(one.get("ports") or (None,)) * len(one.get("addresses", ())) for one in subsets)
    more = f" + {count - MAX_ENDPOINTS} more..." if count > MAX_ENDPOINTS else ""
    return ",".join(islice(shown, MAX_ENDPOINTS)) + more


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


ENDPOINTS = (NAME, Column("Endpoints", "string", "Addresses with their ports.", _endpoints), AGE)


def _node_status(stored: Object, _: int) -> str:
    conditions = {one["type"]: one.get("status") for one in stored.get("status", {}).get("conditions", ())}
    ready = conditions.get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if stored.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(names: Names) -> Cell:
    prefix, role = names.key("", prefix="node-role"), names.key("role")

    def cell(stored: Object, _: int) -> str:
        labels = stored["metadata"].get("labels", {})
        roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} | {
            labels.get(role, "")
        }
        return ",".join(sorted(roles - {""})) or NONE

    return cell


def _address(kind: str) -> Column:
    def cell(stored: Object, _: int) -> str:
        for address in stored.get("status", {}).get("addresses", ()):
            if address["type"] == kind.replace("-", ""):
                return str(address["address"])
        return NONE

    return Column(kind, "string", f"{kind} address of the node.", cell, priority=1)


def _reported(name: str, field: str, description: str) -> Column:
    value = at("status", "nodeInfo", field)
    return Column(name, "string", description, lambda stored, now: value(stored, now) or UNKNOWN, priority=1)


def node_columns(names: Names) -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "Status", "string", "Ready, NotReady or Unknown; whether pods may be placed there.", _node_status
        ),
        Column("Roles", "string", "Roles named by the labels of the node.", _node_roles(names)),
        AGE,
        Column("Version", "string", "Version of the kubelet.", at("status", "nodeInfo", "kubeletVersion")),
        _address("Internal-IP"),
        _address("External-IP"),
        _reported("OS-Image", "osImage", "Operating system it reports."),
        _reported("Kernel-Version", "kernelVersion", "Kernel it reports."),
        _reported("Container-Runtime", "containerRuntimeVersion", "Container runtime it reports."),
    )


def _first_seen(stored: Object, now: int) -> str:
    return since(stored.get("firstTimestamp") or stored.get("eventTime"), now)


def _last_seen(stored: Object, now: int) -> str:
    series = stored.get("series")
    if series:
        return since(series.get("lastObservedTime"), now)
    return since(stored["lastTimestamp"], now) if stored.get("lastTimestamp") else _first_seen(stored, now)


def _object(stored: Object, _: int) -> str:
    involved = stored.get("involvedObject", {})
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    return f"{kind}/{name}" if name else kind


def _source(stored: Object, _: int) -> str:
    source = stored.get("source", {})
    component = source.get("component") or stored.get("reportingComponent", "")
    host = source.get("host") or stored.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def _count(stored: Object, _: int) -> int:
    series = stored.get("series")
    return int(series.get("count", 0)) if series else int(stored.get("count", 0) or 1)


EVENT = (
    Column("Last Seen", "string", "Time since the event last occurred.", _last_seen),
    Column("Type", "string", "Normal or Warning.", at("type")),
    Column("Reason", "string", "Reason of the event.", at("reason")),
    Column("Object", "string", "Object that the event is about.", _object),
    Column(
        "Subobject",
        "string",
        "Part of the object that the event is about.",
        at("involvedObject", "fieldPath"),
        priority=1,
    ),
    Column("Source", "string", "Component that reported the event.", _source, priority=1),
    Column("Message", "string", "Message of the event.", lambda stored, _: stored.get("message", "").strip()),
    Column("First Seen", "string", "Time since the event first occurred.", _first_seen, priority=1),
    Column("Count", "string", "Number of times the event occurred.", _count, priority=1),
    Column("Name", "string", NAME.description, NAME.cell, format="name", priority=1),
)
