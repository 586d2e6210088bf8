"""Every type and field has a description, every text is used, and descriptions include declared defaults and values."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.schema.fields import STRING, Field, Struct
from rewound.actors.names import KUBERNETES, NAMES
from rewound.actors.versions.features import choose_release
from rewound.actors.versions.version import NEWEST, VERSIONS
from rewound.gateway.describe.openapi.kinds import Kinds
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.schemas import VERSION_2, Schemas
from rewound.gateway.describe.openapi.texts import Texts, without_dialect
from tests.actors.kinds.test_kinds_by_version import structs_in
from tests.gateway.describe.reader import CATALOGS, Schema, version_2

LONGEST = 180  # characters of a description


@cache
def definitions() -> dict[str, Schema]:
    found: dict[str, Schema] = version_2("cluster")["definitions"]
    return {**version_2("kubernetes", NEWEST)["definitions"], **found}


def test_every_type_and_field_has_a_description() -> None:
    for definition_name, definition in definitions().items():
        assert definition.get("description"), definition_name
        for name, field in definition.get("properties", {}).items():
            assert field.get("description"), f"{definition_name}.{name}"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_declaration_of_a_version_has_a_description(version: str) -> None:
    seen: set[Struct] = set()
    known = Texts()
    for definition in built_in(KUBERNETES, choose_release(version)).declared:
        for struct in structs_in(definition.fields, seen):
            assert known.of_type(struct), struct
            for field in struct.fields:
                assert known.of_field(struct, field), f"{struct.of}.{field.name}"


def test_every_text_describes_an_existing_type_or_field() -> None:
    for (group, type_), texts in groupby(Texts(), key=itemgetter(0, 1)):
        candidates = described() if type_.startswith("*") else described_by_last_part().get(type_, {})
        fitting = [fields for name, fields in candidates.items() if fits(name, group, type_)]
        assert fitting, f"{group}: there is no {type_}"
        known = {without_dialect(name) for fields in fitting for name in fields}
        for _, _, field in texts:
            assert not field or field in known, f"{group}: no {type_} has {field}"


@cache
def described() -> dict[str, set[str]]:
    """The fields of every type of the documents, and of the declarations of all versions."""
    found = {name: set(one.get("properties", ())) for name, one in definitions().items()}
    seen: set[Struct] = set()
    for version in VERSIONS:
        for definition in built_in(KUBERNETES, choose_release(version)).declared:
            parts = (one.view or one.options for one in definition.subresources)
            for part in (definition, *filter(None, parts)):
                for struct in structs_in(part.fields, seen):
                    found.setdefault(f".{struct.of}", set()).update(struct.by_name)
    return found


@cache
def described_by_last_part() -> dict[str, dict[str, set[str]]]:
    found: dict[str, dict[str, set[str]]] = {}
    for name, fields in described().items():
        found.setdefault(name.rpartition(".")[2], {})[name] = fields
    return found


def fits(definition_name: str, group: str, type_: str) -> bool:
    *_, home, _, name = definition_name.split(".")
    if type_.startswith("*"):
        return name.endswith(type_[1:]) and group in (home, "meta")
    return name == type_ and (group == home or group in definition_name)


def test_descriptions_are_short_sentences() -> None:
    for definition in definitions().values():
        text = str(definition["description"])
        assert len(text) <= LONGEST and text.endswith("."), text


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    (tmp_path / "meta.txt").write_text("*:\n  name: A name.\n*Rule:\n  name: The name of a rule.\n")
    (tmp_path / "shop.txt").write_text(
        "# of ours\nShop, Stall: A place.\n  owner: Whose it is.\nStall: A small place.\n"
    )
    (tmp_path / "shop-more.txt").write_text("*:\n  till: Where the money is.\n")
    return Texts(tmp_path)


def text_of(texts: Texts, type_: str, field: str) -> str:
    return texts.of_field(Struct(type_), Field(field, STRING, 1))


def test_heading_may_name_several_types(texts: Texts) -> None:
    assert (
        text_of(texts, "shop.v1.Shop", "owner") == text_of(texts, "shop.v2.Stall", "owner") == "Whose it is."
    )
    assert texts.of_type(Struct("shop.v1.Shop")) == "A place."
    assert texts.of_type(Struct("shop.v1.Stall")) == "A small place."
    assert texts.of_type(Struct("shop.v1.ShopList")) == "A list of Shop objects."


def test_more_specific_pattern_takes_precedence(texts: Texts) -> None:
    assert text_of(texts, "shop.v1.Rule", "name") == "The name of a rule."
    assert text_of(texts, "shop.v1.Shop", "name") == "A name."
    assert text_of(texts, "shop.v1.Shop", "till") == "Where the money is."
    assert text_of(texts, "bank.v1.Bank", "till") == ""


def test_declared_values_and_defaults_are_added(texts: Texts) -> None:
    struct = Struct("shop.v1.Shop", Field("till", STRING, 1, enum=("Open", "Shut"), default="Open"))
    names = NAMES["cluster"]
    catalog = CATALOGS["cluster"]
    schemas = Schemas(
        names,
        VERSION_2,
        Kinds(catalog, names),
        Naming(names, catalog.exists),
        texts,
        lambda _, definition: definition,
        {},
    )
    schemas.refer(struct)
    ((_, written),) = schemas.definitions()
    assert written["properties"]["till"] == {
        "description": "Where the money is. One of: Open, Shut. Defaults to Open.",
        "enum": ["Open", "Shut"],
        "type": "string",
    }
