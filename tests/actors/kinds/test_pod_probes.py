"""Pod: probes and lifecycle hooks."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import container_causes
from tests.cases import cases

ALIVE = {"exec": {"command": ["true"]}}
RANGE = "must be between 1 and 65535, inclusive"
ONE = "Forbidden: may not specify more than 1 handler type"
HANDLERS: list[tuple[Any, list[tuple[str, str]]]] = [
    ({"exec": {"command": ["x"]}}, []),
    ({"httpGet": {"port": "http", "httpHeaders": [{"name": "X-A", "value": ""}]}}, []),
    ({"tcpSocket": {"port": 1}}, []),
    ({}, [("", "Required value: must specify a handler type")]),
    ({"exec": {}}, [(".exec.command", "Required value")]),
    ({"httpGet": {"port": 0}}, [(".httpGet.port", f"Invalid value: 0: {RANGE}")]),
    (
        {"httpGet": {"port": "80"}},
        [(".httpGet.port", 'Invalid value: "80": must contain at least one letter (a-z)')],
    ),
    (
        {"httpGet": {"port": 1, "scheme": "http"}},
        [(".httpGet.scheme", 'Unsupported value: "http": supported values: "HTTP", "HTTPS"')],
    ),
    (
        {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b", "value": "x"}]}},
        [
            (
                ".httpGet.httpHeaders",
                "Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric characters or '-' "
                "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            )
        ],
    ),
    ({"tcpSocket": {"port": 70000}}, [(".tcpSocket.port", f"Invalid value: 70000: {RANGE}")]),
    ({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}, [(".tcpSocket", ONE)]),
    (
        {"exec": {"command": ["x"]}, "httpGet": {"port": 1}, "tcpSocket": {"port": 1}},
        [(".httpGet", ONE), (".tcpSocket", ONE)],
    ),
]


@cases(("handler", "causes"), HANDLERS)
@cases("part", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_probe_handlers_are_validated(kinds: Definitions, part: str, handler: Any, causes: Any) -> None:
    expected = [(part + field, text) for field, text in causes]
    assert container_causes(kinds, **{part: handler}) == expected


@cases(("handler", "causes"), HANDLERS)
@cases("part", ["postStart", "preStop"])
def test_lifecycle_handlers_are_validated(kinds: Definitions, part: str, handler: Any, causes: Any) -> None:
    expected = [(f"lifecycle.{part}{field}", text) for field, text in causes]
    assert container_causes(kinds, lifecycle={part: handler}) == expected


def test_grpc_probe_needs_a_port_number(kinds: Definitions) -> None:
    assert container_causes(kinds, livenessProbe={"grpc": {"port": 5}}) == []
    assert container_causes(kinds, livenessProbe={"grpc": {"port": 0}}) == [
        ("livenessProbe.grpc.port", f"Invalid value: 0: {RANGE}")
    ]


@cases(
    "part",
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"],
)
def test_probe_timings_cannot_be_negative(kinds: Definitions, part: str) -> None:
    assert (f"readinessProbe.{part}", "Invalid value: -1: must be greater than or equal to 0") in (
        container_causes(kinds, readinessProbe={**ALIVE, part: -1})
    )


@cases("probe", ["livenessProbe", "startupProbe"])
def test_success_threshold_of_liveness_and_startup_probes_is_1(kinds: Definitions, probe: str) -> None:
    assert container_causes(kinds, **{probe: {**ALIVE, "successThreshold": 2}}) == [
        (f"{probe}.successThreshold", "Invalid value: 2: must be 1")
    ]
    assert container_causes(kinds, readinessProbe={**ALIVE, "successThreshold": 2}) == []


def test_termination_grace_period_of_probes_is_validated(kinds: Definitions) -> None:
    part = "terminationGracePeriodSeconds"
    assert container_causes(kinds, livenessProbe={**ALIVE, part: 1}) == []
    assert container_causes(kinds, startupProbe={**ALIVE, part: 0}) == [
        (f"startupProbe.{part}", "Invalid value: 0: must be greater than 0")
    ]
    assert container_causes(kinds, readinessProbe={**ALIVE, part: 1}) == [
        (f"readinessProbe.{part}", "Invalid value: 1: must not be set for readinessProbes")
    ]
