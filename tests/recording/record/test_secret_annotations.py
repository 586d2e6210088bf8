"""Annotations that may contain values of a Secret are found in every form that tools store."""

from __future__ import annotations

import base64
import gzip
from typing import Any

from rewound.recording.record.secret_annotations import annotations_with_values
from tests.cases import cases

VALUE = "hunter2-hunter2"
ENCODED = base64.b64encode(VALUE.encode()).decode()


def secret(annotation: Any, value: str = ENCODED) -> dict[str, Any]:
    return {"metadata": {"name": "a", "annotations": {"one": annotation}}, "data": {"password": value}}


@cases(
    "annotation",
    [
        f"password is {VALUE}",
        f"data={ENCODED}",
        ENCODED.rstrip("="),
        '{"kind": "Secret"}',
        ' ["a"]',
        "kind: Secret\ndata: {}",
        base64.b64encode(gzip.compress(bytes(range(256)))).decode(),
    ],
)
def test_annotation_that_may_hold_values(annotation: str) -> None:
    assert annotations_with_values(secret(annotation)) == ["one"]


@cases(
    "annotation", ["default", "a harmless note", "4b2bfb0a-5b0e-4f0e-a5b6-6d1d0e1cf2f1", "hunter2", "", None]
)
def test_other_annotations_are_shown(annotation: str | None) -> None:
    assert annotations_with_values(secret(annotation)) == []


def test_values_that_occur_in_many_texts_hide_nothing() -> None:
    assert annotations_with_values(secret("version 1", base64.b64encode(b"1").decode())) == []


def test_values_that_are_no_base64_count_as_they_are() -> None:
    assert annotations_with_values(secret("it is not/base64!", "not/base64!")) == ["one"]


def test_secret_without_annotations_or_values() -> None:
    assert annotations_with_values({"metadata": {"name": "a"}}) == []
    found = annotations_with_values({"metadata": {"annotations": {"x/last-applied-configuration": "a"}}})
    assert found == ["x/last-applied-configuration"]
