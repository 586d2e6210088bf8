"""Names of definitions, tags and operations in OpenAPI documents: reversed domain, package, group, version, name.

    core.v1.Pod          ->  io.k8s.api.core.v1.Pod
    meta.v1.ObjectMeta   ->  io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta

Clients know types by these names, so the packages are those of Kubernetes' Go code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    DURATION,
    FIELDS_V1,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    CustomStruct,
    JsonValue,
    Scalar,
    Struct,
)
from rewound.actors.names import Names
from rewound.gateway.wire.negotiate import patch_formats, served_media, streamed_media

_DEFAULT_PACKAGE: Final = "api"
_PACKAGES: Final = {
    "apiextensions": "apiextensions-apiserver.pkg.apis",
    "apiregistration": "kube-aggregator.pkg.apis",
    "meta": "apimachinery.pkg.apis",
    "version": "apimachinery.pkg",
}
# Scalars that have a definition; the others are written inline.
SCALARS: Final = {
    ANY_JSON: "apimachinery.pkg.runtime.RawExtension",
    INT_OR_STRING: "apimachinery.pkg.util.intstr.IntOrString",
    DURATION: "apimachinery.pkg.apis.meta.v1.Duration",
    MICRO_TIME: "apimachinery.pkg.apis.meta.v1.MicroTime",
    FIELDS_V1: "apimachinery.pkg.apis.meta.v1.FieldsV1",
    QUANTITY: "apimachinery.pkg.api.resource.Quantity",
    TIME: "apimachinery.pkg.apis.meta.v1.Time",
}


Exists = Callable[[str], bool]  # whether the version of Kubernetes has what came with another one


class Naming:
    def __init__(self, names: Names, exists: Exists, *, cbor: bool = False) -> None:
        """`cbor`: built-in kinds are served in CBOR too."""
        self.exists = exists
        self.media_without_cbor = tuple(served_media(names))
        self.media = tuple(served_media(names, cbor=cbor))
        self.streamed_media = streamed_media(names, cbor=cbor)
        self.patch_media = tuple(patch_formats(cbor=cbor))
        self._domain = ".".join(reversed(names.group_domain.split(".")))
        self._group_suffix = "." + names.group_domain

    def struct(self, struct: Struct | JsonValue) -> str:
        if isinstance(struct, CustomStruct):
            domain = ".".join(reversed(struct.group.split(".")))
            return f"{domain}.{struct.version}.{struct.kind}"
        package = _PACKAGES.get(struct.of.partition(".")[0], _DEFAULT_PACKAGE)
        return f"{self._domain}.{package}.{struct.of}"

    def scalar(self, type_: Scalar) -> str:
        if isinstance(type_, JsonValue):
            return self.struct(type_)
        return f"{self._domain}.{SCALARS[type_]}"

    def tag(self, group: str, version: str = "") -> str:
        """The tag of a group version's operations: rbacAuthorization_v1."""
        first, *rest = self._stem(group)
        camel = first + "".join(word.capitalize() for word in rest)
        return f"{camel}_{version}" if version else camel

    def infix(self, group: str, version: str = "") -> str:
        """The middle of operation ids: RbacAuthorizationV1."""
        return "".join(word[:1].upper() + word[1:] for word in (*self._stem(group), version))

    def _stem(self, group: str) -> list[str]:
        return (group or "core").removesuffix(self._group_suffix).split(".")
