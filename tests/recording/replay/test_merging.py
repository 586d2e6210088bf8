"""Applying a recorded change to an object that has changed since takes only what the recorded write changed."""

from __future__ import annotations

import copy
from typing import Any

from rewound.recording.replay.recorded_writes import merged
from tests.cases import cases


def thing(uid: str = "u", **content: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "uid": uid, "resourceVersion": "1"}, **content}


@cases(
    ("before", "after", "current", "expected"),
    [
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 9}, {"a": 2, "b": 9}),
        ({"a": 1, "b": 1}, {"a": 1}, {"a": 5, "b": 1}, {"a": 5}),
        ({"a": 1}, {"a": 1, "b": 2}, {"c": 3}, {"c": 3, "b": 2}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": 2, "y": 1}}, {"a": {"y": 7}}, {"a": {"x": 2, "y": 7}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [3]}, {"a": [1, 2]}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": 2}, {"a": {"x": 1}}),
        ({"a": 1}, {"a": 2}, {}, {"a": 2}),
    ],
)
def test_merged_object_takes_only_recorded_changes(
    before: Any, after: Any, current: Any, expected: Any
) -> None:
    given = [thing(spec=one) for one in (before, after, current)]
    kept = copy.deepcopy(given)
    assert merged(*given)["spec"] == expected
    assert given == kept


def test_what_the_server_maintains_stays() -> None:
    current = thing("other", spec={})
    found = merged(thing(spec={"a": 1}), thing(spec={"a": 2}), current)
    assert found == {**current, "spec": {"a": 2}}


def test_managers_keep_their_fields() -> None:
    def owned(*entries: tuple[str, int]) -> dict[str, Any]:
        result = thing()
        result["metadata"]["managedFields"] = [
            {"manager": manager, "operation": "Update", "fieldsV1": number} for manager, number in entries
        ]
        return result

    found = merged(owned(("a", 1), ("b", 1)), owned(("a", 2)), owned(("a", 1), ("b", 1), ("c", 1)))
    fields = {one["manager"]: one["fieldsV1"] for one in found["metadata"]["managedFields"]}
    assert fields == {"a": 2, "c": 1}
