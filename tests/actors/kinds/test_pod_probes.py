"""Pod: probes and lifecycle hooks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.declared import Declared
from tests.actors.kinds.pods import wrong_container

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


@pytest.mark.parametrize(("handler", "causes"), HANDLERS)
@pytest.mark.parametrize("place", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_handlers_of_probes(kinds: Declared, place: str, handler: Any, causes: Any) -> None:
    expected = [(place + field, text) for field, text in causes]
    assert wrong_container(kinds, **{place: handler}) == expected


@pytest.mark.parametrize(("handler", "causes"), HANDLERS)
@pytest.mark.parametrize("place", ["postStart", "preStop"])
def test_handlers_of_lifecycles(kinds: Declared, place: str, handler: Any, causes: Any) -> None:
    expected = [(f"lifecycle.{place}{field}", text) for field, text in causes]
    assert wrong_container(kinds, lifecycle={place: handler}) == expected


def test_grpc_probes_name_a_number(kinds: Declared) -> None:
    assert wrong_container(kinds, livenessProbe={"grpc": {"port": 5}}) == []
    assert wrong_container(kinds, livenessProbe={"grpc": {"port": 0}}) == [
        ("livenessProbe.grpc.port", f"Invalid value: 0: {RANGE}")
    ]


@pytest.mark.parametrize(
    "part",
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"],
)
def test_timings_are_not_negative(kinds: Declared, part: str) -> None:
    assert (f"readinessProbe.{part}", "Invalid value: -1: must be greater than or equal to 0") in (
        wrong_container(kinds, readinessProbe={**ALIVE, part: -1})
    )


@pytest.mark.parametrize("probe", ["livenessProbe", "startupProbe"])
def test_one_success_is_enough_for_some(kinds: Declared, probe: str) -> None:
    assert wrong_container(kinds, **{probe: {**ALIVE, "successThreshold": 2}}) == [
        (f"{probe}.successThreshold", "Invalid value: 2: must be 1")
    ]
    assert wrong_container(kinds, readinessProbe={**ALIVE, "successThreshold": 2}) == []


def test_time_to_end_after_a_failed_probe(kinds: Declared) -> None:
    part = "terminationGracePeriodSeconds"
    assert wrong_container(kinds, livenessProbe={**ALIVE, part: 1}) == []
    assert wrong_container(kinds, startupProbe={**ALIVE, part: 0}) == [
        (f"startupProbe.{part}", "Invalid value: 0: must be greater than 0")
    ]
    assert wrong_container(kinds, readinessProbe={**ALIVE, part: 1}) == [
        (f"readinessProbe.{part}", "Invalid value: 1: must not be set for readinessProbes")
    ]
