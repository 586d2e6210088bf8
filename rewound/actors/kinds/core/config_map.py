"""ConfigMap: text and bytes by key, at most one mebibyte in total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, size_of
from rewound.actors.kinds.declaration.definition import Definition, DiscoveryNames, Strategy, Table
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import BOOL, BYTES_MAP, STRING_MAP, Field, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    config_key,
    forbidden,
    invalid,
    is_plain_config_key,
    name_is_subdomain,
    size,
    too_long,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

MAX_BYTES: Final = 1024 * 1024
IMMUTABLE_CONTENTS: Final = "field is immutable when `immutable` is set"
WHOLE_OBJECT: Final = "[]"  # the path of the whole object in messages

CONFIG_MAP = Struct(
    "core.v1.ConfigMap",
    METADATA,
    Field("immutable", BOOL, 4, pointer=True),
    Field("data", STRING_MAP, 2),
    Field("binaryData", BYTES_MAP, 3),
)


def define(_: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="ConfigMap",
        plural="configmaps",
        names=DiscoveryNames(short_names=("cm",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=CONFIG_MAP,
        table=Table(
            (NAME, Column("Data", "string", "Number of entries.", size_of("data", "binaryData")), AGE)
        ),
        strategy=Strategy(
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


_NOTHING: Final[Mapping[str, str]] = {}


def rules(errors: FieldErrors, new: Object) -> None:
    data, binary = new.get("data") or _NOTHING, new.get("binaryData") or _NOTHING
    characters = 0
    for key, text in data.items():
        characters += len(text)
        if not is_plain_config_key(key):
            errors.add_each(f"data[{key}]", key, config_key(key))
        if key in binary:
            errors.add(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key, text in binary.items():
        characters += len(text)
        if wrong := config_key(key):
            errors.add_each(f"binaryData[{key}]", key, wrong)
    # A character has at most four bytes.
    if 4 * characters > MAX_BYTES and _size(data, binary) > MAX_BYTES:
        errors.add(too_long(WHOLE_OBJECT, MAX_BYTES))


def _size(data: Mapping[str, str], binary: Mapping[str, str]) -> int:
    return sum(map(size, data.values())) + decoded_size(binary.values())


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    immutable_content_rules(errors, new, old, "data", "binaryData")
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    rules(errors, new)


def immutable_content_rules(errors: FieldErrors, new: Object, old: Object, *contents: str) -> None:
    """Once `immutable` is set, neither it nor the contents may change, for ConfigMaps and Secrets alike."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        errors.add(forbidden("immutable", IMMUTABLE_CONTENTS))
    for name in contents:
        if new.get(name) != old.get(name):
            errors.add(forbidden(name, IMMUTABLE_CONTENTS))


def decoded_size(values: Iterable[str]) -> int:
    """Return the number of bytes that canonical base64 texts decode to."""
    return sum(len(text) // 4 * 3 - text.count("=", -2) for text in values)
