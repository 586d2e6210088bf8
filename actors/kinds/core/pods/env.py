"""Environment variables of containers: literal values, or values from other objects."""

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
from actors.kinds.validation import (
    FieldErrors,
    config_key,
    dns_subdomain,
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


def variable_rules(errors: FieldErrors, variables: list[Object], field: str) -> None:
    for index, variable in enumerate(variables):
        name = variable["name"]
        if not name:
            errors.add(required(f"{field}[{index}].name"))
        elif wrong := variable_name(name):
            errors.add_each(f"{field}[{index}].name", name, wrong)
        if "valueFrom" in variable:
            _source_rules(errors, variable, f"{field}[{index}].valueFrom")


def _source_rules(errors: FieldErrors, variable: Object, field: str) -> None:
    source = variable["valueFrom"]
    if "fieldRef" in source:
        field_reference_rules(errors, source["fieldRef"], IN_VARIABLES, f"{field}.fieldRef")
    if "resourceFieldRef" in source:
        amount_reference_rules(errors, source["resourceFieldRef"], f"{field}.resourceFieldRef")
    for part in ("configMapKeyRef", "secretKeyRef"):
        if part in source:
            _key_rules(errors, source[part], f"{field}.{part}")
    if not source:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.add(invalid(field, "", text))
    elif variable.get("value"):
        errors.add(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.add(invalid(field, "", ONE_SOURCE))


def _key_rules(errors: FieldErrors, source: Object, field: str) -> None:
    name, key = source.get("name", ""), source["key"]
    errors.add_each(f"{field}.name", name, dns_subdomain(name))
    if key:
        errors.add_each(f"{field}.key", key, config_key(key))
    else:
        errors.add(required(f"{field}.key"))


def env_from_rules(errors: FieldErrors, sources: list[Object], field: str) -> None:
    """Rules of envFrom: config maps and secrets whose keys all become variables."""
    for index, source in enumerate(sources):
        prefix, here = source.get("prefix", ""), f"{field}[{index}]"
        if prefix:
            errors.add_each(f"{here}.prefix", prefix, variable_name(prefix))
        given = [part for part in ("configMapRef", "secretRef") if part in source]
        for part in given:
            _name_rules(errors, source[part].get("name", ""), f"{here}.{part}.name")
        if not given:
            errors.add(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.add(invalid(field, "", ONE_SOURCE))


def _name_rules(errors: FieldErrors, name: str, field: str) -> None:
    if name:
        errors.add_each(field, name, name_is_subdomain(name, True))
    else:
        errors.add(required(field))
