"""CustomResourceDefinitions that the workloads create, and an object of 1 kB."""

from __future__ import annotations

import json
import time
from typing import Any

from benchmarks.loads.client import Client
from benchmarks.loads.plans import PAYLOAD
from benchmarks.options import Options
from benchmarks.servers.endpoint import Endpoint
from benchmarks.workloads.access import GROUPS

GROUP = "bench.example.com"
POLL_SECONDS = 0.05  # until a kind is served: rare enough to cost little of what is measured
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
# As a ConfigMap has one text of 900 characters; the other fields make the schema do something.
WIDGET = json.dumps(
    {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": "NAME", "labels": {"app": "bench", "shard": "1"}},
        "spec": {"payload": PAYLOAD, "mode": "fast", "size": 3},
    },
    separators=(",", ":"),
)
WIDGET_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["payload"],
    "properties": {
        "payload": {"type": "string", "maxLength": 10_000},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "size": {"type": "integer", "minimum": 0, "default": 1},
    },
}
STATUS: dict[str, Any] = {"type": "object", "properties": {"ready": {"type": "boolean"}}}


def definition(group: str, plural: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": STATUS}}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
        ],
    }
    names = {"plural": plural, "kind": kind}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def numbered(number: int, per_group: int) -> dict[str, Any]:
    """A definition with some 20 fields, one of `per_group` in its group."""
    fields: dict[str, Any] = {
        f"text{index}": {"type": "string", "maxLength": 100, "description": f"What the text {index} is for."}
        for index in range(10)
    }
    fields |= {f"number{index}": {"type": "integer", "minimum": 0, "default": index} for index in range(5)}
    port = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    fields["ports"] = {"type": "array", "items": port}
    spec = {"type": "object", "properties": fields}
    return definition(group_of(number, per_group), f"kind{number}s", f"Kind{number}", spec)


def group_of(number: int, per_group: int) -> str:
    return f"group{number // per_group}.example.com"


def definitions_path(options: Options) -> str:
    return f"/apis/apiextensions.{GROUPS[options.dialect]}/v1/customresourcedefinitions"


def define(endpoint: Endpoint, options: Options, *definitions: dict[str, Any]) -> None:
    """Create definitions, and wait until all of their kinds are served."""
    with Client(endpoint) as client:
        for one in definitions:
            client.expect("POST", definitions_path(options), one)
        for one in definitions:
            while client.call("GET", collection(one))[0] != 200:
                time.sleep(POLL_SECONDS)


def collection(one: dict[str, Any]) -> str:
    spec = one["spec"]
    return f"/apis/{spec['group']}/v1/{spec['names']['plural']}?limit=1"
