from __future__ import annotations

import pytest

from rewound.actors.errors import BadRequest
from rewound.actors.selectors import FieldSelector
from tests.cases import cases


@cases(
    ("text", "requirements"),
    [
        ("", []),
        (",,", []),
        ("metadata.name=a", [("metadata.name", "=", "a")]),
        ("metadata.name==a", [("metadata.name", "=", "a")]),
        ("type!=Opaque", [("type", "!=", "Opaque")]),
        ("spec.nodeName=", [("spec.nodeName", "=", "")]),
        ("b=2,a=1", [("a", "=", "1"), ("b", "=", "2")]),
        ("a=1,a=1", [("a", "=", "1")]),
        ("a=1,a=2", [("a", "=", "1"), ("a", "=", "2")]),
        (r"a=x\,y\=z\\", [("a", "=", r"x,y=z" + "\\")]),
        ("=x", [("", "=", "x")]),
        (" a = b ", [(" a ", "=", " b ")]),
    ],
)
def test_valid_selector_is_parsed(text: str, requirements: list[tuple[str, str, str]]) -> None:
    assert FieldSelector.parse(text).requirements == tuple(requirements)


@cases(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (
            "metadata.name in (a)",
            "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
        ),
        ("metadata.name=a,b", "invalid selector: 'metadata.name=a,b'; can't understand 'b'"),
        (r"metadata.name=a\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a!==b", "invalid field selector: unescaped character in value: 61"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_invalid_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        FieldSelector.parse(text)
    assert refused.value.message == message


def test_missing_field_counts_as_empty() -> None:
    assert FieldSelector.parse("spec.nodeName=").matches({})
    assert not FieldSelector.parse("spec.nodeName!=").matches({})
    assert FieldSelector.parse("spec.nodeName!=a").matches({})


def test_exact_returns_the_required_value() -> None:
    selector = FieldSelector.parse("metadata.name=a,type!=b")
    assert selector.exact("metadata.name") == "a"
    assert selector.exact("type") is None
    assert selector.exact("other") is None


@pytest.mark.parametrize("text", [r"a=x\,y\=z\\,b!=2", ""])
def test_printed_selector_parses_to_the_same_selector(text: str) -> None:
    assert str(FieldSelector.parse(text)) == text
