"""What descriptions demand is what rules refuse: for every kind, from an object that both find in order.

A field that the description requires is taken away, a word is put where the description lists other words:
whatever a validator that is not ours refuses then, the rules of the kind refuse too.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from openapi_schema_validator import OAS30Validator, oas30_format_checker

from actors.kinds.built_in import built_in
from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.decoder import NotDecodable
from actors.kinds.validation.field_errors import collect
from actors.names import NAMES
from tests.actors.kinds.definitions import create
from tests.gateway.describe.reader import Reader, Schema, version_3
from tests.gateway.describe.specimens import Object, key, specimens

NAMES_ = NAMES["kubernetes"]
CREATED = [one for one in built_in(NAMES_).definitions if "create" in one.verbs]
SPECIMENS = specimens(NAMES_)
FOREIGN = "Nonesuch"
# Required by description, as it has always been, and yet rules do without.
TOLERATED = {
    # Nothing said is zero or empty, which is a good value here.
    *(
        "ControllerRevision.revision",
        "HTTPHeader.value",
        "HostPortRange.max",
        "HostPortRange.min",
        "IDRange.min",
    ),
    *("ISCSIVolumeSource.lun", "PriorityClass.value", "TokenRequest.audience"),
    *("CSIDriver.spec", "CSINode.spec", "CSINodeSpec.drivers", "EndpointSlice.endpoints", "ForZone.name"),
    *("LimitRangeSpec.limits", "NetworkPolicySpec.podSelector", "PreferredSchedulingTerm.preference"),
    *("SelfSubjectRulesReview.spec", "TokenReview.spec"),
    # Filled in before anybody judges.
    "RoleRef.apiGroup",
    # A source that could hold nothing is dropped, as older clients expect.
    "TypedLocalObjectReference.kind",
    # Spread constraints count pods by their selector, and nobody looks at it before.
    *("LabelSelectorRequirement.key", "LabelSelectorRequirement.operator"),
}


def described(definition: Definition) -> tuple[Reader, Schema]:
    root = f"apis/{definition.api_version}" if definition.group else f"api/{definition.version}"
    reader = Reader(version_3(NAMES_.dialect)[root])
    title = reader.title(definition.group, definition.version, definition.kind, NAMES_.extension_prefix)
    return reader, {"$ref": f"#/components/schemas/{title}"}


def is_question(definition: Definition) -> bool:
    """Reviews are answered and not kept: they have no name."""
    return definition.kind.endswith("Review")


def document(definition: Definition) -> Object:
    named = {"name": "v1.example.com" if definition.kind == "APIService" else "web"}
    metadata = {} if is_question(definition) else named
    typed = {"kind": definition.kind, "apiVersion": definition.api_version, "metadata": metadata}
    return copy.deepcopy({**typed, **SPECIMENS[key(definition)]})


def refused(definition: Definition, sent: Object) -> bool:
    try:
        new = definition.schema.decode_json(orjson.dumps(sent)).object
    except NotDecodable:
        return True
    if definition.storage.conversion is not None:
        new = definition.storage.conversion.to_storage(new)
    if is_question(definition):
        if definition.namespaced:
            new["metadata"]["namespace"] = "ns"
        return bool(collect(definition.strategy.validate_create, new))
    return bool(create(definition, new)[1])


def changes(reader: Reader, schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    """(where, the value as it then is) for every required field taken away and every word replaced."""
    title, found = reader.resolve(schema)
    if isinstance(value, list):
        for at, item in enumerate(value):
            for where, changed in changes(reader, found["items"], item):
                yield where, [*value[:at], changed, *value[at + 1 :]]
        return
    if not isinstance(value, dict) or "properties" not in found:
        return
    own = title.rpartition(".")[2]
    for name in found.get("required", ()):
        yield f"{own}.{name}", {part: inner for part, inner in value.items() if part != name}
    for name, inner in found["properties"].items():
        if "enum" in inner:
            yield f"{own}.{name}=", {**value, name: FOREIGN}
        if name in value:
            for where, changed in changes(reader, inner, value[name]):
                yield where, {**value, name: changed}


@pytest.mark.parametrize("definition", CREATED, ids=repr)
def test_specimens_are_valid(definition: Definition) -> None:
    validator, sent = _validator(*described(definition)), document(definition)
    assert [error.message for error in validator.iter_errors(sent)] == []
    assert not refused(definition, sent)


@pytest.mark.parametrize("definition", CREATED, ids=repr)
def test_required_fields_are_enforced(definition: Definition) -> None:
    reader, schema = described(definition)
    validator = _validator(reader, schema)
    passed = set()
    whole = document(definition)
    for where, sent in changes(reader, schema, whole):
        assert not validator.is_valid(sent), where
        if not refused(definition, sent) and not _in_pods_of_a_set(definition, whole, sent):
            passed.add(where)
    assert passed <= TOLERATED


def _in_pods_of_a_set(definition: Definition, whole: Object, sent: Object) -> bool:
    """Whether a change is in the pods of a StatefulSet, which are judged when they are made."""
    if definition.kind != "StatefulSet":
        return False
    template: Object = sent.get("spec", {}).get("template", {})
    return "spec" in template and template["spec"] != whole["spec"]["template"]["spec"]


def _validator(reader: Reader, schema: Schema) -> OAS30Validator:
    rooted = {**schema, "components": reader.document["components"]}
    return OAS30Validator(rooted, format_checker=oas30_format_checker)
