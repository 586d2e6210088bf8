"""Properties of every JSON patch, wherever it points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.patch.errors import PatchError
from rewound.actors.patch.json_patch import apply_json_patch, same

KEYS = st.sampled_from(["a", "b", "/", "~", "~1", "0"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=3)


def pointers(value: Any, path: str = "") -> Iterator[str]:
    """Every location in a document except the root."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, member in members:
        here = path + "/" + str(name).replace("~", "~0").replace("/", "~1")
        yield here
        yield from pointers(member, here)


def patched(document: Any, *operations: dict[str, Any]) -> Any:
    return apply_json_patch(deepcopy(document), list(operations))


@given(DOCUMENTS, st.data())
def test_added_value_can_be_read_and_removed(document: Any, data: st.DataObject) -> None:
    where, value = f"/{data.draw(st.sampled_from(['new', 'newer']))}", data.draw(VALUES)
    add = {"op": "add", "path": where, "value": value}
    made = patched(document, add, {"op": "test", "path": where, "value": value})
    assert same(made[where[1:]], value)
    assert patched(document, add, {"op": "remove", "path": where}) == document


@given(DOCUMENTS, st.data())
def test_move_equals_copy_and_remove(document: Any, data: st.DataObject) -> None:
    where = data.draw(st.sampled_from(list(pointers(document))))
    move = {"op": "move", "from": where, "path": "/new"}
    copy, remove = {"op": "copy", "from": where, "path": "/new"}, {"op": "remove", "path": where}
    assert patched(document, move) == patched(document, copy, remove)


@given(DOCUMENTS, st.data())
def test_replace_with_same_value_changes_nothing(document: Any, data: st.DataObject) -> None:
    where = data.draw(st.sampled_from(list(pointers(document))))
    held = patched(document, {"op": "copy", "from": where, "path": "/new"})["new"]
    replaced = patched(
        document,
        {"op": "test", "path": where, "value": held},
        {"op": "replace", "path": where, "value": held},
    )
    assert same(replaced, document)


OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
        optional={
            "path": st.lists(KEYS | st.just("-"), max_size=3).map(
                lambda names: "".join(f"/{n}" for n in names)
            ),
            "from": st.lists(KEYS, max_size=3).map(lambda names: "".join(f"/{n}" for n in names)),
            "value": VALUES,
        },
    ),
    max_size=4,
)


@given(DOCUMENTS, OPERATIONS)
def test_any_patch_applies_or_is_refused_and_does_not_change(document: Any, operations: Any) -> None:
    before = deepcopy(operations)
    with suppress(PatchError):
        apply_json_patch(deepcopy(document), operations)
    assert operations == before


def test_path_into_a_scalar_is_refused() -> None:
    with pytest.raises(PatchError):
        patched({"a": "x"}, {"op": "add", "path": "/a/b", "value": 1})
