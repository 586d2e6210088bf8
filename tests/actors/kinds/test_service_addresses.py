"""Addresses and IP families of services: valid values, and immutable ones."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def service(*ips: str, families: list[str] | None = None, policy: str = "", **spec: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"ports": [{"port": 80}], **spec}
    if ips:
        whole |= {"clusterIP": ips[0], "clusterIPs": list(ips)}
    if families is not None:
        whole["ipFamilies"] = families
    if policy:
        whole["ipFamilyPolicy"] = policy
    return {"metadata": {"name": "a"}, "spec": whole}


IPS, FAMILIES = "spec.clusterIPs", "spec.ipFamilies"
NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


@cases(
    ("document", "field", "message"),
    [
        (service(clusterIP="10.0.0.1"), IPS, "Required value"),
        (
            service(clusterIP="10.0.0.1", clusterIPs=["10.0.0.2"]),
            IPS,
            'Invalid value: []string{"10.0.0.2"}: first value must match `clusterIP`',
        ),
        (
            service(clusterIPs=["10.0.0.2"]),
            IPS,
            'Invalid value: []string{"10.0.0.2"}: must be empty when `clusterIP` is not specified',
        ),
        (service("no"), f"{IPS}[0]", f'Invalid value: "no": {NOT_AN_IP}'),
        (
            service("None", "10.0.0.1"),
            IPS,
            'Invalid value: []string{"None", "10.0.0.1"}: \'None\' must be the first and only value',
        ),
        (
            service("10.0.0.1", "10.0.0.2"),
            IPS,
            'Invalid value: []string{"10.0.0.1", "10.0.0.2"}: '
            "may specify no more than one IP for each IP family",
        ),
        (
            service(families=["IPv5"]),
            f"{FAMILIES}[0]",
            'Unsupported value: "IPv5": supported values: "IPv4", "IPv6"',
        ),
        (service(families=["IPv4", "IPv4"]), f"{FAMILIES}[1]", 'Duplicate value: "IPv4"'),
        (
            service(policy="Both"),
            "spec.ipFamilyPolicy",
            'Unsupported value: "Both": supported values: '
            '"PreferDualStack", "RequireDualStack", "SingleStack"',
        ),
        (
            service("10.0.0.1", families=["IPv6"]),
            f"{IPS}[0]",
            'Invalid value: "10.0.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`',
        ),
        (
            service("fd00::1", families=["IPv4"]),
            f"{IPS}[0]",
            'Invalid value: "fd00::1": expected an IPv4 value as indicated by `ipFamilies[0]`',
        ),
    ],
)
def test_create_reports_invalid_addresses(
    kinds: Definitions, document: Any, field: str, message: str
) -> None:
    assert kinds.create_causes("services", document) == [(field, message)]


def test_service_has_at_most_two_addresses(kinds: Definitions) -> None:
    ((_, text),) = kinds.create_causes("services", service("10.0.0.1", "fd00::1", "fd00::2"))
    assert text.endswith("may only hold up to 2 values")


ONE = service("10.0.0.1", families=["IPv4"], policy="SingleStack")
TWO = service("10.0.0.1", "fd00::1", families=["IPv4", "IPv6"], policy="RequireDualStack")


@cases(
    ("before", "after", "expected"),
    [
        (ONE, ONE, []),
        (ONE, TWO, []),
        (ONE, service("10.0.0.2", families=["IPv4"]), [(f"{IPS}[0]", "may not change once set")]),
        (
            ONE,
            service("10.0.0.2", "fd00::1", families=["IPv4", "IPv6"]),
            [(f"{IPS}[0]", "may not change once set")],
        ),
        (ONE, service(families=["IPv4"]), [(f"{IPS}[0]", "primary clusterIP can not be unset")]),
        (TWO, ONE, []),
        (
            TWO,
            service("10.0.0.1", families=["IPv4"], policy="PreferDualStack"),
            [
                (
                    "spec.ipFamilyPolicy",
                    "must be set to 'SingleStack' when releasing the secondary clusterIP",
                ),
                ("spec.ipFamilyPolicy", "must be set to 'SingleStack' when releasing the secondary ipFamily"),
            ],
        ),
        (
            service("10.0.0.1", families=["IPv4"]),
            service("10.0.0.1", families=["IPv6", "IPv4"]),
            [
                (f"{FAMILIES}[0]", "may not change once set"),
                (f"{IPS}[0]", "expected an IPv6 value as indicated by `ipFamilies[0]`"),
            ],
        ),
        (service("None"), service("None", families=["IPv6"]), []),
        (service("None"), ONE, [(f"{IPS}[0]", "may not change once set")]),
    ],
)
def test_update_of_addresses_and_families_is_validated(
    kinds: Definitions, before: Any, after: Any, expected: list[tuple[str, str]]
) -> None:
    _, causes = kinds.update("services", before, after)
    assert [(field, text.rpartition(": ")[2]) for field, text in causes] == expected
