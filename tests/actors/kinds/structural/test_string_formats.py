"""String formats that schemas may name, as v1.25 understands them."""

from __future__ import annotations

import pytest

from rewound.actors.cel.go_regexp import InvalidExpression
from rewound.actors.kinds.structural.formats import compile_pattern, format_check
from rewound.actors.runtime.time_limit import NeedsThread, run_limited
from tests.cases import cases


@cases(
    ("name", "valid", "invalid"),
    [
        ("date", ["2020-02-29", "0000-01-01"], ["2020-02-30", "2020-1-1", "", "2020-01-01T00:00:00Z"]),
        (
            "date-time",
            ["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5z", "2020-01-01T23:59:59+01:00"],
            ["2020-01-01", "2020-01-01 00:00:00Z", "2020-01-01T24:00:00Z", "2020-01-01T00:00:00"],
        ),
        ("duration", ["1h30m", "5 days", "22 ns", "1w", "0"], ["5", "nope", "", "5 lightyears"]),
        ("ipv4", ["1.2.3.4", "01.2.3.4"], ["1.2.3", "1.2.3.256", "::1", ""]),
        ("ipv6", ["::1", "::ffff:1.2.3.4"], ["1.2.3.4", "fe80::1%eth0", ":"]),
        ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08a"]),
        (
            "mac",
            ["01:02:03:04:05:06", "01-02-03-04-05-06", "0102.0304.0506"],
            ["01:02:03:04:05", "01:02-03:04:05:06"],
        ),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"], ["12", ""]),
        ("uuid4", ["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
        ("byte", ["YQ==", "YWJj"], ["", "!", "YQ", "YQ=\n="]),
        ("hostname", ["a", "a.example.com", "münchen.de"], ["-a", "a_b", "a" * 64 + ".com", ""]),
        ("email", ["a@b.c", "A Name <a@b.c>"], ["a", "@b", "a@", "a b@c.d"]),
        ("uri", ["http://a/b?c", "/a/b", "urn:x"], ["a/b", "", "http://a b/", "http://[::1", "%zz"]),
        ("hexcolor", ["#fff", "ABCDEF"], ["#ffff", "red"]),
        ("rgbcolor", ["rgb(0,10,255)"], ["rgb(0,10,256)", "rgb(0,10)"]),
        ("isbn10", ["0321751043", "0-321-75104-3"], ["0321751044"]),
        ("isbn13", ["978-0321751041"], ["978-0321751042"]),
        ("isbn", ["0321751043", "978-0321751041"], ["1"]),
        ("creditcard", ["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
        ("ssn", ["123-45-6789"], ["123456789", "123-45-67890"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f1f77bcf86cd79943901"]),
        ("password", ["", "x"], []),
    ],
)
def test_formats(name: str, valid: list[str], invalid: list[str]) -> None:
    check = format_check(name)
    assert check is not None
    assert [text for text in valid if not check(text)] == []
    assert [text for text in invalid if check(text)] == []


@cases("text", ["a@b(c)", '"ab"@c.d', "é@b.c", 1000 * "(c)" + "a@b"])
def test_unusual_address_needs_a_thread(text: str) -> None:
    """The header parser takes milliseconds for some of them."""
    check = format_check("email")
    assert check is not None
    with pytest.raises(NeedsThread):
        check(text)
    assert run_limited(check, text) in (True, False)


@cases("name", ["", "int32", "int64", "double", "my-own", "regex"])
def test_other_formats_are_not_checked(name: str) -> None:
    assert format_check(name) is None


@cases(
    ("pattern", "wrong"),
    [
        ("(", "missing closing ): `(`"),
        ("[", "missing closing ]: `[`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(?<=a)b", "invalid or unsupported Perl syntax: `(?<`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("a)", "unexpected ): `a)`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("(?<name>a)", "invalid or unsupported Perl syntax: `(?<`"),
        (r"\p{No}\p{Such}", r"invalid character class range: `\p{Such}`"),
    ],
)
def test_invalid_patterns_have_the_texts_of_go(pattern: str, wrong: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        compile_pattern(pattern, named=False)
    assert str(refused.value) == f"error parsing regexp: {wrong}"
