"""Pod: container ports and host ports."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, container_causes, create_causes
from tests.cases import cases

RANGE = "must be between 1 and 65535, inclusive"


@cases(
    ("port", "causes"),
    [
        ({"containerPort": 65535, "name": "http", "hostIP": "1.2.3.4"}, []),
        ({"containerPort": 0}, [("containerPort", "Required value")]),
        ({"containerPort": 65536}, [("containerPort", f"Invalid value: 65536: {RANGE}")]),
        ({"containerPort": -1}, [("containerPort", f"Invalid value: -1: {RANGE}")]),
        ({"containerPort": 1, "hostPort": 70000}, [("hostPort", f"Invalid value: 70000: {RANGE}")]),
        (
            {"containerPort": 1, "protocol": "tcp"},
            [("protocol", 'Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"')],
        ),
        (
            {"containerPort": 1, "name": "Toolongforaportname"},
            [
                ("name", 'Invalid value: "Toolongforaportname": must be no more than 15 characters'),
                (
                    "name",
                    'Invalid value: "Toolongforaportname": must contain only alpha-numeric characters '
                    "(a-z, 0-9), and hyphens (-)",
                ),
            ],
        ),
        (
            {"containerPort": 1, "name": "80"},
            [("name", 'Invalid value: "80": must contain at least one letter (a-z)')],
        ),
        (
            {"containerPort": 1, "name": "a--b"},
            [("name", 'Invalid value: "a--b": must not contain consecutive hyphens')],
        ),
        (
            {"containerPort": 1, "name": "-a"},
            [("name", 'Invalid value: "-a": must not begin or end with a hyphen')],
        ),
    ],
)
def test_port_fields_are_validated(
    kinds: Definitions, port: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    expected = [(f"ports[0].{field}", text) for field, text in causes]
    assert container_causes(kinds, ports=[port]) == expected


def test_port_names_are_unique_in_a_container(kinds: Definitions) -> None:
    ports = [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]
    assert container_causes(kinds, ports=ports) == [("ports[1].name", 'Duplicate value: "a"')]
    others = [{**CONTAINER, "name": "d", "ports": ports[:1]}, {**CONTAINER, "ports": ports[:1]}]
    assert create_causes(kinds, containers=others) == []


def test_host_ports_are_unique_in_a_pod(kinds: Definitions) -> None:
    def listening(name: str, **port: Any) -> dict[str, Any]:
        return {**CONTAINER, "name": name, "ports": [{"containerPort": 1, "hostPort": 80, **port}]}

    containers = [
        listening("a"),
        listening("b", protocol="UDP"),
        listening("d", hostIP="1.2.3.4"),
        listening("e"),
    ]
    assert create_causes(kinds, containers=containers) == [
        ("spec.containers[3].ports[0].hostPort", 'Duplicate value: "TCP//80"')
    ]


def test_host_port_equals_container_port_with_host_network(kinds: Definitions) -> None:
    containers = [{**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 81}]}]
    assert create_causes(kinds, hostNetwork=True, containers=containers) == [
        (
            "spec.containers[0].ports[0].containerPort",
            "Invalid value: 80: must match `hostPort` when `hostNetwork` is true",
        )
    ]
