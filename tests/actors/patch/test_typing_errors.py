"""Applied objects that do not fit their schema: the errors of Kubernetes."""

from __future__ import annotations

from typing import Any

from rewound.actors.errors import IllTyped
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.patch.managed_fields.applied_types import find_typing_error
from rewound.actors.versions.features import PARTIAL_KEYS
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

KINDS = Definitions(built_in(KUBERNETES))


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a", **container}]}}


@cases(
    ("plural", "sent", "error"),
    [
        ("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": None}}, ""),
        ("configmaps", {"data": {"a": 5}}, ".data.a: expected string, got &value.valueUnstructured{Value:5}"),
        (
            "configmaps",
            {"data": {"a": {"b": ["c"]}}},
            '.data.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"b":[]interface '
            '{}{"c"}}}',
        ),
        ("configmaps", {"data": [True]}, ".data: expected map, got &{[true]}"),
        ("configmaps", {"immutable": "yes"}, ".immutable: expected boolean, got &{yes}"),
        ("configmaps", {"bogus": 1}, ".bogus: field not declared in schema"),
        (
            "configmaps",
            {"immutable": 1, "data": ""},
            "errors:\n  .immutable: expected boolean, got &{1}\n  .data: expected map, got &{}",
        ),
        ("pods", pod(env={}), '.spec.containers[name="a"].env: expected list, got &{map[]}'),
        (
            "pods",
            pod(env=[None]),
            '.spec.containers[name="a"].env: element 0: associative list with keys may not have a null element',
        ),
        (
            "pods",
            {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
            '.spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            "pods",
            {"spec": {"containers": [{}]}},
            ".spec.containers: element 0: associative list with keys has an element that omits key field "
            '"name" (and doesn\'t have default value)',
        ),
        (
            "pods",
            pod(args=[1]),
            '.spec.containers[name="a"].args[0]: expected string, got &value.valueUnstructured{Value:1}',
        ),
        ("pods", {"spec": {"priority": "1"}}, ".spec.priority: expected numeric (int or float), got string"),
        (
            "pods",
            pod(resources={"limits": {"cpu": {}}}),
            '.spec.containers[name="a"].resources.limits.cpu: expected any scalar, got &{map[]}',
        ),
    ],
)
def test_errors(plural: str, sent: dict[str, Any], error: str) -> None:
    assert find_typing_error(KINDS[plural].fields, sent, frozenset()) == error


def test_since_1_34_one_key_of_an_entry_is_enough() -> None:
    ports = {"spec": {"containers": [{"name": "a", "ports": [{"protocol": "UDP"}]}]}}
    without = '.spec.containers[name="a"].ports: element 0: associative list with keys has an element that omits key'
    fields = KINDS["pods"].fields
    assert find_typing_error(fields, ports, frozenset()) == (
        f'{without} field "containerPort" (and doesn\'t have default value)'
    )
    assert not find_typing_error(fields, ports, {PARTIAL_KEYS})
    assert find_typing_error(fields, {"spec": {"containers": [{}]}}, {PARTIAL_KEYS}) == (
        '.spec.containers: element 0: associative list with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)"
    )


def test_errors_name_the_applied_object() -> None:
    sent = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}}
    assert str(IllTyped.fields(sent, "why")) == (
        "failed to create typed patch object (n/a; apps/v1, Kind=Deployment): why"
    )
    assert str(IllTyped.values({**sent, "apiVersion": "v1", "metadata": []}, "why")) == (
        "failed to convert new object (/; /v1, Kind=Deployment) to proper version: "
        "unable to convert unstructured object to /v1, Kind=Deployment: why"
    )
