"""What types are called in descriptions: reversed domain, home, group, version, name.

    core.v1.Pod          ->  io.k8s.api.core.v1.Pod
    meta.v1.ObjectMeta   ->  io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta

Clients know types by these names, so the homes are those that they have always had.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.schema.fields import (
    ANY_JSON,
    FIELDS_V1,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    Scalar,
    Struct,
)
from actors.names import Names
from gateway.wire.negotiate import served_media, streamed_media

_USUAL_HOME: Final = "api"
_HOMES: Final = {
    "apiextensions": "apiextensions-apiserver.pkg.apis",
    "apiregistration": "kube-aggregator.pkg.apis",
    "meta": "apimachinery.pkg.apis",
    "version": "apimachinery.pkg",
}
# Leaves with a definition of their own; the others are written where they stand.
SCALARS: Final = {
    ANY_JSON: "apimachinery.pkg.runtime.RawExtension",
    INT_OR_STRING: "apimachinery.pkg.util.intstr.IntOrString",
    MICRO_TIME: "apimachinery.pkg.apis.meta.v1.MicroTime",
    FIELDS_V1: "apimachinery.pkg.apis.meta.v1.FieldsV1",
    QUANTITY: "apimachinery.pkg.api.resource.Quantity",
    TIME: "apimachinery.pkg.apis.meta.v1.Time",
}


class Titles:
    def __init__(self, names: Names) -> None:
        self.media = tuple(served_media(names))
        self.streamed_media = streamed_media(names)
        self._domain = ".".join(reversed(names.group_domain.split(".")))
        self._group_suffix = "." + names.group_domain

    def struct(self, struct: Struct) -> str:
        home = _HOMES.get(struct.of.partition(".")[0], _USUAL_HOME)
        return f"{self._domain}.{home}.{struct.of}"

    def scalar(self, type_: Scalar) -> str:
        return f"{self._domain}.{SCALARS[type_]}"

    def tag(self, group: str, version: str = "") -> str:
        """Under which heading operations stand: rbacAuthorization_v1."""
        first, *rest = self._stem(group)
        camel = first + "".join(word.capitalize() for word in rest)
        return f"{camel}_{version}" if version else camel

    def infix(self, group: str, version: str = "") -> str:
        """What the ids of operations have in their middle: RbacAuthorizationV1."""
        return "".join(word[:1].upper() + word[1:] for word in (*self._stem(group), version))

    def _stem(self, group: str) -> list[str]:
        return (group or "core").removesuffix(self._group_suffix).split(".")
