"""Container ports and the host ports that lead to them."""

from __future__ import annotations

from typing import Final

from actors.kinds.schema.fields import INT32, STRING, Field, Struct
from actors.kinds.validation import (
    FieldErrors,
    duplicate,
    invalid,
    not_supported,
    port_name,
    port_number,
    required,
)
from actors.messages import Object

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

CONTAINER_PORT = Struct(
    "core.v1.ContainerPort",
    Field("name", STRING, 1),
    Field("hostPort", INT32, 2),
    Field("containerPort", INT32, 3, required=True, always=True),
    Field("protocol", STRING, 4, default="TCP", enum=PROTOCOLS),
    Field("hostIP", STRING, 5),
)


def port_rules(errors: FieldErrors, ports: list[Object], field: str) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name")
        if name:
            _name_rules(errors, name, names, f"{field}[{index}].name")
        if (
            not 1 <= port["containerPort"] <= 65535
            or port.get("protocol") not in PROTOCOLS
            or "hostPort" in port
        ):
            _number_rules(errors, port, f"{field}[{index}]")


def _name_rules(errors: FieldErrors, name: str, taken: set[str], field: str) -> None:
    wrong = port_name(name)
    if wrong:
        errors.add_each(field, name, wrong)
        return
    if name in taken:
        errors.add(duplicate(field, name))
        return
    taken.add(name)


def _number_rules(errors: FieldErrors, port: Object, field: str) -> None:
    number, host, protocol = port["containerPort"], port.get("hostPort", 0), port.get("protocol", "")
    if number:
        errors.add_each(f"{field}.containerPort", number, port_number(number))
    else:
        errors.add(required(f"{field}.containerPort"))
    if host:
        errors.add_each(f"{field}.hostPort", host, port_number(host))
    if not protocol:
        errors.add(required(f"{field}.protocol"))
    elif protocol not in PROTOCOLS:
        errors.add(not_supported(f"{field}.protocol", protocol, PROTOCOLS))


def host_port_rules(errors: FieldErrors, containers: list[Object], field: str) -> None:
    """A host port can lead to one container only."""
    taken: set[str] = set()
    for at, container in enumerate(containers):
        if "ports" not in container:
            continue
        for index, port in enumerate(container["ports"]):
            if "hostPort" not in port:
                continue
            number = port["hostPort"]
            address = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
            if address in taken:
                errors.add(duplicate(f"{field}[{at}].ports[{index}].hostPort", address))
            taken.add(address)


def set_host_port_defaults(containers: list[Object]) -> None:
    """With hostNetwork, every container port is a host port."""
    for container in containers:
        for index, port in enumerate(container.get("ports", ())):
            if "hostPort" not in port and port["containerPort"]:
                filled = {**port, "hostPort": port["containerPort"]}
                container["ports"][index] = CONTAINER_PORT.arranged(filled)


def host_network_rules(errors: FieldErrors, containers: list[Object], field: str) -> None:
    for at, container in enumerate(containers):
        for index, port in enumerate(container.get("ports", ())):
            if port.get("hostPort", 0) != port["containerPort"]:
                errors.add(
                    invalid(
                        f"{field}[{at}].ports[{index}].containerPort",
                        port["containerPort"],
                        "must match `hostPort` when `hostNetwork` is true",
                    )
                )
