"""The protobuf documents of OpenAPI 3.0: the content and the ETags of the JSON ones, and how clients get them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.gateway.describe.openapi.handler import OLD_PROTOBUF_3, PROTOBUF_3
from rewound.gateway.describe.openapi.protobuf import document_3
from tests.api.custom.kinds import GROUP, MERGE, NAME, define, definition, version
from tests.cases import cases
from tests.gateway.api import served
from tests.gateway.describe.protobuf_3 import read_document
from tests.gateway.describe.reader import version_3
from tests.gateway.shared_server import shared

ACCEPT = {"accept": OLD_PROTOBUF_3}  # what client-go sends
BATCH = "/openapi/v3/apis/batch/v1"


@pytest.mark.parametrize("dialect", ["kubernetes", "cluster"])
def test_documents_equal_those_of_json(dialect: str) -> None:
    for name, document in version_3(dialect).items():
        assert read_document(document_3(document)) == _readable(document), name


def _readable(value: Any, *, names: bool = False) -> Any:
    """Remove what the messages cannot represent: defaults that are lists or objects, and empty lists.

    `names`: whether the keys are names, not those of a schema.
    """
    if isinstance(value, list):
        return [_readable(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _readable(one, names=key == "properties") for key, one in value.items() if one != []}
    if not names and isinstance(found.get("default"), (dict, list)):
        found["default"] = {}
    return found


async def test_custom_schemas_are_encoded_with_all_their_rules() -> None:
    rules = {
        "maximum": 2.5,
        "exclusiveMaximum": True,
        "minimum": -7,
        "multipleOf": 0.5,
    }
    spec = {
        "type": "object",
        "required": ["count"],
        "minProperties": 1,
        "properties": {
            "count": {"type": "number", **rules, "default": 1},
            "on": {"type": "boolean", "default": False, "nullable": True},
            "text": {"type": "string", "pattern": "^a", "maxLength": 300, "minLength": 1, "default": "abc"},
            "list": {
                "type": "array",
                "maxItems": 5,
                "minItems": 1,
                "items": {"type": "integer", "enum": [1, 2]},
            },
            "map": {"type": "object", "additionalProperties": {"type": "string", "example": {"a": [1]}}},
            "open": {"type": "object", "x-cluster-preserve-unknown-fields": True},
            "either": {
                "type": "object",
                "not": {"required": ["x"]},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
        },
    }
    path = f"/openapi/v3/apis/{GROUP}/v1"
    async with served() as api:
        await define(api, definition(version(spec=spec)))
        document = (await api.ask("GET", path)).expect(200)
        binary = await api.ask("GET", path, headers=ACCEPT)
        assert read_document(binary.body) == _readable(document)
        changed = {"spec": {"versions": [version(spec={"type": "object", "description": "New."})]}}
        definitions = "/apis/apiextensions.cluster.io/v1/customresourcedefinitions"
        (await api.ask("PATCH", f"{definitions}/{NAME}", changed, headers=MERGE)).expect(200)
        after = await api.ask("GET", path, headers=ACCEPT)
        assert b"New." in after.body and after.headers["etag"] != binary.headers["etag"]


async def test_both_forms_have_the_etag_of_the_index() -> None:
    async with shared() as api:
        url = (await api.ask("GET", "/openapi/v3")).expect(200)["paths"]["apis/batch/v1"]["serverRelativeURL"]
        json, binary = await api.ask("GET", url), await api.ask("GET", url, headers=ACCEPT)
        assert json.headers["etag"] == binary.headers["etag"] == f'"{url.partition("=")[2]}"'
        assert "Accept" in binary.headers["vary"] and "immutable" in binary.headers["cache-control"]
        assert read_document(binary.body) == _readable(orjson.loads(json.body))
        known = await api.ask("GET", BATCH, headers={**ACCEPT, "if-none-match": binary.headers["etag"]})
        assert (known.status, known.body, known.headers["etag"]) == (304, b"", binary.headers["etag"])
        old = await api.ask("GET", f"{BATCH}?hash=OLD", headers=ACCEPT)
        assert (old.status, old.headers["location"]) == (301, url)
        assert old.headers["etag"] == binary.headers["etag"] and "Accept" in old.headers["vary"]


@cases(
    ("accept", "given"),
    [
        ("", "application/json"),
        ("application/*", "application/json"),
        (OLD_PROTOBUF_3, PROTOBUF_3),
        (PROTOBUF_3, PROTOBUF_3),
        (f"application/json;q=0.5, {OLD_PROTOBUF_3}", PROTOBUF_3),
        (f"{OLD_PROTOBUF_3};q=0.5, application/json", "application/json"),
    ],
)
async def test_media_type_is_negotiated(accept: str, given: str) -> None:
    async with shared() as api:
        response = await api.ask("GET", BATCH, headers={"accept": accept})
        assert (response.status, response.headers["content-type"]) == (200, given)


@cases("accept", [OLD_PROTOBUF_3, "image/png", "application/json"])
async def test_index_is_json_whatever_a_client_accepts(accept: str) -> None:
    async with shared() as api:
        response = await api.ask("GET", "/openapi/v3", headers={"accept": accept})
        assert (response.status, response.headers["content-type"]) == (200, "application/json")


async def test_missing_document_is_not_found_whatever_a_client_accepts() -> None:
    async with shared() as api:
        assert (
            await api.ask("GET", "/openapi/v3/apis/nope/v1", headers={"accept": "image/png"})
        ).status == 404
