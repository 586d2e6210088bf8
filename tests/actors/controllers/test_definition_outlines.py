"""Controllers read large definitions without parsing their versions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.actors.controllers.publication import outline
from rewound.actors.store.document import encode

# Texts that look like the markers of an outline, wherever a definition may have them.
TEXT = ',"versions":[ ,"status":{ "}'


def definition(size: int) -> dict[str, Any]:
    fields = {f"field{number}": {"type": "string", "description": TEXT} for number in range(size)}
    nested = {
        "type": "object",
        "properties": {"status": {"type": "object"}, "versions": {"type": "array"}, **fields},
    }
    return {
        "metadata": {
            "name": "a.example.com",
            "annotations": {"status": TEXT, "versions": TEXT},
            "labels": {"a": "b", "versions": "c", "status": "d"},
            "managedFields": [{"fieldsV1": {"f:spec": {"f:versions": {}, "f:names": {}}, "f:status": {}}}],
            "uid": "u",
        },
        "spec": {
            "group": "example.com",
            "names": {"plural": "a", "kind": "A", "categories": [TEXT]},
            "scope": "Cluster",
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": nested}}],
            "conversion": {"strategy": "None"},
        },
        "status": {
            "conditions": [{"type": "Established", "status": "True", "message": TEXT}],
            "acceptedNames": {"plural": "a", "kind": "A"},
            "storedVersions": ["v1"],
        },
    }


@pytest.mark.parametrize("size", [1, 2000])
def test_outline_has_what_controllers_read(size: int) -> None:
    body = encode(definition(size), 7)
    whole, found = orjson.loads(body), outline(body)
    assert (found["metadata"], found["status"]) == (whole["metadata"], whole["status"])
    for part in ("group", "names", "scope"):
        assert found["spec"][part] == whole["spec"][part]
    assert ("versions" in found["spec"]) == (size == 1)
