"""Devices: what claims, classes and slices default to and refuse, and how their versions convert."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.kinds.validation import collect
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release

GROUP = "resource.k8s.io"
NOW = "2026-01-02T03:04:05Z"


def catalog_of(version: str) -> Catalog:
    return built_in(KUBERNETES, choose_release(version), Enablement(every=True))


NEWEST = catalog_of("1.36")


def definition_of(plural: str, version: str = "v1", catalog: Catalog = NEWEST) -> Definition:
    found = catalog.find(GROUP, version, plural)
    assert found is not None
    return found


def decoded(definition: Definition, **content: Any) -> Object:
    """Return the object in its stored form."""
    sent = {"metadata": {"name": "a", "namespace": "default"}, **content}
    new = definition.schema.decode_object(sent).object
    conversion = definition.storage.conversion
    return new if conversion is None else conversion.to_storage(new)


def problems(definition: Definition, **content: Any) -> list[str]:
    new = decoded(definition, **content)
    strategy = definition.strategy
    if strategy.prepare_for_create is not None:
        strategy.prepare_for_create(new)
    return [f"{one.field}: {one.message}" for one in collect(strategy.validate_create, new)]


def claim_of(*requests: Object, **devices: Any) -> Object:
    return {"devices": {"requests": list(requests), **devices}}


EXACT = {"name": "r", "exactly": {"deviceClassName": "c"}}


def test_request_defaults_to_one_device() -> None:
    spec = decoded(definition_of("resourceclaims"), spec=claim_of(EXACT))["spec"]
    exact = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    assert spec["devices"]["requests"] == [{"name": "r", "exactly": exact}]


def test_older_versions_have_the_request_without_a_level() -> None:
    stored = decoded(definition_of("resourceclaims"), spec=claim_of(EXACT))
    for version, catalog in (("v1beta1", NEWEST), ("v1alpha3", catalog_of("1.31"))):
        older = definition_of("resourceclaims", version, catalog)
        conversion = older.storage.conversion
        assert conversion is not None
        flat = conversion.from_storage(stored)["spec"]["devices"]["requests"][0]
        assert flat == {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
        assert conversion.to_storage(conversion.from_storage(stored)) == stored


def test_older_slices_have_basic_devices() -> None:
    device = {"name": "x", "attributes": {"a": {"int": 1}}, "capacity": {"c": {"value": "1"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    stored = decoded(
        definition_of("resourceslices"),
        spec={"driver": "d", "pool": pool, "nodeName": "n", "devices": [device]},
    )
    shown = {}
    for version, catalog in (("v1beta1", NEWEST), ("v1alpha3", catalog_of("1.32"))):
        conversion = definition_of("resourceslices", version, catalog).storage.conversion
        assert conversion is not None
        shown[version] = conversion.from_storage(stored)["spec"]["devices"][0]["basic"]["capacity"]
        assert conversion.to_storage(conversion.from_storage(stored)) == stored
    assert shown == {"v1beta1": {"c": {"value": "1"}}, "v1alpha3": {"c": "1"}}


def test_alpha_claims_are_types_of_their_own() -> None:
    older = definition_of("resourceclaims", "v1alpha2", catalog_of("1.30"))
    assert older.type_name != definition_of("resourceclaims").type_name
    assert older.error_group == GROUP
    assert decoded(older, spec={"resourceClassName": "c"})["spec"]["allocationMode"] == "WaitForFirstConsumer"


def test_claims_refuse_what_kubernetes_refuses() -> None:
    claims = definition_of("resourceclaims")
    assert problems(claims, spec=claim_of({"name": "a"})) == [
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
    ]
    assert problems(claims, spec=claim_of(EXACT, EXACT)) == [
        'spec.devices.requests[1]: Duplicate value: "r"',
    ]
    count = {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All", "count": 2}}
    assert problems(claims, spec=claim_of(count)) == [
        "spec.devices.requests[0].exactly.count: Invalid value: 2: "
        "must not be specified when allocationMode is 'All'"
    ]
    assert problems(claims, spec=claim_of(EXACT, constraints=[{"matchAttribute": "a"}])) == [
        'spec.devices.constraints[0].matchAttribute: Invalid value: "a": '
        "a fully qualified name must be a domain and a name separated by a slash"
    ]


def test_before_1_35_lists_and_names_have_other_texts() -> None:
    claims = definition_of("resourceclaims", catalog=catalog_of("1.34"))
    assert problems(claims, spec=claim_of(EXACT, EXACT)) == [
        'spec.devices.requests[1].name: Duplicate value: "r"',
    ]
    assert problems(claims, spec=claim_of(EXACT, constraints=[{"matchAttribute": "a"}])) == [
        'spec.devices.constraints[0].matchAttribute: Invalid value: "a": must include a domain'
    ]


def test_selectors_are_compiled() -> None:
    classes = definition_of("deviceclasses")

    def refused(expression: str) -> list[str]:
        return problems(classes, spec={"selectors": [{"cel": {"expression": expression}}]})

    assert refused('device.driver == "x" && device.attributes["a"].b') == []
    assert refused('device.capacity["a"].b.compareTo(quantity("1Gi")) >= 0') == []
    field = "spec.selectors[0].cel.expression"
    assert refused("1") == [
        f'{field}: Invalid value: "1": must evaluate to bool or the unknown type, not int'
    ]
    assert refused("device.foo")[0].startswith(
        f'{field}: Invalid value: "device.foo": compilation failed: ERROR: <input>:1:7: undefined field'
    )
    pairs = "device.attributes.all(d, device.attributes[d].all(i, device.attributes.all(e, {})))"
    nested = pairs.format("device.attributes[e].all(j, d != e || i != j)")
    assert refused(nested) == [f"{field}: Forbidden: too complex, exceeds cost limit"]


def test_slices_name_one_kind_of_nodes() -> None:
    slices = definition_of("resourceslices")
    pool = {"name": "p", "generation": 0, "resourceSliceCount": 1}
    text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    assert problems(slices, spec={"driver": "d", "pool": pool}) == [f"spec: Required value: {text}"]
    both = {"driver": "d", "pool": pool, "nodeName": "n", "allNodes": True}
    assert problems(slices, spec=both) == [
        f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {text}, but multiple fields are set'
    ]


def test_taints_without_a_time_were_added_now() -> None:
    slices, pool = definition_of("resourceslices"), {"name": "p", "generation": 0, "resourceSliceCount": 1}
    device = {"name": "x", "taints": [{"key": "a", "effect": "NoSchedule"}]}
    new = decoded(slices, spec={"driver": "d", "pool": pool, "allNodes": True, "devices": [device]})
    assert slices.strategy.stamp is not None
    slices.strategy.stamp(new, None, NOW)
    assert new["spec"]["devices"][0]["taints"][0]["timeAdded"] == NOW


def test_status_of_freed_devices_is_dropped() -> None:
    claims = definition_of("resourceclaims")
    status = claims.subresource("status")
    assert status is not None and status.prepare is not None
    device = {"driver": "d", "pool": "p", "device": "x"}
    result = {"request": "r", **device}
    spec = claim_of(EXACT)
    reported = [{**device, "conditions": None}]
    old = decoded(
        claims, spec=spec, status={"allocation": {"devices": {"results": [result]}}, "devices": reported}
    )
    new = decoded(claims, spec=spec, status={"devices": reported})
    status.prepare(new, old)
    assert new["status"] == {}
