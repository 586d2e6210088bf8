"""Finalizers are qualified names or known plain names; an object that is being deleted gets no new ones."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import validate_metadata_create, validate_metadata_update
from tests.cases import cases

CONFIG_MAPS = built_in(CLUSTER).find("", "v1", "configmaps")
PLAIN = "name is neither a standard finalizer name nor is it fully qualified"


def errors(*finalizers: str) -> list[tuple[str, str]]:
    assert CONFIG_MAPS is not None
    metadata = {"name": "a", "namespace": "n", "finalizers": list(finalizers)}
    return [
        (error.field, error.message) for error in collect(validate_metadata_create, metadata, CONFIG_MAPS)
    ]


@cases("name", ["example.com/x", "orphan", "foregroundDeletion", "kubernetes"])
def test_valid_finalizer_is_accepted(name: str) -> None:
    assert errors(name) == []


def test_unknown_plain_finalizer_is_refused() -> None:
    assert errors("example.com/x", "plain") == [
        ("metadata.finalizers[1]", f'Invalid value: "plain": {PLAIN}')
    ]


def test_malformed_finalizer_is_reported_before_an_unknown_one() -> None:
    found = errors("")
    assert [field for field, _ in found] == ["metadata.finalizers"] * 2 + ["metadata.finalizers[0]"]
    assert found[0][1] == 'Invalid value: "": name part must be non-empty'


def test_orphan_and_foreground_finalizers_together_are_refused() -> None:
    text = (
        'Invalid value: []string{"orphan", "foregroundDeletion"}: '
        "finalizer orphan and foregroundDeletion cannot be both set"
    )
    assert errors("orphan", "foregroundDeletion") == [("metadata.finalizers", text)]


@cases(
    ("before", "after", "terminating", "added"),
    [
        (["x.io/1", "x.io/2"], ["x.io/2", "x.io/1"], True, ""),
        (["x.io/1", "x.io/2"], ["x.io/2"], True, ""),
        (["x.io/1"], ["x.io/1", "x.io/3", "x.io/2"], True, '"x.io/2", "x.io/3"'),
        (["x.io/1"], ["x.io/1", "x.io/2"], False, ""),
    ],
)
def test_object_being_deleted_gets_no_new_finalizers(
    before: list[str], after: list[str], terminating: bool, added: str
) -> None:
    assert CONFIG_MAPS is not None
    common: dict[str, Any] = {"name": "a", "namespace": "n", "uid": "u"}
    if terminating:
        common["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    found = collect(
        validate_metadata_update,
        {**common, "finalizers": after},
        {**common, "finalizers": before},
        CONFIG_MAPS,
    )
    text = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string"
    assert [error.message for error in found] == ([f"{text}{{{added}}}"] if added else [])
