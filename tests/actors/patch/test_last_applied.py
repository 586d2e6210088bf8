"""Switching from client-side apply to server-side apply and back, with the last-applied annotation."""

import json

import pytest

from rewound.actors.errors import ApplyConflict
from rewound.actors.patch.managed_fields.apply import refresh_annotation
from tests.cases import cases

from .managed_object import VERSION, ManagedObject

ANNOTATION = "kubectl.example.com/last-applied-configuration"


def applied_by_a_client(spec, **last):
    """An object as client-side apply leaves it: an update, with the configuration in an annotation."""
    obj = ManagedObject(annotation=ANNOTATION)
    config = {"apiVersion": VERSION, "kind": "Thing", "spec": {**spec, **last}}
    metadata = {"annotations": {ANNOTATION: json.dumps(config)}}
    obj.update("kubectl-client-side-apply", {"metadata": metadata, "spec": spec})
    return obj


def test_previously_applied_fields_do_not_conflict():
    obj = applied_by_a_client({"text": "a", "map": {"k": "1"}})
    obj.apply("kubectl", {"spec": {"text": "b", "map": {"k": "2"}}})
    assert obj.spec["text"] == "b"
    assert obj.owned("kubectl") == {"f:spec": {"f:map": {"f:k": {}}, "f:text": {}}}
    assert "f:text" not in obj.owned("kubectl-client-side-apply")["f:spec"]


def test_only_fields_that_others_changed_conflict():
    obj = applied_by_a_client({"text": "a"})
    obj.change("u1", on=True)
    with pytest.raises(ApplyConflict) as refused:
        obj.apply("kubectl", {"spec": {"text": "b", "on": False}})
    assert [cause.field for cause in refused.value.causes] == [".spec.on"]


def test_field_with_other_value_in_annotation_conflicts():
    obj = applied_by_a_client({"text": "a"}, text="older")
    with pytest.raises(ApplyConflict):
        obj.apply("kubectl", {"spec": {"text": "b"}})


def test_other_managers_conflict():
    obj = applied_by_a_client({"text": "a"})
    obj.annotation = ""
    with pytest.raises(ApplyConflict):
        obj.apply("m1", {"spec": {"text": "b"}})


@cases(
    "text",
    [
        "",
        "no json",
        "[]",
        '"x"',
        "null",
        '{"apiVersion": "example.com/v1", "kind": "Thing", "spec": 1}',
        '{"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"set": ["a", "a"]}}',
        '{"apiVersion": "example.com/v1", "spec": {"text": "a"}}',
        '{"kind": "Thing", "spec": {"text": "a"}}',
        '{"apiVersion": "example.com/v2", "kind": "Thing", "spec": {"text": "a"}}',
    ],
)
def test_invalid_annotation_allows_nothing(text):
    obj = ManagedObject(annotation=ANNOTATION)
    obj.update("u1", {"metadata": {"annotations": {ANNOTATION: text}}, "spec": {"text": "a"}})
    with pytest.raises(ApplyConflict):
        obj.apply("kubectl", {"spec": {"text": "b"}})


def test_spelling_in_annotation_does_not_matter():
    obj = applied_by_a_client({"size": "1"}, size="1000m")
    obj.apply("kubectl", {"spec": {"size": "2"}})
    assert obj.spec["size"] == "2"


def test_apply_updates_the_annotation():
    metadata = {"annotations": {"other": "x", ANNOTATION: "old"}}
    config = {"kind": "Thing", "apiVersion": VERSION, "metadata": {"name": "a"}, "spec": {"text": "b"}}
    refresh_annotation(metadata, config, ANNOTATION)
    assert metadata["annotations"]["other"] == "x"
    text = metadata["annotations"][ANNOTATION]
    assert json.loads(text) == config
    assert text == json.dumps(config, sort_keys=True, separators=(",", ":")) + "\n"


def test_annotation_does_not_contain_itself():
    metadata = {"annotations": {ANNOTATION: "old"}}
    config = {"metadata": {"annotations": {ANNOTATION: "sent", "a": "b"}}}
    refresh_annotation(metadata, config, ANNOTATION)
    assert json.loads(metadata["annotations"][ANNOTATION]) == {"metadata": {"annotations": {"a": "b"}}}


def test_annotation_is_escaped_as_clients_do():
    metadata = {"annotations": {ANNOTATION: "old"}}
    refresh_annotation(metadata, {"metadata": {}, "spec": {"text": "<a&b>"}}, ANNOTATION)
    assert '"\\u003ca\\u0026b\\u003e"' in metadata["annotations"][ANNOTATION]


@cases("metadata", [{}, {"annotations": {"other": "x"}}, {"annotations": {ANNOTATION: ""}}])
def test_missing_annotation_is_not_created(metadata):
    before = dict(metadata)
    refresh_annotation(metadata, {"spec": {}}, ANNOTATION)
    assert metadata == before


def test_too_large_annotation_is_removed():
    metadata = {"annotations": {"other": "x", ANNOTATION: "old"}}
    refresh_annotation(metadata, {"spec": {"text": "x" * (256 * 1024)}}, ANNOTATION)
    assert metadata["annotations"] == {"other": "x"}
