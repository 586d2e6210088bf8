"""Variables of a container's environment: said outright, or taken from elsewhere."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.pods.projections import (
    IN_VARIABLES,
    OBJECT_FIELD_SELECTOR,
    RESOURCE_FIELD_SELECTOR,
    amount_reference_rules,
    field_reference_rules,
)
from actors.kinds.schema.fields import BOOL, STRING, Field, Struct
from actors.kinds.validation.checks import (
    FieldError,
    config_key,
    dns_subdomain,
    each,
    invalid,
    name_is_subdomain,
    required,
    variable_name,
)
from actors.messages import Object

CONFIG_MAP_ENV_SOURCE = Struct(
    "core.v1.ConfigMapEnvSource",
    Field("name", STRING, 1, embedded=1),
    Field("optional", BOOL, 2, pointer=True),
)
SECRET_ENV_SOURCE = Struct(
    "core.v1.SecretEnvSource",
    Field("name", STRING, 1, embedded=1),
    Field("optional", BOOL, 2, pointer=True),
)
ENV_FROM_SOURCE = Struct(
    "core.v1.EnvFromSource",
    Field("prefix", STRING, 1),
    Field("configMapRef", CONFIG_MAP_ENV_SOURCE, 2, pointer=True),
    Field("secretRef", SECRET_ENV_SOURCE, 3, pointer=True),
)
CONFIG_MAP_KEY_SELECTOR = Struct(
    "core.v1.ConfigMapKeySelector",
    Field("name", STRING, 1, embedded=1),
    Field("key", STRING, 2, required=True, always=True),
    Field("optional", BOOL, 3, pointer=True),
    atomic=True,
)
SECRET_KEY_SELECTOR = Struct(
    "core.v1.SecretKeySelector",
    Field("name", STRING, 1, embedded=1),
    Field("key", STRING, 2, required=True, always=True),
    Field("optional", BOOL, 3, pointer=True),
    atomic=True,
)
ENV_VAR_SOURCE = Struct(
    "core.v1.EnvVarSource",
    Field("fieldRef", OBJECT_FIELD_SELECTOR, 1, pointer=True),
    Field("resourceFieldRef", RESOURCE_FIELD_SELECTOR, 2, pointer=True),
    Field("configMapKeyRef", CONFIG_MAP_KEY_SELECTOR, 3, pointer=True),
    Field("secretKeyRef", SECRET_KEY_SELECTOR, 4, pointer=True),
)
ENV_VAR = Struct(
    "core.v1.EnvVar",
    Field("name", STRING, 1, required=True, always=True),
    Field("value", STRING, 2),
    Field("valueFrom", ENV_VAR_SOURCE, 3, pointer=True),
)

ONE_SOURCE: Final = "may not have more than one field specified at a time"


def variable_rules(variables: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        name = variable["name"]
        if not name:
            errors.append(required(f"{field}[{index}].name"))
        elif wrong := variable_name(name):
            errors += each(f"{field}[{index}].name", name, wrong)
        if "valueFrom" in variable:
            errors += _source(variable, f"{field}[{index}].valueFrom")
    return errors


def _source(variable: Object, field: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    if "fieldRef" in source:
        errors += field_reference_rules(source["fieldRef"], IN_VARIABLES, f"{field}.fieldRef")
    if "resourceFieldRef" in source:
        errors += amount_reference_rules(source["resourceFieldRef"], f"{field}.resourceFieldRef")
    for part in ("configMapKeyRef", "secretKeyRef"):
        if part in source:
            errors += _key(source[part], f"{field}.{part}")
    if not source:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.append(invalid(field, "", text))
    elif variable.get("value"):
        errors.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.append(invalid(field, "", ONE_SOURCE))
    return errors


def _key(source: Object, field: str) -> list[FieldError]:
    name, key = source.get("name", ""), source["key"]
    errors = each(f"{field}.name", name, dns_subdomain(name))
    return errors + (each(f"{field}.key", key, config_key(key)) if key else [required(f"{field}.key")])


def import_rules(sources: list[Object], field: str) -> list[FieldError]:
    """Of whole config maps and secrets whose keys become variables."""
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        prefix, here = source.get("prefix", ""), f"{field}[{index}]"
        if prefix:
            errors += each(f"{here}.prefix", prefix, variable_name(prefix))
        given = [part for part in ("configMapRef", "secretRef") if part in source]
        for part in given:
            errors += _name(source[part].get("name", ""), f"{here}.{part}.name")
        if not given:
            errors.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(field, "", ONE_SOURCE))
    return errors


def _name(name: str, field: str) -> list[FieldError]:
    return each(field, name, name_is_subdomain(name, True)) if name else [required(field)]
