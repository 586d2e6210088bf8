"""The packages use other packages by their public names only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("benchmarks", "rewound", "tests")
# Private by their names, public by their documentation.
DOCUMENTED = {"os._exit", "sys._getframe", "sys._current_frames"}
# Private attributes of other packages' objects that once served as shortcuts.
SHORTCUTS = {"_sslobj", "_core", "_abort_func", "_registered"}


# What a source has that uses one. Parsing all the others would take four seconds; one expression for all three would
# take a second, because it begins with no fixed text.
CANDIDATES = (
    re.compile(r"\._(?!_)(?<!\bself\._)(?<!\bcls\._)"),
    re.compile(r"import\b[^\n]*[ (,]_(?!_)"),
    re.compile(r"\n +_\w+(?: as \w+)?,\n"),
)


def private_names(source: str) -> Iterator[str]:
    if not any(one.search(source) for one in CANDIDATES):
        return
    nodes = list(ast.walk(ast.parse(source)))
    modules: dict[str, str] = {}  # other people's, by the names they have here
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if not _is_ours(alias.name):
                    modules[alias.asname or alias.name.partition(".")[0]] = alias.name.partition(".")[0]
                    if _is_private(alias.name):
                        yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not _is_ours(node.module):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if _is_private(name) and name not in DOCUMENTED:
                    yield name
                modules[alias.asname or alias.name] = name
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if node.attr in SHORTCUTS and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield node.attr
            elif isinstance(node.value, ast.Name) and node.value.id in modules:
                name = f"{modules[node.value.id]}.{node.attr}"
                if name not in DOCUMENTED and node.value.id.islower():
                    yield name


def _is_ours(module: str) -> bool:
    return module == "__future__" or module.partition(".")[0] in OURS


def _is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from trio._core import x", ["trio._core.x"]),
        ("import trio\ntrio._core._run.x", ["_core"]),
        ("from trio.lowlevel import _x", ["trio.lowlevel._x"]),
        ("from trio.lowlevel import (\n    x,\n    _y,\n)", ["trio.lowlevel._y"]),
        ("import _socket", ["_socket"]),
        ("import dataclasses as d\nd._FIELD", ["dataclasses._FIELD"]),
        ("stream.tls._sslobj.read()", ["_sslobj"]),
        (
            "import trio\ntrio.lowlevel.Task\nself._tls.read()\nfrom rewound.x import _y\nimport os\nos._exit(1)",
            [],
        ),
    ],
)
def test_private_names_are_found(source: str, found: list[str]) -> None:
    assert list(private_names(source)) == found


def test_other_packages_are_used_by_their_public_names() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in (ROOT / "rewound").rglob("*.py")
        if (names := list(private_names(path.read_text())))
    }
    assert not found
