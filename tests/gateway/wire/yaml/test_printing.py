"""YAML of responses."""

from typing import Any

from rewound.gateway.wire.yaml import dump, from_json
from tests.cases import cases


def test_object_is_written_in_block_style() -> None:
    value = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "name": "a",
            "creationTimestamp": "2022-10-01T12:00:00Z",
            "managedFields": [
                {
                    "manager": "me",
                    "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
                    "time": "2022-10-01T12:00:00Z",
                }
            ],
            "finalizers": [],
        },
        "data": {"num": "1", "k": "two\nlines", "end": "one\n", "empty": ""},
        "immutable": True,
    }
    assert dump(value).decode() == (
        "apiVersion: v1\n"
        "data:\n"
        '  empty: ""\n'
        "  end: |\n"
        "    one\n"
        "  k: |-\n"
        "    two\n"
        "    lines\n"
        '  num: "1"\n'
        "immutable: true\n"
        "kind: ConfigMap\n"
        "metadata:\n"
        '  creationTimestamp: "2022-10-01T12:00:00Z"\n'
        "  finalizers: []\n"
        "  managedFields:\n"
        "  - fieldsV1:\n"
        "      f:data:\n"
        "        .: {}\n"
        "        f:k: {}\n"
        "    manager: me\n"
        '    time: "2022-10-01T12:00:00Z"\n'
        "  name: a\n"
    )


def test_status_is_written_in_block_style() -> None:
    body = b'{"kind":"Status","metadata":{},"message":"configmaps \\"nope\\" not found","code":404}'
    assert from_json(body) == b'code: 404\nkind: Status\nmessage: configmaps "nope" not found\nmetadata: {}\n'


@cases(
    "text",
    [
        "",
        "1",
        "-1",
        "1_0",
        "0x1f",
        "0b1",
        "017",
        "08",
        "1.5",
        ".5",
        "1e3",
        "~",
        "null",
        "yes",
        "N",
        "on",
        "true",
        "12:30",
        "2020-01-01",
        "2020-1-2 3:4:5",
        "2020-01-01T00:00:00.5+01:00",
        ".inf",
        "-.Inf",
        ".nan",
        "<<",
        "7" * 1001,
    ],
)
def test_text_that_looks_like_another_type_is_quoted(text: str) -> None:
    assert dump({"a": text}) == f'a: "{text}"\n'.encode()


@cases("text", ["a", "yEs", "1.2.3", "0x", "10.0.0.1", "2020-13-01", "f:data", "v1", "café", "12e4567"])
def test_plain_text_stays_plain(text: str) -> None:
    assert dump({"a": text}) == f"a: {text}\n".encode()


@cases(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-5, "-5"),
        (2.0, "2"),
        (0.1, "0.1"),
        (-0.0001, "-0.0001"),
        (0.00001, "1e-05"),
        (123456.5, "123456.5"),
        (1234567.5, "1.2345675e+06"),
        (1e300, "1e+300"),
        (-2.5e-7, "-2.5e-07"),
        (2.0**64, "1.8446744073709552e+19"),
    ],
)
def test_numbers_booleans_and_null_are_written_plain(value: Any, text: str) -> None:
    assert dump({"a": value}) == f"a: {text}\n".encode()


def test_keys_that_look_like_another_type_are_quoted() -> None:
    assert dump({"1": "a", "y": "b"}) == b'"1": a\n"y": b\n'


def test_keys_are_sorted_in_natural_order() -> None:
    keys = ["b", "a10", "a2", "a02", "a", "A", "a_b", "ab", "a-b", "10", "9", "a" + "1" * 5000]
    printed = [line.split(":")[0].strip('"? ') for line in dump(dict.fromkeys(keys, 0)).decode().splitlines()]
    order = [key for key in printed if key]
    assert order == ["9", "10", "A", "a", "a-b", "a_b", "a2", "a02", "a10", "a" + "1" * 5000, "ab", "b"]
