"""Ports that containers listen on, and those of their machine that lead there."""

from __future__ import annotations

from typing import Final

from actors.kinds.schema.fields import INT32, STRING, Field, Struct
from actors.kinds.validation.checks import (
    FieldError,
    duplicate,
    each,
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


def port_rules(ports: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name")
        if name:
            errors += _name_rules(name, names, f"{field}[{index}].name")
        if (
            not 1 <= port["containerPort"] <= 65535
            or port.get("protocol") not in PROTOCOLS
            or "hostPort" in port
        ):
            errors += _number_rules(port, f"{field}[{index}]")
    return errors


def _name_rules(name: str, taken: set[str], field: str) -> list[FieldError]:
    wrong = port_name(name)
    if wrong:
        return each(field, name, wrong)
    if name in taken:
        return [duplicate(field, name)]
    taken.add(name)
    return []


def _number_rules(port: Object, field: str) -> list[FieldError]:
    number, host, protocol = port["containerPort"], port.get("hostPort", 0), port.get("protocol", "")
    errors: list[FieldError] = []
    if number:
        errors += [invalid(f"{field}.containerPort", number, text) for text in port_number(number)]
    else:
        errors.append(required(f"{field}.containerPort"))
    if host:
        errors += [invalid(f"{field}.hostPort", host, text) for text in port_number(host)]
    if not protocol:
        errors.append(required(f"{field}.protocol"))
    elif protocol not in PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", protocol, PROTOCOLS))
    return errors


def host_port_rules(containers: list[Object], field: str) -> list[FieldError]:
    """A port of the machine can lead to one container only."""
    errors: list[FieldError] = []
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
                errors.append(duplicate(f"{field}[{at}].ports[{index}].hostPort", address))
            taken.add(address)
    return errors


def fill_host_ports(containers: list[Object]) -> None:
    """On the network of the machine, every port is the machine's."""
    for container in containers:
        for index, port in enumerate(container.get("ports", ())):
            if "hostPort" not in port and port["containerPort"]:
                filled = {**port, "hostPort": port["containerPort"]}
                container["ports"][index] = CONTAINER_PORT.arranged(filled)


def host_network_rules(containers: list[Object], field: str) -> list[FieldError]:
    return [
        invalid(
            f"{field}[{at}].ports[{index}].containerPort",
            port["containerPort"],
            "must match `hostPort` when `hostNetwork` is true",
        )
        for at, container in enumerate(containers)
        for index, port in enumerate(container.get("ports", ()))
        if port.get("hostPort", 0) != port["containerPort"]
    ]
