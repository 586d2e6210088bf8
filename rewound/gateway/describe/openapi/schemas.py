"""Turns declared types into JSON schemas, for OpenAPI 2.0 or 3.0.

The writer of a document calls `refer` for each struct that it uses; `definitions` then returns the definitions of
these structs and of all types that they refer to, so that a document has only the definitions that it needs.
Documents that share a `cache` encode each definition once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    NOTHING,
    QUANTITY,
    STRING,
    TIME,
    CustomStruct,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
    new_default,
)
from rewound.actors.kinds.structural.openapi import published
from rewound.actors.names import Names
from rewound.gateway.describe.openapi.kinds import GroupVersionKind, Kinds
from rewound.gateway.describe.openapi.naming import SCALARS, Naming
from rewound.gateway.describe.openapi.texts import Texts

T = TypeVar("T")
Document = dict[str, Any]
References = dict[str, Struct | Scalar]  # by definition name
DefinitionCache = dict[Struct | Scalar, tuple[T, References]]  # an encoded definition, and what it refers to


@dataclass(frozen=True, slots=True)
class OpenApiVersion:
    """How schemas differ between OpenAPI 2.0 and 3.0."""

    reference_prefix: str
    allows_siblings: bool  # whether a $ref may have sibling keys
    has_defaults: bool
    multi_type_scalars: Mapping[Scalar, Document]  # scalars with more than one JSON type


VERSION_2: Final = OpenApiVersion(
    "#/definitions/",
    True,
    False,
    {INT_OR_STRING: {"type": "string", "format": "int-or-string"}, QUANTITY: {"type": "string"}},
)
VERSION_3: Final = OpenApiVersion(
    "#/components/schemas/",
    False,
    True,
    {
        INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    },
)

_INLINE_SCALARS: Final[Mapping[Scalar, Document]] = {
    STRING: {"type": "string"},
    BOOL: {"type": "boolean"},
    INT32: {"type": "integer", "format": "int32"},
    INT64: {"type": "integer", "format": "int64"},
    BYTES: {"type": "string", "format": "byte"},
    DOUBLE: {"type": "number", "format": "double"},
}
_SCALAR_ZEROS: Final[Mapping[Type, Any]] = {STRING: "", BOOL: False, INT32: 0, INT64: 0, DOUBLE: 0}
# Defaults that do not follow from the declarations, by the first version of Kubernetes whose types name them; and
# those of fields that are structs in Go but absent if not set.
_DECLARED_DEFAULTS: Final[Mapping[str, Mapping[tuple[str, str], Any]]] = {
    "1.25": {
        ("apps.v1.ControllerRevision", "data"): {},
        ("certificates.v1alpha1.PodCertificateRequestSpec", "maxExpirationSeconds"): 86400,
        ("certificates.v1beta1.PodCertificateRequestSpec", "maxExpirationSeconds"): 86400,
        ("core.v1.ContainerPort", "protocol"): "TCP",
        ("core.v1.GRPCAction", "service"): "",
        ("core.v1.ServicePort", "protocol"): "TCP",
        ("meta.v1.ObjectMeta", "creationTimestamp"): {},
        ("resource.v1.DeviceToleration", "operator"): "Equal",
        ("resource.v1alpha3.DeviceToleration", "operator"): "Equal",
        ("resource.v1alpha3.ResourcePoolStatusRequestSpec", "limit"): 100,
        ("resource.v1beta1.DeviceToleration", "operator"): "Equal",
        ("resource.v1beta2.DeviceToleration", "operator"): "Equal",
        ("scheduling.v1alpha2.PodGroupSpec", "disruptionMode"): "Pod",
    },
    "1.30": {
        ("core.v1.ConfigMapEnvSource", "name"): "",
        ("core.v1.ConfigMapKeySelector", "name"): "",
        ("core.v1.ConfigMapProjection", "name"): "",
        ("core.v1.ConfigMapVolumeSource", "name"): "",
        ("core.v1.LocalObjectReference", "name"): "",
        ("core.v1.SecretEnvSource", "name"): "",
        ("core.v1.SecretKeySelector", "name"): "",
        ("core.v1.SecretProjection", "name"): "",
    },
    "1.31": {
        ("core.v1.AzureDiskVolumeSource", "cachingMode"): "ReadWrite",
        ("core.v1.AzureDiskVolumeSource", "fsType"): "ext4",
        ("core.v1.AzureDiskVolumeSource", "kind"): "Shared",
        ("core.v1.AzureDiskVolumeSource", "readOnly"): False,
        ("core.v1.ISCSIPersistentVolumeSource", "iscsiInterface"): "default",
        ("core.v1.ISCSIVolumeSource", "iscsiInterface"): "default",
        ("core.v1.RBDPersistentVolumeSource", "keyring"): "/etc/ceph/keyring",
        ("core.v1.RBDPersistentVolumeSource", "pool"): "rbd",
        ("core.v1.RBDPersistentVolumeSource", "user"): "admin",
        ("core.v1.RBDVolumeSource", "keyring"): "/etc/ceph/keyring",
        ("core.v1.RBDVolumeSource", "pool"): "rbd",
        ("core.v1.RBDVolumeSource", "user"): "admin",
        ("core.v1.ScaleIOPersistentVolumeSource", "fsType"): "xfs",
        ("core.v1.ScaleIOPersistentVolumeSource", "storageMode"): "ThinProvisioned",
        ("core.v1.ScaleIOVolumeSource", "fsType"): "xfs",
        ("core.v1.ScaleIOVolumeSource", "storageMode"): "ThinProvisioned",
    },
    "1.33": {
        ("core.v1.ReplicationControllerSpec", "minReadySeconds"): 0,
        ("core.v1.ReplicationControllerSpec", "replicas"): 1,
    },
    "1.34": {("autoscaling.v1.ScaleSpec", "replicas"): 0, ("core.v1.FileKeySelector", "optional"): False},
}
# Since then a type that is written as another JSON type, such as Time, has no default.
_NO_ZERO_SCALARS_SINCE: Final = "1.29"
# Since then a document about a group version has DeleteOptions and WatchEvent of this and of v1 alone.
_OWN_OPTIONS_SINCE: Final = "1.36"
_IN_ALL_VERSIONS: Final = ("meta.v1.DeleteOptions", "meta.v1.WatchEvent")
_DEFINED_SCALARS: Final[Mapping[Scalar, Document]] = {
    TIME: {"type": "string", "format": "date-time"},
    MICRO_TIME: {"type": "string", "format": "date-time"},
    DURATION: {"type": "string"},
    FIELDS_V1: {"type": "object"},
    ANY_JSON: {"type": "object"},
}
_DESCRIPTIONS: Final[Mapping[Scalar, str]] = {
    TIME: "A time in RFC 3339 format, to the second.",
    MICRO_TIME: "A time in RFC 3339 format, to the microsecond.",
    DURATION: "A time span as Go writes it: 300ms, 15s, 1h30m.",
    FIELDS_V1: "A set of fields as a tree: keys are fields (f:), list items (k: and v:), or the value itself (.).",
    ANY_JSON: "Any JSON object; it is stored as it was sent.",
    QUANTITY: "An amount with an optional suffix: 100m, 1.5, 2Gi, 3e6.",
    INT_OR_STRING: "A number, or a string such as a name or a percentage.",
}


class Schemas(Generic[T]):
    """The definitions of one document. `encode` encodes a definition, given its name."""

    def __init__(
        self,
        names: Names,
        version: OpenApiVersion,
        kinds: Kinds,
        naming: Naming,
        texts: Texts,
        encode: Callable[[str, Document], T],
        cache: DefinitionCache[T],
        group_version: tuple[str, str] | None = None,
    ) -> None:
        """`group_version` is that of a document about one."""
        self._prefix = names.extension_prefix
        self._version = version
        self._kinds = kinds
        self._naming = naming
        self._texts = texts
        self._encode = encode
        self._cache = cache
        self._group_version = group_version if kinds.exists(_OWN_OPTIONS_SINCE) else None
        self._scalar_zeros = not kinds.exists(_NO_ZERO_SCALARS_SINCE)
        self._defaults = {
            field: default
            for since, declared in _DECLARED_DEFAULTS.items()
            if kinds.exists(since)
            for field, default in declared.items()
        }
        self._found: References = {}
        self._named: dict[Struct, tuple[str, Struct]] = {}

    def refer(self, struct: Struct) -> Document:
        known = self._named.get(struct)
        if known is None:
            known = self._named[struct] = self._naming.struct(struct), self._kinds.struct(struct)
        return self._refer(*known)

    def definitions(self) -> Iterator[tuple[str, T]]:
        """Every definition that the document needs, by name. Call it after all `refer` calls."""
        done: set[str] = set()
        while pending := [name for name in self._found if name not in done]:
            for name in pending:
                done.add(name)
                encoded, references = self.encoded(name, self._found[name])
                yield name, encoded
                for referred, type_ in references.items():
                    self._found.setdefault(referred, type_)

    def encoded(self, name: str, type_: Struct | Scalar) -> tuple[T, References]:
        """The definition of a type, and what it refers to."""
        if self._group_version is not None and isinstance(type_, Struct) and type_.of in _IN_ALL_VERSIONS:
            return self._encoded(name, type_)  # differs between documents
        if type_ not in self._cache:
            self._cache[type_] = self._encoded(name, type_)
        return self._cache[type_]

    def _encoded(self, name: str, type_: Struct | Scalar) -> tuple[T, References]:
        before, self._found = self._found, {}
        encoded = self._encode(name, self._defined(type_))
        references, self._found = self._found, before
        return encoded, references

    @property
    def referred(self) -> References:
        """The types that `refer` was called for."""
        return self._found

    def _refer(self, name: str, type_: Struct | Scalar) -> Document:
        self._found.setdefault(name, type_)
        return {"$ref": self._version.reference_prefix + name}

    def _defined(self, type_: Struct | Scalar) -> Document:
        if isinstance(type_, Struct):
            return self._struct(type_)
        if isinstance(type_, JsonValue):
            text = self._texts.of_type(type_)
            return {"description": text} if text else {}
        return {
            "description": _DESCRIPTIONS[type_],
            **(self._version.multi_type_scalars.get(type_) or _DEFINED_SCALARS[type_]),
        }

    def _struct(self, struct: Struct) -> Document:
        if isinstance(struct, CustomStruct) and struct.make_schema is not None:
            return self._custom(struct, struct.make_schema())
        written: Document = {} if isinstance(struct, CustomStruct) else {"type": "object"}
        text = self._texts.of_type(struct)
        if text:
            written["description"] = text
        fields = (*self._kinds.type_fields(struct), *struct.fields)
        if fields:
            written["properties"] = {field.name: self._field(struct, field) for field in fields}
        if required := [field.name for field in fields if field.required]:
            written["required"] = required
        if struct.atomic:
            written[self._prefix + "map-type"] = "atomic"
        if served := self._served_as(struct):
            written[self._prefix + "group-version-kind"] = served
        if struct.union is not None:
            written[self._prefix + "unions"] = [_union(struct)]
        return written

    def _served_as(self, struct: Struct) -> list[GroupVersionKind]:
        served = self._kinds.served_as(struct)
        if self._group_version is None or struct.of not in _IN_ALL_VERSIONS:
            return served
        here = (("", "v1"), self._group_version)
        return [one for one in served if (one["group"], one["version"]) in here]

    def _custom(self, struct: CustomStruct, schema: Mapping[str, Any]) -> Document:
        """The schema of a custom kind, with the fields that every object has."""
        version_2 = self._version is VERSION_2
        written = published(schema, self.meta(struct), self._prefix, version_2=version_2)
        written[self._prefix + "group-version-kind"] = self._kinds.served_as(struct)
        return written

    def meta(self, struct: CustomStruct) -> Document:
        """The fields that every object of a custom kind has."""
        fields = (*self._kinds.type_fields(struct), METADATA)
        return {field.name: self._field(struct, field) for field in fields}

    def _field(self, struct: Struct, field: Field) -> Document:
        defaults = self._version.has_defaults and not isinstance(struct, CustomStruct)
        siblings = self._extensions(field)
        if not field.bare or self._version.allows_siblings:
            siblings = {**self._description(struct, field), **siblings}
        if defaults:
            siblings |= self._default(struct, field)
        return self._with(siblings, self._type(field.type, defaults))

    def _with(self, siblings: Document, schema: Document) -> Document:
        if "$ref" in schema and siblings and not self._version.allows_siblings:
            schema = {"allOf": [schema]}
        return {**siblings, **schema}

    def _description(self, struct: Struct, field: Field) -> Document:
        described: Document = {}
        text = [self._texts.of_field(struct, field)]
        if field.enum:
            described["enum"] = list(field.enum)
            text.append(f"One of: {', '.join(field.enum)}.")
        if (default := new_default(field.default)) is not None:
            text.append(f"Defaults to {_default_text(default)}.")
        if description := " ".join(part for part in text if part):
            described["description"] = description
        return described

    def _extensions(self, field: Field) -> Document:
        extensions = {
            "list-type": field.list_type,
            "list-map-keys": list(field.list_keys),
            "map-type": field.map_type,
            "patch-strategy": field.patch,
            "patch-merge-key": field.merge_key,
        }
        return {self._prefix + name: value for name, value in extensions.items() if value}

    def _element(self, type_: Type, defaults: bool) -> Document:
        """The schema of an element of a list or map, which always has a value."""
        return self._with(self._zero(type_) if defaults else {}, self._type(type_, defaults))

    def _type(self, type_: Type, defaults: bool) -> Document:
        if isinstance(type_, Struct):
            return self.refer(type_)
        if isinstance(type_, ListOf):
            return {"type": "array", "items": self._element(type_.item, defaults)}
        if isinstance(type_, MapOf):
            return {"type": "object", "additionalProperties": self._element(type_.value, defaults)}
        if type_ in SCALARS or isinstance(type_, JsonValue):
            return self._refer(self._naming.scalar(type_), type_)
        return dict(_INLINE_SCALARS[type_])

    def _default(self, struct: Struct, field: Field) -> Document:
        """The default as in Kubernetes: what a decoded object has without the field, before the server sets any."""
        declared = self._defaults.get((struct.of, field.name), NOTHING)
        if declared is not NOTHING:
            return {"default": declared} if declared != {} or self._scalar_zeros else {}
        return self._zero(field.type) if field.always_present else {}

    def _zero(self, type_: Type) -> Document:
        """The default of a field that is always there: Go's zero value, and {} for everything that is a struct in
        Go.
        """
        if isinstance(type_, (ListOf, MapOf)) or type_ == BYTES:
            return {}
        if not self._scalar_zeros and (type_ in SCALARS or isinstance(type_, JsonValue)):
            return {}
        return {"default": _SCALAR_ZEROS.get(type_, {})}


def _union(struct: Struct) -> Document:
    members = (field.name for field in struct.fields if field.name != struct.union)
    discriminators = {name: name[:1].upper() + name[1:] for name in members}
    discriminator = {"discriminator": struct.union} if struct.union else {}
    return {**discriminator, "fields-to-discriminateBy": discriminators}


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if default in ("", {}, []):
        return "empty"
    return ", ".join(default) if isinstance(default, list) else str(default)
