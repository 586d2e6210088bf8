"""EndpointSlice: addresses of one type, hints, ports, limits, and what counts as a change."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def endpoint_slice(kind: str = "IPv4", **parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "addressType": kind, **parts}


def with_addresses(kind: str, *addresses: str) -> dict[str, Any]:
    return endpoint_slice(kind, endpoints=[{"addresses": list(addresses)}])


def test_create_sets_defaults(kinds: Definitions) -> None:
    sent = endpoint_slice(ports=[{}, {"name": "p", "port": 80, "protocol": "UDP"}])
    stored = kinds.stored("endpointslices", sent)
    assert stored["ports"] == [
        {"name": "", "protocol": "TCP"},
        {"name": "p", "protocol": "UDP", "port": 80},
    ]
    assert stored["endpoints"] is None and stored["metadata"]["generation"] == 1
    assert kinds.decode("endpointslices", with_addresses("IPv4", "1.2.3.4"))["endpoints"] == [
        {"addresses": ["1.2.3.4"], "conditions": {}}
    ]


def test_deprecated_topology_is_dropped(kinds: Definitions) -> None:
    old_form = endpoint_slice(endpoints=[{"addresses": ["1.2.3.4"], "deprecatedTopology": {"a": "b"}}])
    assert "deprecatedTopology" not in kinds.stored("endpointslices", old_form)["endpoints"][0]
    new, _ = kinds.update("endpointslices", with_addresses("IPv4", "1.2.3.4"), old_form)
    assert "deprecatedTopology" not in new["endpoints"][0]
    assert new["metadata"]["generation"] == 2  # sending the field counts as a change, although it is dropped


@cases(
    ("kind", "address", "messages"),
    [
        ("IPv4", "10.0.0.1", []),
        ("IPv6", "fd00::1", []),
        ("FQDN", "a.example.com.", []),
        ("IPv4", "fd00::1", ['Invalid value: "fd00::1": must be a valid IPv4 address']),
        ("IPv6", "10.0.0.1", ['Invalid value: "10.0.0.1": must be a valid IPv6 address']),
        (
            "IPv4",
            "no",
            [
                'Invalid value: "no": must be a valid IPv4 address',
                'Invalid value: "no": must be a valid IP address',
            ],
        ),
        (
            "IPv4",
            "127.0.0.1",
            ['Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'],
        ),
        ("FQDN", "", ["Required value"]),
        (
            "FQDN",
            "a",
            ['Invalid value: "a": should be a domain with at least two segments separated by dots'],
        ),
    ],
)
def test_create_reports_invalid_addresses(
    kinds: Definitions, kind: str, address: str, messages: list[str]
) -> None:
    assert kinds.create_causes("endpointslices", with_addresses(kind, address)) == [
        ("endpoints[0].addresses[0]", message) for message in messages
    ]


def test_fqdn_address_is_made_of_dns_labels(kinds: Definitions) -> None:
    for wrong in ("Bad_.example.com", "a" * 64 + ".com"):
        assert [
            field for field, _ in kinds.create_causes("endpointslices", with_addresses("FQDN", wrong))
        ] == ["endpoints[0].addresses[0]"]


def test_address_type_is_required_and_immutable(kinds: Definitions) -> None:
    assert kinds.create_causes("endpointslices", endpoint_slice("")) == [("addressType", "Required value")]
    assert kinds.create_causes("endpointslices", endpoint_slice("MAC")) == [
        ("addressType", 'Unsupported value: "MAC": supported values: "FQDN", "IPv4", "IPv6"')
    ]
    _, causes = kinds.update("endpointslices", endpoint_slice("IPv4"), endpoint_slice("IPv6"))
    assert causes == [("addressType", 'Invalid value: "IPv6": field is immutable')]


def test_numbers_of_endpoints_addresses_and_ports_are_limited(kinds: Definitions) -> None:
    one = {"addresses": ["1.2.3.4"]}
    assert kinds.create_causes("endpointslices", endpoint_slice(endpoints=[one] * 1001)) == [
        ("endpoints", "Too many: 1001: must have at most 1000 items")
    ]
    assert kinds.create_causes("endpointslices", with_addresses("IPv4", *["1.2.3.4"] * 101)) == [
        ("endpoints[0].addresses", "Too many: 101: must have at most 100 items")
    ]
    assert kinds.create_causes("endpointslices", endpoint_slice(endpoints=[{"addresses": []}])) == [
        ("endpoints[0].addresses", "Required value: must contain at least 1 address")
    ]
    assert kinds.create_causes("endpointslices", endpoint_slice(ports=[{}] * 20001)) == [
        ("ports", "Too many: 20001: must have at most 20000 items")
    ]


def test_node_name_and_hostname_are_validated(kinds: Definitions) -> None:
    wrong = endpoint_slice(endpoints=[{"addresses": ["1.2.3.4"], "hostname": "a.b", "nodeName": "Bad_"}])
    assert [field for field, _ in kinds.create_causes("endpointslices", wrong)] == [
        "endpoints[0].nodeName",
        "endpoints[0].hostname",
    ]


def test_zone_hints_are_validated(kinds: Definitions) -> None:
    def hinted(*zones: str) -> list[tuple[str, str]]:
        hints = {"forZones": [{"name": zone} for zone in zones]}
        sent = endpoint_slice(endpoints=[{"addresses": ["1.2.3.4"], "hints": hints}])
        return kinds.create_causes("endpointslices", sent)

    field = "endpoints[0].hints.forZones"
    assert hinted("a", "b") == []
    assert hinted("a", "a") == [(f"{field}[1].name", 'Duplicate value: "a"')]
    assert hinted(*"abcdefghi") == [(field, "Too many: 9: must have at most 8 items")]
    assert [where for where, _ in hinted("not ok")] == [f"{field}[0].name"]


@cases(
    ("port", "expected"),
    [
        ({"name": "q"}, []),
        ({"name": "p"}, [("name", 'Duplicate value: "p"')]),
        (
            {"protocol": "ICMP"},
            [("protocol", 'Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"')],
        ),
    ],
)
def test_create_reports_invalid_ports(kinds: Definitions, port: Any, expected: list[tuple[str, str]]) -> None:
    sent = endpoint_slice(ports=[{"name": "p"}, port])
    assert kinds.create_causes("endpointslices", sent) == [
        (f"ports[1].{field}", message) for field, message in expected
    ]


def test_formats_of_port_names_and_app_protocols_are_validated(kinds: Definitions) -> None:
    sent = endpoint_slice(ports=[{"name": "Bad_", "appProtocol": "/"}])
    assert {field for field, _ in kinds.create_causes("endpointslices", sent)} == {
        "ports[0].name",
        "ports[0].appProtocol",
    }


def test_generation_counts_changes_of_contents_and_labels(kinds: Definitions) -> None:
    before = endpoint_slice()
    assert kinds.update("endpointslices", before, before)[0]["metadata"]["generation"] == 1
    labelled = {**before, "metadata": {"name": "a", "labels": {"a": "b"}}}
    annotated = {**before, "metadata": {"name": "a", "annotations": {"a": "b"}}}
    assert kinds.update("endpointslices", before, labelled)[0]["metadata"]["generation"] == 2
    assert kinds.update("endpointslices", before, annotated)[0]["metadata"]["generation"] == 1
    changed = endpoint_slice(ports=[{}])
    assert kinds.update("endpointslices", before, changed)[0]["metadata"]["generation"] == 2
