"""Texts of errors and warnings that are the same for all kinds, as each version has them."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect_with
from rewound.actors.names import KUBERNETES
from rewound.actors.resource.decide import validate_metadata_create
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions, create
from tests.cases import cases


def definition(version: str, group: str, plural: str) -> Definition:
    found = built_in(KUBERNETES, choose_release(version)).find(group, "v1", plural)
    assert found is not None
    return found


def errors_of_metadata(version: str, metadata: dict[str, Any]) -> list[str]:
    config_maps = definition(version, "", "configmaps")
    metadata = {"name": "a", "namespace": "n", **metadata}
    found = collect_with(config_maps.features, validate_metadata_create, metadata, config_maps)
    return [error.message for error in found]


@cases(
    ("version", "text"),
    [("1.34", "must be no more than 63 characters"), ("1.35", "must be no more than 63 bytes")],
)
def test_labels_are_counted_in_bytes(version: str, text: str) -> None:
    long = "x" * 64
    (value,) = errors_of_metadata(version, {"labels": {"a": long}})
    (key,) = errors_of_metadata(version, {"labels": {long: ""}})
    assert value == f'Invalid value: "{long}": {text}'
    assert key == f'Invalid value: "{long}": name part {text}'


@cases(("version", "kind"), [("1.34", "a qualified name"), ("1.35", "a valid label key")])
def test_names_of_several_parts(version: str, kind: str) -> None:
    (text,) = errors_of_metadata(version, {"labels": {"a/b/c": ""}})
    assert text.startswith(f'Invalid value: "a/b/c": {kind} must consist of')


@cases(
    ("version", "empty", "controllers"),
    [
        ("1.25", "kind must not be empty", "a and c"),
        ("1.26", "kind must not be empty", "Pod/a and Pod/c"),
        ("1.34", "must not be empty", "Pod/a and Pod/c"),
    ],
)
def test_owner_references(version: str, empty: str, controllers: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}
    assert errors_of_metadata(version, {"ownerReferences": [{**owner, "kind": ""}]}) == [
        f'Invalid value: "": {empty}'
    ]
    two = [{**owner, "controller": True}, {**owner, "name": "c", "uid": "d", "controller": True}]
    (text,) = errors_of_metadata(version, {"ownerReferences": two})
    assert text.endswith(f"references for {controllers}")


@cases(
    ("version", "shown"),
    [
        ("1.33", 'rbac.RoleRef{APIGroup:"g", Kind:"Role", Name:"b"}'),
        ("1.34", '{"APIGroup":"g","Kind":"Role","Name":"b"}'),
    ],
)
def test_values_are_shown_with_the_names_of_go(version: str, shown: str) -> None:
    bindings = definition(version, "rbac.authorization.k8s.io", "rolebindings")
    old = {
        "metadata": {"name": "a", "namespace": "n", "resourceVersion": "1"},
        "roleRef": {"apiGroup": "g", "kind": "Role", "name": "a"},
    }
    new = {**old, "roleRef": {**old["roleRef"], "name": "b"}}
    found = collect_with(bindings.features, bindings.strategy.validate_update, new, old)
    assert f"Invalid value: {shown}: cannot change roleRef" in [error.message for error in found]


@cases(("version", "group"), [("1.25", "extensions"), ("1.26", "networking.k8s.io")])
def test_errors_name_the_group_of_ingresses(version: str, group: str) -> None:
    assert definition(version, "networking.k8s.io", "ingresses").error_group == group


@cases(("version", "warning"), [("1.32", ""), ("1.33", "v1 Endpoints is deprecated in v1.33+; use")])
def test_endpoints_are_deprecated(version: str, warning: str) -> None:
    assert definition(version, "", "endpoints").deprecation_warning.startswith(warning)
    assert bool(definition(version, "", "endpoints").deprecation_warning) == bool(warning)


def test_unknown_formats_are_warned_of() -> None:
    def versions(*formats: str) -> dict[str, Any]:
        properties = {name: {"type": "string", "format": name} for name in formats}
        schema = {"type": "object", "properties": properties, "format": "whole"}
        return {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}

    definitions = definition("1.34", "apiextensions.k8s.io", "customresourcedefinitions")
    warnings = definitions.strategy.warnings
    assert warnings is not None
    assert warnings(versions("date-time", "odd"), None) == [
        'unrecognized format "whole"',
        'unrecognized format "odd"',
    ]
    assert warnings(versions("odd", "new"), versions("odd")) == ['unrecognized format "new"']
    earlier = definition("1.33", "apiextensions.k8s.io", "customresourcedefinitions")
    assert earlier.strategy.warnings is None


def texts(version: str, plural: str, **members: Any) -> list[str]:
    kind = Definitions(built_in(KUBERNETES, choose_release(version)))[plural]
    document = {"metadata": {"name": "a"}, **members}
    return [text for _, text in create(kind, kind.schema.decode_object(document).object)[1]]


@cases(
    ("version", "shown"),
    [
        ("1.25", '"widgets"'),
        ("1.28", '"widgets"'),
        ("1.29", "widgets"),
        ("1.33", "widgets"),
        ("1.34", '"widgets"'),
    ],
)
def test_invalid_name_of_resource(version: str, shown: str) -> None:
    assert texts(version, "resourcequotas", spec={"hard": {"widgets": "1"}}) == [
        f"Invalid value: {shown}: must be a standard resource type or fully qualified",
        f"Invalid value: {shown}: must be a standard resource for quota",
    ]


def webhook(**client: Any) -> dict[str, Any]:
    return {
        "name": "a.example.com",
        "clientConfig": client,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def test_webhook_without_host_or_service() -> None:
    nowhere, unnamed = webhook(url="https:///path"), webhook(service={"name": "", "namespace": ""})

    def found(version: str, hook: dict[str, Any]) -> list[str]:
        return texts(version, "validatingwebhookconfigurations", webhooks=[hook])

    form = "desired format: https://host[/path]"
    assert found("1.25", nowhere) == [f'Invalid value: "": host must be provided; {form}']
    assert found("1.26", nowhere) == [f'Invalid value: "": host must be specified; {form}']
    assert found("1.33", unnamed) == [
        "Required value: service name is required",
        "Required value: service namespace is required",
    ]
    assert found("1.34", unnamed) == ["Required value", "Required value"]
