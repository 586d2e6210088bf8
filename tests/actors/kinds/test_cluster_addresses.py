"""ServiceCIDR, IPAddress and VolumeAttributesClass: their versions, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions

CIDRS, ADDRESSES, CLASSES = "servicecidrs", "ipaddresses", "volumeattributesclasses"


@pytest.fixture(scope="module")
def newest() -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release("1.36"), Enablement(every=True)))


def cidr(*cidrs: str) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"cidrs": list(cidrs)}}


def address(name: str) -> dict[str, Any]:
    parent = {"resource": "services", "namespace": "default", "name": "a"}
    return {"metadata": {"name": name}, "spec": {"parentRef": parent}}


def test_versions() -> None:
    found = {}
    for version in ("1.28", "1.30", "1.32", "1.34", "1.36"):
        served = built_in(KUBERNETES, choose_release(version), Enablement(every=True)).definitions
        found[version] = [
            sorted(one.version for one in served if one.plural == plural)
            for plural in (CIDRS, ADDRESSES, CLASSES)
        ]
    assert found == {
        "1.28": [[], ["v1alpha1"], []],
        "1.30": [["v1alpha1"], ["v1alpha1"], ["v1alpha1"]],
        "1.32": [["v1beta1"], ["v1beta1"], ["v1alpha1", "v1beta1"]],
        "1.34": [["v1", "v1beta1"], ["v1", "v1beta1"], ["v1", "v1alpha1", "v1beta1"]],
        "1.36": [["v1", "v1beta1"], ["v1", "v1beta1"], ["v1", "v1beta1"]],
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.0/16", ""),
        ("2001:db8::/64", ""),
        ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("2001:DB8::/64", 'must be in canonical form ("2001:db8::/64")'),
    ],
)
def test_ranges_are_canonical(newest: Definitions, text: str, problem: str) -> None:
    causes = newest.create_causes(CIDRS, cidr(text))
    assert causes == ([("spec.cidrs[0]", f'Invalid value: "{text}": {problem}')] if problem else [])


def test_a_range_of_the_other_family_may_be_added(newest: Definitions) -> None:
    both = cidr("10.0.0.0/16", "2001:db8::/64")
    assert newest.update(CIDRS, cidr("10.0.0.0/16"), both)[1] == []
    assert newest.update(CIDRS, both, cidr("10.0.0.0/16"))[1][0][0] == "spec.cidrs"


def test_addresses_are_canonical(newest: Definitions) -> None:
    assert newest.create_causes(ADDRESSES, address("10.0.0.1")) == []
    for name in ("10.0.0.01", "2001:DB8::1", "::ffff:1.2.3.4", "x"):
        assert [field for field, _ in newest.create_causes(ADDRESSES, address(name))] == ["metadata.name"]
