"""Validators of others accept the documents of both OpenAPI versions, and both dialects have the same content."""

from __future__ import annotations

from typing import Any

import orjson
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

from actors.names import CLUSTER, KUBERNETES
from tests.gateway.describe.reader import Schema, version_2, version_3

# Validation takes seconds: each dialect is validated in one OpenAPI version, and then compared with the other.


def test_version_2_is_valid() -> None:
    assert [error.message for error in OpenAPIV2SpecValidator(version_2("cluster")).iter_errors()] == []


def test_version_3_is_valid() -> None:
    read: dict[str, Schema] = {}
    for name, document in version_3("kubernetes").items():
        schemas = document["components"]["schemas"]
        # A type that was validated in another document is not validated again.
        new = {title: {"type": "object"} if read.get(title) == one else one for title, one in schemas.items()}
        read |= schemas
        checked = {**document, "components": {**document["components"], "schemas": new}}
        assert [error.message for error in OpenAPIV30SpecValidator(checked).iter_errors()] == [], name


def test_dialects_differ_only_in_names() -> None:
    assert _neutral(version_2("kubernetes"), KUBERNETES) == _neutral(version_2("cluster"), CLUSTER)
    assert _neutral(version_3("kubernetes"), KUBERNETES) == _neutral(version_3("cluster"), CLUSTER)


def test_operation_ids_are_unique() -> None:
    paths = version_2("cluster")["paths"].values()
    ids = [one["operationId"] for path in paths for method, one in path.items() if method != "parameters"]
    assert len(ids) > 500 and len(ids) == len(set(ids))


def _neutral(document: Any, names: Any) -> Any:
    text = orjson.dumps(document).decode()
    reverse = ".".join(reversed(names.group_domain.split(".")))
    for name, neutral in (
        (names.extension_prefix, "x-"),
        (f".{names.group_domain}", ".groups"),
        (f"{reverse}.", "types."),
        (names.media_type, "protobuf"),
    ):
        text = text.replace(name, neutral)
    return orjson.loads(text)
