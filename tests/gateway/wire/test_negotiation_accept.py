"""The Accept header chooses the representation of a response."""

import pytest

from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.gateway.wire import negotiate as module
from rewound.gateway.wire.negotiate import NotAcceptable, Representation, UnknownMediaTypes, negotiate
from tests.cases import cases

# `as` with an unknown version, and with an unknown group.
TABLE = b"application/json;as=Table;v=v9;g=meta.cluster.io"
JSON = Representation("json", b"application/json")
YAML = Representation("yaml", b"application/yaml")


@cases(
    "accept",
    [
        None,
        b"",
        b"*/*",
        b"*",
        b"application/*",
        b"application/json",
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b"text/html, application/json;q=0.1",
        b"text/html, */*;q=0.1",
        b"text/html;q=1,application/json;q=0.1",
        b"application/yaml;q=0.5, application/json",
        b"*/*, application/json",
        b"application/json, application/yaml",
        TABLE + b",application/json;as=Table;v=v1;g=other.io,application/json",
        TABLE + b", */*",
        b"application/json;as=Chart;v=v1;g=meta.cluster.io;q=0.9, application/json;q=0.2",
        b"application/vnd.kubernetes.protobuf,application/json",
        b"application/vnd.kubernetes.protobuf, application/*;q=0.5",
        b"application/json;stream=ticker, application/json",
    ],
)
def test_accept_headers_that_choose_json(accept: bytes | None) -> None:
    assert negotiate(accept, CLUSTER) == JSON


@cases(
    "accept",
    [
        b"application/yaml",
        b"application/json;q=0.5, application/yaml",
        b"*/*;q=0.9, application/yaml",
        b"*/*, application/yaml",
        b"application/json;q=nonsense, application/yaml;q=0.1",
        b"application/json;q=0, application/yaml",
        TABLE + b", application/yaml",
    ],
)
def test_accept_headers_that_choose_yaml(accept: bytes) -> None:
    assert negotiate(accept, CLUSTER) == YAML


@cases(
    "accept",
    [
        TABLE,
        b"application/json;as=PartialObjectMetadataList;v=v1",
        b"application/yaml;stream=watch",
        b"text/html, application/json;as=Chart;v=v1;g=meta.cluster.io",
    ],
)
def test_unserved_parameters_are_not_acceptable(accept: bytes) -> None:
    for _ in range(2):
        with pytest.raises(NotAcceptable) as caught:
            negotiate(accept, CLUSTER)
    assert caught.value.accepted == (
        "application/json",
        "application/yaml",
        "application/vnd.cluster.protobuf",
    )
    assert str(caught.value) == (
        "only the following media types are accepted: "
        "application/json, application/yaml, application/vnd.cluster.protobuf"
    )


@cases(
    "accept",
    [
        b"text/html",
        b"text/*",
        b"application",
        b"application/json;q=0",
        b"application/vnd.kubernetes.protobuf",
        b",",
        b"\xff\xfe",
    ],
)
def test_unserved_media_types_are_not_acceptable(accept: bytes) -> None:
    expected = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, {}"
    protobuf = "application/vnd.cluster.protobuf"
    with pytest.raises(UnknownMediaTypes) as caught:
        negotiate(accept, CLUSTER, "item")
    assert str(caught.value) == expected.format(protobuf)
    streams = f"{protobuf}, application/json;stream=watch, {protobuf};stream=watch"
    for shape in ("list", "watch"):
        with pytest.raises(UnknownMediaTypes) as caught:
            negotiate(accept, CLUSTER, shape)
        assert str(caught.value) == expected.format(streams)


@cases(
    "accept",
    [
        b"application/vnd.cluster.protobuf",
        b"application/vnd.cluster.protobuf,application/json",
        b"application/json;q=0.5, application/vnd.cluster.protobuf;q=0.6",
        b"*/*, application/vnd.cluster.protobuf",
    ],
)
def test_accept_headers_that_choose_protobuf(accept: bytes) -> None:
    assert negotiate(accept, CLUSTER) == Representation("protobuf", b"application/vnd.cluster.protobuf")


def test_protobuf_media_type_depends_on_the_dialect() -> None:
    chosen = negotiate(b"application/vnd.cluster.protobuf, application/vnd.kubernetes.protobuf", KUBERNETES)
    assert (chosen.media, chosen.content_type) == ("protobuf", b"application/vnd.kubernetes.protobuf")


def test_protobuf_watch_has_the_stream_parameter() -> None:
    for accept in (b"application/vnd.cluster.protobuf", b"application/vnd.cluster.protobuf;stream=watch"):
        chosen = negotiate(accept, CLUSTER, "watch")
        assert chosen.content_type == b"application/vnd.cluster.protobuf;stream=watch"


def test_parameters_of_a_clause_are_in_the_representation() -> None:
    assert negotiate(b"application/json;pretty=1", CLUSTER).pretty
    assert not negotiate(b"application/json;pretty=0", CLUSTER).pretty
    assert negotiate(b"application/json;stream=watch", CLUSTER).stream == "watch"


def test_as_kind_must_fit_the_response() -> None:
    table = b"application/json;as=Table;v=v1;g=meta.cluster.io"
    partial = b"application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.cluster.io, application/json"
    assert negotiate(table, CLUSTER, "item").as_kind == "Table"
    assert negotiate(table, CLUSTER, "list").as_kind == "Table"
    assert negotiate(table, CLUSTER, "watch").as_kind == "Table"
    one = negotiate(partial, CLUSTER, "item")
    assert (one.as_kind, one.as_version) == ("PartialObjectMetadata", "v1beta1")
    assert negotiate(partial, CLUSTER, "list").as_kind == ""
    assert negotiate(partial.replace(b"Metadata;", b"MetadataList;"), CLUSTER, "list").as_kind != ""
    with pytest.raises(NotAcceptable):
        negotiate(table, KUBERNETES, "item")


def test_same_header_is_parsed_once() -> None:
    accept = b"application/json, text/x-once"
    assert negotiate(accept, KUBERNETES) is negotiate(accept, KUBERNETES)


def test_cache_stays_small() -> None:
    for number in range(3 * module._MAX_CACHED):
        negotiate(b"text/x-%d, */*" % number, CLUSTER)
    assert len(module._cached_choices) <= module._MAX_CACHED
    negotiate(b"*/*," + b"x" * module._LONGEST_CACHED, CLUSTER)
    assert max(len(accept) for _, _, accept, _ in module._cached_choices) <= module._LONGEST_CACHED


def test_only_the_first_clauses_of_a_long_header_are_parsed() -> None:
    with pytest.raises(NotAcceptable):
        negotiate(b"text/html," * 20_000 + b"application/json", CLUSTER)
