"""Compares OpenAPI and discovery of every version of Kubernetes with tables of facts; prints what differs.

    python -m tests.conformance.versions ../shared/reference/versions
    python -m tests.conformance.versions ../shared/reference/versions 1.30 1.36

The tables are not part of this project; `make conformance` needs them. They have, for all versions, the types, fields
and markers of the OpenAPI 3.0 documents (fields.json) and the resources (resources.json). All kinds of a version are
compared, served by default or not. `NOT_BUILT` names those that this server does not have.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import orjson

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from rewound.actors.versions.version import VERSIONS, exists_in, minor
from rewound.gateway.describe.openapi.documents import Documents
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.sections import sections

VERBS = frozenset(["get", "list", "create", "update", "patch", "delete", "deletecollection", "watch"])
# Groups, or versions of groups, without a kind here.
NOT_BUILT = ("networking.k8s.io/v1alpha1 clustercidrs",)
PREFIX, MARKER, DOMAIN = "x-kubernetes-", "x-cluster-", "io.k8s."
MARKERS = ("list-type", "list-map-keys", "map-type", "patch-strategy", "patch-merge-key")
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with fields.json and resources.json")
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    arguments = parser.parse_args()
    fields = json.loads((arguments.folder / "fields.json").read_text())
    resources = json.loads((arguments.folder / "resources.json").read_text())
    found: dict[str, list[str]] = {}
    for version in arguments.versions:
        release = choose_release(version, "AllAlpha=true,AllBeta=true")
        catalog = built_in(KUBERNETES, release, Enablement(every=True))
        for line in (
            *compare_resources(catalog, resources, version),
            *compare_types(catalog, fields, version),
        ):
            found.setdefault(line, []).append(version)
    for line, versions in sorted(found.items()):
        print(f"{versions[0]}-{versions[-1]}: {line}")
    sys.exit(1 if found else 0)


def compare_resources(catalog: Catalog, facts: Facts, version: str) -> Iterator[str]:
    served = set()
    for one in catalog.definitions:
        served |= {f"{one.api_version} {one.plural}"}
        served |= {f"{one.api_version} {one.plural}/{below.name}" for below in one.subresources}
    known = {
        f"{group_version} {name}"
        for group_version, resources in facts.items()
        for name, one in resources.items()
        if exists_in(version, one["since"], one.get("until", ""))
    }
    yield from (f"resource missing: {one}" for one in known - served if not one.startswith(NOT_BUILT))
    if minor(version) > minor(VERSIONS[0]):  # in 1.25 this server has a few that Kubernetes had before
        # The table has apiregistration only since 1.27.
        yield from (f"resource unknown: {one}" for one in served - known if "apiregistration" not in one)


def compare_types(catalog: Catalog, facts: Facts, version: str) -> Iterator[str]:
    documents = Documents(catalog, KUBERNETES, version)
    described: dict[str, Facts] = {}
    for one in sections(catalog, VERBS, Naming(KUBERNETES, catalog.exists), describes_history=False):
        document = orjson.loads(b"".join(documents.version_3(one)))
        described |= document["components"].get("schemas", {})
    for name, schema in described.items():
        expected = facts.get(name.removeprefix(DOMAIN))
        if expected is None or not exists_in(version, expected["since"], expected.get("until", "")):
            if minor(version) > minor(VERSIONS[0]) and "apiregistration" not in name:
                yield f"type unknown: {name}"
        else:
            yield from (f"{name}{line}" for line in compare_type(schema, expected, version))


def compare_type(schema: Facts, expected: Facts, version: str) -> Iterator[str]:
    start, end = expected["since"], expected.get("until", "")
    properties = schema.get("properties", {})
    known = {
        name: one
        for name, one in expected["fields"].items()
        if exists_in(version, one.get("since", start), one.get("until", end))
    }
    yield from (f".{name} missing" for name in known.keys() - properties.keys())
    yield from (f".{name} unknown" for name in properties.keys() - known.keys())
    for name in known.keys() & properties.keys():
        found, fact = properties[name], known[name]
        if "changed" in fact and len(fact["changed"]) == 1 and minor(version) < minor(fact["changed"][0]):
            fact = fact["was"]
        elif "changed" in fact and minor(version) < minor(fact["changed"][-1]):
            continue  # the table does not have what was between two changes
        yield from (f".{name} {line}" for line in compare_field(found, fact))
    required = schema.get("required", [])
    before = expected.get("requiredBefore")
    if sorted(required) != sorted(expected["required"]) and before is None:
        yield f" requires {sorted(required)} and not {sorted(expected['required'])}"
    elif before is not None and sorted(required) not in (
        sorted(expected["required"]),
        *map(sorted, before.values()),
    ):
        yield f" requires {sorted(required)}"


def compare_field(found: Facts, fact: Facts) -> Iterator[str]:
    type_ = described_type(found)
    if type_ != fact["type"]:
        yield f"is {type_} and not {fact['type']}"
    for marker in MARKERS:
        if found.get(PREFIX + marker) != fact.get(MARKER + marker):
            yield f"has {marker} {found.get(PREFIX + marker)} and not {fact.get(MARKER + marker)}"
    if "default" in fact and found.get("default") != fact["default"]:
        yield f"has default {found.get('default')} and not {fact['default']}"


def described_type(schema: Facts) -> Any:
    """The type as the table has it: "integer:int32", a list of the item's, a map with the value's, or a type's name."""
    (inner,) = schema.get("allOf", [schema])
    if "$ref" in inner:
        return inner["$ref"].rpartition("/")[2].removeprefix(DOMAIN)
    if inner.get("type") == "array":
        return [described_type(inner["items"])]
    if "additionalProperties" in inner:
        return {"*": described_type(inner["additionalProperties"])}
    return ":".join(filter(None, (inner.get("type"), inner.get("format"))))


if __name__ == "__main__":
    main()
