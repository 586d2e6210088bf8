"""The Content-Type names the media type of a request body."""

import pytest

from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.gateway.wire.negotiate import UnsupportedMediaType, body_media
from tests.cases import cases


@cases(
    "content_type",
    [None, b"", b"application/json", b"application/json; charset=utf-8", b"Application/Json;charset=UTF-8"],
)
def test_content_types_of_json(content_type: bytes | None) -> None:
    assert body_media(content_type, CLUSTER, cbor=False) == "json"


@pytest.mark.parametrize("content_type", [b"application/yaml", b"application/yaml; charset=utf-8"])
def test_content_types_of_yaml(content_type: bytes) -> None:
    assert body_media(content_type, CLUSTER, cbor=False) == "yaml"


@cases(
    "content_type",
    [
        b"text/plain",
        b"application/xml",
        b"application/x-www-form-urlencoded",
        b"application/json-patch+json",
        b"\xff",
    ],
)
def test_other_content_types_are_refused(content_type: bytes) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        body_media(content_type, CLUSTER, cbor=False)
    assert str(caught.value) == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.cluster.protobuf"
    )


def test_refusal_lists_the_media_types_of_the_dialect() -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        body_media(b"text/plain", KUBERNETES, cbor=False)
    assert caught.value.accepted[-1] == "application/vnd.kubernetes.protobuf"
