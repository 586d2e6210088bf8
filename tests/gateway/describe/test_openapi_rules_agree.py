"""OpenAPI's `required` and `enum` agree with validation, for every kind, starting from a valid object.

The tests remove each required field and replace each enum value: whatever another OpenAPI validator refuses then, the
validation of the kind refuses too.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from openapi_schema_validator import OAS30Validator, oas30_format_checker

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.validation import collect
from rewound.actors.names import NAMES
from tests.actors.kinds.definitions import create
from tests.cases import cases
from tests.gateway.describe.reader import Reader, Schema, version_3
from tests.gateway.describe.specimens import Object, key, specimens

NAMES_ = NAMES["kubernetes"]
CREATED = [one for one in built_in(NAMES_).definitions if "create" in one.verbs]
SPECIMENS = specimens(NAMES_)
FOREIGN = "Nonesuch"
NAMES_OF = {"APIService": "v1.example.com", "CustomResourceDefinition": "shops.example.com"}
# Required in OpenAPI, as in Kubernetes, though validation accepts their absence.
TOLERATED = {
    # An absent field is zero or empty, which is valid here.
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
    "CustomResourceDefinitionVersion.served",
    "StatefulSetSpec.serviceName",  # by the rule service-name of this dialect's profile
    # Defaulted before validation.
    "RoleRef.apiGroup",
    # An empty source is dropped, as older clients expect.
    "TypedLocalObjectReference.kind",
    # The selector of spread constraints is not validated before scheduling.
    *("LabelSelectorRequirement.key", "LabelSelectorRequirement.operator"),
}


def described(definition: Definition) -> tuple[Reader, Schema]:
    root = f"apis/{definition.api_version}" if definition.group else f"api/{definition.version}"
    reader = Reader(version_3(NAMES_.dialect)[root])
    title = reader.definition_name(
        definition.group, definition.version, definition.kind, NAMES_.extension_prefix
    )
    return reader, {"$ref": f"#/components/schemas/{title}"}


def is_ephemeral(definition: Definition) -> bool:
    """Whether the kind is ephemeral, such as a review: its objects have no name."""
    return definition.kind.endswith("Review")


def document(definition: Definition) -> Object:
    named = {"name": NAMES_OF.get(definition.kind, "web")}
    metadata = {} if is_ephemeral(definition) else named
    typed = {"kind": definition.kind, "apiVersion": definition.api_version, "metadata": metadata}
    return copy.deepcopy({**typed, **SPECIMENS[key(definition)]})


def refused(definition: Definition, sent: Object) -> bool:
    try:
        new = definition.schema.decode_json(orjson.dumps(sent)).object
    except NotDecodable:
        return True
    if definition.storage.conversion is not None:
        new = definition.storage.conversion.to_storage(new)
    if is_ephemeral(definition):
        if definition.namespaced:
            new["metadata"]["namespace"] = "ns"
        return bool(collect(definition.strategy.validate_create, new))
    return bool(create(definition, new)[1])


def changes(reader: Reader, schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    """(path, changed object) for each required field removed and each enum value replaced."""
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


@cases("definition", CREATED, ids=repr)
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
        if (definition.api_version, where) not in _refused_by_schema:
            assert not validator.is_valid(sent), where
            _refused_by_schema.add((definition.api_version, where))
        if not refused(definition, sent) and not _in_pods_of_a_set(definition, whole, sent):
            passed.add(where)
    assert passed <= TOLERATED


def _in_pods_of_a_set(definition: Definition, whole: Object, sent: Object) -> bool:
    """Whether the change is in the pod template of a StatefulSet, whose pods are validated on their creation."""
    if definition.kind != "StatefulSet":
        return False
    template: Object = sent.get("spec", {}).get("template", {})
    return "spec" in template and template["spec"] != whole["spec"]["template"]["spec"]


# Kinds of a group version share the schemas of their fields: a validator need not refuse a change of each.
_refused_by_schema: set[tuple[str, str]] = set()


def _validator(reader: Reader, schema: Schema) -> OAS30Validator:
    rooted = {**schema, "components": reader.document["components"]}
    return OAS30Validator(rooted, format_checker=oas30_format_checker)
