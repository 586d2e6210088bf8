"""The apiextensions group: CustomResourceDefinition, a kind that clients define; its declaration, validation and
deletion.

`actors.kinds.custom` turns its objects into definitions of kinds; `actors.controllers.custom_resources` publishes
them. JSONSchemaProps, the declaration of the JSON schemas inside, only says how schemas are decoded and stored;
`actors.kinds.structural` checks and compiles them. Its extensions have other names in each dialect, so there is one
declaration per dialect.

Validation is in the order of v1.25. Kubernetes validates its internal version of the kind. There, schema,
subresources and printer columns that are the same in all versions are in the spec (`spec.validation`,
`spec.subresources`, `spec.additionalPrinterColumns`), and `spec.version` is the name of the first version. Errors
have those paths, which clients know.

Protected API groups are those of the project itself, whose definitions need an annotation that approves them:

    api-approved.cluster.io: https://example.com/the-review        approved
    api-approved.cluster.io: unapproved, an experiment             allowed, and reported in a condition
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from rewound.actors.golang.format import Formatted
from rewound.actors.golang.quoting import quoted, quoted_start
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    bump_generation,
    keep_spec,
    keep_status,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.declaration.webhook_client import service_rules, url_rules
from rewound.actors.kinds.schema.fields import (
    BOOL,
    BYTES,
    DOUBLE,
    INT32,
    INT64,
    STRING,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Struct,
    StructOr,
    Type,
    zero_struct,
)
from rewound.actors.kinds.schema.json_tree import stored_numbers
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_1035_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
    size,
    too_many,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.background_import import is_imported
from rewound.actors.runtime.time_limit import need_thread
from rewound.actors.versions.features import (
    BARE_REQUIRED_SCHEMAS,
    EXPLAINED_STORED_VERSIONS,
    FIELD_SELECTORS,
    FORMATS_WARNED_OF,
)

if TYPE_CHECKING:
    from rewound.actors.kinds.structural.schema_node import Node, Rule

NAMES_ACCEPTED: Final = "NamesAccepted"
ESTABLISHED: Final = "Established"
TERMINATING: Final = "Terminating"


def find_condition(definition: Object, type_: str) -> Object | None:
    conditions = definition.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == type_), None)


def is_true(definition: Object, type_: str) -> bool:
    found = find_condition(definition, type_)
    return found is not None and found["status"] == "True"


def with_condition(
    conditions: Sequence[Object] | None, type_: str, status: str, reason: str, message: str, now: str
) -> list[Object]:
    """Return a copy with a condition added or replaced; its transition time changes only with its status."""
    new = {
        "type": type_,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    changed = []
    replaced = False
    for one in conditions or ():
        if one["type"] == type_:
            if one["status"] == status:
                new["lastTransitionTime"] = one.get("lastTransitionTime") or now
            one, replaced = new, True
        changed.append(one)
    return changed if replaced else [*changed, new]


APPROVED: Final = "KubernetesAPIApprovalPolicyConformant"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


class Approval(msgspec.Struct, frozen=True):
    """The meaning of a definition's annotation, with status and reason of the condition."""

    status: str
    reason: str
    message: str


def is_protected(names: Names, group: str) -> bool:
    return any(
        group == domain or group.endswith(f".{domain}") for domain in (names.group_domain, names.key_domain)
    )


def approval_annotation(names: Names) -> str:
    return f"api-approved.{names.key_domain}"


def approval_of(names: Names, definition: Object) -> Approval:
    key = approval_annotation(names)
    text: str = definition["metadata"].get("annotations", {}).get(key, "")
    needed = f'protected groups must have approval annotation "{key}"'
    if not text:
        return Approval("False", "MissingAnnotation", f"{needed}, {_SEE}")
    if text.startswith("unapproved"):
        return Approval("False", "UnapprovedAnnotation", f"not approved: {quoted_start(text)}")
    if _is_url(text):
        return Approval("True", "ApprovedAnnotation", f"approved in {text}")
    either = 'with either a URL or a reason starting with "unapproved"'
    return Approval("False", "InvalidAnnotation", f"{needed} {either}, {_SEE}")


def approval_rules(errors: FieldErrors, names: Names, new: Object, old: Object | None) -> None:
    """Report a missing or invalid approval of a protected group; one that was stored before stays allowed."""
    if not is_protected(names, new["spec"]["group"]):
        return
    approval = approval_of(names, new)
    if old is not None and approval_of(names, old).reason == approval.reason:
        return
    key = approval_annotation(names)
    field = f"metadata.annotations[{key}]"
    if approval.reason == "MissingAnnotation":
        errors.add(required(field, approval.message))
    elif approval.reason == "InvalidAnnotation":
        errors.add(invalid(field, new["metadata"]["annotations"][key], approval.message))


