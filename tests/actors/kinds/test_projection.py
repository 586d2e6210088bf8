"""Declarations of one version: which fields a struct has there, and how they are declared."""

from __future__ import annotations

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.kinds.schema.fields import STRING, STRINGS, Before, Field, ListOf, Struct
from rewound.actors.kinds.schema.projection import structs_of
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release

INNER = Struct(
    "test.v1.Inner",
    Field("old", STRING, 1, until="1.27"),
    Field("new", STRING, 2, since="1.30"),
)
OUTER = Struct(
    "test.v1.Outer",
    Field("inner", ListOf(INNER), 1),
    Field(
        "names",
        STRINGS,
        2,
        list_type="set",
        before=(Before("1.28", list_type=""), Before("1.31", list_type="atomic")),
    ),
)
PLAIN = Struct("test.v1.Plain", Field("name", STRING, 1))


def inner_fields(version: str) -> list[str]:
    list_type = structs_of(version).project(OUTER).by_name["inner"].type
    assert isinstance(list_type, ListOf)
    assert isinstance(list_type.item, Struct)
    return list(list_type.item.by_name)


def test_struct_has_the_fields_of_its_version_at_any_depth() -> None:
    assert inner_fields("1.27") == ["old"]
    assert inner_fields("1.28") == []
    assert inner_fields("1.30") == ["new"]


def test_field_is_declared_as_in_its_version() -> None:
    types = [structs_of(one).project(OUTER).by_name["names"].list_type for one in ("1.27", "1.28", "1.31")]
    assert types == ["", "atomic", "set"]


def test_struct_in_which_nothing_differs_is_itself() -> None:
    assert structs_of("1.25").project(PLAIN) is PLAIN


def test_projection_of_a_projection_is_itself() -> None:
    structs = structs_of("1.25")
    made = structs.project(OUTER)
    assert structs.project(OUTER) is made
    assert structs.project(made) is made


def test_recursive_struct_contains_its_own_projection() -> None:
    tree = Struct.recursive(
        "test.v1.Tree",
        lambda tree: (Field("below", ListOf(tree), 1), Field("late", STRING, 2, since="1.30")),
    )
    made = structs_of("1.25").project(tree)
    list_type = made.by_name["below"].type
    assert isinstance(list_type, ListOf)
    assert list_type.item is made
    assert "late" not in made.by_name


def test_another_catalog_of_a_version_makes_no_projections() -> None:
    release = choose_release("1.36")
    built_in(KUBERNETES, release)
    first = structs_of("1.36").count
    built_in(KUBERNETES, release, Enablement(every=True))
    assert structs_of("1.36").count == first
