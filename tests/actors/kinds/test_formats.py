"""Names, keys, label values, addresses: valid ones, and the error texts of invalid ones."""

from __future__ import annotations

from collections.abc import Callable

from rewound.actors.kinds import validation
from tests.cases import cases

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    " with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME', "
    " or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
LONG = "must be no more than 63 characters"

CASES: list[tuple[Callable[[str], list[str]], str, list[str]]] = [
    (validation.dns_label, "a-1", []),
    (validation.dns_label, "a" * 63, []),
    (validation.dns_label, "a" * 64, [LONG]),
    (validation.dns_label, "a.b", [LABEL]),
    (validation.dns_label, "a\n", [LABEL]),
    (validation.dns_subdomain, "a.b-c.0", []),
    (validation.dns_subdomain, "a" * 253, []),
    (validation.dns_subdomain, "a" * 254, ["must be no more than 253 characters"]),
    (validation.dns_subdomain, "a..b", [SUBDOMAIN]),
    (validation.dns_subdomain, "Ü" * 127, ["must be no more than 253 characters", SUBDOMAIN]),
    (validation.qualified_name, "example.com/A_b.c-d", []),
    (validation.qualified_name, "bad key", [f"name part {QUALIFIED}"]),
    (validation.qualified_name, "/k", ["prefix part must be non-empty"]),
    (validation.qualified_name, "Ex.com/k", [f"prefix part {SUBDOMAIN}"]),
    (validation.qualified_name, "k" * 64, [f"name part {LONG}"]),
    (validation.qualified_name, "", ["name part must be non-empty", f"name part {QUALIFIED}"]),
    (
        validation.qualified_name,
        "a/b/c",
        [
            f"a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ],
    ),
    (validation.label_value, "", []),
    (validation.label_value, "V_1.x-Y", []),
    (validation.label_value, "-v", [VALUE]),
    (validation.label_value, "v" * 64, [LONG]),
    (validation.config_key, ".hidden", []),
    (validation.config_key, "a..b", []),
    (validation.config_key, "bad key", [KEY]),
    (validation.config_key, "", [KEY]),
    (validation.config_key, ".", ["must not be '.'"]),
    (validation.config_key, "..", ["must not be '..'"]),
    (validation.config_key, "...", ["must not start with '..'"]),
    (validation.config_key, "k" * 254, ["must be no more than 253 characters"]),
    (validation.ip_address, "10.0.0.1", []),
    (validation.ip_address, "010.0.0.1", []),
    (validation.ip_address, "2001:db8::1", []),
    (
        validation.ip_address,
        "fe80::1%eth0",
        ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
    ),
    (validation.ip_address, "10.0.0.256", ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
    (validation.ordinary_ip, "x", ["must be a valid IP address"]),
    (validation.ordinary_ip, "0.0.0.0", ["may not be unspecified (0.0.0.0)"]),
    (validation.ordinary_ip, "::1", ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
    (validation.ordinary_ip, "::ffff:127.0.0.1", ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
    (
        validation.ordinary_ip,
        "169.254.1.1",
        ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"],
    ),
    (
        validation.ordinary_ip,
        "224.0.0.5",
        ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"],
    ),
]


@cases(("check", "value", "texts"), CASES)
def test_format_check_returns_error_texts(
    check: Callable[[str], list[str]], value: str, texts: list[str]
) -> None:
    assert check(value) == texts


@cases(
    ("check", "name", "prefix", "count"),
    [
        (validation.name_is_subdomain, "web-", True, 0),
        (validation.name_is_subdomain, "web-", False, 1),
        (validation.name_is_subdomain, "-", True, 1),
        (validation.name_is_label, "a.b-", True, 1),
        (validation.name_is_path_segment, "Any:thing", False, 0),
        (validation.name_is_path_segment, "a/b%", False, 2),
        (validation.name_is_path_segment, "..", False, 1),
        (validation.name_is_path_segment, "..", True, 0),
    ],
)
def test_generate_name_prefix_is_checked_as_if_letters_followed(
    check: validation.CheckName, name: str, prefix: bool, count: int
) -> None:
    assert len(check(name, prefix)) == count


def test_parse_network_accepts_cidr_only() -> None:
    assert str(validation.parse_network("10.1.0.0/16")) == "10.1.0.0/16"
    assert all(
        validation.parse_network(text) is None
        for text in ("10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/", "::/0x")
    )
