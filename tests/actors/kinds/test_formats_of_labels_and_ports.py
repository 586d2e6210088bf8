"""Labels of services, wildcards, port names, domain-prefixed paths."""

from __future__ import annotations

from rewound.actors.kinds.validation import (
    collect,
    dns_1035_label,
    domain_prefixed_path,
    name_is_1035_label,
    port_name,
    wildcard_subdomain,
)
from tests.actors.kinds.definitions import causes_of
from tests.cases import cases

DNS_1035_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def test_dns_1035_labels() -> None:
    assert dns_1035_label("a-1") == []
    assert dns_1035_label("1a") == dns_1035_label("a.b") == dns_1035_label("") == [DNS_1035_LABEL]
    assert dns_1035_label("a" * 64) == ["must be no more than 63 characters"]
    assert name_is_1035_label("a-", True) == []
    assert name_is_1035_label("a-", False) == [DNS_1035_LABEL]


def test_wildcard_subdomains() -> None:
    assert wildcard_subdomain("*.example.com") == []
    for invalid in ("*", "*.*.com", "a*.com", "example.com", "*.Example.com"):
        assert len(wildcard_subdomain(invalid)) == 1
    assert wildcard_subdomain("*." + "a." * 126 + "a")[0] == "must be no more than 253 characters"


@cases(
    ("name", "expected"),
    [
        ("http", []),
        ("p-1", []),
        ("a" * 16, ["must be no more than 15 characters"]),
        ("Http", ["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"]),
        ("80", ["must contain at least one letter (a-z)"]),
        ("a--b", ["must not contain consecutive hyphens"]),
        ("-a", ["must not begin or end with a hyphen"]),
        ("a-", ["must not begin or end with a hyphen"]),
        (
            "",
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
            ],
        ),
    ],
)
def test_port_names(name: str, expected: list[str]) -> None:
    assert port_name(name) == expected


def test_domain_prefixed_paths() -> None:
    assert collect(domain_prefixed_path, "f", "example.com/a-b/c") == []
    assert causes_of(collect(domain_prefixed_path, "f", "")) == [("f", "Required value")]
    plain = 'must be a domain-prefixed path (such as "acme.io/foo")'
    for invalid in ("example.com", "example.com/", "/a"):
        assert causes_of(collect(domain_prefixed_path, "f", invalid)) == [
            ("f", f'Invalid value: "{invalid}": {plain}')
        ]
    assert [
        message.split(":")[1] for _, message in causes_of(collect(domain_prefixed_path, "f", "A/a b"))
    ] == [
        ' "A"',
        ' "a b"',
    ]
