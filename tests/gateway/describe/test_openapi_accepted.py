"""Third-party validators accept the documents of both OpenAPI versions, and both dialects have the same content."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

from rewound.actors.names import CLUSTER, KUBERNETES
from tests.gateway.describe.reader import Schema, version_2, version_3

# Validation takes seconds: each dialect is validated in one OpenAPI version, and then compared with the other. The
# short tests validate all types in version 2, and the operations of a few groups in both versions.
SOME_DOCUMENTS = (
    "api",
    "apis",
    "version",
    "apis/policy",
    "apis/policy/v1",
    "apis/autoscaling/v2",
    "apis/networking.k8s.io/v1",
)
long = pytest.mark.slow
OWN_GROUP = "rewound.cluster.io"  # in both dialects, a group of another domain for one of them


@pytest.mark.parametrize("prefix", ["/apis/apps/", pytest.param("/", marks=long)])
def test_version_2_is_valid(prefix: str) -> None:
    document = version_2("cluster")
    paths = {path: one for path, one in document["paths"].items() if path.startswith(prefix)}
    assert paths
    validator = OpenAPIV2SpecValidator({**document, "paths": paths})
    assert [error.message for error in validator.iter_errors()] == []


@pytest.mark.parametrize(
    "names", [pytest.param(SOME_DOCUMENTS, id="some"), pytest.param((), id="all", marks=long)]
)
def test_version_3_is_valid(names: tuple[str, ...]) -> None:
    read: dict[str, Schema] = {}
    documents = version_3("kubernetes")
    for name in names or documents:
        document = documents[name]
        schemas = document["components"].get("schemas", {})
        # A type that was validated in another document is not validated again.
        new = {title: {"type": "object"} if read.get(title) == one else one for title, one in schemas.items()}
        read |= schemas
        checked = {**document, "components": {**document["components"], "schemas": _without_defaults(new)}}
        assert [error.message for error in OpenAPIV30SpecValidator(checked).iter_errors()] == [], name


def test_dialects_differ_only_in_names() -> None:
    assert _neutral(version_2("kubernetes"), KUBERNETES) == _neutral(version_2("cluster"), CLUSTER)
    assert _neutral(version_3("kubernetes"), KUBERNETES) == _neutral(version_3("cluster"), CLUSTER)


def test_operation_ids_are_unique() -> None:
    paths = version_2("cluster")["paths"].values()
    ids = [one["operationId"] for path in paths for method, one in path.items() if method != "parameters"]
    assert len(ids) > 500 and len(ids) == len(set(ids))


def _without_defaults(value: Any) -> Any:
    """Some are not valid, as in Kubernetes: {} where fields are required, an empty text where others are allowed."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key != "default" or one not in ({}, "")}
        return {key: _without_defaults(one) for key, one in kept.items()}
    return [_without_defaults(one) for one in value] if isinstance(value, list) else value


def _neutral(document: Any, names: Any) -> Any:
    text = orjson.dumps(document).decode().replace(OWN_GROUP, "own").replace("ewoundClusterIo", "ewound")
    reverse = ".".join(reversed(names.group_domain.split(".")))
    for name, neutral in (
        (names.extension_prefix, "x-"),
        (f".{names.group_domain}", ".groups"),
        (f"{reverse}.", "types."),
        (names.media_type, "protobuf"),
    ):
        text = text.replace(name, neutral)
    return orjson.loads(text)
