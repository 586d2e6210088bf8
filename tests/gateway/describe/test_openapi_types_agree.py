"""The schemas agree with the decoder, for every field of every kind.

An object made from the schema, with every field, is decoded without problems and unchanged. With any value that the
schema does not allow, it is refused. Another OpenAPI validator checks the schemas.
"""

from __future__ import annotations

from functools import cache

import orjson
import pytest
from openapi_schema_validator import OAS30Validator, oas30_format_checker

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.names import NAMES
from tests.cases import cases
from tests.gateway.describe.reader import Reader, Schema, thin, version_3

NAMES_ = NAMES["kubernetes"]
DEFINITIONS = built_in(NAMES_).definitions
_readers = {name: Reader(document) for name, document in version_3(NAMES_.dialect).items()}


def described(definition: Definition) -> tuple[Reader, str]:
    """The document that describes a kind, and the name of its definition."""
    root = f"apis/{definition.api_version}" if definition.group else f"api/{definition.version}"
    reader = _readers[root]
    prefix = NAMES_.extension_prefix
    return reader, reader.definition_name(definition.group, definition.version, definition.kind, prefix)


def typed(definition: Definition, document: dict[str, object]) -> bytes:
    return orjson.dumps({**document, "kind": definition.kind, "apiVersion": definition.api_version})


@cases("definition", DEFINITIONS, ids=repr)
def test_every_described_field_is_decoded(definition: Definition) -> None:
    reader, title = described(definition)
    whole = reader.full_object({"$ref": title})
    decoded = definition.schema.decode_json(typed(definition, whole), defaults=False)
    assert decoded.problems == ()
    del whole["kind"], whole["apiVersion"]
    assert decoded.object == whole


@cache
def first_with() -> dict[str, Definition]:
    """The first kind that contains each definition: nine of them contain PodSpec, and all contain ObjectMeta."""
    found: dict[str, Definition] = {}
    for definition in DEFINITIONS:
        reader, title = described(definition)
        for _, owner, _ in reader.fields(title):
            found.setdefault(owner, definition)
    return found


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("definition", DEFINITIONS, ids=repr)
def test_value_that_the_schema_forbids_is_refused(definition: Definition, everywhere: bool) -> None:
    """In the short version of the test, each field of a definition at one place of one kind."""
    reader, title = described(definition)
    checked: set[tuple[str, str]] = set()
    spots = 0
    for path, owner, schema in reader.fields(title):
        if path in (("kind",), ("apiVersion",)):
            continue
        if not everywhere and (first_with()[owner] is not definition or (owner, path[-1]) in checked):
            continue
        checked.add((owner, path[-1]))
        spots += 1
        for value in reader.wrong(schema):
            with pytest.raises(NotDecodable):
                definition.schema.decode_json(typed(definition, thin(path, value)))
    assert spots > (20 if everywhere else 0)  # ObjectMeta alone has as many


@cases("definition", DEFINITIONS, ids=repr)
def test_field_that_is_not_described_is_unknown(definition: Definition) -> None:
    reader, title = described(definition)
    places = {(owner, path[:-1]) for path, owner, _ in reader.fields(title)}
    for _, place in places:
        decoded = definition.schema.decode_json(typed(definition, thin((*place, "nonesuch"), 1)))
        (problem,) = decoded.problems
        assert problem.startswith('unknown field "') and problem.endswith('nonesuch"')


@pytest.mark.parametrize("section", sorted(_readers))
def test_another_validator_agrees_with_the_schema(section: str) -> None:
    """A full object of each definition is valid, and with one wrong value it is not."""
    reader = _readers[section]
    for title, definition in reader.definitions.items():
        assert _validator(reader, definition).is_valid(reader.full_object({"$ref": title})), title
        for name, schema in definition.get("properties", {}).items():
            validator = _validator(reader, schema)
            for value in reader.wrong(schema, formats=False):
                assert not validator.is_valid(value), (title, name, value)


def _validator(reader: Reader, schema: Schema) -> OAS30Validator:
    rooted = {**schema, "components": reader.document["components"]}
    return OAS30Validator(rooted, format_checker=oas30_format_checker)
