"""Malformed, deep, huge and strangely encoded bodies are refused or decoded, without harm."""

from __future__ import annotations

import pytest

from rewound.actors.golang.json import DEEPEST
from rewound.actors.kinds.schema.decoder import NotDecodable
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

DEEP = 100_000


@cases(
    "raw",
    [
        b"",
        b"   ",
        b"[]",
        b'[{"metadata":{}}]',
        b'"a"',
        b"7",
        b"null",
        b"{",
        b'{"a":1}x',
        b"{'a':1}",
        b'{"value":NaN}',
        b'{"value":Infinity}',
        b'{"value":01}',
        b'{"data":{"k":"a\nb"}}',
        b"\xff\xfe",
    ],
)
def test_body_that_is_no_json_object_is_refused(kinds: Definitions, raw: bytes) -> None:
    with pytest.raises(NotDecodable, match="json parse error"):
        kinds["priorityclasses"].schema.decode_json(raw)


@cases(
    "raw",
    [
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b"[" * DEEP,
        b'{"data":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"metadata":{"managedFields":[{"fieldsV1":' + b'{"a":' * DEEP + b"{}" + b"}" * DEEP + b"}]}}",
    ],
)
def test_deep_documents_are_refused(kinds: Definitions, raw: bytes) -> None:
    with pytest.raises(NotDecodable, match="exceeded max depth"):
        kinds["configmaps"].schema.decode_json(raw)


def test_owned_fields_may_nest_as_deep_as_other_documents(kinds: Definitions) -> None:
    def body(depth: int) -> bytes:
        return (
            b'{"metadata":{"managedFields":[{"fieldsV1":' + b'{"a":' * depth + b"{}" + b"}" * depth + b"}]}}"
        )

    kinds["configmaps"].schema.decode_json(body(DEEPEST - 10))
    with pytest.raises(NotDecodable, match="exceeded max depth"):
        kinds["configmaps"].schema.decode_json(body(DEEPEST))


def test_numbers_in_free_form_values_have_64_bits(kinds: Definitions) -> None:
    def owned(number: bytes) -> object:
        raw = b'{"metadata":{"managedFields":[{"fieldsV1":{"a":%s}}]}}' % number
        decoded = kinds["configmaps"].schema.decode_json(raw)
        return decoded.object["metadata"]["managedFields"][0]["fieldsV1"]["a"]

    assert owned(b"18446744073709551615") == 2**64 - 1
    assert owned(b"1e2") == 100.0
    assert owned(b"9" * 30) == 1e30
    with pytest.raises(NotDecodable, match="out of range"):
        owned(b"1e999")


@cases(
    ("raw", "text"),
    [
        (b'{"data":{"k":"a\xffb"}}', "a\ufffdb"),
        (b'{"data":{"k":"\xe2\x82"}}', "\ufffd\ufffd"),
        (b'{"data":{"k":"\\ud800x"}}', "\ufffdx"),
        (b'{"data":{"k":"\\udc00\\ud83d\\ude00"}}', "\ufffd\U0001f600"),
        (b'{"data":{"k":"\\\\ud800"}}', "\\ud800"),
        ('{"data":{"k":"\u00fc\u4e16"}}'.encode(), "\u00fc\u4e16"),
    ],
)
def test_invalid_unicode_is_replaced(kinds: Definitions, raw: bytes, text: str) -> None:
    assert kinds["configmaps"].schema.decode_json(raw).object["data"] == {"k": text}
