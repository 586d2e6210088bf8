"""JSON of responses: compact and indented."""

import orjson

from rewound.gateway.wire.json import dump_line, pretty


def test_compact_document_ends_with_a_newline() -> None:
    assert dump_line({"a": [1, "é"]}) == '{"a":[1,"é"]}\n'.encode()


def test_pretty_document_is_indented() -> None:
    body = b'{"kind":"List","items":[{"a":1}],"e":{},"n":[]}'
    expected = (
        '{\n  "kind": "List",\n  "items": [\n    {\n      "a": 1\n    }\n  ],\n  "e": {},\n  "n": []\n}'
    )
    assert pretty(body) == expected.encode()


def test_pretty_returns_too_deeply_nested_documents_unchanged() -> None:
    body = b"[" * 300 + b"]" * 300
    assert orjson.loads(pretty(body)) == orjson.loads(body)
