"""The protobuf document of OpenAPI 2.0 has the content of the JSON one, by the field numbers of openapi.v2.Document."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import orjson
import pytest

from tests.gateway.describe.reader import encoded_version_2, version_2

Fields = dict[int, list[Any]]


def fields(raw: bytes) -> Fields:
    """The values of a message by field number: bytes or integers."""
    found: Fields = defaultdict(list)
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        value, at = _varint(raw, at)
        if tag & 7 == 2:
            found[tag >> 3].append(raw[at : at + value])
            assert at + value <= len(raw)
            at += value
        else:
            assert tag & 7 == 0
            found[tag >> 3].append(value)
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (raw[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if raw[at - 1] < 0x80:
            return value, at


def named(pairs: list[bytes]) -> dict[str, Fields]:
    return {pair[1][0].decode(): fields(pair[2][0]) for pair in map(fields, pairs)}


def anything(values: list[bytes]) -> list[Any]:
    return [orjson.loads(fields(value)[2][0]) for value in values]


def extensions(pairs: list[bytes]) -> dict[str, Any]:
    return {name: orjson.loads(value[2][0]) for name, value in named(pairs).items()}


def schema(read: Fields) -> dict[str, Any]:
    found: dict[str, Any] = extensions(read[31])
    for number, name in ((1, "$ref"), (2, "format"), (4, "description")):
        if number in read:
            found[name] = read[number][0].decode()
    if 5 in read:
        (found["default"],) = anything(read[5])
    if 19 in read:
        found["required"] = [text.decode() for text in read[19]]
    if 20 in read:
        found["enum"] = anything(read[20])
    if 22 in read:
        found["type"] = fields(read[22][0])[1][0].decode()
    for number, name in ((21, "additionalProperties"), (23, "items")):
        if number in read:
            found[name] = schema(fields(fields(read[number][0])[1][0]))
    if 25 in read:
        found["properties"] = {name: schema(one) for name, one in named(fields(read[25][0])[1]).items()}
    return found


def parameter(raw: bytes) -> dict[str, Any]:
    item = fields(fields(raw)[1][0])
    if 1 in item:
        return {"name": fields(item[1][0])[2][0].decode(), "in": "body"}
    ((number, (inner,)),) = fields(item[2][0]).items()
    read, type_ = fields(inner), {3: 6, 4: 5}[number]
    return {"name": read[4][0].decode(), "in": read[2][0].decode(), "type": read[type_][0].decode()}


@pytest.fixture(scope="module")
def document() -> Fields:
    return fields(encoded_version_2("kubernetes", json=False))


def test_definitions_equal_those_of_json(document: Fields) -> None:
    read = {name: schema(one) for name, one in named(fields(document[9][0])[1]).items()}
    assert read == version_2("kubernetes")["definitions"]


def test_operations_equal_those_of_json(document: Fields) -> None:
    paths = named(fields(document[8][0])[2])
    methods = {2: "get", 3: "put", 4: "post", 5: "delete", 6: "options", 7: "head", 8: "patch"}
    described = version_2("kubernetes")["paths"]
    assert paths.keys() == described.keys()
    for path, read in paths.items():
        assert {methods[number] for number in read if number in methods} == described[path].keys() - {
            "parameters"
        }
        for number, method in methods.items():
            for raw in read.get(number, ()):
                _same(fields(raw), described[path][method])


def _same(read: Fields, described: dict[str, Any]) -> None:
    assert read[5][0].decode() == described["operationId"]
    assert [media.decode() for media in read[6]] == described["produces"]
    assert [media.decode() for media in read[7]] == described.get("consumes", [])
    assert extensions(read[13]) == {key: value for key, value in described.items() if key[:2] == "x-"}
    wanted = [
        {k: v for k, v in one.items() if k in ("name", "in", "type")}
        for one in described.get("parameters", ())
    ]
    assert [parameter(raw) for raw in read[8]] == wanted
    assert named(fields(read[9][0])[1]).keys() == described["responses"].keys()


def test_top_level_fields_equal_those_of_json(document: Fields) -> None:
    assert document[1] == [b"2.0"]
    assert fields(document[2][0])[1] == [b"Rewound"]
    assert named(fields(document[13][0])[1]).keys() == {"BearerToken"}
    assert named(fields(document[12][0])[1]).keys() == {"BearerToken"}
