"""A body is one document."""

import pytest

from rewound.gateway.wire.yaml import Loaded, YamlError, load
from tests.cases import cases


@cases("raw", [b"", b"\n", b"# nothing\n", b"---\n", b"---\n...\n", b"\xef\xbb\xbf", b"~"])
def test_empty_document_is_null(raw: bytes) -> None:
    assert load(raw) == Loaded(None, ())


@cases(
    "raw",
    [
        b"a: 1",
        b"---\na: 1\n",
        b"---\na: 1\n...\n",
        b"%YAML 1.1\n---\na: 1\n",
        b"\xef\xbb\xbfa: 1\r\n",
        b'{"a": 1}',
    ],
)
def test_document_markers_are_allowed(raw: bytes) -> None:
    assert load(raw).value == {"a": 1}


@cases("raw", [b"a: 1\n---\nb: 2\n", b"---\n---\n", b"a: 1\n...\n---\n"])
def test_second_document_is_refused(raw: bytes) -> None:
    with pytest.raises(YamlError, match="a second document"):
        load(raw)


def test_scalars_and_lists_are_documents() -> None:
    assert load(b"- 1\n- [a, {}]\n").value == [1, ["a", {}]]
    assert load(b"word").value == "word"


@cases(
    ("raw", "place"),
    [
        (b"a: [1, 2", "line 2, column 1"),
        (b"a: b\n c: d\n", "line 2, column 3"),
        (b"a:\n\tb: c\n", "line 2, column 1"),
        (b"a: 'x\n", "line 2, column 1"),
    ],
)
def test_syntax_error_is_refused_with_line_and_column(raw: bytes, place: str) -> None:
    with pytest.raises(YamlError) as caught:
        load(raw)
    assert str(caught.value).startswith("error converting YAML to JSON: yaml: line ")
    assert place in caught.value.message
