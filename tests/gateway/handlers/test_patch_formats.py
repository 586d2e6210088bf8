"""The content type of a PATCH selects the patch format, if the kind supports it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import CLUSTER
from rewound.gateway.handlers.bodies import patch_format
from rewound.gateway.pipeline.errors import UnsupportedPatch, failure_of
from rewound.gateway.wire.negotiate import UnsupportedMediaType
from tests.cases import cases

FOUND = built_in(CLUSTER).find("", "v1", "configmaps")
assert FOUND is not None
BUILT_IN: Definition = FOUND
CUSTOM = replace(BUILT_IN, strategic_merge_patch=False)


@cases(
    ("content_type", "format_"),
    [
        (b"application/json-patch+json", "json"),
        (b"application/merge-patch+json; charset=utf-8", "merge"),
        (b"Application/Strategic-Merge-Patch+JSON", "strategic"),
        (b"application/apply-patch+yaml", "apply"),
    ],
)
def test_content_type_selects_the_format(content_type: bytes, format_: str) -> None:
    assert patch_format(content_type, BUILT_IN, cbor=False) == format_


@cases("content_type", [b"", b"application/json", b"application/yaml", b"text/plain"])
def test_other_content_types_are_refused(content_type: bytes) -> None:
    with pytest.raises(UnsupportedPatch):
        patch_format(content_type, BUILT_IN, cbor=False)


def test_kinds_without_strategic_merge_refuse_it() -> None:
    assert patch_format(b"application/merge-patch+json", CUSTOM, cbor=False) == "merge"
    with pytest.raises(UnsupportedMediaType) as refused:
        patch_format(b"application/strategic-merge-patch+json", CUSTOM, cbor=False)
    failure = failure_of(refused.value)
    assert failure is not None
    assert failure.code == 415
    assert str(refused.value).endswith(
        "accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )
