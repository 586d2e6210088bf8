"""Runs a command of `rewound` in this process, and a fake API server of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rewound.actors.names import NAMES
from rewound.cli.main import main
from rewound.recording import progress
from tests.client.fake_server import FakeServer, fake_server
from tests.client.files import kubeconfig


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def runner(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Commands run in this folder, without the configuration of the user who runs the tests."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    # On a busy machine anything may take two seconds, after which a command says how far it is.
    monkeypatch.setattr(progress, "DELAY", 3600.0)

    def run(*arguments: object) -> Ended:
        code = main([str(one) for one in arguments])
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


def served(path: Path, dialect: str = "cluster") -> Iterator[FakeServer]:
    """A server with discovery, and a kubeconfig file with a token for it."""
    names = NAMES[dialect]
    with fake_server() as server:
        groups = [
            {"name": name, "preferredVersion": {"groupVersion": f"{name}/v1"}}
            for name in (
                "apps",
                *(names.group(one) for one in ("authentication", "authorization", "certificates")),
            )
        ]
        server.answers["GET /apis"] = (200, {"groups": groups})
        server.answers["GET /api/v1"] = (200, {"resources": [_resource("pods", "Pod", "po"), _nodes()]})
        server.answers["GET /apis/apps/v1"] = (
            200,
            {"resources": [_resource("deployments", "Deployment", "deploy")]},
        )
        kubeconfig(path, server.url, {"token": "mine"})
        yield server


def _resource(plural: str, kind: str, short: str) -> dict[str, Any]:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "kind": kind,
        "shortNames": [short],
        "namespaced": True,
    }


def _nodes() -> dict[str, Any]:
    return {**_resource("nodes", "Node", "no"), "namespaced": False}
