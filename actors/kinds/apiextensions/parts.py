"""Validation of parts of a CustomResourceDefinition: names, printer columns, subresources, conversion.

The paths in errors are those of Kubernetes' internal version of the kind, in which some fields have another place than
in v1: clients know these texts.
"""

from __future__ import annotations

from typing import Any, Final

from actors.kinds.declaration.webhook_client import service_rules, url_rules
from actors.kinds.validation import (
    FieldErrors,
    dns_1035_label,
    forbidden,
    invalid,
    not_supported,
    required,
    size,
    too_many,
)
from actors.messages import Object

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
MOST_COLUMNS: Final = 1000  # every row of a table has a cell for each
MIXED_CASE: Final = "may have mixed case, but should otherwise match: "
NOT_WEBHOOK: Final = "should not be set when strategy is not set to Webhook"


def one_of_rules(errors: FieldErrors, field: str, value: str, supported: tuple[str, ...]) -> None:
    if not value:
        errors.add(required(field))
    elif value not in supported:
        errors.add(not_supported(field, value, supported))


def names_rules(errors: FieldErrors, names: Object, field: str) -> None:
    """Of the names of a spec or those that are accepted; each may be missing."""
    for part in ("plural", "singular"):
        _label(errors, names.get(part, ""), f"{field}.{part}")
    for part in ("kind", "listKind"):
        value = names.get(part, "")
        if value and (wrong := dns_1035_label(value.lower())):
            errors.add(invalid(f"{field}.{part}", value, MIXED_CASE + ",".join(wrong)))
    _labels(errors, names.get("shortNames", []), f"{field}.shortNames")
    if names["kind"] and names["kind"] == names.get("listKind"):
        errors.add(invalid(f"{field}.listKind", names["kind"], "kind and listKind may not be the same"))
    _labels(errors, names.get("categories", []), f"{field}.categories")


def _labels(errors: FieldErrors, values: list[str], field: str) -> None:
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
    """Whether a path, which is not empty, has the simple form that is allowed."""
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
    """`recognized`: at least one version of its reviews must be one that this server sends."""
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
