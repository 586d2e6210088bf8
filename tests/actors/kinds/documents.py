"""Random documents generated from declarations: mostly valid, sometimes invalid as clients' documents are.

One seed determines each document, because drawing every leaf with hypothesis takes longer than decoding a thousand.
"""

from __future__ import annotations

from random import Random
from typing import Any

from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    DOUBLE,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    INTEGER_RANGES,
    MICRO_TIME,
    QUANTITY,
    STRING,
    TIME,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    StructOr,
    Type,
)

WORDS = ("", "a", "b", ":", '":', "x y", "ü", "\x07", "\\", "long" * 20, "<&>")
JUNK: tuple[Any, ...] = (None, "", "5", 0, 1, -1, 1.5, 2**40, True, False, [], {}, ["a"], {"a": "b"})
SCALARS: dict[Scalar, tuple[Any, ...]] = {
    STRING: WORDS,
    BOOL: (True, False),
    INT32: (0, 1, -1, 7, *INTEGER_RANGES[INT32], 2**31),
    INT64: (0, 1, -1, 7, *INTEGER_RANGES[INT64], 2**63),
    BYTES: ("", "AA==", "AB==", "dg==", "YWI=", "dg==", "YWI=", "AAAA", "AAAA\nAAAA", "AAA"),
    TIME: (
        "2020-01-02T03:04:05Z",
        "2020-02-29T00:00:00Z",
        "2020-07-31T00:00:00Z",
        "2020-12-31T23:59:59+02:00",
        "2020-01-02T03:04:05.5Z",
        "0001-01-01T00:00:00Z",
        "2021-02-29T00:00:00Z",
    ),
    MICRO_TIME: (
        "2020-01-02T03:04:05.000006Z",
        "2020-09-30T03:04:05.100000Z",
        "2020-01-02T03:04:05.000000-07:00",
    ),
    INT_OR_STRING: (0, 1, -1, 8080, "http", "", "50%", 2**31),
    QUANTITY: ("0", "1", "100m", "1024Mi", "1Gi", "0.5", "1e3", "999k", "1000", "-1", 4),
    ANY_JSON: ({}, {"a": [1, "two", None, 1.5]}, [], "", 0, {"b": {"b": 1, "a": {}}}),
    DOUBLE: (0, 1, -1, 1.5, 2.0, 1e30, 10**20, True),
    FIELDS_V1: ({}, {"f:data": {".": {}, "f:k": {}}}, {"f:b": {}, "f:a": {}}, {"f:a": 1}),
}


# Values that do not decode.
UNDECODABLE: tuple[Any, ...] = (2**31, 2**63, "AAA", "2021-02-29T00:00:00Z")
VALID = {
    scalar: tuple(value for value in values if value not in UNDECODABLE or (scalar, value) == (INT64, 2**31))
    for scalar, values in SCALARS.items()
}


class RandomDocuments:
    """Generates documents; one in `junk_one_in` values is junk, and one is null.

    With `valid` all values decode: random pods are so large that nearly each would have an undecodable value.
    """

    def __init__(self, seed: int, junk_one_in: int = 40, *, valid: bool = False) -> None:
        self._random = Random(seed)
        self._junk_one_in = junk_one_in
        self._scalars = VALID if valid else SCALARS
        self._around: list[Struct] = []

    def of(self, struct: Struct) -> dict[str, Any]:
        fields = list(struct.fields)
        if self._random.random() < 0.5:
            self._random.shuffle(fields)
        share = self._random.choice((0.1, 0.4, 0.9))
        document = {field.name: self._value(field.type) for field in fields if self._random.random() < share}
        if self._random.randrange(self._junk_one_in) == 0:
            document["unknown"] = self._random.choice(JUNK)
        return document

    def _nested(self, struct: Struct) -> Any:
        """Structs that contain themselves do so twice."""
        if self._around.count(struct) > 1:
            return None
        self._around.append(struct)
        made = self.of(struct)
        self._around.pop()
        return made

    def _value(self, type_: Type) -> Any:
        roll = self._random.randrange(self._junk_one_in)
        if roll < 2:
            return self._random.choice(JUNK) if roll else None
        if isinstance(type_, Struct):
            return self._nested(type_)
        if isinstance(type_, ListOf):
            return [self._value(type_.item) for _ in range(self._random.randrange(3))]
        if isinstance(type_, MapOf):
            return {
                self._random.choice(WORDS): self._value(type_.value) for _ in range(self._random.randrange(4))
            }
        if isinstance(type_, StructOr):
            return self._value(self._random.choice((type_.struct, type_.other)))
        return self._random.choice(self._scalars[ANY_JSON if isinstance(type_, JsonValue) else type_])
