"""Objects that grow in one place: every list, map, string and number that a kind declares.

An object begins with the `SEEDS` of its kind, which an API server takes as they are. At the place that grows it has
`count` elements, keys or characters; those are from `ITEMS`, by the name of their type, where rules want more than the
types and the names of the fields say. What is not valid in the end is refused: its cost is measured too, and the
report says how many places were written.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.fields import (
    INT32,
    INT64,
    INT_OR_STRING,
    STRING,
    Field,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
)
from tests.actors.kinds.growing import Growing

Path = tuple[str, ...]

_DEEPEST: Final = 12
_LABELS: Final = {"app": "growth"}
_SELECTOR: Final = {"matchLabels": _LABELS}
_CONTAINER: Final = {"name": "c0", "image": "i"}
_POD: Final = {"containers": [_CONTAINER], "volumes": [{"name": "v0", "emptyDir": {}}]}
_TEMPLATE: Final = {"metadata": {"labels": _LABELS}, "spec": _POD}
_ONCE: Final = {
    "metadata": {"labels": _LABELS},
    "spec": {"containers": [_CONTAINER], "restartPolicy": "Never"},
}
_HOOK: Final = {
    "name": "a0.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "rules": [
        {"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["x"]}
    ],
}
_TARGET: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}

# What an object of a kind needs, by plural name.
SEEDS: Final[dict[str, dict[str, Any]]] = {
    "pods": {"spec": _POD},
    "podtemplates": {"template": _TEMPLATE},
    "deployments": {"spec": {"replicas": 1, "selector": _SELECTOR, "template": _TEMPLATE}},
    "replicasets": {"spec": {"replicas": 1, "selector": _SELECTOR, "template": _TEMPLATE}},
    "daemonsets": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "statefulsets": {
        "spec": {"replicas": 1, "serviceName": "a", "selector": _SELECTOR, "template": _TEMPLATE}
    },
    "replicationcontrollers": {"spec": {"replicas": 1, "selector": _LABELS, "template": _TEMPLATE}},
    "jobs": {"spec": {"template": _ONCE}},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _ONCE}}}},
    "services": {"spec": {"ports": [{"name": "p0", "port": 80}]}},
    "endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "persistentvolumes": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/a"},
        }
    },
    "networkpolicies": {"spec": {"podSelector": _SELECTOR}},
    "ingresses": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "ingressclasses": {"spec": {"controller": "example.com/a"}},
    "horizontalpodautoscalers": {"spec": {"scaleTargetRef": _TARGET, "maxReplicas": 2}},
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
    "rolebindings": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}},
    "clusterrolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}
    },
    "resourceclaims": {
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "a"}}]}}
    },
    "resourceclaimtemplates": {
        "spec": {"spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "a"}}]}}}
    },
    "validatingwebhookconfigurations": {"webhooks": [_HOOK]},
    "mutatingwebhookconfigurations": {"webhooks": [_HOOK]},
    "mutatingadmissionpolicies": {
        "spec": {
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{**_HOOK["rules"][0]}]},
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
            ],
        }
    },
    "validatingadmissionpolicybindings": {"spec": {"policyName": "a", "validationActions": ["Deny"]}},
    "mutatingadmissionpolicybindings": {"spec": {"policyName": "a"}},
    "resourceslices": {
        "spec": {
            "driver": "example.com",
            "nodeName": "node-0",
            "pool": {"name": "a", "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        }
    },
    "validatingadmissionpolicies": {
        "spec": {
            "failurePolicy": "Ignore",
            "validations": [{"expression": "true"}],
            "matchConstraints": {"resourceRules": [{**_HOOK["rules"][0]}]},
        }
    },
    "storageclasses": {"provisioner": "example.com/a"},
    "volumeattachments": {
        "spec": {"attacher": "example.com", "nodeName": "a", "source": {"persistentVolumeName": "a"}}
    },
    "runtimeclasses": {"handler": "a"},
    "priorityclasses": {"value": 1},
    "controllerrevisions": {"revision": 1, "data": {"a": 1}},
    "events": {
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
        "reason": "R",
        "action": "A",
        "type": "Normal",
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
    },
    "localsubjectaccessreviews": {
        "spec": {
            "user": "a",
            "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"},
        }
    },
    "subjectaccessreviews": {"spec": {"user": "a", "nonResourceAttributes": {"path": "/a", "verb": "get"}}},
    "selfsubjectaccessreviews": {"spec": {"nonResourceAttributes": {"path": "/a", "verb": "get"}}},
    "tokenreviews": {"spec": {"token": "a"}},
    "customresourcedefinitions": {
        "metadata": {"name": "growths.growth.example.com"},
        "spec": {
            "group": "growth.example.com",
            "scope": "Namespaced",
            "names": {"plural": "growths", "singular": "growth", "kind": "Growth", "listKind": "GrowthList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    },
}

# What an element of a list needs, by the name of its field or of its type. {i} is its index.
ITEMS: Final[dict[str, dict[str, Any]]] = {
    "initContainers": {"name": "i{i}", "image": "i", "restartPolicy": "Always"},
    "Container": {"name": "c{i}", "image": "i"},
    "EphemeralContainer": {"name": "c{i}", "image": "i"},
    "Volume": {"name": "v{i}", "emptyDir": {}},
    "VolumeMount": {"name": "v0", "mountPath": "/m{i}"},
    "VolumeDevice": {"name": "v0", "devicePath": "/d{i}"},
    "EnvVar": {"name": "E{i}", "value": "v"},
    "EnvFromSource": {"prefix": "P{i}", "configMapRef": {"name": "a"}},
    "ContainerPort": {"name": "p{i}", "containerPort": "{n}"},
    "ServicePort": {"name": "p{i}", "port": "{n}"},
    "EndpointPort": {"name": "p{i}", "port": "{n}"},
    "EndpointSubset": {"addresses": [{"ip": "10.0.{high}.{low}"}], "ports": [{"name": "p", "port": 80}]},
    "EndpointAddress": {"ip": "10.0.{high}.{low}"},
    "Endpoint": {"addresses": ["10.0.{high}.{low}"]},
    "Toleration": {"key": "example.com/k{i}", "operator": "Exists"},
    "Taint": {"key": "example.com/k{i}", "effect": "NoSchedule"},
    "HostAlias": {"ip": "10.0.{high}.{low}", "hostnames": ["a"]},
    "LocalObjectReference": {"name": "a{i}"},
    "ObjectReference": {"name": "a{i}"},
    "PodReadinessGate": {"conditionType": "example.com/c{i}"},
    "PodSchedulingGate": {"name": "example.com/g{i}"},
    "TopologySpreadConstraint": {
        "maxSkew": 1,
        "topologyKey": "example.com/k{i}",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": _SELECTOR,
    },
    "PodAffinityTerm": {"topologyKey": "example.com/k{i}", "labelSelector": _SELECTOR},
    "WeightedPodAffinityTerm": {
        "weight": 1,
        "podAffinityTerm": {"topologyKey": "example.com/k{i}", "labelSelector": _SELECTOR},
    },
    "NodeSelectorTerm": {"matchExpressions": [{"key": "example.com/k{i}", "operator": "Exists"}]},
    "PreferredSchedulingTerm": {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": "example.com/k{i}", "operator": "Exists"}]},
    },
    "NodeSelectorRequirement": {"key": "example.com/k{i}", "operator": "In", "values": ["v"]},
    "LabelSelectorRequirement": {"key": "example.com/k{i}", "operator": "In", "values": ["v"]},
    "OwnerReference": {"apiVersion": "v1", "kind": "ConfigMap", "name": "o{i}", "uid": "uid-{i}"},
    "ManagedFieldsEntry": {
        "manager": "m{i}",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:l{i}": {}}}},
    },
    "PolicyRule": {"verbs": ["get"], "apiGroups": [""], "resources": ["r{i}"]},
    "Subject": {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u{i}"},
    "NetworkPolicyPort": {"port": "{n}"},
    "NetworkPolicyPeer": {"ipBlock": {"cidr": "10.{high}.{low}.0/24"}},
    "IngressRule": {
        "host": "h{i}.example.com",
        "http": {
            "paths": [
                {
                    "path": "/",
                    "pathType": "Prefix",
                    "backend": {"service": {"name": "a", "port": {"number": 80}}},
                }
            ]
        },
    },
    "HTTPIngressPath": {
        "path": "/p{i}",
        "pathType": "Prefix",
        "backend": {"service": {"name": "a", "port": {"number": 80}}},
    },
    "IngressTLS": {"hosts": ["h{i}.example.com"], "secretName": "a"},
    "MetricSpec": {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    },
    "PersistentVolumeClaim": {
        "metadata": {"name": "c{i}"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "LimitRangeItem": {"type": "Container", "max": {"cpu": "1"}},
    "PodFailurePolicyRule": {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}},
    "ValidatingWebhook": {**_HOOK, "name": "a{i}.example.com"},
    "MutatingWebhook": {**_HOOK, "name": "a{i}.example.com"},
    "Validation": {"expression": "object.metadata.name != 'n{i}'"},
    "Variable": {"name": "v{i}", "expression": "object.metadata.name"},
    "MatchCondition": {"name": "m{i}", "expression": "true"},
    "DeviceRequest": {"name": "r{i}", "exactly": {"deviceClassName": "a"}},
    "DeviceSelector": {"cel": {"expression": "device.driver != 'd{i}'"}},
    "KeyToPath": {"key": "k{i}", "path": "p{i}"},
    "Sysctl": {"name": "kernel.a{i}", "value": "1"},
}


def places_of(
    struct: Struct, around: Path = (), structs: tuple[Struct, ...] = ()
) -> Iterator[tuple[Path, Type]]:
    """Every list, map, string and number, except below structs that contain themselves."""
    if struct in structs or len(structs) > _DEEPEST:
        return
    for field in struct.fields:
        path, type_ = (*around, field.name), field.type
        if isinstance(type_, (ListOf, MapOf)) or type_ in (STRING, INT32, INT64, INT_OR_STRING):
            yield path, type_
        while isinstance(type_, (ListOf, MapOf)):
            type_ = type_.item if isinstance(type_, ListOf) else type_.value
        if isinstance(type_, Struct):
            yield from places_of(type_, path, (*structs, struct))


def grown(definition: Definition, *paths: Path, count: int) -> dict[str, Any]:
    """An object with `count` elements, keys or characters at these places, or this number."""
    document = deepcopy(SEEDS.get(definition.plural, {}))
    document = filled(document, 0)
    if not definition.plural.endswith("reviews"):
        document.setdefault("metadata", {}).setdefault("name", "growth")
    for path in paths:
        _grow(document, definition.fields, path, count)
    return document


def _grow(value: dict[str, Any], struct: Struct, path: Path, count: int) -> None:
    name, *rest = path
    field = struct.by_name[name]
    if not rest:
        value[name] = _grown_value(field, value.get(name), count)
        return
    type_ = field.type
    if isinstance(type_, Struct):
        inner = value.setdefault(name, {})
    elif isinstance(type_, ListOf):
        items = value.setdefault(name, [])
        if not items:
            items.append(_item(type_.item, field, 0))
        inner, type_ = items[0], type_.item
    else:
        assert isinstance(type_, MapOf)
        members = value.setdefault(name, {})
        if not members:
            members["example.com/k0"] = _item(type_.value, field, 0)
        inner, type_ = next(iter(members.values())), type_.value
    if isinstance(type_, Struct) and isinstance(inner, dict):
        _grow(inner, type_, tuple(rest), count)


def _grown_value(field: Field, present: Any, count: int) -> Any:
    type_ = field.type
    if isinstance(type_, ListOf):
        return [
            *(present or []),
            *(_item(type_.item, field, index) for index in range(len(present or []), count)),
        ]
    if isinstance(type_, MapOf):
        members = {f"example.com/k{index}": _item(type_.value, field, index) for index in range(count)}
        return {**(present or {}), **members}
    return "a" * count if type_ is STRING else count


def _item(type_: Type, field: Field, index: int) -> Any:
    if isinstance(type_, Struct):
        item = ITEMS.get(field.name) or ITEMS.get(type_.name)
        if item is not None:
            return filled(item, index)
    if isinstance(type_, Scalar):
        holder = Struct("x", Field(field.name, type_, 1, enum=field.enum))
        return Growing("enumerated", (), 1)._scalar(type_, holder.fields[0], index)
    if isinstance(type_, (ListOf, MapOf)):
        return [] if isinstance(type_, ListOf) else {}
    return Growing("enumerated", (), 1)._struct(type_, (), index, full=False)


def example_of(type_: Type, name: str) -> Any:
    """A value of this type for a field of this name, with one element if it is a list or a map."""
    field = Field(name, type_, 1)
    if isinstance(type_, ListOf):
        return [_item(type_.item, field, 0)]
    if isinstance(type_, MapOf):
        return {"example.com/k0": _item(type_.value, field, 0)}
    return _item(type_, field, 0)


def filled(value: Any, index: int) -> Any:
    """The value with an index in place of {i} and {n}, or an address in place of {high} and {low}."""
    if isinstance(value, dict):
        return {key.replace("{i}", str(index)): filled(member, index) for key, member in value.items()}
    if isinstance(value, list):
        return [filled(item, index) for item in value]
    if value == "{n}":
        return index % 60_000 + 1
    if isinstance(value, str) and "{" in value:
        for name, text in (("{i}", index), ("{high}", index // 250 % 250), ("{low}", index % 250 + 1)):
            value = value.replace(name, str(text))
    return value
