"""docs/decisions/0013-field-errors.md: rules that add errors to a collector, return lists, or are generators.

The rules are a few of those of containers, without the check for plain ones, written in each form. All containers
are in order, as nearly all are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from rewound.actors.kinds.validation import FieldError, FieldErrors, collect, dns_label, invalid, required

CONTAINERS = [
    {
        "name": f"c{number}",
        "image": "registry.example/app:1.2.3",
        "ports": [{"containerPort": 8000 + number}],
        "env": [{"name": f"E{index}", "value": "v"} for index in range(4)],
    }
    for number in range(20)
]
Object = dict[str, Any]
_current: ContextVar[FieldErrors] = ContextVar("errors")


def collected(errors: FieldErrors, containers: list[Object], field: str) -> None:
    for index, container in enumerate(containers):
        _collected_container(errors, container, f"{field}[{index}]")


def _collected_container(errors: FieldErrors, container: Object, field: str) -> None:
    if wrong := dns_label(container["name"]):
        errors.add_each(f"{field}.name", container["name"], wrong)
    if not container.get("image"):
        errors.add(required(f"{field}.image"))
    _collected_ports(errors, container["ports"], f"{field}.ports")
    _collected_variables(errors, container["env"], f"{field}.env")


def _collected_ports(errors: FieldErrors, ports: list[Object], field: str) -> None:
    for index, port in enumerate(ports):
        if not 0 < port["containerPort"] < 65536:
            errors.add(invalid(f"{field}[{index}]", port["containerPort"], "out of range"))


def _collected_variables(errors: FieldErrors, variables: list[Object], field: str) -> None:
    for index, variable in enumerate(variables):
        if not variable["name"]:
            errors.add(required(f"{field}[{index}].name"))


def listed(containers: list[Object], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, container in enumerate(containers):
        found += _listed_container(container, f"{field}[{index}]")
    return found


def _listed_container(container: Object, field: str) -> list[FieldError]:
    found = [invalid(f"{field}.name", container["name"], text) for text in dns_label(container["name"])]
    if not container.get("image"):
        found.append(required(f"{field}.image"))
    found += _listed_ports(container["ports"], f"{field}.ports")
    found += _listed_variables(container["env"], f"{field}.env")
    return found


def _listed_ports(ports: list[Object], field: str) -> list[FieldError]:
    return [
        invalid(f"{field}[{index}]", port["containerPort"], "out of range")
        for index, port in enumerate(ports)
        if not 0 < port["containerPort"] < 65536
    ]


def _listed_variables(variables: list[Object], field: str) -> list[FieldError]:
    return [
        required(f"{field}[{index}].name") for index, variable in enumerate(variables) if not variable["name"]
    ]


def generated(containers: list[Object], field: str) -> Iterator[FieldError]:
    for index, container in enumerate(containers):
        yield from _generated_container(container, f"{field}[{index}]")


def _generated_container(container: Object, field: str) -> Iterator[FieldError]:
    for text in dns_label(container["name"]):
        yield invalid(f"{field}.name", container["name"], text)
    if not container.get("image"):
        yield required(f"{field}.image")
    yield from _generated_ports(container["ports"], f"{field}.ports")
    yield from _generated_variables(container["env"], f"{field}.env")


def _generated_ports(ports: list[Object], field: str) -> Iterator[FieldError]:
    for index, port in enumerate(ports):
        if not 0 < port["containerPort"] < 65536:
            yield invalid(f"{field}[{index}]", port["containerPort"], "out of range")


def _generated_variables(variables: list[Object], field: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        if not variable["name"]:
            yield required(f"{field}[{index}].name")


def from_context(containers: list[Object], field: str) -> None:
    """The collector is found in a ContextVar, by every function that has rules of its own."""
    for index, container in enumerate(containers):
        errors, here = _current.get(), f"{field}[{index}]"
        if wrong := dns_label(container["name"]):
            errors.add_each(f"{here}.name", container["name"], wrong)
        if not container.get("image"):
            errors.add(required(f"{here}.image"))
        _ports_from_context(container["ports"], f"{here}.ports")
        _variables_from_context(container["env"], f"{here}.env")


def _ports_from_context(ports: list[Object], field: str) -> None:
    _collected_ports(_current.get(), ports, field)


def _variables_from_context(variables: list[Object], field: str) -> None:
    _collected_variables(_current.get(), variables, field)


def _by_context() -> list[FieldError]:
    errors = FieldErrors()
    token = _current.set(errors)
    try:
        from_context(CONTAINERS, "spec.containers")
    finally:
        _current.reset(token)
    return errors.found


def main(effort: Effort) -> None:
    field = "spec.containers"
    compare(
        "rules of 20 containers",
        {
            "a collector that is passed": lambda: collect(collected, CONTAINERS, field),
            "lists that are returned": lambda: listed(CONTAINERS, field),
            "generators": lambda: list(generated(CONTAINERS, field)),
            "a collector in a ContextVar": _by_context,
        },
        effort,
    )


if __name__ == "__main__":
    main(effort_of_command_line())
