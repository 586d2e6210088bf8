"""What an update may not change, and how often the error is reported."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import validate_metadata_update
from tests.cases import cases

CATALOG = built_in(CLUSTER)
OLD: dict[str, Any] = {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"}


def definition(group: str, plural: str) -> Definition:
    found = CATALOG.find(CLUSTER.group(group) if group else "", "v1", plural)
    assert found is not None
    return found


@cases(
    ("change", "message"),
    [
        ({"name": "b"}, 'Invalid value: "b": field is immutable'),
        ({"namespace": "m"}, 'Invalid value: "m": field is immutable'),
        ({"uid": "v"}, 'Invalid value: "v": field is immutable'),
        (
            {"creationTimestamp": "2021-01-01T00:00:00Z"},
            "Invalid value: 2021-01-01 00:00:00 +0000 UTC: field is immutable",
        ),
        (
            {"deletionTimestamp": "2021-01-01T00:00:00Z"},
            "Invalid value: 2021-01-01 00:00:00 +0000 UTC: field is immutable",
        ),
        ({"deletionGracePeriodSeconds": 10}, "Invalid value: 10: field is immutable"),
    ],
)
def test_change_of_immutable_metadata_is_refused(change: dict[str, Any], message: str) -> None:
    found = collect(validate_metadata_update, {**OLD, **change}, OLD, definition("", "configmaps"))
    assert [(error.field, error.message) for error in found] == [(f"metadata.{next(iter(change))}", message)]


def test_generation_never_decreases() -> None:
    found = collect(
        validate_metadata_update,
        {**OLD, "generation": 1},
        {**OLD, "generation": 2},
        definition("", "configmaps"),
    )
    assert [error.message for error in found] == ["Invalid value: 1: must not be decremented"]


@cases(
    ("group", "plural", "rest", "times"),
    [
        ("", "configmaps", {}, 4),
        ("", "secrets", {}, 4),
        ("", "serviceaccounts", {}, 4),
        ("", "endpoints", {}, 4),
        ("", "events", {"involvedObject": {"namespace": "n"}}, 2),
        ("coordination", "leases", {"spec": {}}, 3),
    ],
)
def test_invalid_label_is_reported_once_per_validation_pass(
    group: str, plural: str, rest: dict[str, Any], times: int
) -> None:
    kind = definition(group, plural)
    old = {"metadata": OLD, **rest}
    new = {"metadata": {**OLD, "labels": {"k": "bad value"}}, **rest}
    found = collect(validate_metadata_update, new["metadata"], OLD, kind) + collect(
        kind.strategy.validate_update, new, old
    )
    assert [error.field for error in found] == ["metadata.labels"] * times
    assert len({error.message for error in found}) == 1


def test_unknown_plain_finalizer_is_reported_by_the_kind_only() -> None:
    kind = definition("", "configmaps")
    new = {"metadata": {**OLD, "finalizers": ["plain"]}}
    assert collect(validate_metadata_update, new["metadata"], OLD, kind) == []
    assert {error.field for error in collect(kind.strategy.validate_update, new, {"metadata": OLD})} == {
        "metadata.finalizers[0]"
    }
