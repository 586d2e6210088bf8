"""Which requests the built-in signers sign or refuse."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

from rewound.actors.certificates.signing import (
    UnfitRequest,
    client_refusal,
    facts_of,
    node_client_refusal,
    serving_refusal,
    signer_rules,
)
from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.actors.profile import Rules
from tests.actors.certificates.making_requests import NODE, Wanted
from tests.cases import cases

CLIENT = ["key encipherment", "digital signature", "client auth"]
SERVING = ["digital signature", "key encipherment", "server auth"]
DNS, IP = x509.DNSName("n1.example.com"), x509.IPAddress(ipaddress.ip_address("10.0.0.7"))
MAIL, URI = x509.RFC822Name("root@example.com"), x509.UniformResourceIdentifier("spiffe://a/b")
DIRECTORY = x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]))
OTHER = x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3"), b"\x0c\x01x")
Names = Sequence[x509.GeneralName]


def test_names_of_signers_follow_the_dialect() -> None:
    assert set(signer_rules(CLUSTER)) == {
        "cluster.io/api-server-client",
        "cluster.io/api-server-client-node-agent",
        "cluster.io/node-agent-serving",
        "cluster.io/legacy-unknown",
    }
    assert set(signer_rules(KUBERNETES)) == {
        "kubernetes.io/kube-apiserver-client",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/kubelet-serving",
        "kubernetes.io/legacy-unknown",
    }


@cases(
    ("usages", "fits"),
    [
        (["client auth"], True),
        (CLIENT, True),
        (["digital signature"], False),
        ([], False),
        ([*CLIENT, "server auth"], False),
        ([*CLIENT, "cert sign"], False),
        ([*CLIENT, "any"], False),
    ],
)
def test_client_signer_limits_usages(usages: list[str], fits: bool) -> None:
    facts = facts_of(Wanted((("O", "system:masters"), ("CN", "x")), [DNS, MAIL, URI]).encoded())
    assert (client_refusal(facts, usages) == "") is fits


@cases("usages", [CLIENT[:2], CLIENT[1:], [*CLIENT, "server auth"], SERVING, []])
def test_node_client_signer_wants_exactly_three_usages(usages: list[str]) -> None:
    facts = facts_of(Wanted().encoded())
    assert node_client_refusal(facts, CLIENT) == ""
    assert "usages" in node_client_refusal(facts, usages)


@cases("usages", [SERVING[:2], SERVING[1:], [*SERVING, "client auth"], CLIENT, []])
def test_serving_signer_wants_exactly_three_usages(usages: list[str]) -> None:
    facts = facts_of(Wanted(names=[DNS]).encoded())
    assert serving_refusal(facts, SERVING) == ""
    assert "usages" in serving_refusal(facts, usages)


@cases(
    "subject",
    [
        (("CN", "system:node:n1"),),
        (("O", "system:nodes"),),
        (("O", "system:masters"), ("CN", "system:node:n1")),
        (("O", "system:nodes"), ("O", "system:masters"), ("CN", "system:node:n1")),
        (("O", "system:nodes"), ("O", "system:nodes"), ("CN", "system:node:n1")),
        (("OU", "system:nodes"), ("CN", "system:node:n1")),
        (("O", "system:nodes"), ("CN", "admin")),
        (("O", "system:nodes"), ("CN", "xsystem:node:n1")),
        (("O", "system:nodes"), ("CN", "admin"), ("CN", "system:node:n1")),
        (("O", "system:nodes"), ("CN", "system:node:n1"), ("CN", "admin")),
        (("O", "System:Nodes"), ("CN", "system:node:n1")),
    ],
)
def test_node_signers_want_the_subject_of_a_node(subject: Sequence[tuple[str, str]]) -> None:
    assert node_client_refusal(facts_of(Wanted(subject).encoded()), CLIENT)
    assert serving_refusal(facts_of(Wanted(subject, [DNS]).encoded()), SERVING)


@cases("name", [DNS, IP, MAIL, URI, DIRECTORY, OTHER], ids=lambda one: type(one).__name__)
def test_node_client_signer_takes_no_alternative_name(name: x509.GeneralName) -> None:
    assert "alternative names" in node_client_refusal(facts_of(Wanted(NODE, [name]).encoded()), CLIENT)


@cases(
    ("names", "fits"),
    [
        ([DNS], True),
        ([IP], True),
        ([DNS, IP], True),
        (None, False),
        ([], False),
        ([MAIL], False),
        ([URI], False),
        ([DNS, MAIL], False),
        ([IP, URI], False),
        ([DNS, DIRECTORY], False),
        ([DNS, OTHER], False),
    ],
)
def test_serving_signer_takes_dns_names_and_addresses(names: Names | None, fits: bool) -> None:
    try:
        facts = facts_of(Wanted(NODE, names).encoded())
    except UnfitRequest:
        assert names == []  # an empty extension is malformed
    else:
        assert (serving_refusal(facts, SERVING) == "") is fits


def test_key_encipherment_may_be_missing_by_the_other_rule() -> None:
    rules = Rules(node_usages="two-or-three")
    node, serving = facts_of(Wanted(NODE).encoded()), facts_of(Wanted(NODE, [DNS]).encoded())
    for usages, fits in ((CLIENT, True), (CLIENT[1:], True), (CLIENT[2:], False), (SERVING, False)):
        assert (node_client_refusal(node, usages, rules) == "") is fits
    without = ["digital signature", "server auth"]
    assert serving_refusal(serving, without, rules) == "" != serving_refusal(serving, without)
    assert serving_refusal(serving, SERVING, rules) == ""
    by_name = signer_rules(CLUSTER, rules)
    assert by_name[CLUSTER.node_client_signer](node, CLIENT[1:]) == ""
