"""What mutations make of an object, and the texts of those that cannot be applied: as Kubernetes 1.36 replied."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.policies.expressions import PolicyCompiler, RequestValues, Scope, Work
from rewound.actors.admission.policies.patches import Refused, apply_configuration, apply_operations
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.admission.webhooks.documents import new_document
from rewound.actors.admission.webhooks.review import Reviews
from rewound.actors.errors import BadRequest, WebhookFailed
from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.admission.admitted import CONTEXT

RELEASE = choose_release("1.36")
DEFINITIONS = {one.plural: one for one in built_in(KUBERNETES, RELEASE).definitions if one.group == ""}
MAP: Object = {"metadata": {"name": "a", "labels": {"own": "1"}}, "data": {"k": "v"}}
POD: Object = {
    "metadata": {"name": "a"},
    "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]
    },
}


def mutated(text: str, plural: str = "configmaps") -> Any:
    definition = DEFINITIONS[plural]
    stored = definition.schema.decode_object(POD if plural == "pods" else MAP).object
    request = AdmissionRequest(CREATE, definition, "default", "a", "", stored, None, "user", False, CONTEXT)
    compiler = PolicyCompiler(KUBERNETES, RELEASE.features, variables=True)
    patches = "JSONPatch{" in text
    expression = compiler.compile(text, "list(JSONPatch)" if patches else "Object")
    assert not expression.error, expression.error
    value = Scope(RequestValues(Reviews(KUBERNETES), request, definition), Work()).evaluate(expression)
    document = new_document(request, definition)
    assert document is not None
    return (apply_operations if patches else apply_configuration)(request, definition, document, value)


def refusal(text: str, plural: str = "configmaps") -> str:
    with pytest.raises(Refused) as raised:
        mutated(text, plural)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("Object{}", {"k": "v"}),
        ("Object{data: {'a': 'b'}}", {"k": "v", "a": "b"}),
        ("Object{data: Object.data{k: 'b'}}", {"k": "b"}),
        ("Object{data: object.metadata.labels}", {"k": "v", "own": "1"}),
        ("Object{apiVersion: 'v2', kind: 'Foo'}", {"k": "v"}),
        ("[JSONPatch{op: 'add', path: '/data/a', value: 'b'}]", {"k": "v", "a": "b"}),
        ("[JSONPatch{op: 'replace', path: '/data/a', value: 'b'}]", {"k": "v", "a": "b"}),
        ("[JSONPatch{op: 'move', from: '/data/k', path: '/data/c'}]", {"c": "v"}),
        (
            "[JSONPatch{op: 'test', path: '/data/k', value: 'w'}, JSONPatch{op: 'remove', path: '/x'}]",
            {"k": "v"},
        ),
    ],
)
def test_data(text: str, data: dict[str, str]) -> None:
    assert mutated(text).object["data"] == data


def test_entries_of_lists_merge_by_their_keys_and_get_defaults() -> None:
    text = (
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', image: 'j'}, "
        "Object.spec.containers{name: 'd', image: 'k'}], terminationGracePeriodSeconds: 5}}"
    )
    spec = mutated(text, "pods").object["spec"]
    assert [(one["name"], one["image"], one["imagePullPolicy"]) for one in spec["containers"]] == [
        ("c", "j", "Always"),
        ("d", "k", "Always"),
    ]
    assert spec["containers"][0]["ports"] and spec["terminationGracePeriodSeconds"] == 5


TYPED = "error applying patch: failed to convert patch object to typed object: "
ATOMIC = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Object{data: {'a': 1}}", TYPED + ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        ("Object{data: {1: 'a'}}", "invalid return type: *dynamic.ObjectVal"),
        ("Object{foo: 'x'}", TYPED + ".foo: field not declared in schema"),
        ("Object{data: 'x'}", TYPED + ".data: expected map, got &{x}"),
        ("Object{data: null}", TYPED + ".data: expected map, got &{NULL_VALUE}"),
        (
            "Object{metadata: {'labels': {'a': 'b'}}}",
            TYPED + ".metadata.labels: expected map, got &{map[a:b]}",
        ),
        (
            "Object{data: {'t': 1u}}",
            TYPED + ".data.t: expected string, got &value.valueUnstructured{Value:0x1}",
        ),
        ("Object{metadata: Object.metadata{managedFields: []}}", ATOMIC + ".metadata.managedFields"),
        (
            "Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: 'u'}]}}",
            ATOMIC + ".metadata.ownerReferences[0]",
        ),
        (
            "Object{data: Object.foo{a: 'b'}}",
            'type mismatch: unexpected type name "Object.foo", expected "Object.data", '
            "which matches field name path from root Object type",
        ),
        (
            "[JSONPatch{op: 'remove', path: '/data/zz'}]",
            "JSON Patch: error in remove for path: '/data/zz': Unable to remove nonexistent key: zz: missing value",
        ),
        ("[JSONPatch{}]", "JSON Patch: Unexpected kind: "),
        (
            "[JSONPatch{op: 'copy', path: '/data/c'}]",
            "JSON Patch: copy operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            "[JSONPatch{op: 'add', path: '/data/k/x', value: 'a'}]",
            'JSON Patch: add operation does not apply: doc is missing path: "/data/k/x": missing value',
        ),
        (
            "[JSONPatch{op: 'add', path: '/data/a', value: JSONPatch{}}]",
            "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "
            "cannot convert to native type: *structpb.Value",
        ),
    ],
)
def test_refusals(text: str, expected: str) -> None:
    assert refusal(text) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "containers: [{'name': 'x'}]",
            TYPED + ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            "containers: [Object.spec.containers{name: 'c'}, Object.spec.containers{name: 'c'}]",
            TYPED + '.spec.containers: duplicate entries for key [name="c"]',
        ),
        (
            "containers: [Object.spec.containers{name: 'c', command: ['a'], args: ['b']}], nodeSelector: {'a': 'b'}",
            ATOMIC + ".spec.containers[0].command, .spec.containers[0].args, .spec.nodeSelector",
        ),
        ("tolerations: [Object.spec.tolerations{key: 'a'}]", ATOMIC + ".spec.tolerations"),
        ("imagePullSecrets: [Object.spec.imagePullSecrets{name: 'g'}]", ATOMIC + ".spec.imagePullSecrets[0]"),
        (
            "securityContext: Object.spec.securityContext{runAsUser: 5u}",
            TYPED + ".spec.securityContext.runAsUser: expected numeric (int or float), got uint64",
        ),
        (
            "securityContext: Object.spec.securityContext{runAsUser: 5.5}",
            "unable to convert unstructured object to /v1, Kind=Pod: cannot convert float64 to int64",
        ),
    ],
)
def test_refusals_of_pods(fields: str, expected: str) -> None:
    assert refusal(f"Object{{spec: Object.spec{{{fields}}}}}", "pods") == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("path: '/spec/foo', value: 5", 'strict decoding error: unknown field "spec.foo"'),
        (
            "path: '/spec/terminationGracePeriodSeconds', value: '5'",
            "json: cannot unmarshal string into Go struct field "
            "PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            "path: '/apiVersion', value: 'v2'",
            'no kind "Pod" is registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
    ],
)
def test_patches_that_leave_no_object(operation: str, expected: str) -> None:
    with pytest.raises(WebhookFailed) as raised:
        mutated(f"[JSONPatch{{op: 'add', {operation}}}]", "pods")
    assert raised.value.why == expected


def test_the_namespace_may_not_change() -> None:
    with pytest.raises(BadRequest):
        mutated("Object{metadata: Object.metadata{namespace: 'other'}}")
