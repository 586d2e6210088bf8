"""Labels have formats for keys and values; annotations for keys only, and a maximum total size."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import validate_metadata_create
from tests.cases import cases

CONFIG_MAPS = built_in(CLUSTER).find("", "v1", "configmaps")


def errors(**metadata: Any) -> list[tuple[str, str]]:
    assert CONFIG_MAPS is not None
    found = collect(validate_metadata_create, {"name": "a", "namespace": "n", **metadata}, CONFIG_MAPS)
    return [(error.field, error.message) for error in found]


def test_each_invalid_key_and_value_is_a_cause() -> None:
    found = errors(labels={"bad key": "bad value", "k": "v"})
    assert [field for field, _ in found] == ["metadata.labels"] * 2
    assert found[0][1].startswith('Invalid value: "bad key": name part must consist of')
    assert found[1][1].startswith('Invalid value: "bad value": a valid label must be an empty string')


def test_label_may_have_an_empty_value_and_a_prefix() -> None:
    assert errors(labels={"k": "", "example.com/A_b.c-d": "V_1.x-Y"}) == []


def test_annotation_takes_any_value_and_capitals_in_its_key() -> None:
    assert errors(annotations={"Example.COM/Key": 'any {"text": 1}\n ü', "empty": ""}) == []


@cases(("key", "count"), [("bad key", 1), ("x/y/z", 1), ("", 2)])
def test_annotation_keys_are_validated(key: str, count: int) -> None:
    assert [field for field, _ in errors(annotations={key: "v"})] == ["metadata.annotations"] * count


def test_annotations_are_limited_to_256_kibibytes() -> None:
    limit = 256 * 1024
    assert errors(annotations={"k": "x" * (limit - 1)}) == []
    assert errors(annotations={"k": "x" * limit}) == [
        ("metadata.annotations", "Too long: must have at most 262144 bytes")
    ]
    assert len(errors(annotations={"k": "ü" * (limit // 2)})) == 1
