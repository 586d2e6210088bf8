"""What is wrong with devices, claims for them, and slices of pools; the limits and texts are those of Kubernetes.

1.35 changed some of them (`DEVICE_RULES`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import orjson

from rewound.actors.golang.format import Formatted
from rewound.actors.kinds.core.node_selector import NODE_SELECTOR_TERM, node_selector_rules
from rewound.actors.kinds.core.resources import is_extended, is_native
from rewound.actors.kinds.core.volume_sources import driver_name_rules
from rewound.actors.kinds.core.volumes import template_metadata_rules
from rewound.actors.kinds.declaration.meta import (
    condition_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.resource.structs import (
    ALLOCATION_RESULT,
    DEVICE_ATTRIBUTE,
    RESOURCE_CLAIM_SPEC,
    RESOURCE_CLAIM_TEMPLATE_SPEC,
)
from rewound.actors.kinds.schema.internal import internal_form, shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    dns_label,
    dns_subdomain,
    duplicate,
    explained,
    forbidden,
    invalid,
    label_value,
    name_is_subdomain,
    not_found,
    not_supported,
    parse_ip,
    parse_network,
    qualified_name,
    required,
    size,
    too_long,
    too_many,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import nanos_of, parse_quantity, quantity_text
from rewound.actors.versions.features import CONSUMABLE_CAPACITY, DEVICE_KEYS, DEVICE_RULES, DEVICE_SHARES

# Validation.

EXACT_COUNT, ALL = "ExactCount", "All"
MAX_REQUESTS = MAX_RESULTS = 32
MAX_CONSTRAINTS = MAX_CONFIGS = MAX_SELECTORS = 32
MAX_SUB_REQUESTS: Final = 8
MAX_EXPRESSION: Final = 10 * 1024
MAX_PARAMETERS: Final = 10 * 1024
MAX_RESERVED: Final = 256
MAX_DEVICES, MAX_ADVANCED_DEVICES = 128, 64
MAX_PROPERTIES: Final = 32  # attributes and capacities of a device
MAX_ATTRIBUTE_VALUES: Final = 48
MAX_VALUE: Final = 64
MAX_ID, MAX_DOMAIN = 32, 63
MAX_TAINTS: Final = 16
MAX_COUNTER_SETS, MAX_COUNTERS, MAX_CONSUMPTIONS = 8, 32, 2
MAX_DISCRETE_VALUES: Final = 10
MAX_BINDING_CONDITIONS: Final = 4
MAX_CONDITIONS: Final = 8
MAX_IPS: Final = 16

ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
REQUEST_NAME: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
NODE_FIELDS: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
ONE_NODE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
ONE_DEVICE_NODE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
    "is set to true in the ResourceSlice spec"
)
TRUE_OR_UNSET: Final = "must be either unset or set to true"
ONE_VALUE: Final = "exactly one value must be specified"
OMITTED: Final = "<value omitted>"
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_is_identifier = re.compile(_IDENTIFIER).fullmatch
_NUMBER, _PRERELEASE = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
is_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
).fullmatch
_is_uuid = re.compile("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}").fullmatch

Check = Callable[[FieldErrors, Any, str], None]


def _label(errors: FieldErrors, value: str, field: str) -> None:
    errors.add_each(field, value, dns_label(value))


def _label_key(errors: FieldErrors, value: str, field: str) -> None:
    errors.add_each(field, value, qualified_name(value))


def pool_name(errors: FieldErrors, name: str, field: str) -> None:
    if not name:
        errors.add(required(field))
        return
    if size(name) > 253:
        errors.add(too_long(field, 253))
    for part in name.split("/"):
        errors.add_each(field, part, dns_subdomain(part))


def _uid(errors: FieldErrors, uid: str, field: str) -> None:
    length = size(uid)
    if length not in (32, 36, 38, 45):
        errors.add(invalid(field, uid, f"error validating uid: invalid UUID length: {length}"))
    elif length == 36 and not _is_uuid(uid):
        errors.add(invalid(field, uid, "error validating uid: invalid UUID format"))
    elif length != 36 or uid != uid.lower():
        text = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
        errors.add(invalid(field, uid, text))


def _identifier(errors: FieldErrors, name: str, field: str) -> None:
    if size(name) > MAX_ID:
        errors.add(too_long(field, MAX_ID))
    if not _is_identifier(name):
        text = (
            "a valid C identifier must start with alphabetic character or '_', "
            "followed by a string of alphanumeric characters or '_'"
        )
        errors.add(invalid(field, name, explained(text, _IDENTIFIER, "my_name", "MY_NAME", "MyName")))


def _free_object(errors: FieldErrors, value: Any, field: str, longest: int, *, stored: bool = False) -> None:
    """Validate parameters that only a driver understands: a JSON object."""
    if value is None:
        errors.add(required(field))
    elif not stored and len(orjson.dumps(value)) > longest:
        errors.add(too_long(field, longest))
    elif not isinstance(value, dict):
        text = "must be a valid JSON object"
        errors.add(
            invalid(field, OMITTED, text if DEVICE_SHARES in errors.features else f"parameters {text}")
        )


def _interface_address(errors: FieldErrors, value: str, field: str) -> None:
    address, _, length = value.partition("/")
    ip = parse_ip(address)
    if parse_network(value) is None or ip is None:
        errors.add(
            invalid(
                field, value, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
            )
        )
        return
    mapped, bits = getattr(ip, "ipv4_mapped", None), int(length)
    canonical = f"{mapped}/{bits - 96}" if mapped is not None and bits > 32 else f"{mapped or ip}/{bits}"
    if value != canonical:
        errors.add(invalid(field, value, f'must be in canonical form ("{canonical}")'))


class DeviceRules:
    """The validation of devices, in one version."""

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._names = names
        self._new = DEVICE_RULES in features
        self._consumable = CONSUMABLE_CAPACITY in features
        self._keys_in_paths = DEVICE_KEYS in features
        self._shares = DEVICE_SHARES in features
        self._features = features
        self._compile = lru_cache(maxsize=256)(self._selector_error)

    # Lists.

    def _each(self, errors: FieldErrors, values: Sequence[Any], most: int, check: Check, field: str) -> bool:
        """Validate the items; False: there are too many for other rules about the list."""
        if self._new and 0 <= most < len(values):
            errors.add(too_many(field, len(values), most))
            return False
        for index, value in enumerate(values):
            check(errors, value, f"{field}[{index}]")
        if 0 <= most < len(values):
            errors.add(too_many(field, len(values), most))
        return True

    def _set(
        self,
        errors: FieldErrors,
        values: Sequence[Any],
        most: int,
        check: Check,
        field: str,
        key: str | Callable[[Any], Any] = "",
    ) -> None:
        """Validate items that have different keys; without a key, different strings."""
        if not self._each(errors, values, most, check, field):
            return
        seen: set[Any] = set()
        for index, value in enumerate(values):
            one = key(value) if callable(key) else value[key] if key else value
            if one in seen:
                at_key = f".{key}" if isinstance(key, str) and key and not self._new else ""
                errors.add(duplicate(f"{field}[{index}]{at_key}", one))
            seen.add(one)

    def _map(
        self,
        errors: FieldErrors,
        values: Mapping[str, Any],
        most: int,
        longest: int,
        key: Check,
        check: Check,
        field: str,
    ) -> None:
        if 0 <= most < len(values):
            errors.add(too_many(field, len(values), most))
            return
        for name, value in values.items():
            at_key = f"{field}[{_shortened(name, longest)}]"
            key(errors, name, at_key if self._keys_in_paths else field)
            check(errors, value, at_key)

    # Claims.

    def claim(self, errors: FieldErrors, new: Object) -> None:
        self._claim_spec(errors, new["spec"], "spec")

    def claim_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        if self._new:
            metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        if new["spec"] != old["spec"]:
            errors.add(invalid("spec", shown(RESOURCE_CLAIM_SPEC, new["spec"]), IMMUTABLE))
        if not self._new:
            self._claim_spec(errors, new["spec"], "spec", stored=True)

    def template(self, errors: FieldErrors, new: Object) -> None:
        template_metadata_rules(errors, new["spec"]["metadata"], "spec.metadata", "cannot be set")
        self._claim_spec(errors, new["spec"]["spec"], "spec.spec")

    def template_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        self.template(errors, new)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        if new["spec"] != old["spec"]:
            errors.add(invalid("spec", shown(RESOURCE_CLAIM_TEMPLATE_SPEC, new["spec"]), IMMUTABLE))
        if not self._new:
            self.template(errors, new)

    def _claim_spec(self, errors: FieldErrors, spec: Object, field: str, *, stored: bool = False) -> None:
        devices, field = spec["devices"], f"{field}.devices"
        names = _request_names(devices)
        self._set(
            errors,
            devices.get("requests") or (),
            MAX_REQUESTS,
            partial(self._request, stored=stored),
            f"{field}.requests",
            "name",
        )
        self._each(
            errors,
            devices.get("constraints", ()),
            MAX_CONSTRAINTS,
            partial(self._constraint, names),
            f"{field}.constraints",
        )
        self._each(
            errors,
            devices.get("config", ()),
            MAX_CONFIGS,
            partial(self._claim_configuration, names, stored=stored),
            f"{field}.config",
        )

    def _request(self, errors: FieldErrors, request: Object, field: str, *, stored: bool) -> None:
        _label(errors, request["name"], f"{field}.name")
        exact, first = request.get("exactly"), request.get("firstAvailable")
        if exact is None and not first:
            errors.add(required(field, ONE_OF))
        elif exact is not None and first:
            errors.add(invalid(field, None, f"{ONE_OF}, but multiple fields are set"))
        elif exact is not None:
            self._exact_request(errors, exact, f"{field}.exactly", stored=stored)
        else:
            check = partial(self._sub_request, stored=stored)
            self._set(errors, first or (), MAX_SUB_REQUESTS, check, f"{field}.firstAvailable", "name")

    def _sub_request(self, errors: FieldErrors, request: Object, field: str, *, stored: bool) -> None:
        _label(errors, request["name"], f"{field}.name")
        self._exact_request(errors, request, field, stored=stored)

    def _exact_request(self, errors: FieldErrors, request: Object, field: str, *, stored: bool) -> None:
        if not request["deviceClassName"]:
            errors.add(required(f"{field}.deviceClassName"))
        else:
            name = request["deviceClassName"]
            errors.add_each(f"{field}.deviceClassName", name, dns_subdomain(name))
        self._selectors(errors, request.get("selectors", ()), f"{field}.selectors", stored=stored)
        mode, count = request.get("allocationMode", ""), request.get("count", 0)
        if mode == ALL:
            if count:
                errors.add(
                    invalid(f"{field}.count", count, f"must not be specified when allocationMode is '{ALL}'")
                )
        elif mode == EXACT_COUNT:
            if count <= 0:
                errors.add(invalid(f"{field}.count", count, "must be greater than zero"))
        else:
            errors.add(not_supported(f"{field}.allocationMode", mode, (ALL, EXACT_COUNT)))
        for index, one in enumerate(request.get("tolerations", ())):
            self._toleration(errors, one, f"{field}.tolerations[{index}]")

    def _selectors(
        self, errors: FieldErrors, selectors: Sequence[Object], field: str, *, stored: bool
    ) -> None:
        self._each(errors, selectors, MAX_SELECTORS, self._selector, field)

    def _selector(self, errors: FieldErrors, selector: Object, field: str) -> None:
        cel = selector.get("cel")
        if cel is None:
            errors.add(required(f"{field}.cel"))
            return
        expression, field = cel["expression"], f"{field}.cel.expression"
        if size(expression) > MAX_EXPRESSION:
            errors.add(too_long(field, MAX_EXPRESSION))
            return
        wrong, is_complex = self._compile(expression)
        if is_complex:
            errors.add(forbidden(field, wrong))
        elif wrong:
            errors.add(invalid(field, expression, wrong))

    def _selector_error(self, expression: str) -> tuple[str, bool]:
        # Imported here, so that a start does not wait for CEL.
        from rewound.actors.cel.device_selectors import TOO_COMPLEX, selector_error

        wrong = selector_error(self._names, self._features, expression)
        return wrong, wrong == TOO_COMPLEX

    def _constraint(self, names: _RequestNames, errors: FieldErrors, constraint: Object, field: str) -> None:
        self._request_references(errors, names, constraint.get("requests", ()), f"{field}.requests")
        for name in ("matchAttribute", "distinctAttribute"):
            if name in constraint:
                self._fully_qualified(errors, constraint[name], f"{field}.{name}")
                return
        if self._consumable:
            text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
            errors.add(required(field, text))
        else:
            errors.add(required(f"{field}.matchAttribute"))

    def _request_references(
        self, errors: FieldErrors, names: _RequestNames, references: Sequence[str], field: str
    ) -> None:
        self._set(errors, references, MAX_REQUESTS, partial(_request_reference, names), field)

    def _claim_configuration(
        self, names: _RequestNames, errors: FieldErrors, config: Object, field: str, *, stored: bool
    ) -> None:
        self._request_references(errors, names, config.get("requests", ()), f"{field}.requests")
        self._configuration(errors, config, field, stored=stored)

    def _configuration(
        self, errors: FieldErrors, config: Object, field: str, *, stored: bool = False
    ) -> None:
        opaque = config.get("opaque")
        if opaque is None:
            errors.add(required(f"{field}.opaque"))
            return
        self._driver(errors, opaque["driver"], f"{field}.opaque.driver")
        _free_object(
            errors, opaque["parameters"], f"{field}.opaque.parameters", MAX_PARAMETERS, stored=stored
        )

    def claim_status(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        status, before, names = new["status"], old["status"], _request_names(new["spec"]["devices"])
        allocation, reserved = status.get("allocation"), status.get("reservedFor", ())
        self._set(errors, reserved, MAX_RESERVED, consumer, "status.reservedFor", "uid")
        allocated = {device_id(one) for one in (allocation or {}).get("devices", {}).get("results", ())}
        check = partial(self._device_status, allocated)
        self._set(errors, status.get("devices", ()), -1, check, "status.devices", device_id)
        if reserved:
            self._reserved(errors, reserved, before.get("reservedFor", ()), allocation, new["metadata"])
        if allocation is not None and "allocation" in before:
            if allocation != before["allocation"]:
                errors.add(invalid("status.allocation", shown(ALLOCATION_RESULT, allocation), IMMUTABLE))
        elif allocation is not None:
            self._allocation(errors, allocation, names, "status.allocation")

    def _reserved(
        self,
        errors: FieldErrors,
        reserved: Sequence[Object],
        before: Sequence[Object],
        allocation: Object | None,
        metadata: Object,
    ) -> None:
        field = "status.reservedFor"
        if allocation is None:
            errors.add(forbidden(field, "may not be specified when `allocated` is not set"))
        elif "deletionTimestamp" in metadata and any(one not in before for one in reserved):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.add(forbidden(field, text))

    def _allocation(self, errors: FieldErrors, allocation: Object, names: _RequestNames, field: str) -> None:
        devices = allocation["devices"]
        check = partial(self._result, names)
        self._each(errors, devices.get("results", ()), MAX_RESULTS, check, f"{field}.devices.results")
        check = partial(self._allocation_configuration, names)
        self._each(errors, devices.get("config", ()), 2 * MAX_CONFIGS, check, f"{field}.devices.config")
        if "nodeSelector" in allocation:
            node_selector_rules(errors, allocation["nodeSelector"], f"{field}.nodeSelector")

    def _result(self, names: _RequestNames, errors: FieldErrors, result: Object, field: str) -> None:
        _request_reference(names, errors, result["request"], f"{field}.request")
        self._driver(errors, result["driver"], f"{field}.driver")
        pool_name(errors, result["pool"], f"{field}.pool")
        _label(errors, result["device"], f"{field}.device")
        self._binding_conditions(errors, result, field)
        if "shareID" in result:
            _uid(errors, result["shareID"], f"{field}.shareID")

    def _allocation_configuration(
        self, names: _RequestNames, errors: FieldErrors, config: Object, field: str
    ) -> None:
        sources = ("FromClaim", "FromClass")
        if not config["source"]:
            errors.add(required(f"{field}.source"))
        elif config["source"] not in sources:
            errors.add(not_supported(f"{field}.source", config["source"], sources))
        self._claim_configuration(names, errors, config, field, stored=False)

    def _device_status(
        self, allocated: set[Formatted], errors: FieldErrors, device: Object, field: str
    ) -> None:
        self._driver(errors, device["driver"], f"{field}.driver")
        pool_name(errors, device["pool"], f"{field}.pool")
        _label(errors, device["device"], f"{field}.device")
        if "shareID" in device:
            _uid(errors, device["shareID"], f"{field}.shareID")
        if device_id(device) not in allocated:
            shown = device_id(device) if self._shares else Formatted("/".join(_device_names(device)))
            errors.add(invalid(field, shown, "must be an allocated device in the claim"))
        conditions = device["conditions"] or ()
        if len(conditions) > MAX_CONDITIONS:
            errors.add(too_many(f"{field}.conditions", len(conditions), MAX_CONDITIONS))
        condition_rules(errors, conditions, f"{field}.conditions")
        if device.get("data") is not None:
            _free_object(errors, device["data"], f"{field}.data", MAX_PARAMETERS)
        network, field = device.get("networkData", {}), f"{field}.networkData"
        for name, longest in (("interfaceName", 256), ("hardwareAddress", 128)):
            if size(network.get(name, "")) > longest:
                errors.add(too_long(f"{field}.{name}", longest))
        self._set(errors, network.get("ips", ()), MAX_IPS, _interface_address, f"{field}.ips")

    # Device classes.

    def device_class(self, errors: FieldErrors, new: Object, old: Object | None = None) -> None:
        spec, before = new["spec"], {} if old is None else old["spec"]
        self._selectors(errors, spec.get("selectors", ()), "spec.selectors", stored=False)
        stored = old is not None and spec.get("config") == before.get("config")
        check = partial(self._configuration, stored=stored)
        self._each(errors, spec.get("config", ()), MAX_CONFIGS, check, "spec.config")
        name = spec.get("extendedResourceName")
        if name is not None and not is_extended(name, f"{self._names.key_domain}/"):
            errors.add(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))

    def device_class_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        if self._new:
            metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self.device_class(errors, new, old)

    # Slices.

    def slice_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self.slice(errors, new, old)

    def slice(self, errors: FieldErrors, new: Object, old: Object | None = None) -> None:
        spec, before = new["spec"], None if old is None else old["spec"]
        pool = spec["pool"]
        self._driver(errors, spec["driver"], "spec.driver")
        pool_name(errors, pool["name"], "spec.pool.name")
        if pool["resourceSliceCount"] <= 0:
            errors.add(
                invalid(
                    "spec.pool.resourceSliceCount", pool["resourceSliceCount"], "must be greater than zero"
                )
            )
        if pool["generation"] < 0:
            text = "must be greater than or equal to zero"
            errors.add(invalid("spec.pool.generation", pool["generation"], text))
        if before is not None:
            unchanged(errors, "spec.pool.name", pool["name"], before["pool"]["name"])
            unchanged(errors, "spec.driver", spec["driver"], before["driver"])
            unchanged(errors, "spec.nodeName", spec.get("nodeName"), before.get("nodeName"))
        self._slice_nodes(errors, spec)
        devices, shared = spec.get("devices"), spec.get("sharedCounters")
        if self._new and devices is not None and shared is not None:
            errors.add(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
        known = {one["name"]: one for one in (before or {}).get("devices") or ()}
        check = partial(self._device, spec, known)
        self._set(errors, devices or (), self._most_devices(devices or ()), check, "spec.devices", "name")
        if not self._new:
            _old_counter_limits(errors, devices or (), shared or ())
        most = MAX_COUNTER_SETS if self._new else -1
        self._set(errors, shared or (), most, self._counter_set, "spec.sharedCounters", "name")

    def _most_devices(self, devices: Sequence[Object]) -> int:
        advanced = self._new and any(
            one.get("taints")
            or one.get("consumesCounters")
            or any(map(_has_list, one.get("attributes", {}).values()))
            for one in devices
        )
        return MAX_ADVANCED_DEVICES if advanced else MAX_DEVICES

    def _slice_nodes(self, errors: FieldErrors, spec: Object) -> None:
        given = []
        for name in NODE_FIELDS:
            value, field = spec.get(name), f"spec.{name}"
            if value is None:
                continue
            if not value and name != "nodeSelector":
                text = (
                    "must be either unset or set to a non-empty string"
                    if name == "nodeName"
                    else TRUE_OR_UNSET
                )
                errors.add(invalid(field, value, text))
                continue
            given.append(f"`{name}`")
            if name == "nodeName":
                errors.add_each(field, value, dns_subdomain(value))
            elif name == "nodeSelector":
                node_selector_rules(errors, value, field)
                terms = value["nodeSelectorTerms"]
                if len(terms or ()) != 1:
                    text = "must have exactly one node selector term"
                    errors.add(invalid(f"{field}.nodeSelectorTerms", _terms_in_go(terms), text))
        if not given:
            errors.add(required("spec", ONE_NODE))
        elif len(given) > 1:
            errors.add(invalid("spec", f"{{{', '.join(given)}}}", f"{ONE_NODE}, but multiple fields are set"))

    def _device(
        self, spec: Object, known: Mapping[str, Object], errors: FieldErrors, device: Object, field: str
    ) -> None:
        _label(errors, device["name"], f"{field}.name")
        attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
        count = len(attributes) + len(capacity)
        if count > MAX_PROPERTIES:
            text = f"the total number of attributes and capacities must not exceed {MAX_PROPERTIES}"
            errors.add(invalid(field, count, text))
        values = sum(max(1, sum(len(one.get(name, ())) for name in _LISTS)) for one in attributes.values())
        if values > MAX_ATTRIBUTE_VALUES:
            text = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
            errors.add(invalid(field, values, text))
        longest = MAX_DOMAIN + 1 + MAX_ID
        self._map(errors, attributes, -1, longest, self._qualified, self._attribute, f"{field}.attributes")
        check = partial(self._capacity, device.get("allowMultipleAllocations") is True)
        self._map(errors, capacity, -1, longest, self._qualified, check, f"{field}.capacity")
        taints = device.get("taints", ())
        if not self._new or device["name"] not in known or known[device["name"]].get("taints", ()) != taints:
            self._each(errors, taints, MAX_TAINTS, self._taint, f"{field}.taints")
        most = MAX_CONSUMPTIONS if self._new else -1
        consumed = device.get("consumesCounters", ())
        self._set(errors, consumed, most, self._consumption, f"{field}.consumesCounters", "counterSet")
        if not self._new:
            _counters_are_shared(errors, consumed, spec.get("sharedCounters", ()), field)
        self._device_nodes(errors, spec.get("perDeviceNodeSelection") is True, device, field)
        self._binding_conditions(errors, device, field)
        self._mappings(errors, device, f"{field}.nodeAllocatableResourceMappings")

    def _device_nodes(self, errors: FieldErrors, per_device: bool, device: Object, field: str) -> None:
        present = [name for name in NODE_FIELDS[:3] if name in device]
        if not per_device:
            if present:
                text = (
                    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
                    "is set to true in the ResourceSlice spec"
                )
                errors.add(invalid(field, None, text))
            return
        given = []
        for name in present:
            value = device[name]
            if not value and name != "nodeSelector":
                text = "must not be empty" if name == "nodeName" else TRUE_OR_UNSET
                errors.add(invalid(f"{field}.{name}", value, text))
                continue
            given.append(f"`{name}`")
            if name == "nodeName":
                errors.add_each(f"{field}.{name}", value, dns_subdomain(value))
            elif name == "nodeSelector":
                node_selector_rules(errors, value, f"{field}.{name}")
        if not given:
            errors.add(required(field, ONE_DEVICE_NODE))
        elif len(given) > 1:
            errors.add(invalid(field, f"{{{', '.join(given)}}}", ONE_DEVICE_NODE))

    def _attribute(self, errors: FieldErrors, attribute: Object, field: str) -> None:
        for name in ("string", "version", "bools", "ints", "strings", "versions"):
            value = attribute.get(name)
            if value is None:
                continue
            if name in _LISTS and not value:
                errors.add(invalid(f"{field}.{name}", _EMPTY_LISTS[name], "must not be empty if specified"))
            if name in ("string", "version"):
                _attribute_text(errors, value, f"{field}.{name}", versioned=name == "version")
            elif name in ("strings", "versions"):
                for index, one in enumerate(value):
                    _attribute_text(errors, one, f"{field}.{name}[{index}]", versioned=name == "versions")
        given = sum(one is not None for one in attribute.values())
        if not given:
            errors.add(invalid(field, "", ONE_VALUE) if self._new else required(field, ONE_VALUE))
        elif given > 1:
            errors.add(invalid(field, shown(DEVICE_ATTRIBUTE, attribute), ONE_VALUE))

    def _capacity(self, multiple: bool, errors: FieldErrors, capacity: Object, field: str) -> None:
        policy = capacity.get("requestPolicy")
        if policy is None:
            return
        field = f"{field}.requestPolicy"
        if not multiple:
            errors.add(forbidden(field, "allowMultipleAllocations must be true"))
            return
        values, limits = policy.get("validValues"), policy.get("validRange")
        if values and limits is not None:
            text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
            errors.add(forbidden(field, text))
        elif values or limits is not None:
            name = "validValues" if values else "validRange"
            if policy["default"] is None:
                errors.add(required(f"{field}.default", f"required when {name} is defined"))
            elif values:
                self._valid_values(errors, policy["default"], capacity["value"], values, f"{field}.{name}")
            else:
                _valid_range(errors, policy["default"], capacity["value"], limits or {}, f"{field}.{name}")

    def _valid_values(
        self, errors: FieldErrors, default: str, most: str, values: Sequence[str], field: str
    ) -> None:
        amounts = [nanos_of(one) for one in values]
        for index in range(1, len(values)):
            if amounts[index - 1] > amounts[index]:
                text = "values must be sorted in ascending order"
                errors.add(invalid(f"{field}[{index}]", values[index], text))

        def fits(errors: FieldErrors, value: str, field: str) -> None:
            if nanos_of(value) > nanos_of(most):
                errors.add(invalid(field, value, f"option is larger than capacity value: {most}"))

        self._set(errors, values, MAX_DISCRETE_VALUES, fits, field, _whole_amount)
        too_many_values = (
            self._new and len(values) > MAX_DISCRETE_VALUES
        )  # none was compared with the default
        if too_many_values or nanos_of(default) not in amounts:
            errors.add(invalid(field, default, "default value is not valid according to the requestPolicy"))

    def _counter_set(self, errors: FieldErrors, counters: Object, field: str) -> None:
        self._counters(errors, counters, "name", field)

    def _consumption(self, errors: FieldErrors, consumption: Object, field: str) -> None:
        self._counters(errors, consumption, "counterSet", field)

    def _counters(self, errors: FieldErrors, holder: Object, name: str, field: str) -> None:
        if not holder[name]:
            errors.add(required(f"{field}.{name}"))
        else:
            _label(errors, holder[name], f"{field}.{name}")
        counters = holder.get("counters")
        if not counters:
            errors.add(required(f"{field}.counters"))
        else:
            most = MAX_COUNTERS if self._new else -1
            self._map(errors, counters, most, 63, _label, lambda *_: None, f"{field}.counters")

    def _binding_conditions(self, errors: FieldErrors, holder: Object, field: str) -> None:
        wanted, failing = holder.get("bindingConditions", ()), holder.get("bindingFailureConditions", ())
        for name, values in (("bindingConditions", wanted), ("bindingFailureConditions", failing)):
            self._each(errors, values, MAX_BINDING_CONDITIONS, _label_key, f"{field}.{name}")
        for name, values in (("bindingConditions", wanted), ("bindingFailureConditions", failing)):
            for index, one in enumerate(values):
                if one in values[:index]:
                    errors.add(duplicate(f"{field}.{name}[{index}]", one))
                if values is failing and one in wanted:
                    text = "bindingFailureConditions must not overlap with bindingConditions"
                    errors.add(invalid(f"{field}.{name}[{index}]", one, text))
        for name, here, other, there in (
            ("bindingConditions", wanted, "bindingFailureConditions", failing),
            ("bindingFailureConditions", failing, "bindingConditions", wanted),
        ):
            if there and not here:
                errors.add(invalid(f"{field}.{name}", None, f"{name} are required to use {other}"))

    def _mappings(self, errors: FieldErrors, device: Object, field: str) -> None:
        for name, mapping in device.get("nodeAllocatableResourceMappings", {}).items():
            at_key = f"{field}[{name}]"
            if not is_native(name, f"{self._names.key_domain}/"):
                errors.add(invalid(at_key, name, "must be a node allocatable resource name"))
            factor, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
            if factor is None and key is None:
                text = "at least one of allocationMultiplier or capacityKey must be set"
                errors.add(invalid(at_key, "", text))
                continue
            if factor is not None and nanos_of(factor) <= 0:
                errors.add(invalid(f"{at_key}.allocationMultiplier", factor, "must be positive"))
            if key == "":
                errors.add(invalid(f"{at_key}.capacityKey", "", "capacityKey must not be an empty string"))
            elif key is not None and key not in device.get("capacity", {}):
                errors.add(not_found(f"{at_key}.capacityKey", key))

    # Names and taints.

    def _qualified(self, errors: FieldErrors, name: str, field: str) -> None:
        if not name and not self._new:
            errors.add(required(field, "name required"))
            return
        parts = name.split("/")
        if len(parts) == 1:
            _identifier(errors, name, field)
        elif len(parts) == 2:
            for part, word, check in ((parts[0], "domain", self._driver), (parts[1], "name", _identifier)):
                if part:
                    check(errors, part, field)
                else:
                    text = f"the {word} must not be empty"
                    errors.add(invalid(field, "", text) if self._new else required(field, text))

    def _driver(self, errors: FieldErrors, name: str, field: str) -> None:
        if name or not self._new:
            driver_name_rules(errors, name, field)
        else:
            errors.add(required(field))

    def _fully_qualified(self, errors: FieldErrors, name: str, field: str) -> None:
        self._qualified(errors, name, field)
        if "/" not in name and (name or self._new):
            text = "a fully qualified name must be a domain and a name separated by a slash"
            errors.add(invalid(field, name, text if self._new else "must include a domain"))

    def _taint(self, errors: FieldErrors, taint: Object, field: str, old: Object | None = None) -> None:
        _label_key(errors, taint["key"], f"{field}.key")
        value, effect = taint.get("value", ""), taint["effect"]
        if value:
            errors.add_each(f"{field}.value", value, label_value(value))
        if old is not None and self._new and old["effect"] == effect:
            return
        if not effect:
            errors.add(required(f"{field}.effect"))
        elif effect not in self._effects:
            errors.add(not_supported(f"{field}.effect", effect, self._effects))

    @property
    def _effects(self) -> tuple[str, ...]:
        return ("NoExecute", "NoSchedule", "None") if self._new else ("NoExecute", "NoSchedule")

    def _toleration(self, errors: FieldErrors, toleration: Object, field: str) -> None:
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            _label_key(errors, key, f"{field}.key")
        if operator == "Exists":
            if value:
                errors.add(invalid(f"{field}.value", value, "must be empty for operator `Exists`"))
        elif operator == "Equal":
            errors.add_each(f"{field}.value", value, label_value(value))
        elif not operator:
            errors.add(required(f"{field}.operator"))
        else:
            errors.add(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in self._effects:
            errors.add(not_supported(f"{field}.effect", effect, self._effects))

    def taint_rule(self, errors: FieldErrors, new: Object, old: Object | None = None) -> None:
        selector = new["spec"].get("deviceSelector")
        if selector is not None:
            self._taint_selector(errors, selector, "spec.deviceSelector")
        self._taint(errors, new["spec"]["taint"], "spec.taint", None if old is None else old["spec"]["taint"])

    def taint_rule_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self.taint_rule(errors, new, old)

    def _taint_selector(self, errors: FieldErrors, selector: Object, field: str) -> None:
        name = selector.get("deviceClassName")
        if name is not None:
            errors.add_each(f"{field}.deviceClassName", name, dns_subdomain(name))
        for part, check in (("driver", self._driver), ("pool", pool_name), ("device", _label)):
            if part in selector:
                check(errors, selector[part], f"{field}.{part}")
        self._each(errors, selector.get("selectors", ()), MAX_SELECTORS, self._selector, f"{field}.selectors")


_RequestNames = Mapping[str, frozenset[str]]
_LISTS: Final = ("ints", "bools", "strings", "versions")
_EMPTY_LISTS: Final = {name: Formatted("[]") for name in _LISTS}


def _has_list(attribute: Object) -> bool:
    return any(attribute.get(name) is not None for name in _LISTS)


def _shortened(key: str, longest: int) -> str:
    if len(key) <= longest:
        return key
    rest = longest - 3
    return f"{key[: (rest + 1) // 2]}...{key[len(key) - rest // 2 :]}"


def _request_names(devices: Object) -> _RequestNames:
    return {
        one["name"]: frozenset(inner["name"] for inner in one.get("firstAvailable", ()))
        for one in devices.get("requests") or ()
    }


def _request_reference(names: _RequestNames, errors: FieldErrors, name: str, field: str) -> None:
    parts = name.split("/")
    if len(parts) > 2:
        errors.add(invalid(field, name, REQUEST_NAME))
        return
    for part in parts:
        _label(errors, part, field)
    if parts[0] not in names or (len(parts) == 2 and parts[1] not in names[parts[0]]):
        errors.add(invalid(field, name, REQUEST_NAME))


def consumer(errors: FieldErrors, reference: Object, field: str) -> None:
    for name in ("resource", "name", "uid"):
        if not reference[name]:
            errors.add(required(f"{field}.{name}"))


def _device_names(device: Object) -> list[str]:
    return [device[name] for name in ("driver", "pool", "device")]


def device_id(device: Object) -> Formatted:
    """Return what identifies a device, or a share of one, as messages print it."""
    parts = dict(zip(("Driver", "Pool", "Device"), _device_names(device), strict=True))
    return Formatted(orjson.dumps({**parts, "ShareID": device.get("shareID", "")}).decode())


def _attribute_text(errors: FieldErrors, value: str, field: str, *, versioned: bool) -> None:
    if versioned and not is_version(value):
        errors.add(invalid(field, value, "must be a string compatible with semver.org spec 2.0.0"))
    if size(value) > MAX_VALUE:
        errors.add(too_long(field, MAX_VALUE))


_NANO: Final = 10**9


def _whole(amount: str) -> int:
    """Return an amount rounded up to a whole number."""
    return -(-nanos_of(amount) // _NANO)


def _whole_amount(amount: str) -> str:
    return str(_whole(amount))


def _valid_range(errors: FieldErrors, default: str, most: str, limits: Object, field: str) -> None:
    least, largest, step = limits.get("min"), limits.get("max"), limits.get("step")
    if least is None:
        errors.add(required(f"{field}.min", "required when validRange is defined"))
        return
    if nanos_of(least) > nanos_of(most):
        errors.add(invalid(f"{field}.min", least, f"min is larger than capacity value: {most}"))
    if nanos_of(default) < nanos_of(least):
        errors.add(invalid(f"{field}.min", default, f"default is less than min: {least}"))
    if largest is not None:
        if nanos_of(least) > nanos_of(largest):
            errors.add(invalid(f"{field}.max", least, f"min is larger than max: {largest}"))
        if nanos_of(largest) > nanos_of(most):
            errors.add(invalid(f"{field}.max", largest, f"max is larger than capacity value: {most}"))
        if nanos_of(default) > nanos_of(largest):
            errors.add(invalid(f"{field}.max", default, f"default is more than max: {largest}"))
    if step is not None:
        added = nanos_of(least) + nanos_of(step)
        if added > nanos_of(most):
            text = quantity_text(added, parse_quantity(least)[1])
            errors.add(
                invalid(f"{field}.step", step, f"one step {text} is larger than capacity value: {most}")
            )
        for value in (default, largest):
            if value is not None and _whole(step) and (_whole(value) - _whole(least)) % _whole(step):
                text = f"value is not a multiple of a given step ({step}) from ({least})"
                errors.add(invalid(f"{field}.step", value, text))


def _old_counter_limits(errors: FieldErrors, devices: Sequence[Object], shared: Sequence[Object]) -> None:
    """Before 1.35 the limits of counters were those of whole slices."""
    used = sum(
        len(one.get("counters") or ()) for device in devices for one in device.get("consumesCounters", ())
    )
    if used > 2048:
        errors.add(
            invalid("spec.devices", used, "the total number of counters in devices must not exceed 2048")
        )
    count = sum(len(one.get("counters") or ()) for one in shared)
    if count > 32:
        text = "the total number of shared counters must not exceed 32"
        errors.add(invalid("spec.sharedCounters", count, text))


def _counters_are_shared(
    errors: FieldErrors, consumed: Sequence[Object], shared: Sequence[Object], field: str
) -> None:
    """Before 1.35 a slice had its devices and the counters that they consume."""
    count = sum(len(one.get("counters") or ()) for one in consumed)
    if count > 32:
        errors.add(invalid(field, count, "the total number of counters must not exceed 32"))
    known = {one["name"]: one.get("counters") or {} for one in shared}
    for index, one in enumerate(consumed):
        at_set = f"{field}.consumesCounters[{index}]"
        if one["counterSet"] not in known:
            text = "must reference a counterSet defined in the ResourceSlice sharedCounters"
            errors.add(invalid(f"{at_set}.counterSet", one["counterSet"], text))
            continue
        for name in one.get("counters") or ():
            if name not in known[one["counterSet"]]:
                text = "must reference a counter defined in the ResourceSlice sharedCounters"
                errors.add(invalid(f"{at_set}.counters", name, text))


# Values in messages: Kubernetes prints its own types, with the names that they have in Go.


def _terms_in_go(terms: Sequence[Object] | None) -> Formatted:
    listed = None if terms is None else [internal_form(NODE_SELECTOR_TERM, one) for one in terms]
    return Formatted(orjson.dumps(listed).decode())
