"""The resource group before 1.31: v1alpha1 in 1.26, v1alpha2 in 1.27 to 1.30, and PodSchedulingContext until 1.31.

Drivers allocated claims here, or the scheduler by the parameters of 1.30. Kubernetes has no conversion to v1alpha3:
these are types of their own, whose objects stay in the journal, and no other version serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from rewound.actors.kinds.core.node_selector import NODE_SELECTOR, node_selector_rules
from rewound.actors.kinds.core.volume_sources import driver_name_rules
from rewound.actors.kinds.core.volumes import template_metadata_rules
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    Selection,
    Storage,
    Strategy,
    Table,
    keep_status,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import (
    METADATA,
    TEMPLATE_META,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.resource.rules import MAX_RESERVED, consumer, is_version
from rewound.actors.kinds.resource.structs import RESOURCE_CLAIM_CONSUMER_REFERENCE
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    INT64,
    QUANTITY,
    STRING,
    STRINGS,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
    size,
    too_long,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

MODES: Final = ("Immediate", "WaitForFirstConsumer")
MAX_NODES: Final = 128
MAX_HANDLES: Final = 32
MAX_HANDLE: Final = 16 * 1024
ONE_MODEL: Final = "exactly one structured model field must be set"


class _Structs:
    """The structs of one version; those that only 1.30 has are in all of them."""

    def __init__(self, version: str) -> None:
        of = f"resource.{version}."
        is_first = version == "v1alpha1"
        # Lists of nodes were sets before 1.29.
        node_list: dict[str, Any] = (
            {"list_type": "set"}
            if is_first
            else {"list_type": "atomic", "before": (Before("1.29", list_type="set"),)}
        )
        reference = (
            Field("apiGroup", STRING, 1),
            Field("kind", STRING, 2, required=True, always=True),
            Field("name", STRING, 3, required=True, always=True),
        )
        claim_reference = Struct(f"{of}ResourceClaimParametersReference", *reference)
        class_reference = Struct(
            f"{of}ResourceClassParametersReference", *reference, Field("namespace", STRING, 4)
        )
        instance = Struct(
            f"{of}NamedResourcesInstance",
            Field("name", STRING, 1, required=True, always=True),
            Field("attributes", ListOf(_attribute(of)), 2, list_type="atomic"),
        )
        named = Struct(
            f"{of}NamedResourcesResources",
            Field("instances", ListOf(instance), 1, required=True, always=True, list_type="atomic"),
        )
        selected = {
            name: Struct(
                f"{of}NamedResources{name}", Field("selector", STRING, 1, required=True, always=True)
            )
            for name in ("Request", "Filter")
        }
        result = Struct(
            f"{of}DriverAllocationResult",
            Field("vendorRequestParameters", ANY_JSON, 1),
            Field(
                "namedResources",
                Struct(
                    f"{of}NamedResourcesAllocationResult",
                    Field("name", STRING, 1, required=True, always=True),
                ),
                1,
                embedded=2,
                pointer=True,
            ),
        )
        structured = Struct(
            f"{of}StructuredResourceHandle",
            Field("vendorClassParameters", ANY_JSON, 1),
            Field("vendorClaimParameters", ANY_JSON, 2),
            Field("nodeName", STRING, 4),
            Field("results", ListOf(result), 5, required=True, always=True, list_type="atomic"),
        )
        handle = Struct(
            f"{of}ResourceHandle",
            Field("driverName", STRING, 1),
            Field("data", STRING, 2),
            Field("structuredData", structured, 5, pointer=True, since="1.30"),
        )
        handles = (
            Field("resourceHandle", STRING, 1)
            if is_first
            else Field("resourceHandles", ListOf(handle), 1, list_type="atomic")
        )
        self.allocation = Struct(
            f"{of}AllocationResult",
            handles,
            Field("availableOnNodes", NODE_SELECTOR, 2, pointer=True),
            Field("shareable", BOOL, 3),
        )
        self.claim_spec = Struct(
            f"{of}ResourceClaimSpec",
            Field("resourceClassName", STRING, 1, required=True, always=True),
            Field("parametersRef", claim_reference, 2, pointer=True),
            Field("allocationMode", STRING, 3),
        )
        consumer = Struct(f"{of}ResourceClaimConsumerReference", *RESOURCE_CLAIM_CONSUMER_REFERENCE.fields)
        not_yet = (Before("1.30", patch="", merge_key=""),)
        merged: dict[str, Any] = {} if is_first else {"patch": "merge", "merge_key": "uid", "before": not_yet}
        reserved = Field("reservedFor", ListOf(consumer), 3, list_type="map", list_keys=("uid",), **merged)
        claim_status = Struct(
            f"{of}ResourceClaimStatus",
            Field("driverName", STRING, 1),
            Field("allocation", self.allocation, 2, pointer=True),
            reserved,
            Field("deallocationRequested", BOOL, 4),
        )
        self.claim = Struct(
            f"{of}ResourceClaim",
            METADATA,
            Field("spec", self.claim_spec, 2, required=True),
            Field("status", claim_status, 3),
        )
        self.template_spec = Struct(
            f"{of}ResourceClaimTemplateSpec",
            Field("metadata", TEMPLATE_META, 1),
            Field("spec", self.claim_spec, 2, required=True),
        )
        self.template = Struct(
            f"{of}ResourceClaimTemplate", METADATA, Field("spec", self.template_spec, 2, required=True)
        )
        self.device_class = Struct(
            f"{of}ResourceClass",
            METADATA,
            Field("driverName", STRING, 2, required=True, always=True),
            Field("parametersRef", class_reference, 3, pointer=True),
            Field("suitableNodes", NODE_SELECTOR, 4, pointer=True),
            Field("structuredParameters", BOOL, 5, pointer=True, since="1.30"),
        )
        name = "PodScheduling" if is_first else "PodSchedulingContext"
        is_named = version == "v1alpha3"
        scheduled = Struct(
            f"{of}ResourceClaimSchedulingStatus",
            Field("name", STRING, 1, required=is_named, always=is_named),
            Field("unsuitableNodes", STRINGS, 2, **node_list),
        )
        self.scheduling = Struct(
            f"{of}{name}",
            METADATA,
            Field(
                "spec",
                Struct(
                    f"{of}{name}Spec",
                    Field("selectedNode", STRING, 1),
                    Field("potentialNodes", STRINGS, 2, **node_list),
                ),
                2,
                required=True,
            ),
            Field(
                "status",
                Struct(
                    f"{of}{name}Status",
                    Field("resourceClaims", ListOf(scheduled), 1, list_type="map", list_keys=("name",)),
                ),
                3,
            ),
        )
        self.slice = Struct(
            f"{of}ResourceSlice",
            METADATA,
            Field("nodeName", STRING, 2),
            Field("driverName", STRING, 3, required=True, always=True),
            Field("namedResources", named, 1, embedded=4, pointer=True),
        )
        request = Struct(
            f"{of}ResourceRequest",
            Field("vendorParameters", ANY_JSON, 1),
            Field("namedResources", selected["Request"], 1, embedded=2, pointer=True),
        )
        requests = Struct(
            f"{of}DriverRequests",
            Field("driverName", STRING, 1),
            Field("vendorParameters", ANY_JSON, 2),
            Field("requests", ListOf(request), 3, list_type="atomic"),
        )
        self.claim_parameters = Struct(
            f"{of}ResourceClaimParameters",
            METADATA,
            Field("generatedFrom", claim_reference, 2, pointer=True),
            Field("shareable", BOOL, 3),
            Field("driverRequests", ListOf(requests), 4, list_type="atomic"),
        )
        vendor = Struct(
            f"{of}VendorParameters", Field("driverName", STRING, 1), Field("parameters", ANY_JSON, 2)
        )
        filtered = Struct(
            f"{of}ResourceFilter",
            Field("driverName", STRING, 1),
            Field("namedResources", selected["Filter"], 1, embedded=2, pointer=True),
        )
        self.class_parameters = Struct(
            f"{of}ResourceClassParameters",
            METADATA,
            Field("generatedFrom", class_reference, 2, pointer=True),
            Field("vendorParameters", ListOf(vendor), 3, list_type="atomic"),
            Field("filters", ListOf(filtered), 4, list_type="atomic"),
        )


def _attribute(of: str) -> Struct:
    integers = Struct(
        f"{of}NamedResourcesIntSlice",
        Field("ints", ListOf(INT64), 1, required=True, always=True, list_type="atomic"),
    )
    strings = Struct(
        f"{of}NamedResourcesStringSlice",
        Field("strings", STRINGS, 1, required=True, always=True, list_type="atomic"),
    )
    values = (
        ("quantity", QUANTITY, 6),
        ("bool", BOOL, 2),
        ("int", INT64, 7),
        ("intSlice", integers, 8),
        ("string", STRING, 5),
        ("stringSlice", strings, 9),
        ("version", STRING, 10),
    )
    return Struct(
        f"{of}NamedResourcesAttribute",
        Field("name", STRING, 1, required=True, always=True),
        *(Field(name, type_, number, embedded=2, pointer=True) for name, type_, number in values),
    )


V1ALPHA1, V1ALPHA2, V1ALPHA3 = (_Structs(version) for version in ("v1alpha1", "v1alpha2", "v1alpha3"))
_ATTRIBUTES: Final = ("bool", "int", "intSlice", "quantity", "string", "stringSlice", "version")


def declare(names: Names) -> tuple[Definition, ...]:
    first = _definitions(names, "v1alpha1", V1ALPHA1, "podschedulings", since="1.26", until="1.26")
    second = _definitions(names, "v1alpha2", V1ALPHA2, "podschedulingcontexts", since="1.27", until="1.30")
    context = _scheduling(names, "v1alpha3", V1ALPHA3, "podschedulingcontexts")
    return (
        *first[:4],
        *second[:4],
        *(replace(one, since="1.30") for one in second[4:]),
        replace(context, storage=Storage(), since="1.31", until="1.31"),
    )


def _definitions(
    names: Names, version: str, structs: _Structs, scheduling: str, *, since: str, until: str
) -> list[Definition]:
    def make(kind: str, plural: str, fields: Struct, **others: Any) -> Definition:
        return _definition(names, version, kind, plural, fields, **others)

    claim_columns = (
        Column("ResourceClassName", "string", "The class of the claim.", at("spec", "resourceClassName")),
        Column("AllocationMode", "string", "When the claim is allocated.", at("spec", "allocationMode")),
    )
    template_columns = tuple(
        msgspec.structs.replace(one, cell=at("spec", "spec", name))
        for one, name in zip(claim_columns, ("resourceClassName", "allocationMode"), strict=True)
    )
    state = Column(
        "State", "string", "A summary of the current state (allocated, pending, reserved, etc.).", _state
    )
    origin = Column("GeneratedFrom", "string", "What the parameters were made from.", _origin)
    made = [
        make(
            "ResourceClass",
            "resourceclasses",
            structs.device_class,
            namespaced=False,
            table=Table((NAME, Column("DriverName", "string", "The driver.", at("driverName")), AGE)),
            strategy=_strategy(_class_rules, namespaced=False),
        ),
        make(
            "ResourceClaim",
            "resourceclaims",
            structs.claim,
            set_defaults=lambda claim: _claim_defaults(structs, claim, "spec"),
            subresources=(status_subresource(partial(_claim_status_rules, structs)),),
            table=Table((NAME, *claim_columns, state, AGE)),
            strategy=_strategy(_claim_rules, structs.claim_spec, has_status=True),
        ),
        make(
            "ResourceClaimTemplate",
            "resourceclaimtemplates",
            structs.template,
            set_defaults=lambda template: _claim_defaults(structs, template["spec"], "spec"),
            table=Table((NAME, *template_columns, AGE)),
            strategy=_strategy(_template_rules, structs.template_spec),
        ),
        _scheduling(names, version, structs, scheduling),
        make(
            "ResourceSlice",
            "resourceslices",
            structs.slice,
            namespaced=False,
            selection=Selection(
                fields={
                    "nodeName": lambda stored: str(stored.get("nodeName", "")),
                    "driverName": lambda stored: str(stored["driverName"]),
                },
                own_label_conversion=True,
                unsupported_message=f"field label not supported for {names.group('resource')}/{version}, "
                "Kind=ResourceSlice: {label}",
            ),
            table=Table(
                (
                    NAME,
                    Column("Node", "string", "The node of the resources.", at("nodeName")),
                    Column("Driver", "string", "The driver of the resources.", at("driverName")),
                    AGE,
                )
            ),
            strategy=Strategy(validate_create=_slice_rules, validate_update=_slice_update_rules),
        ),
        make(
            "ResourceClaimParameters",
            "resourceclaimparameters",
            structs.claim_parameters,
            table=Table((NAME, origin, AGE)),
            strategy=_strategy(_claim_parameter_rules),
        ),
        make(
            "ResourceClassParameters",
            "resourceclassparameters",
            structs.class_parameters,
            table=Table((NAME, origin, AGE)),
            strategy=_strategy(_class_parameter_rules),
        ),
    ]
    return [replace(one, since=since, until=until) for one in made]


def _scheduling(names: Names, version: str, structs: _Structs, plural: str) -> Definition:
    return _definition(
        names,
        version,
        structs.scheduling.name,
        plural,
        structs.scheduling,
        subresources=(status_subresource(_scheduling_status_rules),),
        table=Table(
            (NAME, Column("SelectedNode", "string", "The node to try.", at("spec", "selectedNode")), AGE)
        ),
        strategy=_strategy(_scheduling_rules, has_status=True),
    )


def _definition(
    names: Names,
    version: str,
    kind: str,
    plural: str,
    fields: Struct,
    *,
    namespaced: bool = True,
    **others: Any,
) -> Definition:
    group = names.group("resource")
    return Definition(
        announces_end=False,
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        check_name=name_is_subdomain,
        fields=fields,
        deletion=Deletion(returns_object=True),
        storage=Storage(type_name=f"{plural}.{version}.{group}", error_group=group),
        on_by_default=False,
        **others,
    )


def _strategy(
    rules: Callable[[FieldErrors, Object], None],
    immutable: Struct | None = None,
    *,
    namespaced: bool = True,
    has_status: bool = False,
) -> Strategy:
    """Return a strategy that validates an object again at every update; `immutable`: its spec cannot change."""

    def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        if immutable is not None and new["spec"] != old["spec"]:
            errors.add(invalid("spec", shown(immutable, new["spec"]), IMMUTABLE))
        metadata_rules(errors, new["metadata"], namespaced=namespaced, check_name=name_is_subdomain)
        rules(errors, new)

    if not has_status:
        return Strategy(validate_create=rules, validate_update=update_rules)
    return Strategy(
        prepare_for_create=_without_status,
        prepare_for_update=keep_status,
        validate_create=rules,
        validate_update=update_rules,
    )


def _without_status(new: Object) -> None:
    new["status"] = {}


def _claim_defaults(structs: _Structs, holder: Object, name: str) -> None:
    spec = holder[name]
    if not spec.get("allocationMode"):
        holder[name] = structs.claim_spec.arranged({**spec, "allocationMode": "WaitForFirstConsumer"})


def _state(claim: Object, _: int) -> str:
    status, is_deleted = claim["status"], "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if is_deleted else []
    if "allocation" not in status:
        states += [] if is_deleted else ["pending"]
    elif status.get("reservedFor"):
        states += ["allocated", "reserved"]
    else:
        states += ["allocated"]
        states += ["deallocating"] if is_deleted or status.get("deallocationRequested") else []
    return ",".join(states)


def _origin(parameters: Object, _: int) -> str:
    origin = parameters.get("generatedFrom")
    if origin is None:
        return ""
    group = origin.get("apiGroup", "")
    return f"{origin['kind']}{'.' if group else ''}{group} {origin['name']}"


# Validation.


def _reference_rules(errors: FieldErrors, reference: Object | None, field: str) -> None:
    if reference is None:
        return
    for name in ("kind", "name"):
        if not reference[name]:
            errors.add(required(f"{field}.{name}"))
    namespace = reference.get("namespace", "")
    if namespace:
        errors.add_each(f"{field}.namespace", namespace, dns_label(namespace))


def _class_rules(errors: FieldErrors, new: Object) -> None:
    driver_name_rules(errors, new["driverName"], "driverName")
    _reference_rules(errors, new.get("parametersRef"), "parametersRef")
    if "suitableNodes" in new:
        node_selector_rules(errors, new["suitableNodes"], "suitableNodes")


def _claim_rules(errors: FieldErrors, new: Object, field: str = "spec") -> None:
    spec = new["spec"]
    name, mode = spec["resourceClassName"], spec.get("allocationMode", "")
    errors.add_each(f"{field}.resourceClassName", name, dns_subdomain(name))
    _reference_rules(errors, spec.get("parametersRef"), f"{field}.parametersRef")
    if mode not in MODES:
        errors.add(not_supported(f"{field}.allocationMode", mode, MODES))


def _template_rules(errors: FieldErrors, new: Object) -> None:
    metadata = new["spec"]["metadata"]
    template_metadata_rules(errors, metadata, "spec.metadata", "cannot be set")
    _claim_rules(errors, new["spec"], "spec.spec")


def _claim_status_rules(structs: _Structs, errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    status, before = new["status"], old["status"]
    allocation, reserved = status.get("allocation"), status.get("reservedFor", ())
    if status.get("driverName"):
        driver_name_rules(errors, status["driverName"], "status.driverName")
    elif allocation is not None:
        errors.add(required("status.driverName", "must be specified when `allocation` is set"))
    if allocation is not None:
        _allocation_rules(errors, allocation)
    _consumer_rules(errors, reserved)
    _reservation_rules(errors, status, before, new["metadata"])
    may_change = structs is V1ALPHA1
    if allocation is not None and before.get("allocation") not in (None, allocation) and not may_change:
        errors.add(invalid("status.allocation", shown(structs.allocation, allocation), IMMUTABLE))
    _deallocation_rules(errors, status, before)


def _reservation_rules(errors: FieldErrors, status: Object, before: Object, metadata: Object) -> None:
    allocation, reserved, field = (
        status.get("allocation"),
        status.get("reservedFor", ()),
        "status.reservedFor",
    )
    if not reserved:
        return
    if allocation is None:
        errors.add(forbidden(field, "may not be specified when `allocated` is not set"))
        return
    if not allocation.get("shareable") and len(reserved) > 1:
        errors.add(forbidden(field, "may not be reserved more than once"))
    is_going = "deletionTimestamp" in metadata or status.get("deallocationRequested")
    if is_going and any(one not in before.get("reservedFor", ()) for one in reserved):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.add(forbidden(field, text))


def _deallocation_rules(errors: FieldErrors, status: Object, before: Object) -> None:
    is_requested, was = status.get("deallocationRequested", False), before.get("deallocationRequested", False)
    field, allocated = "status.deallocationRequested", "allocation" in status
    if is_requested and not was and status.get("reservedFor"):
        errors.add(forbidden(field, "deallocation cannot be requested while `reservedFor` is set"))
    if is_requested and not allocated:
        errors.add(forbidden("status", "`allocation` must be set when `deallocationRequested` is set"))
    if was and not is_requested and allocated:
        errors.add(forbidden(field, "may not be cleared when `allocation` is set"))


def _allocation_rules(errors: FieldErrors, allocation: Object) -> None:
    field = "status.allocation"
    if size(allocation.get("resourceHandle", "")) > MAX_HANDLE:
        errors.add(too_long(f"{field}.resourceHandle", MAX_HANDLE))
    handles = allocation.get("resourceHandles", ())
    for index, handle in enumerate(handles):
        _handle_rules(errors, handle, f"{field}.resourceHandles[{index}]")
    if len(handles) > MAX_HANDLES:
        errors.add(too_long(f"{field}.resourceHandles", MAX_HANDLES))
    if "availableOnNodes" in allocation:
        node_selector_rules(errors, allocation["availableOnNodes"], f"{field}.availableOnNodes")


def _handle_rules(errors: FieldErrors, handle: Object, field: str) -> None:
    data, structured = handle.get("data", ""), handle.get("structuredData")
    driver_name_rules(errors, handle.get("driverName", ""), f"{field}.driverName")
    if size(data) > MAX_HANDLE:
        errors.add(too_long(f"{field}.data", MAX_HANDLE))
    if structured is None:
        return
    node = structured.get("nodeName", "")
    if node:
        errors.add_each(f"{field}.structuredData.nodeName", node, dns_subdomain(node))
    for index, result in enumerate(structured["results"] or ()):
        at_result = f"{field}.structuredData.results[{index}]"
        named = _model(errors, result, at_result)
        if named is not None:
            errors.add_each(f"{at_result}.namedResources.name", named["name"], dns_subdomain(named["name"]))
    if data:
        errors.add(invalid(field, None, "data and structuredData are mutually exclusive"))


def _model(errors: FieldErrors, holder: Object, field: str) -> Object | None:
    """Return the resources by name, which are the only model."""
    named: Object | None = holder.get("namedResources")
    if named is None:
        errors.add(required(field, ONE_MODEL))
    return named


def _consumer_rules(errors: FieldErrors, consumers: Sequence[Object]) -> None:
    seen: set[str] = set()
    for index, one in enumerate(consumers):
        field = f"status.reservedFor[{index}]"
        if one["uid"] in seen:
            errors.add(duplicate(f"{field}.uid", one["uid"]))
        else:
            consumer(errors, one, field)
        seen.add(one["uid"])
    if len(consumers) > MAX_RESERVED // 8:
        errors.add(too_long("status.reservedFor", MAX_RESERVED // 8))


def _node_list_rules(errors: FieldErrors, nodes: Sequence[str], field: str) -> None:
    for index, node in enumerate(nodes):
        if node in nodes[:index]:
            errors.add(duplicate(f"{field}[{index}]", node))
        else:
            errors.add_each(f"{field}[{index}]", node, dns_subdomain(node))
    if len(nodes) > MAX_NODES:
        errors.add(too_long(field, MAX_NODES))


def _scheduling_rules(errors: FieldErrors, new: Object) -> None:
    _node_list_rules(errors, new["spec"].get("potentialNodes", ()), "spec.potentialNodes")


def _scheduling_status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    seen: set[str] = set()
    for index, one in enumerate(new["status"].get("resourceClaims", ())):
        field, name = f"status.claims[{index}]", one.get("name", "")
        _node_list_rules(errors, one.get("unsuitableNodes", ()), f"{field}.unsuitableNodes")
        if name in seen:
            errors.add(duplicate(field, name))
        seen.add(name)


def _slice_rules(errors: FieldErrors, new: Object) -> None:
    node = new.get("nodeName", "")
    if node:
        errors.add_each("nodeName", node, dns_subdomain(node))
    driver_name_rules(errors, new["driverName"], "driverName")
    named = _model(errors, new, "<nil>")
    _named_rules(errors, (named or {}).get("instances") or (), "namedResources.instances")


def _named_rules(errors: FieldErrors, instances: Sequence[Object], field: str) -> None:
    seen: set[str] = set()
    for index, instance in enumerate(instances):
        at_instance, name = f"{field}[{index}]", instance["name"]
        errors.add_each(f"{at_instance}.name", name, dns_subdomain(name))
        if name in seen:
            errors.add(duplicate(f"{at_instance}.name", name))
        seen.add(name)
        _attribute_rules(errors, instance.get("attributes", ()), f"{at_instance}.attributes")


def _attribute_rules(errors: FieldErrors, attributes: Sequence[Object], field: str) -> None:
    seen: set[str] = set()
    for index, attribute in enumerate(attributes):
        here, name = f"{field}[{index}]", attribute["name"]
        errors.add_each(f"{here}.name", name, dns_subdomain(name))
        if name in seen:
            errors.add(duplicate(f"{here}.name", name))
        seen.add(name)
        given = [one for one in _ATTRIBUTES if one in attribute]
        if "version" in attribute and not is_version(attribute["version"]):
            text = "must be a string compatible with semver.org spec 2.0.0"
            errors.add(invalid(f"{here}.version", attribute["version"], text))
        if not given:
            errors.add(required(here, "exactly one value must be set"))
        elif len(given) > 1:
            errors.add(invalid(here, given, "exactly one field must be set, not several"))


def _slice_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    _slice_rules(errors, new)
    unchanged(errors, "nodeName", new.get("nodeName", ""), old.get("nodeName", ""))
    unchanged(errors, "driverName", new["driverName"], old["driverName"])


def _driver_rules(errors: FieldErrors, entries: Sequence[Object], field: str) -> None:
    seen: set[str] = set()
    for index, one in enumerate(entries):
        name = one.get("driverName", "")
        driver_name_rules(errors, name, f"{field}[{index}].driverName")
        if name in seen:
            errors.add(duplicate(f"{field}[{index}].driverName", name))
        seen.add(name)


def _selector_rules(errors: FieldErrors, holder: Object, field: str) -> None:
    """The expressions of that time, about attributes by their type, are not compiled."""
    named = _model(errors, holder, field)
    if named is not None and not named["selector"]:
        errors.add(required(f"{field}.namedResources.selector"))


def _claim_parameter_rules(errors: FieldErrors, new: Object) -> None:
    _reference_rules(errors, new.get("generatedFrom"), "generatedFrom")
    entries = new.get("driverRequests", ())
    _driver_rules(errors, entries, "driverRequests")
    for index, one in enumerate(entries):
        field = f"driverRequests[{index}].requests"
        for at_request, request in enumerate(one.get("requests", ())):
            _selector_rules(errors, request, f"{field}[{at_request}]")
        if not one.get("requests"):
            errors.add(required(field, "empty entries with no requests are not allowed"))


def _class_parameter_rules(errors: FieldErrors, new: Object) -> None:
    _reference_rules(errors, new.get("generatedFrom"), "generatedFrom")
    filters = new.get("filters", ())
    _driver_rules(errors, filters, "filters")
    for index, one in enumerate(filters):
        _selector_rules(errors, one, f"filters[{index}]")
    _driver_rules(errors, new.get("vendorParameters", ()), "vendorParameters")
