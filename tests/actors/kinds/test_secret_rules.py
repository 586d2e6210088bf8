"""Secret: keys, size, and the immutable type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.declared import Declared, once

NAMED = {"metadata": {"name": "a"}}


@pytest.mark.parametrize(("part", "value"), [("data", "eA=="), ("stringData", "x")])
def test_keys_are_file_names_wherever_they_come_from(kinds: Declared, part: str, value: str) -> None:
    causes = kinds.created("secrets", {**NAMED, part: {"..x": value}})
    assert causes == [("data[..x]", "Invalid value: \"..x\": must not start with '..'")]


def test_one_mebibyte_of_decoded_values(kinds: Declared) -> None:
    text = "x" * (1024 * 1024)
    assert kinds.created("secrets", {**NAMED, "stringData": {"k": text}}) == []
    causes = kinds.created("secrets", {**NAMED, "stringData": {"k": text, "l": "x"}})
    assert causes == [("data", "Too long: must have at most 1048576 bytes")]


def test_the_type_is_fixed(kinds: Declared) -> None:
    _, causes = kinds.replaced("secrets", NAMED, {**NAMED, "type": "example.com/x"})
    assert causes == [("type", 'Invalid value: "example.com/x": field is immutable')]


@pytest.mark.parametrize(
    ("after", "fields"),
    [
        ({"stringData": {"k": "v"}, "immutable": True}, []),
        ({"stringData": {"k": "w"}, "immutable": True}, ["data"]),
        ({"immutable": True}, ["data"]),
        ({"data": {"k": "dg=="}}, ["immutable"]),
    ],
)
def test_immutable_holds_for_data_however_written(kinds: Declared, after: Any, fields: list[str]) -> None:
    before = {**NAMED, "stringData": {"k": "v"}, "immutable": True}
    _, causes = kinds.replaced("secrets", before, {**NAMED, **after})
    assert [field for field, _ in once(causes)] == fields


def test_secrets_are_selected_by_type(kinds: Declared) -> None:
    definition = kinds["secrets"]
    assert definition.selects("type") and definition.selects("metadata.namespace")
    assert definition.selection.fields["type"](kinds.stored("secrets", NAMED)) == "Opaque"
    assert definition.unsupported_field_text("status.phase") == "field label not supported: status.phase"
