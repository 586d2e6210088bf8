"""Kubeconfig files and credential plugins (small shell scripts) for tests."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import yaml

from tests.client import pki

CLUSTER_V1 = "client.authentication.cluster.io/v1"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(path: Path, url: str, user: dict[str, Any], **cluster: Any) -> Path:
    """One context, whose user has these fields."""
    known = {"server": url, "certificate-authority-data": encoded(pki.authority().pem), **cluster}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "here", "cluster": known}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "main", "context": {"cluster": "here", "user": "me", "namespace": "team"}}],
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def credential(api_version: str = CLUSTER_V1, **status: Any) -> str:
    """What a plugin prints."""
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})


def plugin(folder: Path, *outputs: str) -> Path:
    """A plugin that counts its runs in `runs`, keeps its input in `input`, and prints one output after another."""
    for number, output in enumerate(outputs, 1):
        (folder / f"output{number}").write_text(output)
    text = (
        f"cd {folder}\necho run >>runs\n"
        'echo "$CLUSTER_EXEC_INFO" >input\n'
        f"number=$(wc -l <runs)\n[ $number -gt {len(outputs)} ] && number={len(outputs)}\n"
        "cat output$((number))"
    )
    return script(folder / "plugin", text)


def runs(folder: Path) -> int:
    path = folder / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0
