"""Secret: bytes by key, of a type that may require certain keys."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Final

from rewound.actors.kinds.core.config_map import MAX_BYTES, decoded_size, immutable_content_rules
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at, size_of
from rewound.actors.kinds.declaration.definition import Definition, Selection, Strategy, Table
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import BOOL, BYTES_MAP, STRING, STRING_MAP, Field, Struct
from rewound.actors.kinds.schema.json_tree import NotJson, parse_values
from rewound.actors.kinds.schema.scalars import json_type_of
from rewound.actors.kinds.validation import (
    FieldErrors,
    config_key,
    invalid,
    name_is_subdomain,
    required,
    too_long,
    unchanged,
)
from rewound.actors.kinds.values.pem import why_no_pair
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import TLS_WARNINGS

# Replaces values in errors, which the audit log contains too.
REDACTED: Final = "<secret contents redacted>"

SECRET = Struct(
    "core.v1.Secret",
    METADATA,
    Field("immutable", BOOL, 5, pointer=True),
    Field("data", BYTES_MAP, 2),
    Field("stringData", STRING_MAP, 4),
    Field("type", STRING, 3, default="Opaque"),
)

TypeRules = Callable[[FieldErrors, Object], None]


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    validate = partial(rules, rules_by_type=_type_rules(names))
    return Definition(
        group="",
        version="v1",
        kind="Secret",
        plural="secrets",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=SECRET,
        set_defaults=merge_string_data,
        selection=Selection(
            fields={"type": lambda stored: str(stored.get("type", ""))}, own_label_conversion=True
        ),
        table=Table(
            (
                NAME,
                Column("Type", "string", "Type of the secret.", at("type")),
                Column("Data", "string", "Number of entries.", size_of("data")),
                AGE,
            )
        ),
        strategy=Strategy(
            prepare_for_create=merge_string_data,
            prepare_for_update=lambda new, _: merge_string_data(new),
            validate_create=validate,
            validate_update=partial(update_rules, validate=validate),
            warnings=partial(tls_warnings, names.key("tls")) if TLS_WARNINGS in features else None,
        ),
    )


def merge_string_data(new: Object) -> None:
    """Move stringData into data; stringData is write-only and never stored."""
    texts = new.pop("stringData", None)
    if not texts:
        return
    given = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    new["data"] = dict(sorted({**new.get("data", {}), **given}.items()))
    new.update(SECRET.arranged({name: new.pop(name) for name in list(new)}))


def rules(errors: FieldErrors, new: Object, *, rules_by_type: dict[str, TypeRules]) -> None:
    data = new.get("data", {})
    for key in data:
        errors.add_each(f"data[{key}]", key, config_key(key))
    if decoded_size(data.values()) > MAX_BYTES:
        errors.add(too_long("data", MAX_BYTES))
    type_rules = rules_by_type.get(new.get("type", ""))
    if type_rules:
        type_rules(errors, new)


def update_rules(errors: FieldErrors, new: Object, old: Object, *, validate: TypeRules) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    unchanged(errors, "type", new.get("type", ""), old.get("type", ""))
    immutable_content_rules(errors, new, old, "data")
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    validate(errors, new)


def tls_warnings(tls: str, new: Object, _: Object | None) -> list[str]:
    if new.get("type") != tls:
        return []
    data = new.get("data", {})
    why = why_no_pair(data.get("tls.crt", ""), data.get("tls.key", ""))
    return [why] if why else []


def _type_rules(names: Names) -> dict[str, TypeRules]:
    return {
        names.key("service-account-token"): partial(_needs_annotation, key=names.key("service-account.name")),
        names.key("dockercfg"): partial(_needs_json, key=".dockercfg"),
        names.key("dockerconfigjson"): partial(_needs_json, key=".dockerconfigjson"),
        names.key("basic-auth"): _basic_auth,
        names.key("ssh-auth"): _ssh_auth,
        names.key("tls"): _tls,
    }


def _needs_annotation(errors: FieldErrors, new: Object, *, key: str) -> None:
    if not new["metadata"].get("annotations", {}).get(key):
        errors.add(required(f"metadata.annotations[{key}]"))


def _needs_json(errors: FieldErrors, new: Object, *, key: str) -> None:
    content = new.get("data", {}).get(key)
    if content is None:
        errors.add(required(f"data[{key}]"))
        return
    try:
        parsed, _ = parse_values(base64.b64decode(content))
    except NotJson as error:
        errors.add(invalid(f"data[{key}]", REDACTED, error.reason))
        return
    if parsed is not None and not isinstance(parsed, dict):
        text = (
            f"json: cannot unmarshal {json_type_of(parsed)} into Go value of type map[string]interface {{}}"
        )
        errors.add(invalid(f"data[{key}]", REDACTED, text))


def _basic_auth(errors: FieldErrors, new: Object) -> None:
    data = new.get("data", {})
    if "username" not in data and "password" not in data:
        errors.add(required("data[username]"))
        errors.add(required("data[password]"))


def _ssh_auth(errors: FieldErrors, new: Object) -> None:
    if not new.get("data", {}).get("ssh-privatekey"):
        errors.add(required("data[ssh-privatekey]"))


def _tls(errors: FieldErrors, new: Object) -> None:
    data = new.get("data", {})
    for key in ("tls.crt", "tls.key"):
        if key not in data:
            errors.add(required(f"data[{key}]"))
