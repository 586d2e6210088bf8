"""Writes a new kubeconfig file with one context, that only its owner can read."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import yaml

from rewound.actors.certificates.pki import write_atomically
from rewound.client.credentials import KeyPair
from rewound.client.errors import ClientError
from rewound.client.target import Target

NAME = "rewound"  # of the cluster and the context


def kubeconfig_text(target: Target, user: str, credential: dict[str, str], namespace: str = "") -> str:
    """The text of a kubeconfig file for the server of a target; `credential` is the entry of the user."""
    context = {"cluster": NAME, "user": user, **({"namespace": namespace} if namespace else {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": _cluster(target)}],
        "contexts": [{"name": NAME, "context": context}],
        "users": [{"name": user, "user": credential}],
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def with_certificate(pair: KeyPair) -> dict[str, str]:
    return {"client-certificate-data": _encoded(pair.certificate), "client-key-data": _encoded(pair.key)}


def write(path: Path, text: str, *, force: bool) -> None:
    """Write the file; `-` is standard output. An existing file is replaced only with `force`."""
    if str(path) == "-":
        sys.stdout.write(text)
        return
    if path.exists() and not force:
        raise ClientError(f"{path} exists; choose another file with --out, or replace it with --force")
    try:
        write_atomically(path, text.encode(), 0o600)
    except OSError as error:
        raise ClientError(
            f"{path}: cannot be written: {error.strerror}; choose another with --out"
        ) from error
    print(f"wrote {path}", file=sys.stderr)


def _cluster(target: Target) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": target.server}
    if target.authority is not None:
        cluster["certificate-authority-data"] = _encoded(target.authority)
    if target.insecure:
        cluster["insecure-skip-tls-verify"] = True
    if target.tls_server_name:
        cluster["tls-server-name"] = target.tls_server_name
    if target.proxy_url:
        cluster["proxy-url"] = target.proxy_url
    return cluster


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
