"""Reviews and TokenRequests: required and forbidden fields."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.authentication import token_request
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from tests.cases import cases

CATALOG = built_in(CLUSTER)
PODS = {"verb": "get", "resource": "pods"}
PATH = {"verb": "get", "path": "/x"}
ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
NOT_BOTH = "cannot be specified in combination with resourceAttributes"


def review(kind: str) -> Definition:
    return next(one for one in CATALOG.definitions if one.kind == kind)


def causes(definition: Definition, spec: dict[str, Any], **metadata: Any) -> list[tuple[str, str]]:
    sent = definition.schema.decode_object({"metadata": metadata, "spec": spec}).object
    return [(one.field, one.message) for one in collect(definition.strategy.validate_create, sent)]


@pytest.mark.parametrize("kind", ["SubjectAccessReview", "SelfSubjectAccessReview"])
def test_review_has_either_resource_or_non_resource_attributes(kind: str) -> None:
    who = {"user": "alice"} if kind == "SubjectAccessReview" else {}
    assert causes(review(kind), {"resourceAttributes": PODS, **who}) == []
    assert causes(review(kind), {"nonResourceAttributes": PATH, **who}) == []
    assert causes(review(kind), who) == [("spec.resourceAttributes", f'Invalid value: "null": {ONE}')]
    [(field, text)] = causes(review(kind), {"resourceAttributes": PODS, "nonResourceAttributes": PATH, **who})
    assert field == "spec.nonResourceAttributes" and text.endswith(NOT_BOTH)


def test_subject_access_review_requires_a_user_or_group() -> None:
    definition = review("SubjectAccessReview")
    assert causes(definition, {"resourceAttributes": PODS, "groups": ["devs"]}) == []
    nobody = 'Invalid value: "": at least one of user or group must be specified'
    assert causes(definition, {"resourceAttributes": PODS}) == [("spec.user", nobody)]


@cases("metadata", [{"name": "x"}, {"labels": {"a": "b"}}, {"generateName": "x"}])
@cases("kind", ["SubjectAccessReview", "SelfSubjectAccessReview"])
def test_review_with_metadata_is_invalid(kind: str, metadata: dict[str, Any]) -> None:
    who = {"user": "alice"} if kind == "SubjectAccessReview" else {}
    [(field, text)] = causes(review(kind), {"resourceAttributes": PODS, **who}, **metadata)
    assert field == "metadata" and text.endswith("must be empty")


def test_local_review_is_limited_to_resources_of_its_namespace() -> None:
    definition = review("LocalSubjectAccessReview")
    here = {"resourceAttributes": {**PODS, "namespace": "n"}, "user": "alice"}
    assert causes(definition, here, namespace="n") == []
    elsewhere = [("spec.resourceAttributes.namespace", 'Invalid value: "n": must match metadata.namespace')]
    assert causes(definition, here, namespace="m") == elsewhere
    [(field, text)] = causes(definition, {"nonResourceAttributes": PATH, "user": "alice"}, namespace="n")
    assert field == "spec.nonResourceAttributes" and text.endswith("disallowed on this kind of request")


@cases(
    ("seconds", "wrong"),
    [
        (None, None),
        (600, None),
        (2**32, None),
        (599, "may not specify a duration less than 10 minutes"),
        (2**32 + 1, "may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_token_expiration_is_limited_and_defaults_to_one_hour(seconds: int | None, wrong: str | None) -> None:
    spec = {} if seconds is None else {"expirationSeconds": seconds}
    found = causes(token_request(CLUSTER), spec)
    text = f"Invalid value: {seconds}: {wrong}"
    assert found == ([("spec.expirationSeconds", text)] if wrong else [])
    default = token_request(CLUSTER).schema.decode_object({}).object["spec"]
    assert default["expirationSeconds"] == 3600
