"""Secret: keys, size, and the immutable type."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

NAMED = {"metadata": {"name": "a"}}


@cases(("part", "value"), [("data", "eA=="), ("stringData", "x")])
def test_keys_of_data_and_string_data_are_validated(kinds: Definitions, part: str, value: str) -> None:
    causes = kinds.create_causes("secrets", {**NAMED, part: {"..x": value}})
    assert causes == [("data[..x]", "Invalid value: \"..x\": must not start with '..'")]


def test_decoded_values_are_limited_to_one_mebibyte(kinds: Definitions) -> None:
    text = "x" * (1024 * 1024)
    assert kinds.create_causes("secrets", {**NAMED, "stringData": {"k": text}}) == []
    causes = kinds.create_causes("secrets", {**NAMED, "stringData": {"k": text, "l": "x"}})
    assert causes == [("data", "Too long: must have at most 1048576 bytes")]


def test_type_is_immutable(kinds: Definitions) -> None:
    _, causes = kinds.update("secrets", NAMED, {**NAMED, "type": "example.com/x"})
    assert causes == [("type", 'Invalid value: "example.com/x": field is immutable')]


@cases(
    ("after", "fields"),
    [
        ({"stringData": {"k": "v"}, "immutable": True}, []),
        ({"stringData": {"k": "w"}, "immutable": True}, ["data"]),
        ({"immutable": True}, ["data"]),
        ({"data": {"k": "dg=="}}, ["immutable"]),
    ],
)
def test_immutable_secret_keeps_its_data(kinds: Definitions, after: Any, fields: list[str]) -> None:
    before = {**NAMED, "stringData": {"k": "v"}, "immutable": True}
    _, causes = kinds.update("secrets", before, {**NAMED, **after})
    assert [field for field, _ in distinct(causes)] == fields


def test_type_is_selectable(kinds: Definitions) -> None:
    definition = kinds["secrets"]
    assert definition.selects("type") and definition.selects("metadata.namespace")
    assert definition.selection.fields["type"](kinds.stored("secrets", NAMED)) == "Opaque"
    assert definition.unsupported_field_text("status.phase") == "field label not supported: status.phase"
