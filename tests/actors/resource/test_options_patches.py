"""Options of patches: when a field manager is required, and when force is allowed."""

from __future__ import annotations

import pytest

from rewound.actors.errors import Invalid
from rewound.actors.names import CLUSTER
from rewound.gateway.pipeline.options import WriteOptions, patch_options
from tests.cases import cases


def check(*, applies: bool, manager: str = "m", force: str | None = None) -> WriteOptions:
    return patch_options(CLUSTER, (), "", manager, force, applies=applies)


def refused(*, applies: bool, manager: str = "m", force: str | None = None) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        check(applies=applies, manager=manager, force=force)
    assert str(caught.value).startswith('PatchOptions.meta.cluster.io "" is invalid: ')
    return [(cause.field, cause.message) for cause in caught.value.causes]


@cases(
    ("force", "forced"),
    [
        (None, False),
        ("false", False),
        ("0", False),
        ("False", False),
        ("true", True),
        ("1", True),
        ("maybe", True),
        ("", True),
    ],
)
def test_any_value_but_false_and_0_forces_an_apply(force: str | None, forced: bool) -> None:
    assert check(applies=True, force=force).force is forced


def test_apply_requires_a_field_manager() -> None:
    assert refused(applies=True, manager="") == [
        ("fieldManager", "Required value: is required for apply patch")
    ]


def test_other_patches_require_no_field_manager() -> None:
    assert check(applies=False, manager="") == WriteOptions()


@cases("force", ["true", "false", ""])
def test_force_of_other_patches_is_refused(force: str) -> None:
    assert refused(applies=False, force=force) == [
        ("force", "Forbidden: may not be specified for non-apply patch")
    ]


def test_all_errors_are_reported() -> None:
    with pytest.raises(Invalid) as caught:
        patch_options(CLUSTER, ["x"], "y", "a\nb", "true", applies=False)
    assert [cause.field for cause in caught.value.causes] == [
        "force",
        "fieldManager",
        "dryRun",
        "fieldValidation",
    ]
