"""The resource group: DeviceClass, ResourceClaim, ResourceClaimTemplate and ResourceSlice, which describe, request and
allocate devices; DeviceTaintRule, and ResourcePoolStatusRequest.

Objects are stored as v1 has them (`structs`; device taint rules: as v1beta2), whatever version serves them
(`conversion`).
v1alpha1 and v1alpha2 are other APIs under the same names (`alpha`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at, since
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Deletion,
    Selection,
    Storage,
    Strategy,
    Subresource,
    Table,
    bump_generation,
    clear_status,
    keep_spec_and_metadata,
    keep_status,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import (
    condition_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.resource import alpha
from rewound.actors.kinds.resource.conversion import (
    ALPHA_3,
    BETA_1,
    BETA_2,
    CLAIM,
    FLAT_REQUEST,
    SAME,
    TEMPLATE,
    VersionStructs,
    slice_conversion,
)
from rewound.actors.kinds.resource.rules import (
    EXACT_COUNT,
    MAX_CONDITIONS,
    DeviceRules,
    device_id,
)
from rewound.actors.kinds.resource.structs import (
    DEVICE_CLASS,
    DEVICE_SUB_REQUEST,
    DEVICE_TAINT,
    DEVICE_TAINT_RULE,
    DEVICE_TAINT_RULE_STATUS,
    EXACT_DEVICE_REQUEST,
    POOL_STATUS_REQUEST,
    POOL_STATUS_REQUEST_STATUS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_STATUS,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from rewound.actors.kinds.schema.fields import (
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    caseless_subdomain,
    dns_subdomain,
    invalid,
    name_is_long,
    name_is_subdomain,
    required,
    size,
    too_long,
    too_many,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import DEVICE_RULES, DEVICE_STATUS, LONG_NAMES

# Defaults.


def _request_defaults(request: Object) -> None:
    request["allocationMode"] = request.get("allocationMode") or EXACT_COUNT
    if request["allocationMode"] == EXACT_COUNT and not request.get("count"):
        request["count"] = 1


def _claim_defaults(spec: Object) -> None:
    for request in spec["devices"].get("requests") or ():
        exact = request.get("exactly")
        if exact is not None:
            request["exactly"] = _defaulted(EXACT_DEVICE_REQUEST, exact)
        elif request.get("deviceClassName"):  # v1beta1
            full = _defaulted(FLAT_REQUEST, request)
            request.clear()
            request.update(full)
        if request.get("firstAvailable"):
            request["firstAvailable"] = [
                _defaulted(DEVICE_SUB_REQUEST, one) for one in request["firstAvailable"]
            ]


def _defaulted(struct: Struct, request: Object) -> Object:
    full = dict(request)
    _request_defaults(full)
    return struct.arranged(full)


def _slice_defaults(slice_: Object) -> None:
    for device in slice_["spec"].get("devices") or ():
        mappings = device.get("nodeAllocatableResourceMappings") or device.get("basic", {}).get(
            "nodeAllocatableResourceMappings"
        )
        for one in (mappings or {}).values():
            one.setdefault("allocationMultiplier", "1")


def _stamp_slice(new: Object, old: Object | None, time: str) -> None:
    """Taints without a time were added now."""
    devices = new["spec"].get("devices") or []
    if any("timeAdded" not in taint for device in devices for taint in device.get("taints") or ()):
        stamped = [
            {**device, "taints": [_stamped(one, time) for one in device["taints"]]}
            if device.get("taints")
            else device
            for device in devices
        ]
        new["spec"] = {**new["spec"], "devices": stamped}


def _rule_times(new: Object, time: str) -> None:
    """A taint without a time was added now."""
    new["spec"] = {**new["spec"], "taint": _stamped(new["spec"]["taint"], time)}


def _stamp_rule(new: Object, old: Object | None, time: str) -> None:
    """A taint with another effect and the old time was added now."""
    taint, before = new["spec"]["taint"], {} if old is None else old["spec"]["taint"]
    if before and taint["effect"] != before["effect"] and taint.get("timeAdded") == before.get("timeAdded"):
        new["spec"] = {**new["spec"], "taint": {**taint, "timeAdded": time}}


def _stamped(taint: Object, time: str) -> Object:
    return DEVICE_TAINT.arranged({"timeAdded": time, **taint})


# Status.


def _prepare_claim(new: Object) -> None:
    new["status"] = {}


def _prepare_status(features: frozenset[str], new: Object, old: Object) -> None:
    keep_spec_and_metadata(new, old)
    status, before = new["status"], old["status"]
    if DEVICE_STATUS not in features and not before.get("devices"):
        return
    gone = _allocated(before) - _allocated(status)
    devices = [one for one in status.get("devices", ()) if device_id(one) not in gone]
    new["status"] = {name: one for name, one in status.items() if name != "devices"}
    if devices:
        new["status"] = RESOURCE_CLAIM_STATUS.arranged({**new["status"], "devices": devices})


def _allocated(status: Object) -> set[str]:
    return {device_id(one) for one in (status.get("allocation") or {}).get("devices", {}).get("results", ())}


def _first_generation(new: Object) -> None:
    new["metadata"]["generation"] = 1


def _prepare_rule(new: Object) -> None:
    _first_generation(new)
    if "status" in new:  # since 1.35
        clear_status(DEVICE_TAINT_RULE_STATUS, new)


def _keep_status_and_bump(new: Object, old: Object) -> None:
    if "status" in old:
        keep_status(new, old)
    bump_generation(new, old)


def _rule_status(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    conditions = new["status"].get("conditions", ())
    condition_rules(errors, conditions, "status.conditions")
    if len(conditions) > MAX_CONDITIONS:
        errors.add(too_many("status.conditions", len(conditions), MAX_CONDITIONS))


def _driver_warnings(new: Object, _: Object | None) -> list[str]:
    driver = new["spec"]["driver"]
    if driver == driver.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


# Tables.


def _state(claim: Object, _: int) -> str:
    status, is_deleted = claim["status"], "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if is_deleted else []
    if "allocation" not in status:
        states += [] if is_deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return ",".join(states)


def _time_added(rule: Object, now: int) -> str:
    added = rule["spec"]["taint"].get("timeAdded")
    return since(added, now) if added else ""


_SLICE_COLUMNS: Final = (
    NAME,
    Column("Node", "string", "The node whose devices these are.", at("spec", "nodeName")),
    Column("Driver", "string", "The driver of the devices.", at("spec", "driver")),
    Column("Pool", "string", "The pool that the devices belong to.", at("spec", "pool", "name")),
    AGE,
)
_CLAIM_COLUMNS: Final = (
    NAME,
    Column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.).", _state),
    AGE,
)
_RULE_COLUMNS: Final = (
    NAME,
    Column("Key", "string", "The key of the taint.", at("spec", "taint", "key")),
    Column("Value", "string", "The value of the taint.", at("spec", "taint", "value")),
    Column(
        "Effect",
        "string",
        "What the taint does to claims that do not tolerate it.",
        at("spec", "taint", "effect"),
    ),
    Column("TimeAdded", "string", "Time since the taint was added.", _time_added),
    AGE,
)


def declare(names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    rules = DeviceRules(names, features)
    make = partial(
        Definition,
        group=names.group("resource"),
        deletion=Deletion(returns_object=True),
        storage=Storage(
            announced_since={"1.31": "v1alpha3", "1.32": "v1beta1", "1.34": "v1beta2", "1.35": "v1"}
        ),
    )
    device_class = make(
        version="v1",
        kind="DeviceClass",
        plural="deviceclasses",
        namespaced=False,
        check_name=name_is_long if LONG_NAMES in features else name_is_subdomain,
        fields=DEVICE_CLASS,
        table=Table((NAME, AGE)),
        strategy=Strategy(
            prepare_for_create=_first_generation,
            prepare_for_update=bump_generation,
            validate_create=rules.device_class,
            validate_update=rules.device_class_update,
        ),
        since="1.34",
    )
    claim = make(
        version="v1",
        kind="ResourceClaim",
        plural="resourceclaims",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=RESOURCE_CLAIM,
        set_defaults=lambda claim: _claim_defaults(claim["spec"]),
        subresources=(
            Subresource(
                name="status",
                prepare=partial(_prepare_status, features),
                validate=rules.claim_status,
                reset_fields=("spec", "metadata") if DEVICE_RULES in features else ("spec",),
            ),
        ),
        table=Table(_CLAIM_COLUMNS),
        strategy=Strategy(
            prepare_for_create=_prepare_claim,
            prepare_for_update=keep_status,
            validate_create=rules.claim,
            validate_update=rules.claim_update,
        ),
        since="1.34",
    )
    template = make(
        version="v1",
        kind="ResourceClaimTemplate",
        plural="resourceclaimtemplates",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=RESOURCE_CLAIM_TEMPLATE,
        set_defaults=lambda template: _claim_defaults(template["spec"]["spec"]),
        table=Table((NAME, AGE)),
        strategy=Strategy(validate_create=rules.template, validate_update=rules.template_update),
        since="1.34",
    )
    slices = make(
        version="v1",
        kind="ResourceSlice",
        plural="resourceslices",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=RESOURCE_SLICE,
        set_defaults=_slice_defaults,
        selection=_slice_selection(names, "v1"),
        table=Table(_SLICE_COLUMNS),
        strategy=Strategy(
            stamp=_stamp_slice,
            prepare_for_create=_first_generation,
            prepare_for_update=bump_generation,
            validate_create=rules.slice,
            validate_update=rules.slice_update,
            warnings=_driver_warnings if DEVICE_RULES in features else None,
        ),
        since="1.34",
    )
    taint_rule = make(
        version="v1beta2",
        kind="DeviceTaintRule",
        plural="devicetaintrules",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=DEVICE_TAINT_RULE,
        subresources=(msgspec.structs.replace(status_subresource(_rule_status), since="1.35"),),
        table=Table(_RULE_COLUMNS),
        strategy=Strategy(
            default_times=_rule_times,
            stamp=_stamp_rule,
            prepare_for_create=_prepare_rule,
            prepare_for_update=_keep_status_and_bump,
            validate_create=rules.taint_rule,
            validate_update=rules.taint_rule_update,
        ),
        since="1.36",
        on_by_default=False,
        storage=Storage(announced_version="v1alpha3"),
    )
    return (
        device_class,
        *_older(device_class, SAME),
        claim,
        *_older(claim, CLAIM),
        template,
        *_older(template, TEMPLATE),
        slices,
        *_older(slices, slice_conversion(plain_capacity=False), slice_conversion(plain_capacity=True)),
        taint_rule,
        _in_version(taint_rule, "v1alpha3", ALPHA_3, SAME, since="1.33"),
        _pool_status_request(make),
        *alpha.declare(names),
    )


def _older(
    stored: Definition, conversion: Conversion, oldest: Conversion | None = None
) -> tuple[Definition, ...]:
    return (
        _in_version(stored, "v1beta2", BETA_2, SAME, since="1.33"),
        _in_version(stored, "v1beta1", BETA_1, conversion, since="1.32"),
        _in_version(stored, "v1alpha3", ALPHA_3, oldest or conversion, since="1.31", until="1.33"),
    )


def _in_version(
    stored: Definition,
    version: str,
    structs: VersionStructs,
    conversion: Conversion,
    *,
    since: str,
    until: str = "",
) -> Definition:
    labels = {name: name for name in stored.selection.fields}
    return replace(
        stored,
        version=version,
        fields=structs.struct(stored.fields),
        storage=Storage(stored_as=stored.type_name, conversion=conversion),
        selection=msgspec.structs.replace(
            stored.selection,
            stored_labels={**labels, "metadata.name": "metadata.name"} if labels else {},
            unsupported_message=stored.selection.unsupported_message.replace("/v1,", f"/{version},"),
        ),
        since=since,
        until=until,
        on_by_default=False,
    )


def _slice_selection(names: Names, version: str) -> Selection:
    kind = f"{names.group('resource')}/{version}, Kind=ResourceSlice"
    return Selection(
        fields={
            "spec.nodeName": lambda stored: str(stored["spec"].get("nodeName", "")),
            "spec.driver": lambda stored: str(stored["spec"]["driver"]),
        },
        own_label_conversion=True,
        unsupported_message=f"field label not supported for {kind}: {{label}}",
    )


def _pool_status_request(make: Callable[..., Definition]) -> Definition:
    return make(
        version="v1alpha3",
        kind="ResourcePoolStatusRequest",
        plural="resourcepoolstatusrequests",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=POOL_STATUS_REQUEST,
        subresources=(status_subresource(_pool_status),),
        table=Table(_POOL_COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=lambda new: new.pop("status", None),
            prepare_for_update=_keep_optional_status,
            validate_create=_pool_request,
            validate_update=_pool_request_update,
        ),
        storage=Storage(),
        since="1.36",
        on_by_default=False,
    )


def _keep_optional_status(new: Object, old: Object) -> None:
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def _caseless_name(errors: FieldErrors, name: str, field: str) -> None:
    if name:
        errors.add_each(field, name, caseless_subdomain(name))
    else:
        errors.add(required(field))


def _segments(errors: FieldErrors, name: str, field: str) -> None:
    if size(name) > 253:
        errors.add(too_long(field, 253))
    for index, part in enumerate(name.split("/")):
        errors.add_each(field, name, [f"segment {index}: {text}" for text in dns_subdomain(part)])


def _at_least(errors: FieldErrors, holder: Object, name: str, least: int, field: str) -> None:
    if name in holder and holder[name] < least:
        text = f"must be greater than or equal to {least}"
        errors.add(invalid(f"{field}.{name}", holder[name], text))


def _pool_request(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    _caseless_name(errors, spec["driver"], "spec.driver")
    if "poolName" in spec:
        _segments(errors, spec["poolName"], "spec.poolName")
    _at_least(errors, spec, "limit", 1, "spec")
    if spec.get("limit", 0) > 1000:
        errors.add(invalid("spec.limit", spec["limit"], "must be less than or equal to 1000"))


def _pool_request_update(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    if new["spec"] != old["spec"]:
        errors.add(invalid("spec", None, IMMUTABLE))


def _pool_status(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    status, before = new.get("status"), old.get("status")
    if before is not None:
        if status != before:
            sent = None if status is None else shown(POOL_STATUS_REQUEST_STATUS, status)
            errors.add(invalid("status", sent, IMMUTABLE))
        return
    if status is None:
        return
    conditions, pools = status.get("conditions", ()), status.get("pools", ())
    condition_rules(errors, conditions, "status.conditions")
    if "poolCount" not in status:
        errors.add(required("status.poolCount"))
    _at_least(errors, status, "poolCount", 0, "status")
    if len(pools) > 1000:
        errors.add(too_many("status.pools", len(pools), 1000))
    else:
        for index, pool in enumerate(pools):
            _pool(errors, pool, f"status.pools[{index}]")
    if len(conditions) > 10:
        errors.add(too_many("status.conditions", len(conditions), 10))


def _pool(errors: FieldErrors, pool: Object, field: str) -> None:
    _caseless_name(errors, pool.get("driver", ""), f"{field}.driver")
    if pool.get("poolName"):
        _segments(errors, pool["poolName"], f"{field}.poolName")
    else:
        errors.add(required(f"{field}.poolName"))
    _at_least(errors, pool, "generation", 0, field)
    _at_least(errors, pool, "resourceSliceCount", 1, field)
    for name in _DEVICE_COUNTS:
        _at_least(errors, pool, name, 0, field)
    if "nodeName" in pool:
        errors.add_each(f"{field}.nodeName", pool["nodeName"], dns_subdomain(pool["nodeName"]))
    if size(pool.get("validationError", "")) > 256:
        errors.add(too_long(f"{field}.validationError", 256))


def _true_condition(request: Object) -> Object:
    for one in request.get("status", {}).get("conditions", ()):
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return one  # type: ignore[no-any-return]
    return {}


def _sum(name: str) -> Callable[[Object, int], str]:
    def cell(request: Object, _: int) -> str:
        status = request.get("status")
        if status is None or _true_condition(request).get("type") == "Failed":
            return "-"
        return str(
            sum(
                1 if name == "validationError" else one[name]
                for one in status.get("pools", ())
                if name in one
            )
        )

    return cell


def _pool_state(request: Object, _: int) -> str:
    state = str(_true_condition(request).get("type", "Pending"))
    status = request.get("status", {})
    shown, count = len(status.get("pools", ())), status.get("poolCount", 0)
    return f"Complete ({shown}/{count} pools)" if state == "Complete" and count > shown else state


def _completed(request: Object, now: int) -> str:
    condition = _true_condition(request)
    return since(condition["lastTransitionTime"], now) if condition.get("type") == "Complete" else NONE


_DEVICE_COUNTS: Final = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")
_POOL_COLUMNS: Final = (
    NAME,
    Column("Driver", "string", "The driver to query pools for.", at("spec", "driver")),
    Column("Total", "string", "Total number of devices across all pools.", _sum("totalDevices")),
    Column("Available", "string", "Number of available devices across all pools.", _sum("availableDevices")),
    Column("Allocated", "string", "Number of allocated devices across all pools.", _sum("allocatedDevices")),
    Column(
        "Unavailable", "string", "Number of unavailable devices across all pools.", _sum("unavailableDevices")
    ),
    Column("Errors", "string", "Number of pools with validation errors.", _sum("validationError")),
    Column("Pools", "integer", "Total number of matching pools.", at("status", "poolCount", missing=0)),
    Column("Status", "string", "Processing status.", _pool_state),
    Column("Completed", "string", "Time since the observation completed.", _completed),
)
