"""Bodies in CBOR: what is accepted, and the texts of Kubernetes for the rest (compared with kube-apiserver 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import TooLarge
from rewound.actors.kinds.apps import CONTROLLER_REVISION
from rewound.actors.kinds.core.config_map import CONFIG_MAP
from rewound.gateway.wire.cbor.reader import NotCbor, read_custom, read_object, read_values
from tests.cases import cases
from tests.gateway.wire.cbor.items import Raw, item, pairs, tagged

TYPE = {"apiVersion": "v1", "kind": "ConfigMap"}
MOST = 1000


def read(raw: bytes) -> Any:
    return read_object(CONFIG_MAP, "v1.ConfigMap", raw, MOST).value


def config_map(**fields: Any) -> bytes:
    return item({**TYPE, **fields})


def refusal(raw: bytes) -> NotCbor:
    with pytest.raises(NotCbor) as caught:
        read(raw)
    return caught.value


@cases(
    ("sent", "found"),
    [
        ({"a": "b"}, {"a": "b"}),
        ({b"a": b"b"}, {"a": "b"}),
        (Raw(b"\xbf\x7f\x61a\x61b\xff\x5f\x411\x412\xff\xff"), {"ab": "12"}),
        ({"a": tagged(22, b"hello")}, {"a": "aGVsbG8="}),
        ({"a": tagged(23, b"hello")}, {"a": "68656c6c6f"}),
        ({"a": tagged(21, b"hel\xff\xfelo")}, {"a": "aGVs__5sbw"}),
        (tagged(22, {"a": b"hello"}), {"a": "aGVsbG8="}),
        ({"a": tagged(22, "hello")}, {"a": "hello"}),
        ({"a": tagged(100, "hello")}, {"a": "hello"}),
        ({"a": tagged(0, "x")}, {"a": "x"}),
        ({"a": b"\xff\xfe"}, {"a": "\ufffd\ufffd"}),
        ({None: "x"}, {"": "x"}),
        (None, None),
    ],
)
def test_texts(sent: Any, found: Any) -> None:
    assert read(config_map(data=sent)) == {**TYPE, "data": found}
    assert read(b"\xd9\xd9\xf7" + config_map(data=sent)) == {**TYPE, "data": found}


@cases(
    ("sent", "found"),
    [
        (b"aGVsbG8=", "aGVsbG8="),
        (tagged(22, b"hello"), "aGVsbG8="),
        (tagged(23, b"hello"), "aGVsbG8="),
        ([1, 2, 3], "AQID"),
    ],
)
def test_bytes(sent: Any, found: str) -> None:
    assert read(config_map(binaryData={"a": sent}))["binaryData"] == {"a": found}


TYPE_ERROR = "cbor: cannot unmarshal {} into Go struct field v1.ConfigMap.{} of type {}"


@cases(
    ("fields", "text"),
    [
        ({"data": {"a": 5}}, TYPE_ERROR.format("positive integer", "data", "string")),
        ({"data": {"a": 5.5}}, TYPE_ERROR.format("primitives", "data", "string")),
        ({"data": {"a": {}}}, TYPE_ERROR.format("map", "data", "string")),
        ({"data": []}, TYPE_ERROR.format("array", "data", "map[string]string")),
        ({"data": {-1: "x"}}, TYPE_ERROR.format("negative integer", "data", "string")),
        ({"data": {"a": tagged(1, 5)}}, TYPE_ERROR.format("positive integer", "data", "string")),
        (
            {"data": {"a": tagged(0, 5)}},
            "cbor: tag number 0 must be followed by text string, got positive integer",
        ),
        ({"binaryData": {"a": "eA=="}}, TYPE_ERROR.format("UTF-8 text string", "binaryData", "[]uint8")),
        (
            {"binaryData": {"a": b"hello"}},
            "cbor: failed to decode base64 from byte string: illegal base64 data at input byte 4",
        ),
        (
            {"binaryData": {"a": [300]}},
            TYPE_ERROR.format("positive integer", "binaryData", "uint8 (300 overflows uint8)"),
        ),
        ({"immutable": 1}, TYPE_ERROR.format("positive integer", "immutable", "bool")),
        ({"metadata": {"generation": 1.0}}, TYPE_ERROR.format("primitives", "metadata", "int64")),
        (
            {"metadata": {"generation": 1 << 63}},
            TYPE_ERROR.format("positive integer", "metadata", "int64 (9223372036854775808 overflows int64)"),
        ),
        (
            {"metadata": {"generation": -(1 << 63) - 1}},
            TYPE_ERROR.format(
                "negative integer", "metadata", "int64 (-9223372036854775809 overflows Go's int64)"
            ),
        ),
        (
            {"data": pairs(("a", "1"), (b"a", "2"))},
            'cbor: found duplicate map key "a" at map element index 1',
        ),
        (
            {"metadata": pairs(("name", "1"), ("name", "2"))},
            'cbor: found duplicate map key "name" at map element index 1',
        ),
        ({"data": {"a": Raw(b"\x62\xff\xfe")}}, "cbor: invalid UTF-8 string"),
        (
            {"data": Raw(b"\xf7")},
            "cbor: data item of cbor type primitives is not accepted by protocol: simple value 23 is not recognized",
        ),
    ],
)
def test_wrong_values(fields: dict[str, Any], text: str) -> None:
    error = refusal(config_map(**fields))
    assert (str(error), error.is_recognizable) == (text, True)


@cases(
    ("raw", "text"),
    [
        (b"", "EOF"),
        (b"\xa1", "unexpected EOF"),
        (config_map()[:-1], "unexpected EOF"),
        (config_map() + b"\x00", "cbor: 1 bytes of extraneous data starting at index 30"),
        (
            b"\x80",
            "cbor: cannot unmarshal array into Go value of type v1.TypeMeta "
            "(cannot decode CBOR array to struct without toarray option)",
        ),
        (b"\x05", "cbor: cannot unmarshal positive integer into Go value of type v1.TypeMeta"),
        (
            item({"kind": 5}),
            "cbor: cannot unmarshal positive integer into Go struct field v1.TypeMeta.kind of type string",
        ),
        (pairs(("kind", "a"), ("kind", "b")), 'cbor: found duplicate map key "kind" at map element index 1'),
        (b"\xff", 'cbor: unexpected "break" code'),
        (b"\xbf\x61a\xff", 'cbor: unexpected "break" code'),
        (b"\x1c", "cbor: invalid additional information 28 for type positive integer"),
        (b"\xf8\x18", "cbor: invalid simple value 24 for type primitives"),
        (
            b"\x7b" + b"\xff" * 8,
            "cbor: UTF-8 text string length 18446744073709551615 is too large, causing integer overflow",
        ),
        (b"\x7b\x7f" + b"\xff" * 7, "unexpected EOF"),
        (b"\x9b\x7f" + b"\xff" * 7, "cbor: exceeded max number of elements 2147483647 for CBOR array"),
        (
            b"\x9b" + b"\xff" * 8,
            "cbor: array length 18446744073709551615 is too large, it would cause integer overflow",
        ),
        (b"\x9a\x7f\xff\xff\xff", "unexpected EOF"),
        (b"\xba\x7f\xff\xff\xff", "cbor: exceeded max number of key-value pairs 2097152 for CBOR map"),
        (b"\x81" * 10_001 + b"\x00", "cbor: exceeded max nested level 10000"),
        (b"\xd8\x64" * 10_002 + b"\x00", "cbor: exceeded max nested level 10000"),
        (b"\x7f\x41a\xff", "cbor: wrong element type byte string for indefinite-length UTF-8 text string"),
        (
            b"\x7f\x7f\x61a\xff\xff",
            "cbor: indefinite-length UTF-8 text string chunk is not definite-length",
        ),
        (
            b"\xf9\x7e\x00",
            "cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN",
        ),
        (
            item(float("-inf")),
            "cbor: data item of cbor type primitives is not accepted by protocol: floating-point infinity",
        ),
        (tagged(2, b"1"), "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
    ],
)
def test_documents_without_a_type(raw: bytes, text: str) -> None:
    with pytest.raises(NotCbor) as caught:
        read_object(CONFIG_MAP, "v1.ConfigMap", raw, 50_000)
    assert (str(caught.value), caught.value.is_recognizable) == (text, False)


def test_unknown_fields_are_skipped_and_the_outermost_is_reported() -> None:
    nested = Raw(b"\x81" * 900 + b"\x00")
    metadata = {"name": "x", "bar": pairs(("a", 1), ("a", 2))}
    found = read_object(CONFIG_MAP, "v1.ConfigMap", config_map(metadata=metadata, foo=nested, data={}), MOST)
    assert found.value == {**TYPE, "metadata": {"name": "x"}, "data": {}}
    assert found.problems == ("cbor: found unknown field at map element index 3",)
    found = read_object(CONFIG_MAP, "v1.ConfigMap", config_map(metadata=metadata), MOST)
    assert found.problems == ("cbor: found unknown field at map element index 1",)


def test_values_of_any_type() -> None:
    values = {"a": b"x", "b": tagged(22, b"hello"), "c": 1.5, "d": [1, None, True], "e": {}}
    times = {"t": tagged(1, 5), "u": tagged(1, 0.5), "v": tagged(0, "2024-01-02T03:04:05Z")}
    assert read_values(item({**values, **times}), MOST) == {
        "a": "x",
        "b": "aGVsbG8=",
        "c": 1.5,
        "d": [1, None, True],
        "e": {},
        "t": "1970-01-01T00:00:05Z",
        "u": "1970-01-01T00:00:00.500000Z",
        "v": "2024-01-02T03:04:05Z",
    }
    for wrong, text in (
        ({5: 1}, "cbor: cannot unmarshal positive integer into Go value of type string"),
        (
            {"a": 1 << 63},
            "cbor: cannot unmarshal positive integer into Go value of type int64 "
            "(9223372036854775808 overflows Go's int64)",
        ),
        (
            {"a": tagged(0, "x")},
            'cbor: cannot set x for time.Time: parsing time "x" as "2006-01-02T15:04:05Z07:00": '
            'cannot parse "x" as "2006"',
        ),
        ({"a": Raw(b"\x81" * 900 + b"\x00")}, "exceeded max depth: documents may have 600 levels"),
    ):
        with pytest.raises(NotCbor) as caught:
            read_custom(item(wrong), MOST)
        assert text in str(caught.value)


def test_values_inside_an_object_that_are_stored_as_sent() -> None:
    struct = CONTROLLER_REVISION
    with pytest.raises(NotCbor) as caught:
        read_object(struct, "v1.ControllerRevision", item({"data": pairs(("a", 1), ("a", 2))}), MOST)
    assert str(caught.value) == (
        "failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR: "
        'cbor: found duplicate map key "a" at map element index 1'
    )


@cases(
    "raw",
    [
        b"\xa1\x61a\x9a\x00\x30\x00\x00" + b"\x80" * (3 << 20),
        b"\xa1\x61a\x5f" + b"\x40" * (3 << 20) + b"\xff",
        b"\xa1\x61a\x99\xff\xff" + (b"\xd8\x64" * 20 + b"\x00") * 65535,
    ],
)
def test_documents_of_many_items_are_refused_early(raw: bytes) -> None:
    with pytest.raises(TooLarge, match="the object has more than 1000 values"):
        read_values(raw, MOST)
