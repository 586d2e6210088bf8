"""The resource group in v1beta2, v1beta1 and v1alpha3: structs made from those of v1, and conversion.

v1beta1 and v1alpha3 have the fields of an exact request in the request itself, and those of a device in its `basic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from rewound.actors.kinds.declaration.definition import (
    Conversion,
)
from rewound.actors.kinds.resource.structs import (
    DEVICE,
    DEVICE_REQUEST,
    DEVICE_SUB_REQUEST,
    EXACT_DEVICE_REQUEST,
    RESOURCE_SLICE_SPEC,
)
from rewound.actors.kinds.schema.fields import (
    QUANTITIES,
    STRING,
    Before,
    Field,
    ListOf,
    MapOf,
    Struct,
    Type,
)
from rewound.actors.messages import Object


def _field(struct: Struct, name: str, number: int, **differs: Any) -> Field:
    return replace(struct.by_name[name], number=number, **differs)


# The structs that have another shape in v1beta1 than in v1.
_BASIC: Final = Struct(
    "resource.v1.BasicDevice",
    *(replace(one, number=one.number - 1) for one in DEVICE.fields if one.name != "name"),
)
_BETA_1: Final = {
    "DeviceRequest": Struct(
        "resource.v1.DeviceRequest",
        Field("name", STRING, 1, required=True, always=True),
        Field("deviceClassName", STRING, 2, always=True, before=(Before("1.33", required=True),)),
        *(
            _field(EXACT_DEVICE_REQUEST, name, 3 + at)
            for at, name in enumerate(("selectors", "allocationMode"))
        ),
        _field(EXACT_DEVICE_REQUEST, "count", 5),
        _field(EXACT_DEVICE_REQUEST, "adminAccess", 6),
        _field(DEVICE_REQUEST, "firstAvailable", 7),
        _field(EXACT_DEVICE_REQUEST, "tolerations", 8),
        _field(EXACT_DEVICE_REQUEST, "capacity", 9),
    ),
    "DeviceSubRequest": Struct(
        "resource.v1.DeviceSubRequest",
        *DEVICE_SUB_REQUEST.fields[:5],
        _field(DEVICE_SUB_REQUEST, "tolerations", 7),
        _field(DEVICE_SUB_REQUEST, "capacity", 8),
    ),
    "Device": Struct(
        "resource.v1.Device",
        DEVICE.by_name["name"],
        Field("basic", _BASIC, 2, pointer=True),
    ),
    "ResourceSliceSpec": Struct(
        "resource.v1.ResourceSliceSpec",
        *(
            replace(one, pointer=False) if one.name in ("nodeName", "allNodes") else one
            for one in RESOURCE_SLICE_SPEC.fields
        ),
    ),
}
_ALPHA_3: Final = {
    **_BETA_1,
    "BasicDevice": Struct(
        "resource.v1.BasicDevice",
        *(replace(one, type=QUANTITIES) if one.name == "capacity" else one for one in _BASIC.fields),
    ),
}


class VersionStructs:
    """Makes the structs of another version from those of v1."""

    def __init__(self, version: str, shapes: Mapping[str, Struct]) -> None:
        self._version, self._shapes = version, shapes
        self._made: dict[str, Struct] = {}

    def struct(self, struct: Struct) -> Struct:
        if not struct.of.startswith("resource."):
            return struct
        found = self._made.get(struct.name)
        if found is None:
            shape = self._shapes.get(struct.name, struct)
            fields = (self._field(one) for one in shape.fields)
            of = f"resource.{self._version}.{struct.name}"
            found = self._made[struct.name] = Struct(of, *fields, atomic=struct.atomic, union=struct.union)
        return found

    def _field(self, field: Field) -> Field:
        type_ = self._type(field.type)
        return field if type_ is field.type else replace(field, type=type_)

    def _type(self, type_: Type) -> Type:
        if isinstance(type_, ListOf):
            item = self._type(type_.item)
            return type_ if item is type_.item else replace(type_, item=item)
        if isinstance(type_, MapOf):
            value = self._type(type_.value)
            return type_ if value is type_.value else replace(type_, value=value)
        return self.struct(type_) if isinstance(type_, Struct) else type_


BETA_2: Final = VersionStructs("v1beta2", {})
BETA_1: Final = VersionStructs("v1beta1", _BETA_1)
ALPHA_3: Final = VersionStructs("v1alpha3", _ALPHA_3)


# Conversion. Stored objects belong to others: everything that changes is copied.

_MAIN_FIELDS: Final = tuple(name for name in EXACT_DEVICE_REQUEST.by_name)
FLAT_REQUEST: Final = _BETA_1["DeviceRequest"]


def _flat_request(request: Object) -> Object:
    exact = request.get("exactly") or {}
    flat = {
        "deviceClassName": "",
        **{name: one for name, one in request.items() if name != "exactly"},
        **exact,
    }
    return FLAT_REQUEST.arranged(flat)


def _nested_request(request: Object) -> Object:
    exact = {name: one for name, one in request.items() if name in _MAIN_FIELDS and one not in ("", 0)}
    rest = {name: one for name, one in request.items() if name not in _MAIN_FIELDS}
    if exact:
        rest["exactly"] = {"deviceClassName": "", **exact}
    return DEVICE_REQUEST.arranged(rest)


def _with_requests(change: Callable[[Object], Object], spec: Object) -> Object:
    devices = spec["devices"]
    requests = devices.get("requests")
    if not requests:
        return spec
    return {**spec, "devices": {**devices, "requests": [change(one) for one in requests]}}


def _claim(change: Callable[[Object], Object], claim: Object) -> Object:
    return {**claim, "spec": _with_requests(change, claim["spec"])}


def _template(change: Callable[[Object], Object], template: Object) -> Object:
    spec = template["spec"]
    return {**template, "spec": {**spec, "spec": _with_requests(change, spec["spec"])}}


def _basic_device(device: Object, *, plain_capacity: bool) -> Object:
    basic = {name: one for name, one in device.items() if name != "name"}
    if plain_capacity and "capacity" in basic:
        basic["capacity"] = {name: one["value"] for name, one in basic["capacity"].items()}
    return {"name": device["name"], "basic": basic}


def _flat_device(device: Object) -> Object:
    basic = dict(device.get("basic") or {})
    if "capacity" in basic:
        basic["capacity"] = {
            name: {"value": one} if isinstance(one, str) else one for name, one in basic["capacity"].items()
        }
    return {"name": device["name"], **basic}


def _slice(change: Callable[[Object], Object], slice_: Object) -> Object:
    spec = {
        name: one
        for name, one in slice_["spec"].items()
        if one is not False or name == "perDeviceNodeSelection"
    }
    if spec.get("nodeName") == "":
        del spec["nodeName"]
    if spec.get("devices"):
        spec["devices"] = [change(one) for one in spec["devices"]]
    return {**slice_, "spec": spec}


SAME: Final = Conversion(to_storage=dict, from_storage=dict)
CLAIM: Final = Conversion(partial(_claim, _nested_request), partial(_claim, _flat_request))
TEMPLATE: Final = Conversion(partial(_template, _nested_request), partial(_template, _flat_request))


def slice_conversion(*, plain_capacity: bool) -> Conversion:
    return Conversion(
        partial(_slice, _flat_device), partial(_slice, partial(_basic_device, plain_capacity=plain_capacity))
    )
