"""Owner references are complete, have at most one controller, and never refer to events."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import validate_metadata_create
from tests.cases import cases

CONFIG_MAPS = built_in(CLUSTER).find("", "v1", "configmaps")
OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u"}


def errors(*owners: dict[str, Any]) -> list[tuple[str, str]]:
    assert CONFIG_MAPS is not None
    metadata = {"name": "a", "namespace": "n", "ownerReferences": list(owners)}
    return [
        (error.field, error.message) for error in collect(validate_metadata_create, metadata, CONFIG_MAPS)
    ]


@cases(
    ("part", "value", "text"),
    [
        ("apiVersion", "", 'Invalid value: "": version must not be empty'),
        ("apiVersion", "a/b/c", 'Invalid value: "a/b/c": version must not be empty'),
        ("kind", "", 'Invalid value: "": kind must not be empty'),
        ("name", "", 'Invalid value: "": name must not be empty'),
        ("uid", "", 'Invalid value: "": uid must not be empty'),
    ],
)
def test_fields_of_an_owner_reference_are_required(part: str, value: str, text: str) -> None:
    assert errors({**OWNER, part: value}) == [(f"metadata.ownerReferences.{part}", text)]


def test_second_controller_reference_is_refused() -> None:
    assert errors({**OWNER, "controller": True}, {**OWNER, "controller": False}) == []
    found = errors({**OWNER, "controller": True}, {**OWNER, "name": "e", "controller": True})
    assert [field for field, _ in found] == ["metadata.ownerReferences"]
    assert found[0][1].endswith(
        'Only one reference can have Controller set to true. Found "true" in references for d and e'
    )


def test_event_as_owner_is_refused() -> None:
    found = errors({**OWNER, "apiVersion": "v1", "kind": "Event"})
    assert found[0][1].endswith(": /v1, Kind=Event is disallowed from being an owner")
