"""managedFields of new objects that are cached by their keys equal computed ones."""

from __future__ import annotations

from typing import Any

import orjson

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.names import CLUSTER
from rewound.actors.patch.managed_fields.field_view import FieldViews
from rewound.actors.patch.managed_fields.ownership import (
    MAX_CREATORS,
    MAX_KEYS,
    MAX_SHAPES,
    Creation,
    owned_after,
)
from rewound.actors.runtime.coroutines import without_waiting
from tests.cases import cases

TIME = 1_700_000_000_000_000
CATALOG = built_in(CLUSTER)
LONG = "a" * 600


def config_map(metadata: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", **(metadata or {})}, **members}


def creation_of(plural: str) -> tuple[Creation, FieldViews]:
    views = FieldViews({"v1": CATALOG.find("", "v1", plural)})
    return Creation(views, views("v1", "")), views


def check(plural: str, *objects: dict[str, Any]) -> None:
    """Each object twice, by two managers in two seconds."""
    creation, views = creation_of(plural)
    for manager, time in (("m", TIME), ("", TIME), ("m", TIME + 1_500_000)) * 2:
        for new in objects:
            expected = without_waiting(
                owned_after(views, views("v1", ""), None, new, manager, seconds_text(time))
            )
            assert orjson.dumps(entries(creation, new, manager, time)) == orjson.dumps(expected)


@cases(
    "objects",
    [
        [  # maps
            config_map({"labels": {"a": "1"}}, data={"k": "v"}),
            config_map({"labels": {"a": "2"}}, data={"k": ""}),
        ],
        [  # other keys
            config_map(data={"k": "v"}),
            config_map(data={"l": "v"}),
            config_map(data={"k": "", "l": ""}),
        ],
        [  # same keys elsewhere
            config_map({"labels": {"a": ""}, "annotations": {"b": ""}}),
            config_map({"labels": {"b": ""}, "annotations": {"a": ""}}),
            config_map({"annotations": {"a": ""}}, data={"b": ""}),
            config_map({"annotations": {"a": ""}}, binaryData={"b": ""}),
        ],
        [  # single values
            config_map(immutable=True),
            config_map(immutable=False),
            config_map(immutable=True, data={"k": ""}),
        ],
        [  # nothing
            config_map(),
            {"metadata": {}},
        ],
        [  # empty maps
            config_map({"labels": {}}, data={}),
            config_map({"labels": {"a": ""}}, data={}),
        ],
        [  # null maps
            config_map({"labels": None}, data=None),
            config_map({"labels": {"a": ""}}, data={"k": ""}),
        ],
        [  # lists
            config_map({"finalizers": ["a/b"], "labels": {"a": ""}}),
            config_map({"finalizers": ["c/d"]}),
        ],
        [  # sent entries
            config_map({"managedFields": [{}]}, data={"k": ""}),
            config_map(data={"k": ""}),
        ],
        [  # long keys
            config_map(data={LONG: ""}),
            config_map(data={LONG + "b": ""}),
        ],
    ],
)
def test_fields_of_objects_with_the_same_keys(objects: list[dict[str, Any]]) -> None:
    check("configmaps", *objects)
    check("configmaps", *reversed(objects))


def entries(creation: Creation, new: Any, manager: str, time: int) -> list[Any]:
    known = creation.known_entries(new, manager, time)
    return without_waiting(creation.find_entries(new, manager, time)) if known is None else known


def test_fields_of_objects_with_structs() -> None:
    ports = [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    check(
        "services",
        config_map(spec={"ports": ports}),
        config_map(spec={"selector": {"a": ""}, "ports": ports}),
    )


def test_cache_is_bounded() -> None:
    creation, _ = creation_of("configmaps")
    for number in range(2 * MAX_KEYS):
        entries(creation, config_map(data={f"k{number}": ""}), f"m{number}", TIME)
    entries(creation, config_map(data={LONG: ""}), "m", TIME)
    [shape] = creation._shapes.values()
    assert shape is not None and 0 < len(shape[2]) <= MAX_KEYS and ((LONG,),) not in shape[2]
    for number in range(2 * MAX_CREATORS):
        entries(creation, config_map(data={f"k{MAX_KEYS + number % 2}": ""}), f"m{number}", TIME)
    assert 0 < len(creation._creators) <= MAX_CREATORS
    for number in range(2 * MAX_SHAPES):
        entries(creation, {**config_map(), f"unknown{number}": "", "data": {"a": ""}}, "m", TIME)
    assert len(creation._shapes) <= MAX_SHAPES
