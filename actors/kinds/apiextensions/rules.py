"""Validation of a CustomResourceDefinition, in the order of v1.25.

Kubernetes validates its internal version of the kind. There, schema, subresources and printer columns that are the
same in all versions stand in the spec (`spec.validation`, `spec.subresources`, `spec.additionalPrinterColumns`),
and `spec.version` is the name of the first version. The paths in errors are those.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from actors.background_import import is_imported
from actors.kinds.apiextensions.approval import approval_rules
from actors.kinds.apiextensions.conditions import ESTABLISHED, is_true
from actors.kinds.apiextensions.parts import (
    NONE,
    REVIEW_VERSIONS,
    columns_rules,
    conversion_rules,
    deprecation_rules,
    names_rules,
    one_of_rules,
    subresources_rules,
)
from actors.kinds.declaration.meta import metadata_rules, metadata_update_rules
from actors.kinds.validation import (
    FieldErrors,
    dns_1035_label,
    dns_subdomain,
    invalid,
    name_is_subdomain,
    required,
    too_many,
    unchanged,
)
from actors.messages import Object
from actors.names import Names
from actors.time_limit import need_thread

# v1.25 has no such limits. Each version is a kind of its own for discovery and OpenAPI.
MOST_VERSIONS: Final = 100
MOST_NAMES: Final = 100  # short names, and categories

SCOPES = ("Cluster", "Namespaced")


@dataclass(frozen=True, slots=True)
class _Common:
    """The parts that are the same in all versions, or None for those that are not."""

    versions: list[Object]

    def shares(self, part: str) -> bool:
        first, *others = self.versions or [{}]
        return all(one.get(part) == first.get(part) for one in others)

    def shared(self, part: str) -> Any:
        return self.versions[0].get(part) if self.versions and self.shares(part) else None


def create_rules(names: Names, errors: FieldErrors, new: Object) -> None:
    check_name = partial(_check_name, new["spec"])
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=check_name, known_finalizers=False)
    _spec_rules(errors, names, new["spec"], recognized=True)
    _status_rules(errors, new["status"])
    _stored_versions(errors, new)
    approval_rules(errors, names, new, None)
    _preserve_unknown_fields(errors, names, new["spec"], None)


def update_rules(names: Names, errors: FieldErrors, new: Object, old: Object) -> None:
    spec, before = new["spec"], old["spec"]
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    _spec_rules(errors, names, spec, recognized=_has_recognized_versions(before))
    if is_true(old, ESTABLISHED):
        unchanged(errors, "spec.scope", spec["scope"], before["scope"])
        unchanged(errors, "spec.names.kind", spec["names"]["kind"], before["names"]["kind"])
    unchanged(errors, "spec.group", spec["group"], before["group"])
    unchanged(errors, "spec.names.plural", spec["names"]["plural"], before["names"]["plural"])
    _status_rules(errors, new["status"])
    _stored_versions(errors, new)
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


def _spec_rules(errors: FieldErrors, names: Names, spec: Object, *, recognized: bool) -> None:
    versions = spec["versions"] or []
    common = _Common(versions)
    _group(errors, spec["group"])
    one_of_rules(errors, "spec.scope", spec["scope"], SCOPES)
    _schemas_exist(errors, versions)
    if spec.get("preserveUnknownFields") and any(_has_defaults(_schema(one)) for one in versions):
        text = "must be false in order to use defaults in the schema"
        errors.add(invalid("spec.preserveUnknownFields", True, text))
    _versions(errors, names, versions, common)
    _names(errors, spec["names"])
    if common.shares("schema") and versions:
        has_status = any(_has_status(one) for one in versions)
        _schema_rules(errors, names, _schema(versions[0]), "spec.validation", has_status)
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


def _schemas_exist(errors: FieldErrors, versions: list[Object]) -> None:
    for index, version in enumerate(versions):
        if _schema(version) is None:
            errors.add(required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required"))


def _versions(errors: FieldErrors, names: Names, versions: list[Object], common: _Common) -> None:
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
            _schema_rules(errors, names, _schema(version), f"{field}.schema", _has_status(version))
        if subresources_differ:
            subresources_rules(errors, version.get("subresources"), f"{field}.subresources")
        if columns_differ:
            columns = version.get("additionalPrinterColumns", [])
            columns_rules(errors, columns, f"{field}.additionalPrinterColumns")
    if len({version["name"] for version in versions}) < len(versions):
        errors.add(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(version["storage"] for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        errors.add(invalid("spec.versions", versions, text))
    if versions and versions[0]["name"] and (wrong := dns_1035_label(versions[0]["name"])):
        errors.add(invalid("spec.version", versions[0]["name"], ",".join(wrong)))


def _schema_rules(
    errors: FieldErrors, names: Names, schema: Object | None, field: str, has_status: bool
) -> None:
    if schema is not None:
        # Imported with the first definition that is written, together with CEL: some tenths of a second.
        if not is_imported("actors.kinds.structural.checks", "check_schema"):
            need_thread()
        from actors.kinds.structural.checks import check_schema

        check_schema(errors, f"{field}.openAPIV3Schema", schema, names=names, has_status=has_status)


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


def _stored_versions(errors: FieldErrors, new: Object) -> None:
    """Every version in which objects may be stored must exist, the current storage version among them."""
    field, stored = "status.storedVersions", new["status"]["storedVersions"] or []
    if not stored:
        errors.add(invalid(field, stored, "must have at least one stored version"))
        return
    versions = new["spec"]["versions"] or []
    for version in versions:
        if version["storage"] and version["name"] not in stored:
            errors.add(invalid(field, version, f"must have the storage version {version['name']}"))
    existing = {version["name"] for version in versions}
    for index, name in enumerate(stored):
        if name not in existing:
            errors.add(invalid(f"{field}[{index}]", name, "must appear in spec.versions"))


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
