"""ConfigMap: valid keys, no key in both maps, at most one mebibyte."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

NAMED = {"metadata": {"name": "a"}}
IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"
MEBIBYTE = 1024 * 1024


@cases("contents", [{}, {"data": {".hidden": "1", "a..b": "2", "k" * 253: "3"}}])
def test_valid_keys_are_accepted(kinds: Definitions, contents: Any) -> None:
    assert kinds.create_causes("configmaps", {**NAMED, **contents}) == []


def test_keys_of_both_maps_are_validated(kinds: Definitions) -> None:
    causes = kinds.create_causes("configmaps", {**NAMED, "data": {"...": "1"}, "binaryData": {"..": ""}})
    assert causes == [
        ("data[...]", "Invalid value: \"...\": must not start with '..'"),
        ("binaryData[..]", "Invalid value: \"..\": must not be '..'"),
    ]


def test_key_cannot_be_in_both_maps(kinds: Definitions) -> None:
    causes = kinds.create_causes("configmaps", {**NAMED, "data": {"k": "v"}, "binaryData": {"k": "AA=="}})
    assert causes == [("data[k]", 'Invalid value: "k": duplicate of key present in binaryData')]


@cases(
    ("contents", "fits"),
    [
        ({"data": {"k": "x" * MEBIBYTE}}, True),
        ({"data": {"k": "x" * (MEBIBYTE - 1), "l": "xx"}}, False),
        ({"data": {"k": "x" * (MEBIBYTE - 1)}, "binaryData": {"b": "AA=="}}, True),
        ({"data": {"k": "x" * MEBIBYTE}, "binaryData": {"b": "AA=="}}, False),
        ({"data": {"k": "ü" * (MEBIBYTE // 2)}}, True),
        ({"data": {"k": "ü" * (MEBIBYTE // 2) + "x"}}, False),
    ],
)
def test_values_are_limited_to_one_mebibyte_in_total(kinds: Definitions, contents: Any, fits: bool) -> None:
    causes = kinds.create_causes("configmaps", {**NAMED, **contents})
    assert causes == ([] if fits else [("[]", "Too long: must have at most 1048576 bytes")])


@cases(
    ("after", "fields"),
    [
        ({"data": {"k": "v"}, "immutable": True}, []),
        ({"data": {"k": "w"}, "immutable": True}, ["data"]),
        ({"data": {"k": "v"}, "binaryData": {"b": ""}, "immutable": True}, ["binaryData"]),
        ({"data": {"k": "v"}, "immutable": False}, ["immutable"]),
        ({}, ["immutable", "data"]),
    ],
)
def test_immutable_config_map_keeps_its_contents_and_stays_immutable(
    kinds: Definitions, after: Any, fields: list[str]
) -> None:
    before = {**NAMED, "data": {"k": "v"}, "immutable": True}
    _, causes = kinds.update("configmaps", before, {**NAMED, **after})
    assert causes == [(field, IMMUTABLE) for field in fields]


def test_labels_of_an_immutable_config_map_can_change(kinds: Definitions) -> None:
    before = {**NAMED, "data": {"k": "v"}, "immutable": True}
    after = {**before, "metadata": {"name": "a", "labels": {"x": "y"}}}
    assert kinds.update("configmaps", before, after)[1] == []


def test_update_is_validated_like_create(kinds: Definitions) -> None:
    _, causes = kinds.update("configmaps", NAMED, {**NAMED, "data": {"..": ""}})
    assert distinct(causes) == [("data[..]", "Invalid value: \"..\": must not be '..'")]
