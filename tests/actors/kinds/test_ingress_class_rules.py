"""IngressClass: an immutable controller, and parameters in the cluster or in one namespace."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def ingress_class(controller: str = "example.com/c", **parameters: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"controller": controller}
    if parameters:
        spec["parameters"] = {"kind": "K", "name": "n", **parameters}
    return {"metadata": {"name": "a"}, "spec": spec}


def test_scope_of_parameters_defaults_to_cluster(kinds: Definitions) -> None:
    stored = kinds.stored("ingressclasses", ingress_class(apiGroup="example.com"))
    assert stored["spec"]["parameters"] == {
        "apiGroup": "example.com",
        "kind": "K",
        "name": "n",
        "scope": "Cluster",
    }
    assert stored["metadata"]["generation"] == 1


@cases(
    ("controller", "message"),
    [
        ("", "Required value"),
        ("c", 'Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("example.com/" + "c" * 239, "Too long: must have at most 250 bytes"),
    ],
)
def test_create_reports_invalid_controllers(kinds: Definitions, controller: str, message: str) -> None:
    assert kinds.create_causes("ingressclasses", ingress_class(controller)) == [("spec.controller", message)]


@cases(
    ("parameters", "expected"),
    [
        ({"scope": "Cluster"}, []),
        ({"scope": "Namespace", "namespace": "n"}, []),
        (
            {"scope": "Galaxy"},
            [("scope", 'Unsupported value: "Galaxy": supported values: "Cluster", "Namespace"')],
        ),
        (
            {"scope": "Namespace"},
            [("namespace", "Required value: `parameters.scope` is set to 'Namespace'")],
        ),
        (
            {"scope": "Cluster", "namespace": "n"},
            [("namespace", "Forbidden: `parameters.scope` is set to 'Cluster'")],
        ),
        ({"kind": ""}, [("kind", "Required value: kind is required")]),
        ({"name": ""}, [("name", "Required value: name is required")]),
    ],
)
def test_create_reports_invalid_parameters(
    kinds: Definitions, parameters: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes("ingressclasses", ingress_class(**parameters)) == [
        (f"spec.parameters.{field}", message) for field, message in expected
    ]


def test_namespace_of_parameters_must_be_a_dns_label(kinds: Definitions) -> None:
    wrong = ingress_class(scope="Namespace", namespace="a.b")
    assert [field for field, _ in kinds.create_causes("ingressclasses", wrong)] == [
        "spec.parameters.namespace"
    ]


def test_controller_is_immutable(kinds: Definitions) -> None:
    new, causes = kinds.update("ingressclasses", ingress_class(), ingress_class("example.com/d"))
    assert causes == [("spec.controller", 'Invalid value: "example.com/d": field is immutable')]
    new, causes = kinds.update("ingressclasses", ingress_class(), ingress_class(scope="Cluster"))
    assert causes == [] and new["metadata"]["generation"] == 2
