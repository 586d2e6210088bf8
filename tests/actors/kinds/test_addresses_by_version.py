"""Addresses and networks in odd forms, and the warnings of networking kinds, in each version."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.validation import cidr_warnings, ip_warnings
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions, replace

NEWEST = "1.36"
SLICE: Object = {"metadata": {"name": "a"}, "addressType": "IPv4", "ports": [], "endpoints": []}


@cache
def kinds(version: str) -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release(version)))


def service(**spec: Any) -> Object:
    return {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}], **spec}}


def policy(**block: Any) -> Object:
    rule = {"from": [{"ipBlock": block}]}
    return {"metadata": {"name": "a"}, "spec": {"podSelector": {}, "ingress": [rule]}}


def slice_of(*addresses: str, **more: Any) -> Object:
    return {**SLICE, "endpoints": [{"addresses": list(addresses), **more}]}


def warnings(version: str, plural: str, document: Object) -> list[str]:
    definition = kinds(version)[plural]
    warn = definition.warnings_at("")
    return warn(kinds(version).decode(plural, document), None) if warn else []


@pytest.mark.parametrize(
    ("version", "value", "text"),
    [
        ("1.32", "010.0.0.1", ""),
        ("1.33", "10.0.0.1", ""),
        (
            "1.33",
            "010.0.0.1",
            'f: non-standard IP address "010.0.0.1" will be considered invalid in a future Kubernetes release: '
            'use "10.0.0.1"',
        ),
        (NEWEST, "::ffff:1.2.3.4", 'f: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"'),
        (
            NEWEST,
            "2001:DB8::1",
            'f: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")',
        ),
    ],
)
def test_warnings_of_addresses(version: str, value: str, text: str) -> None:
    assert ip_warnings(choose_release(version).features, "f", value) == ([text] if text else [])


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("10.0.0.0/8", []),
        (
            "10.0.0.1/8",
            [
                'f: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)'
            ],
        ),
        ("10.0.0.0/08", ['f: non-standard CIDR value "10.0.0.0/08" is invalid: use "10.0.0.0/8"']),
        (
            "::ffff:1.2.3.0/120",
            ['f: non-standard CIDR value "::ffff:1.2.3.0/120" is invalid: use "1.2.3.0/24"'],
        ),
        (
            "2001:DB8::/64",
            ['f: IPv6 CIDR value "2001:DB8::/64" should be in RFC 5952 canonical format ("2001:db8::/64")'],
        ),
    ],
)
def test_warnings_of_networks(value: str, texts: list[str]) -> None:
    assert cidr_warnings(choose_release(NEWEST).features, "f", value) == texts


@pytest.mark.parametrize(
    ("plural", "document"),
    [
        ("services", service(externalIPs=["010.0.0.1"])),
        ("services", service(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.1/8"])),
        ("endpoints", {"metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": "010.0.0.1"}]}]}),
        ("endpointslices", slice_of("010.0.0.1")),
        ("networkpolicies", policy(cidr="10.0.0.1/8")),
        ("networkpolicies", policy(cidr="10.0.0.0/8", **{"except": ["10.1.0.1/16"]})),
    ],
)
def test_odd_forms_are_warned_of_and_later_refused(plural: str, document: Object) -> None:
    before, warned, refused = (
        len(kinds(one).create_causes(plural, document)) for one in ("1.32", "1.33", NEWEST)
    )
    assert (before, warned, refused) == (0, 0, 1)
    assert warnings("1.32", plural, document) == []
    assert len(warnings("1.33", plural, document)) == 1


def test_an_object_keeps_odd_forms_that_it_has() -> None:
    for plural, document in (
        ("networkpolicies", policy(cidr="10.0.0.1/8")),
        ("endpointslices", slice_of("010.0.0.1")),
        ("services", service(externalIPs=["010.0.0.1"])),
    ):
        old = kinds("1.33").stored(plural, document)
        sent = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
        assert replace(kinds(NEWEST)[plural], sent, old)[1] == []


def test_texts_of_networks() -> None:
    assert (
        kinds("1.29").create_causes("networkpolicies", policy(cidr="no"))[0][1].endswith("not a valid CIDR")
    )
    later = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    assert kinds("1.30").create_causes("networkpolicies", policy(cidr="no"))[0][1].endswith(later)
    ranges = service(type="LoadBalancer", loadBalancerSourceRanges=["no", " 10.0.0.0/8 "])
    assert kinds("1.30").create_causes("services", ranges) == [
        ("spec.LoadBalancerSourceRanges[0]", f'Invalid value: "no": {later}')
    ]


def test_warnings_of_services() -> None:
    document = service(clusterIP="None", externalIPs=["1.2.3.4"], externalName="a.b")
    assert warnings("1.27", "services", document) == []
    assert warnings(NEWEST, "services", document) == [
        "spec.externalIPs is ignored for headless services",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ]
    assert warnings(
        NEWEST, "services", service(externalIPs=["1.2.3.4"], trafficDistribution="PreferClose")
    ) == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ]


def test_services_with_external_ips_have_a_policy_for_external_traffic() -> None:
    document = service(externalIPs=["1.2.3.4"])
    assert "externalTrafficPolicy" not in kinds("1.28").decode("services", document)["spec"]
    assert kinds("1.29").decode("services", document)["spec"]["externalTrafficPolicy"] == "Cluster"
    old = kinds(NEWEST).stored("services", document)
    sent = {**old, "spec": {part: value for part, value in old["spec"].items() if part != "externalIPs"}}
    assert "externalTrafficPolicy" not in replace(kinds(NEWEST)["services"], sent, old)[0]["spec"]


def test_hints_for_nodes() -> None:
    hinted = slice_of("1.2.3.4", hints={"forNodes": [{"name": "a"}, {"name": "a"}, {"name": "A"}]})
    causes = kinds(NEWEST).create_causes("endpointslices", hinted)
    assert [field for field, _ in causes] == [
        f"endpoints[0].hints.forNodes[{index}].name" for index in (1, 2)
    ]
    assert kinds("1.33").stored("endpointslices", hinted)["endpoints"][0]["hints"] == {}


def test_slices_name_the_field_of_an_address_of_the_other_family() -> None:
    assert kinds("1.32").create_causes("endpointslices", slice_of("2001:db8::1")) == [
        ("endpoints[0].addresses[0]", 'Invalid value: "2001:db8::1": must be a valid IPv4 address')
    ]
    assert kinds(NEWEST).create_causes("endpointslices", slice_of("2001:db8::1")) == [
        ("endpoints[0].addresses", 'Invalid value: "2001:db8::1": must be an IPv4 address')
    ]


def test_the_annotation_of_ingress_classes() -> None:
    def ingress(annotation: str, **spec: Any) -> Object:
        backend = {"service": {"name": "a", "port": {"number": 1}}}
        metadata = {"name": "a", "annotations": {"kubernetes.io/ingress.class": annotation}}
        return {"metadata": metadata, "spec": {"defaultBackend": backend, **spec}}

    both = ingress("a", ingressClassName="a")
    assert len(kinds("1.26").create_causes("ingresses", both)) == 1
    assert kinds("1.27").create_causes("ingresses", both) == []
    assert len(kinds("1.27").create_causes("ingresses", ingress("b", ingressClassName="a"))) == 1
    assert len(warnings("1.27", "ingresses", ingress("a"))) == 1
