"""`rewound cel`: the result, type and cost of an expression on objects of files, and its errors."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.cli.main import main
from tests.cases import cases

OBJECT = """\
metadata: {name: a, labels: {x: "1"}}
spec: {replicas: 3, when: "2026-01-01T00:00:00Z", none: null}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["cel", *arguments])
    return code, capsys.readouterr().out


@cases(
    ("expression", "result", "type_", "cost"),
    [
        ("object.spec.replicas <= 5", True, "bool", 4),
        ("self.metadata", {"name": "a", "labels": {"x": "1"}}, "map", 2),
        ("object.spec.none", None, "null_type", 3),
        ("oldObject.spec.replicas - object.spec.replicas", -2, "int", 7),
        ("params.limits[1]", 2.5, "double", 3),
        ("timestamp(object.spec.when) - duration('1h')", "2025-12-31T23:00:00Z", "timestamp", 5),
        ("duration('90s')", "90s", "duration", 0),
        ("[1, 2].map(x, {'a': x})", [{"a": 1}, {"a": 2}], "list(map(string, int))", 87),
        ("{1u: b'a'}", {"1": "a"}, "map(uint, bytes)", 0),
        ("type(1)", "int", "type(int)", 0),
        ("object.?missing", "optional.none()", "optional_type(dyn)", 2),
        ("optional.of(1)", {"optional": 1}, "optional_type(int)", 1),
        ("[ip('::1')]", ["::1"], "list(net.IP)", 11),
        ("quantity('1Gi')", "a value of type kubernetes.Quantity", "kubernetes.Quantity", 1),
    ],
)
def test_results(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    expression: str,
    result: Any,
    type_: str,
    cost: int,
) -> None:
    new, old, params = (tmp_path / name for name in ("new", "old", "params"))
    new.write_text(OBJECT)
    old.write_text('{"spec": {"replicas": 1}}')
    params.write_text("limits: [1, 2.5]")
    files = ["--object", str(new), "--old", str(old), "--params", str(params)]
    code, printed = run(capsys, expression, *files, "-o", "json")
    assert (code, orjson.loads(printed)) == (0, {"result": result, "type": type_, "cost": cost})


def test_text_and_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OBJECT.encode())))
    assert run(capsys, "object.metadata.labels", "--object", "-") == (
        0,
        'result  {"x":"1"}\ntype    map\ncost    3\n',
    )


@cases(
    ("arguments", "expected"),
    [
        (
            ("1 + (2",),
            "error   ERROR: <input>:1:7: Syntax error: missing ')' at '<EOF>'\n"
            "         | 1 + (2\n"
            "         | ......^\n",
        ),
        (
            ("object.x",),
            "error   ERROR: <input>:1:1: undeclared reference to 'object' (in container '')\n"
            "         | object.x\n"
            "         | ^\n",
        ),
        (
            ("ip('::1')", "--kubernetes-version", "1.28"),
            "error   ERROR: <input>:1:3: undeclared reference to 'ip' (in container '')\n"
            "         | ip('::1')\n"
            "         | ..^\n",
        ),
        (("{'a': 1}['b']",), "error   no such key: b\ncost    2\n"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str) -> None:
    assert run(capsys, *arguments) == (1, expected)


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").write_text("a: [")
    for name, text in (("missing", "No such file or directory"), ("bad", "give one object in YAML or JSON")):
        assert main(["cel", "true", "--object", str(tmp_path / name)]) == 1
        assert text in capsys.readouterr().err
