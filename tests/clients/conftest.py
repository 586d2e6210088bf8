"""Finds what `make clients` installed. A test whose client is missing is skipped, with the command that installs it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from tests.gateway.processes import ROOT

FOLDER = ROOT / ".clients"
HERE = Path(__file__).parent


@pytest.fixture
def kubectl() -> str:
    return _program("kubectl") or shutil.which("kubectl") or _skip("kubectl is not installed")


@pytest.fixture
def go_watches() -> str:
    """The program of `go/watches.go`; `make clients` keeps a copy of what it compiled beside it."""
    found = _program("watches") or _skip("the Go program is not built")
    compiled, source = Path(f"{found}.go"), HERE / "go" / "watches.go"
    if not compiled.exists() or compiled.read_text() != source.read_text():
        _skip("the Go program was built from another source")
    return found


@pytest.fixture
def go() -> str:
    toolchain = FOLDER / "toolchain" / "go" / "bin" / "go"
    found = str(toolchain) if toolchain.exists() else shutil.which("go")
    return found or _skip("Go is not installed")


@pytest.fixture
def node() -> str:
    return _program("node") or _skip("Node.js is not installed")


@pytest.fixture
def javascript_informer(node: str) -> list[str]:
    """The command that runs `javascript/informer.js` with the installed packages; it lacks its last arguments."""
    packages = FOLDER / "javascript"
    if not (packages / ".installed").exists():
        _skip("the JavaScript client is not installed")
    return [node, str(HERE / "javascript" / "informer.js"), str(packages)]


@pytest.fixture
def python_clients() -> dict[str, str]:
    """The environment in which a Python program of `python` finds the packages that it needs."""
    packages = FOLDER / "python"
    if not (packages / ".installed").exists():
        _skip("the Python client and kopf are not installed")
    return {"PYTHONPATH": str(packages), "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}


def _program(name: str) -> str | None:
    path = FOLDER / "bin" / name
    return str(path) if path.exists() else None


def _skip(reason: str) -> NoReturn:
    pytest.skip(f"{reason}: run make clients")
