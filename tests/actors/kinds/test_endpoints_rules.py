"""Endpoints: addresses reachable from other machines, and ports with unique names."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

ADDRESS = {"ip": "10.0.0.1"}


def causes_of(kinds: Definitions, *subsets: Any) -> list[tuple[str, str]]:
    return kinds.create_causes("endpoints", {"metadata": {"name": "a"}, "subsets": list(subsets)})


def test_subsets_are_kept_as_sent(kinds: Definitions) -> None:
    subset = {"addresses": [{"ip": "10.1.0.2"}, {"ip": "10.1.0.1", "hostname": "h"}], "ports": [{"port": 80}]}
    stored = kinds.stored("endpoints", {"subsets": [subset, subset]})
    assert stored["subsets"] == [{**subset, "ports": [{"port": 80, "protocol": "TCP"}]}] * 2


@cases(
    ("ip", "texts"),
    [
        ("10.0.0.1", []),
        (
            "x",
            ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)", "must be a valid IP address"],
        ),
        ("127.0.0.1", ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
    ],
)
def test_ip_addresses_are_validated(kinds: Definitions, ip: str, texts: list[str]) -> None:
    causes = causes_of(kinds, {"addresses": [{"ip": ip}]})
    assert causes == [("subsets[0].addresses[0].ip", f'Invalid value: "{ip}": {text}') for text in texts]


def test_subset_needs_addresses(kinds: Definitions) -> None:
    expected = [("subsets[0]", "Required value: must specify `addresses` or `notReadyAddresses`")]
    assert causes_of(kinds, {"ports": [{"port": 80}]}) == expected
    assert causes_of(kinds, {"notReadyAddresses": [ADDRESS]}) == []


def test_hostname_and_node_name_are_validated(kinds: Definitions) -> None:
    address = {**ADDRESS, "hostname": "a.b", "nodeName": "A"}
    assert [field for field, _ in causes_of(kinds, {"addresses": [address]})] == [
        "subsets[0].addresses[0].hostname",
        "subsets[0].addresses[0].nodeName",
    ]


@cases(
    ("ports", "expected"),
    [
        ([{"port": 80}], []),
        ([{"port": 0}], [("port", "Invalid value: 0: must be between 1 and 65535, inclusive")]),
        ([{"port": 1, "name": "A"}], [("name", 'Invalid value: "A": a lowercase RFC 1123 label')]),
        (
            [{"port": 1, "protocol": "X"}],
            [("protocol", 'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"')],
        ),
        ([{"port": 1, "appProtocol": "a b"}], [("appProtocol", 'Invalid value: "a b": name part must')]),
    ],
)
def test_port_fields_are_validated(kinds: Definitions, ports: Any, expected: list[tuple[str, str]]) -> None:
    causes = causes_of(kinds, {"addresses": [ADDRESS], "ports": ports})
    assert len(causes) == len(expected)
    for (field, message), (part, text) in zip(causes, expected, strict=True):
        assert field == f"subsets[0].ports[0].{part}" and message.startswith(text)


def test_several_ports_need_names(kinds: Definitions) -> None:
    causes = causes_of(kinds, {"addresses": [ADDRESS], "ports": [{"port": 1}, {"port": 2}]})
    assert causes == [(f"subsets[0].ports[{index}].name", "Required value") for index in range(2)]


def test_update_may_create_and_may_be_unconditional(kinds: Definitions) -> None:
    assert (
        kinds["endpoints"].strategy.allow_create_on_update
        and kinds["endpoints"].strategy.allow_unconditional_update
    )