def _is_url(text: str) -> bool:
    if any(character <= " " for character in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


JSON: Final = JsonValue("JSON", "v1.JSON", "apiextensions.v1.JSON")
EXTERNAL_DOCUMENTATION = Struct(
    "apiextensions.v1.ExternalDocumentation", Field("description", STRING, 1), Field("url", STRING, 2)
)
VALIDATION_RULE = Struct(
    "apiextensions.v1.ValidationRule",
    Field("rule", STRING, 1, required=True, always=True),
    Field("message", STRING, 2),
    Field("messageExpression", STRING, 3, since="1.27"),
    Field("reason", STRING, 4, pointer=True, since="1.28"),
    Field("fieldPath", STRING, 5, since="1.28"),
    Field("optionalOldSelf", BOOL, 6, pointer=True, since="1.29", gate="CRDValidationRatcheting"),
)


@cache
def json_schema_props(prefix: str) -> Struct:
    """Return the declaration of JSONSchemaProps; `prefix` is that of the extensions, such as x-cluster-."""
    return Struct.recursive("apiextensions.v1.JSONSchemaProps", lambda schema: _fields(schema, prefix))


def _fields(schema: Struct, prefix: str) -> tuple[Field, ...]:
    schemas, by_name = ListOf(schema), MapOf(schema)
    or_array = _struct_or("Array", schema, ListOf(schema), (1, 2))
    or_bool = _struct_or("Bool", schema, BOOL, (2, 1))
    or_strings = _struct_or("StringArray", schema, STRINGS, (1, 2))
    return (
        Field("id", STRING, 1),
        Field("$schema", STRING, 2),
        Field("$ref", STRING, 3, pointer=True),
        Field("description", STRING, 4),
        Field("type", STRING, 5),
        Field("format", STRING, 6),
        Field("title", STRING, 7),
        Field("default", JSON, 8, pointer=True),
        Field("maximum", DOUBLE, 9, pointer=True),
        Field("exclusiveMaximum", BOOL, 10),
        Field("minimum", DOUBLE, 11, pointer=True),
        Field("exclusiveMinimum", BOOL, 12),
        Field("maxLength", INT64, 13, pointer=True),
        Field("minLength", INT64, 14, pointer=True),
        Field("pattern", STRING, 15),
        Field("maxItems", INT64, 16, pointer=True),
        Field("minItems", INT64, 17, pointer=True),
        Field("uniqueItems", BOOL, 18),
        Field("multipleOf", DOUBLE, 19, pointer=True),
        Field("enum", ListOf(JSON), 20, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("maxProperties", INT64, 21, pointer=True),
        Field("minProperties", INT64, 22, pointer=True),
        Field("required", STRINGS, 23, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("items", or_array, 24, pointer=True, bare=True),
        Field("allOf", schemas, 25, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("oneOf", schemas, 26, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("anyOf", schemas, 27, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("not", schema, 28, pointer=True, bare=True),
        Field("properties", by_name, 29),
        Field("additionalProperties", or_bool, 30, pointer=True, bare=True),
        Field("patternProperties", by_name, 31),
        # Never stored, and refused even when empty.
        Field("dependencies", MapOf(or_strings, go_name="v1.JSONSchemaDependencies"), 32, pointer=True),
        Field("additionalItems", or_bool, 33, pointer=True, bare=True),
        Field("definitions", MapOf(schema, go_name="v1.JSONSchemaDefinitions"), 34),
        Field("externalDocs", EXTERNAL_DOCUMENTATION, 35, pointer=True, bare=True),
        Field("example", JSON, 36, pointer=True, bare=True),
        Field("nullable", BOOL, 37),
        Field(f"{prefix}preserve-unknown-fields", BOOL, 38, pointer=True),
        Field(f"{prefix}embedded-resource", BOOL, 39),
        Field(f"{prefix}int-or-string", BOOL, 40),
        Field(f"{prefix}list-map-keys", STRINGS, 41, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field(f"{prefix}list-type", STRING, 42, pointer=True),
        Field(f"{prefix}map-type", STRING, 43, pointer=True),
        Field(
            f"{prefix}validations",
            ListOf(VALIDATION_RULE, go_name="v1.ValidationRules"),
            44,
            patch="merge",
            merge_key="rule",
            list_type="map",
            list_keys=("rule",),
        ),
    )


def _struct_or(what: str, schema: Struct, other: Type, numbers: tuple[int, int]) -> StructOr:
    name = f"JSONSchemaPropsOr{what}"
    return StructOr(name, f"v1.{name}", f"apiextensions.v1.{name}", schema, other, numbers)


NAMES = Struct(
    "apiextensions.v1.CustomResourceDefinitionNames",
    Field("plural", STRING, 1, required=True, always=True),
    Field("singular", STRING, 2),
    Field("shortNames", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("kind", STRING, 4, required=True, always=True),
    Field("listKind", STRING, 5),
    Field("categories", STRINGS, 6, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
COLUMN = Struct(
    "apiextensions.v1.CustomResourceColumnDefinition",
    Field("name", STRING, 1, required=True, always=True),
    Field("type", STRING, 2, required=True, always=True),
    Field("format", STRING, 3),
    Field("description", STRING, 4),
    Field("priority", INT32, 5),
    Field("jsonPath", STRING, 6, required=True, always=True),
)
SCALE = Struct(
    "apiextensions.v1.CustomResourceSubresourceScale",
    Field("specReplicasPath", STRING, 1, required=True, always=True),
    Field("statusReplicasPath", STRING, 2, required=True, always=True),
    Field("labelSelectorPath", STRING, 3, pointer=True),
)
SUBRESOURCES = Struct(
    "apiextensions.v1.CustomResourceSubresources",
    Field("status", Struct("apiextensions.v1.CustomResourceSubresourceStatus"), 1, pointer=True),
    Field("scale", SCALE, 2, pointer=True),
)
SERVICE_REFERENCE = Struct(
    "apiextensions.v1.ServiceReference",
    Field("namespace", STRING, 1, required=True, always=True),
    Field("name", STRING, 2, required=True, always=True),
    Field("path", STRING, 3, pointer=True),
    Field("port", INT32, 4, pointer=True, default=443),
)
CLIENT_CONFIG = Struct(
    "apiextensions.v1.WebhookClientConfig",
    Field("url", STRING, 3, pointer=True),
    Field("service", SERVICE_REFERENCE, 1, pointer=True),
    Field("caBundle", BYTES, 2),
)
WEBHOOK_CONVERSION = Struct(
    "apiextensions.v1.WebhookConversion",
    Field("clientConfig", CLIENT_CONFIG, 2, pointer=True),
    Field(
        "conversionReviewVersions",
        STRINGS,
        3,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
CONVERSION = Struct(
    "apiextensions.v1.CustomResourceConversion",
    Field("strategy", STRING, 1, required=True, always=True),
    Field("webhook", WEBHOOK_CONVERSION, 2, pointer=True),
)
CONDITION = Struct(
    "apiextensions.v1.CustomResourceDefinitionCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastTransitionTime", TIME, 3),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
    Field("observedGeneration", INT64, 6, since="1.35", gate="CRDObservedGenerationTracking"),
)
STATUS = Struct(
    "apiextensions.v1.CustomResourceDefinitionStatus",
    Field("conditions", ListOf(CONDITION), 1, always=True, list_type="map", list_keys=("type",)),
    Field("acceptedNames", NAMES, 2, always=True),
    Field("storedVersions", STRINGS, 3, always=True, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("observedGeneration", INT64, 4, since="1.35", gate="CRDObservedGenerationTracking"),
)


SELECTABLE_FIELD = Struct(
    "apiextensions.v1.SelectableField", Field("jsonPath", STRING, 1, required=True, always=True)
)


@cache
def custom_resource_definition(prefix: str) -> Struct:
    """Return the declaration; `prefix` is that of the extensions in schemas, such as x-cluster-."""
    validation = Struct(
        "apiextensions.v1.CustomResourceValidation",
        Field("openAPIV3Schema", json_schema_props(prefix), 1, pointer=True),
    )
    version = Struct(
        "apiextensions.v1.CustomResourceDefinitionVersion",
        Field("name", STRING, 1, required=True, always=True),
        Field("served", BOOL, 2, required=True, always=True),
        Field("storage", BOOL, 3, required=True, always=True),
        Field("deprecated", BOOL, 7),
        Field("deprecationWarning", STRING, 8, pointer=True),
        Field("schema", validation, 4, pointer=True),
        Field("subresources", SUBRESOURCES, 5, pointer=True),
        Field("additionalPrinterColumns", ListOf(COLUMN), 6, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field(
            "selectableFields",
            ListOf(SELECTABLE_FIELD),
            9,
            list_type="atomic",
            since="1.30",
            gate=FIELD_SELECTORS,
        ),
    )
    spec = Struct(
        "apiextensions.v1.CustomResourceDefinitionSpec",
        Field("group", STRING, 1, required=True, always=True),
        Field("names", NAMES, 3, required=True, always=True),
        Field("scope", STRING, 4, required=True, always=True),
        Field(
            "versions",
            ListOf(version),
            7,
            required=True,
            always=True,
            list_type="atomic",
            before=UNTYPED_BEFORE_1_30,
        ),
        Field("conversion", CONVERSION, 9, pointer=True),
        Field("preserveUnknownFields", BOOL, 10),
    )
    return Struct(
        "apiextensions.v1.CustomResourceDefinition",
        METADATA,
        Field("spec", spec, 2, required=True, always=True),
        Field("status", STATUS, 3),
    )


COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS: Final = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
NONE, WEBHOOK = "None", "Webhook"
LONGEST_WARNING: Final = 256
MOST_COLUMNS: Final = 1000  # printer columns: every row of a table has a cell for each
MIXED_CASE: Final = "may have mixed case, but should otherwise match: "
NOT_WEBHOOK: Final = "should not be set when strategy is not set to Webhook"


def one_of_rules(errors: FieldErrors, field: str, value: str, supported: tuple[str, ...]) -> None:
    if not value:
        errors.add(required(field))
    elif value not in supported:
        errors.add(not_supported(field, value, supported))


def names_rules(errors: FieldErrors, names: Object, field: str) -> None:
    """Validate the names of a spec, or those in the status; each may be missing."""
    for part in ("plural", "singular"):
        _label(errors, names.get(part, ""), f"{field}.{part}")
    for part in ("kind", "listKind"):
        value = names.get(part, "")
        if value and (wrong := dns_1035_label(value.lower())):
            errors.add(invalid(f"{field}.{part}", value, MIXED_CASE + ",".join(wrong)))
    _name_label_rules(errors, names.get("shortNames", []), f"{field}.shortNames")
    if names["kind"] and names["kind"] == names.get("listKind"):
        errors.add(invalid(f"{field}.listKind", names["kind"], "kind and listKind may not be the same"))
    _name_label_rules(errors, names.get("categories", []), f"{field}.categories")


def _name_label_rules(errors: FieldErrors, values: list[str], field: str) -> None:
    for index, value in enumerate(values):
        if wrong := dns_1035_label(value):
            errors.add(invalid(f"{field}[{index}]", value, ",".join(wrong)))


def _label(errors: FieldErrors, value: str, field: str) -> None:
    if value and (wrong := dns_1035_label(value)):
        errors.add(invalid(field, value, ",".join(wrong)))


def deprecation_rules(errors: FieldErrors, version: Object, field: str) -> None:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        errors.add(invalid(field, text, "can only be set for deprecated versions"))
        return
    if size(text) > LONGEST_WARNING:
        errors.add(invalid(field, text, f"must be <= {LONGEST_WARNING} characters long"))
    if not text:
        errors.add(invalid(field, text, "must not be an empty string"))
    index = next((index for index, one in enumerate(text) if not one.isprintable()), None)
    if index is not None:
        where = size(text[:index])
        why = f"must only contain printable UTF-8 characters; non-printable character found at index {where}"
        errors.add(invalid(field, text, why))


def columns_rules(errors: FieldErrors, columns: list[Object], field: str) -> None:
    if len(columns) > MOST_COLUMNS:
        errors.add(too_many(field, len(columns), MOST_COLUMNS))
        return
    for index, column in enumerate(columns):
        _column(errors, column, f"{field}[{index}]")


def _column(errors: FieldErrors, column: Object, field: str) -> None:
    if not column["name"]:
        errors.add(required(f"{field}.name"))
    types = f"must be one of {','.join(COLUMN_TYPES)}"
    if not column["type"]:
        errors.add(required(f"{field}.type", types))
    elif column["type"] not in COLUMN_TYPES:
        errors.add(invalid(f"{field}.type", column["type"], types))
    if column.get("format") and column["format"] not in COLUMN_FORMATS:
        formats = f"must be one of {','.join(COLUMN_FORMATS)}"
        errors.add(invalid(f"{field}.format", column["format"], formats))
    if not column["jsonPath"]:
        errors.add(required(f"{field}.JSONPath"))
    else:
        path_rules(errors, column["jsonPath"], f"{field}.JSONPath")


def path_rules(errors: FieldErrors, path: str, field: str) -> bool:
    """Validate that a path, which is not empty, has the simple form that is allowed."""
    if path.startswith("."):
        return True
    errors.add(invalid(field, path, "must be a simple json path starting with ."))
    return False


def subresources_rules(errors: FieldErrors, subresources: Object | None, field: str) -> None:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for part, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        here, path = f"{field}.scale.{part}", scale[part]
        if not path:
            errors.add(required(here))
        elif path_rules(errors, path, here) and not path.startswith(f"{root}."):
            errors.add(invalid(here, path, f"should be a json path under {root}"))
    here, path = f"{field}.scale.labelSelectorPath", scale.get("labelSelectorPath")
    if path and path_rules(errors, path, here) and not path.startswith((".spec.", ".status.")):
        errors.add(invalid(here, path, "should be a json path under either .spec or .status"))


def conversion_rules(errors: FieldErrors, conversion: Object, field: str, *, recognized: bool = True) -> None:
    """Validate the conversion. `recognized`: at least one of its review versions must be one that this server sends."""
    one_of_rules(errors, f"{field}.strategy", conversion["strategy"], (NONE, WEBHOOK))
    webhook = conversion.get("webhook", {})
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if conversion["strategy"] == WEBHOOK:
        _client_config(errors, config, f"{field}.webhookClientConfig")
        _review_versions(errors, versions, f"{field}.conversionReviewVersions", recognized)
        return
    if config is not None:
        errors.add(forbidden(f"{field}.webhookClientConfig", NOT_WEBHOOK))
    if versions:
        errors.add(forbidden(f"{field}.conversionReviewVersions", NOT_WEBHOOK))


def _client_config(errors: FieldErrors, config: Any, field: str) -> None:
    if config is None:
        errors.add(required(field, "required when strategy is set to Webhook"))
    elif ("url" in config) is ("service" in config):
        errors.add(required(field, "exactly one of url or service is required"))
    elif "url" in config:
        url_rules(errors, config["url"], f"{field}.url")
    else:
        service = config["service"]
        service_rules(
            errors,
            service["name"],
            service["namespace"],
            service.get("path"),
            service["port"],
            f"{field}.service",
        )


def _review_versions(errors: FieldErrors, versions: list[str], field: str, recognized: bool) -> None:
    if not versions:
        errors.add(required(field))
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.add(invalid(f"{field}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        errors.add_each(f"{field}[{index}]", version, dns_1035_label(version))
    if recognized and seen.isdisjoint(REVIEW_VERSIONS):
        errors.add(invalid(field, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))


# v1.25 has no such limits. For discovery and OpenAPI, each version is a kind of its own.
MOST_VERSIONS: Final = 100
MOST_NAMES: Final = 100  # short names, and categories

SCOPES = ("Cluster", "Namespaced")


class _Common(msgspec.Struct, frozen=True):
    """The parts that are the same in all versions; None for those that are not."""

    versions: list[Object]

    def shares(self, part: str) -> bool:
        first, *others = self.versions or [{}]
        return all(one.get(part) == first.get(part) for one in others)

    def shared(self, part: str) -> Any:
        return self.versions[0].get(part) if self.versions and self.shares(part) else None


def create_rules(names: Names, features: Set[str], errors: FieldErrors, new: Object) -> None:
    check_name = partial(_check_name, new["spec"])
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=check_name, known_finalizers=False)
    _spec_rules(errors, names, features, new["spec"], {}, recognized=True)
    _status_rules(errors, new["status"])
    _stored_versions(errors, features, new)
    approval_rules(errors, names, new, None)
    _preserve_unknown_fields(errors, names, new["spec"], None)


def update_rules(names: Names, features: Set[str], errors: FieldErrors, new: Object, old: Object) -> None:
    spec, before = new["spec"], old["spec"]
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    _spec_rules(errors, names, features, spec, before, recognized=_has_recognized_versions(before))
    if is_true(old, ESTABLISHED):
        unchanged(errors, "spec.scope", spec["scope"], before["scope"])
        unchanged(errors, "spec.names.kind", spec["names"]["kind"], before["names"]["kind"])
    unchanged(errors, "spec.group", spec["group"], before["group"])
    unchanged(errors, "spec.names.plural", spec["names"]["plural"], before["names"]["plural"])
    _status_rules(errors, new["status"])
    _stored_versions(errors, features, new)
    approval_rules(errors, names, new, old)
    _preserve_unknown_fields(errors, names, spec, before)


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    _status_rules(errors, new["status"])


def _check_name(spec: Object, name: str, prefix: bool) -> list[str]:
    wrong = name_is_subdomain(name, prefix)
    if name == f"{spec['names']['plural']}.{spec['group']}":
        return wrong
    return [*wrong, 'must be spec.names.plural+"."+spec.group']


def _spec_rules(
    errors: FieldErrors,
    names: Names,
    features: Set[str],
    spec: Object,
    before: Object,
    *,
    recognized: bool,
) -> None:
    versions = spec["versions"] or []
    common = _Common(versions)
    _group(errors, spec["group"])
    one_of_rules(errors, "spec.scope", spec["scope"], SCOPES)
    _schemas_exist(errors, versions, "" if BARE_REQUIRED_SCHEMAS in features else "schemas are required")
    if spec.get("preserveUnknownFields") and any(_has_defaults(_schema(one)) for one in versions):
        text = "must be false in order to use defaults in the schema"
        errors.add(invalid("spec.preserveUnknownFields", True, text))
    stored = cache(partial(_rules_of, before.get("versions") or [], names))
    check = partial(_schema_rules, errors, names, stored)
    _versions(errors, check, versions, common, is_absent=spec["versions"] is None)
    _selectable_fields(errors, names, versions, before.get("versions") or [], common)
    _names(errors, spec["names"])
    if common.shares("schema") and versions:
        has_status = any(_has_status(one) for one in versions)
        check(_schema(versions[0]), "spec.validation", has_status)
    subresources_rules(errors, common.shared("subresources"), "spec.subresources")
    columns = common.shared("additionalPrinterColumns") or []
    columns_rules(errors, columns, "spec.additionalPrinterColumns")
    conversion = spec["conversion"]
    if conversion["strategy"] != NONE and spec.get("preserveUnknownFields"):
        text = "must be None if spec.preserveUnknownFields is true"
        errors.add(invalid("spec.conversion.strategy", conversion["strategy"], text))
    conversion_rules(errors, conversion, "spec.conversion", recognized=recognized)


def _group(errors: FieldErrors, group: str) -> None:
    if not group:
        errors.add(required("spec.group"))
    elif wrong := dns_subdomain(group):
        errors.add(invalid("spec.group", group, ",".join(wrong)))
    elif "." not in group:
        errors.add(invalid("spec.group", group, "should be a domain with at least one dot"))


def _schemas_exist(errors: FieldErrors, versions: list[Object], text: str) -> None:
    for index, version in enumerate(versions):
        if _schema(version) is None:
            errors.add(required(f"spec.versions[{index}].schema.openAPIV3Schema", text))


def _selectable_fields(
    errors: FieldErrors, names: Names, versions: list[Object], before: list[Object], common: _Common
) -> None:
    """Validate the fields that field selectors may name: those of all versions at once if they are the same."""
    if not any(one.get("selectableFields") for one in versions):
        return
    old = {one["name"]: one.get("selectableFields") for one in before}
    shared = common.shares("selectableFields") and common.shares("schema")
    for index, version in enumerate(versions[:1] if shared else versions):
        fields = version.get("selectableFields") or []
        where = "spec.selectableFields" if shared else f"spec.versions[{index}].selectableFields"
        schema = _schema(version)
        if schema is not None:
            selectable_field_rules(errors, fields, schema, names, where)
            count = len({one["jsonPath"] for one in fields})
            if count > MOST_SELECTABLE and old.get(version["name"]) != fields:
                errors.add(too_many(where, count, MOST_SELECTABLE))


def selectable_field_rules(
    errors: FieldErrors, fields: list[Object], schema: Object, names: Names, where: str
) -> None:
    from rewound.actors.kinds.structural.schema_node import parse_schema

    root, seen = parse_schema(schema, names), set[str]()
    for index, one in enumerate(fields):
        field, path = f"{where}[{index}].jsonPath", one["jsonPath"]
        if not path:
            errors.add(required(field))
            continue
        try:
            node = selected_node(root, path)
        except ValueError as error:
            errors.add(invalid(field, path, f"is an invalid path: {error}"))
            continue
        if path.split(".")[1] == "metadata":
            errors.add(invalid(field, path, "must not point to fields in metadata"))
        if node.type not in ("string", "boolean", "integer"):
            errors.add(invalid(field, path, NOT_SELECTABLE))
        if path in seen:
            errors.add(duplicate(field, path))
        seen.add(path)


def selected_node(node: Node, path: str) -> Node:
    """Return the node at a path of names after dots. Raises ValueError if the schema has no such field."""
    if "[" in path or "]" in path:
        raise ValueError("array notation is not allowed")
    first, *names = path.split(".")
    if first or not names:
        raise ValueError(f"expected [ or . but got: {first}")
    for name in names:
        if not name:
            raise ValueError("unexpected end of JSON path")
        inner = node.properties.get(name) if node.properties else node.values
        if inner is None:
            raise ValueError("does not refer to a valid field")
        node = inner
    return node


def _versions(
    errors: FieldErrors,
    check_schema: Callable[[Object | None, str, bool], None],
    versions: list[Object],
    common: _Common,
    *,
    is_absent: bool,
) -> None:
    schema_differs, subresources_differ, columns_differ = (
        not common.shares(part) for part in ("schema", "subresources", "additionalPrinterColumns")
    )
    if len(versions) > MOST_VERSIONS:
        errors.add(too_many("spec.versions", len(versions), MOST_VERSIONS))
        return
    for index, version in enumerate(versions):
        field = f"spec.versions[{index}]"
        if wrong := dns_1035_label(version["name"]):
            errors.add(invalid(f"{field}.name", version["name"], ",".join(wrong)))
        deprecation_rules(errors, version, f"{field}.deprecationWarning")
        if schema_differs:
            check_schema(_schema(version), f"{field}.schema", _has_status(version))
        if subresources_differ:
            subresources_rules(errors, version.get("subresources"), f"{field}.subresources")
        if columns_differ:
            columns = version.get("additionalPrinterColumns", [])
            columns_rules(errors, columns, f"{field}.additionalPrinterColumns")
    if len({version["name"] for version in versions}) < len(versions):
        errors.add(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(version["storage"] for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        kind = "[]apiextensions.CustomResourceDefinitionVersion"
        empty = Formatted(f"{kind}(nil)", None) if is_absent else Formatted(f"{kind}{{}}", [])
        errors.add(invalid("spec.versions", versions or empty, text))
    if versions and versions[0]["name"] and (wrong := dns_1035_label(versions[0]["name"])):
        errors.add(invalid("spec.version", versions[0]["name"], ",".join(wrong)))


def _rules_of(versions: list[Object], names: Names) -> Sequence[Rule]:
    from rewound.actors.kinds.structural.schema_node import parse_schema, rules_in

    schemas = [schema for version in versions if (schema := _schema(version)) is not None]
    return rules_in([parse_schema(schema, names) for schema in schemas])


def _schema_rules(
    errors: FieldErrors,
    names: Names,
    stored: Callable[[], Sequence[Rule]],
    schema: Object | None,
    field: str,
    has_status: bool,
) -> None:
    """Check a schema. `stored` returns the rules of the stored definition, which may use what new ones may not."""
    if schema is not None:
        # Imported when the first definition is written, together with CEL: it takes some tenths of a second.
        if not is_imported("rewound.actors.kinds.structural.definition_checks", "check_schema"):
            need_thread()
        from rewound.actors.kinds.structural.definition_checks import check_schema

        check_schema(
            errors,
            f"{field}.openAPIV3Schema",
            schema,
            names=names,
            stored=stored,
            has_status=has_status,
        )


def _names(errors: FieldErrors, names: Object) -> None:
    for part in ("shortNames", "categories"):
        if len(names.get(part) or ()) > MOST_NAMES:
            errors.add(too_many(f"spec.names.{part}", len(names[part]), MOST_NAMES))
    for part in ("plural", "singular", "kind", "listKind"):
        if not names.get(part):
            errors.add(required(f"spec.names.{part}"))
    names_rules(errors, names, "spec.names")


def _status_rules(errors: FieldErrors, status: Object) -> None:
    names_rules(errors, status["acceptedNames"], "status.acceptedNames")


def _stored_versions(errors: FieldErrors, features: Set[str], new: Object) -> None:
    """Every version in which objects may be stored must exist, including the current storage version."""
    field, stored = "status.storedVersions", new["status"]["storedVersions"] or []
    if not stored:
        empty = Formatted("[]string(nil)", None) if new["status"]["storedVersions"] is None else stored
        errors.add(invalid(field, empty, "must have at least one stored version"))
        return
    versions = new["spec"]["versions"] or []
    for version in versions:
        if version["storage"] and version["name"] not in stored:
            errors.add(invalid(field, version, f"must have the storage version {version['name']}"))
    existing = {version["name"] for version in versions}
    for index, name in enumerate(stored):
        if name not in existing:
            text = "must appear in spec.versions"
            if EXPLAINED_STORED_VERSIONS in features:
                text = (
                    f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                    f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                    f"{name} from status.storedVersions"
                )
            errors.add(invalid(f"{field}[{index}]", name, text))


def _preserve_unknown_fields(errors: FieldErrors, names: Names, spec: Object, old: Object | None) -> None:
    if spec.get("preserveUnknownFields") and not (old or {}).get("preserveUnknownFields"):
        text = (
            f"cannot set to true, set {names.extension_prefix}preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        errors.add(invalid("spec.preserveUnknownFields", True, text))


def _has_recognized_versions(spec: Object) -> bool:
    versions = spec["conversion"].get("webhook", {}).get("conversionReviewVersions") or ()
    return not versions or not set(versions).isdisjoint(REVIEW_VERSIONS)


def _has_defaults(schema: Any) -> bool:
    if isinstance(schema, dict):
        return schema.get("default") is not None or any(map(_has_defaults, schema.values()))
    return isinstance(schema, list) and any(map(_has_defaults, schema))


def _schema(version: Object) -> Object | None:
    schema: Object | None = version.get("schema", {}).get("openAPIV3Schema")
    return schema


def _has_status(version: Object) -> bool:
    return "status" in version.get("subresources", {})


PLURAL = "customresourcedefinitions"
MOST_SELECTABLE: Final = 8
NOT_SELECTABLE: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are "
    "allowed."
)
# Validates and compiles schemas. Imported with the first definition, because most servers have none.
SCHEMA_MODULES = (
    "rewound.actors.kinds.structural.definition_checks",
    "rewound.actors.kinds.structural.compile",
)
# Marks definitions that `rewound record` adds for kinds that are built into the recorded server.
ADDED_BY_RECORDER = "record.rewound.cluster.io/added"
PENDING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    custom_resource_definitions = Definition(
        group=names.group("apiextensions"),
        version="v1",
        kind="CustomResourceDefinition",
        plural=PLURAL,
        names=DiscoveryNames(short_names=("crd", "crds"), categories=("api-extensions",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=custom_resource_definition(names.extension_prefix),
        set_defaults=set_defaults,
        subresources=(
            Subresource(
                name="status",
                prepare=keep_spec,
                validate=status_update_rules,
                reset_fields=("metadata", "spec"),
            ),
        ),
        storage=Storage(announced_version="v1beta1"),
        deletion=Deletion(
            returns_object=True,
            promises_object=False,
            uid_is_precondition=True,
            only_known_finalizers=False,
            mark_deleted=partial(mark_deleted, cleanup_finalizer(names)),
        ),
        strategy=Strategy(
            allow_unconditional_update=False,
            validates_metadata=True,
            prepare_for_create=prepare_create,
            prepare_for_update=prepare_update,
            validate_create=partial(create_rules, names, features),
            validate_update=partial(update_rules, names, features),
            canonicalize=canonicalize,
            warnings=format_warnings if FORMATS_WARNED_OF in features else None,
        ),
    )
    return (custom_resource_definitions,)


def format_warnings(new: Object, old: Object | None) -> list[str]:
    known = set(_unknown_formats(old)) if old is not None else ()
    return [f"unrecognized format {quoted(one)}" for one in _unknown_formats(new) if one not in known]


def _unknown_formats(stored: Object) -> list[str]:
    """Return the formats in all schemas of a definition that no server checks."""
    found: list[str] = []
    waiting = [
        version["schema"]["openAPIV3Schema"]
        for version in stored["spec"]["versions"] or ()
        if "openAPIV3Schema" in version.get("schema", {})
    ]
    while waiting:
        schema = waiting.pop(0)
        if (name := schema.get("format")) and not _is_known_format(name, schema.get("type", "")):
            found.append(name)
        parts = [schema.get(key) for key in ("items", "not", "additionalProperties", "additionalItems")]
        for key in ("allOf", "oneOf", "anyOf"):
            parts += schema.get(key) or ()
        for key in ("properties", "patternProperties", "definitions", "dependencies"):
            parts += (schema.get(key) or {}).values()
        waiting += [part for part in parts if isinstance(part, dict)]
    return found


def _is_known_format(name: str, type_: str) -> bool:
    from rewound.actors.kinds.structural.formats import format_check  # loads what schemas need

    if type_ in ("", "string"):
        return format_check(name) is not None or name in ("k8s-short-name", "k8s-long-name")
    return name in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(type_, ())


def canonicalize(new: Object) -> None:
    """Write defaults as Go does; before that, 1e18 is no integer."""
    new["spec"] = stored_numbers(new["spec"])


def definition_type(names: Names) -> str:
    """Return the type name of CustomResourceDefinitions in the journal."""
    return f"{PLURAL}.{names.group('apiextensions')}"


def cleanup_finalizer(names: Names) -> str:
    """Return the finalizer that keeps a definition until all its objects are deleted."""
    return f"customresourcecleanup.{names.group('apiextensions')}"


def set_defaults(new: Object) -> None:
    spec, status = new["spec"], new["status"]
    names = spec["names"]
    if not names.get("singular") and names["kind"]:
        names["singular"] = names["kind"].lower()
    if not names.get("listKind") and names["kind"]:
        names["listKind"] = f"{names['kind']}List"
    spec["names"] = NAMES.arranged(names)
    if "conversion" not in spec:
        spec["conversion"] = {"strategy": "None"}
        if "preserveUnknownFields" in spec:  # the last field, in declared order
            spec["preserveUnknownFields"] = spec.pop("preserveUnknownFields")
    if not status["storedVersions"]:
        status["storedVersions"] = _storage_versions(spec) or None


def prepare_create(new: Object) -> None:
    new["status"] = {
        **zero_struct(STATUS, defaults=False),
        "storedVersions": _storage_versions(new["spec"]) or None,
    }
    new["metadata"]["generation"] = 1


def prepare_update(new: Object, old: Object) -> None:
    keep_status(new, old)
    bump_generation(new, old)
    stored = new["status"]["storedVersions"] or []
    missing = [name for name in _storage_versions(new["spec"]) if name not in stored]
    if missing:
        new["status"] = {**new["status"], "storedVersions": [*stored, *missing]}


def mark_deleted(finalizer: str, deleted: Object) -> None:
    """Keep the definition until its objects are deleted, and report that in a condition; its generation stays."""
    metadata, status = deleted["metadata"], deleted["status"]
    metadata["generation"] -= 1
    metadata.pop("deletionGracePeriodSeconds")
    if finalizer not in metadata.get("finalizers", ()):
        metadata["finalizers"] = [*metadata.get("finalizers", ()), finalizer]
    now = metadata["deletionTimestamp"]
    conditions = with_condition(
        status["conditions"], TERMINATING, "True", "InstanceDeletionPending", PENDING, now
    )
    deleted["status"] = {**status, "conditions": conditions}


def _storage_versions(spec: Object) -> list[str]:
    """Return the name of the first version that is marked as the storage version, or ""."""
    return [version["name"] for version in spec["versions"] or () if version["storage"]][:1]


__all__ = ["declare"]
