"""Without libyaml, PyYAML's own parser and emitter give the same results."""

import pytest
import yaml

from rewound.gateway.wire.yaml import YamlError, dump, load, reader, writer


@pytest.fixture(autouse=True)
def pure_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_Parser", yaml.SafeLoader)
    monkeypatch.setattr(writer, "_Emitter", yaml.SafeDumper)


def test_document_reads_the_same() -> None:
    loaded = load(b"a: &x {b: [1, 017, yes, ~], c: 'x'}\nd: {<<: *x, c: y, c: z}\n")
    assert loaded.value == {
        "a": {"b": [1, 15, True, None], "c": "x"},
        "d": {"b": [1, 15, True, None], "c": "z"},
    }
    assert loaded.problems == ('line 2: key "c" already set in map',)


def test_document_is_written_the_same() -> None:
    assert dump({"b": {"k": "two\nlines", "m": "1"}, "a": [{}, []]}) == (
        b'a:\n- {}\n- []\nb:\n  k: |-\n    two\n    lines\n  m: "1"\n'
    )


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"[\n" * 10_000, "nested deeper than"),  # in lines: one long line takes PyYAML seconds
        (b"a: [1", "line 1, column 6"),
        (b"a: *x", "unknown anchor 'x'"),
        (b"a: !mine b", "unknown tag !mine"),
        (b"a: \x00", "control characters"),
        (b"a: 1\n---\nb: 2\n", "a second document"),
    ],
)
def test_document_is_refused_the_same(raw: bytes, problem: str) -> None:
    with pytest.raises(YamlError, match=problem):
        load(raw)
