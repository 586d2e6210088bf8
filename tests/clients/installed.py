"""Finds what `make clients` installed. A test whose client is missing is skipped, with the command that installs it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.gateway.processes import ROOT

FOLDER = ROOT / ".clients"
HERE = Path(__file__).parent


def kubectl() -> str:
    found = _program("kubectl") or shutil.which("kubectl")
    return found or _skip("kubectl is not installed")


def go_watches() -> str:
    found = _program("watches")
    if found is None:
        return _skip("the Go program is not built")
    if Path(found).stat().st_mtime < (HERE / "go" / "watches.go").stat().st_mtime:
        return _skip("the Go program is older than its source")
    return found


def node() -> str:
    return _program("node") or _skip("Node.js is not installed")


def javascript_client() -> Path:
    """The folder with the installed npm packages."""
    stamp = FOLDER / "javascript" / ".installed"
    if not stamp.exists():
        _skip("the JavaScript client is not installed")
    return stamp.parent


def _program(name: str) -> str | None:
    path = FOLDER / "bin" / name
    return str(path) if path.exists() else None


def _skip(reason: str) -> str:
    pytest.skip(f"{reason}: run make clients")
