"""stringData is merged into data and never stored."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions


def test_create_merges_string_data_into_data(kinds: Definitions) -> None:
    stored = kinds.stored(
        "secrets", {"stringData": {"k": "new", "ü": "ü"}, "data": {"k": "b2xk", "l": ""}, "type": "t"}
    )
    assert stored["data"] == {"k": "bmV3", "l": "", "ü": "w7w="}
    assert list(stored) == ["metadata", "data", "type"]
    assert list(stored["data"]) == ["k", "l", "ü"]


def test_update_merges_string_data_into_data(kinds: Definitions) -> None:
    new, causes = kinds.update(
        "secrets", {"metadata": {"name": "a"}}, {"metadata": {"name": "a"}, "stringData": {"k": "v"}}
    )
    assert causes == []
    assert new["data"] == {"k": "dg=="} and "stringData" not in new


def test_empty_string_data_is_dropped(kinds: Definitions) -> None:
    assert set(kinds.stored("secrets", {"stringData": {}})) == {"metadata", "type"}
