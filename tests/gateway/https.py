"""HTTPS for tests: a server with certificates, which all tests share, and clients with or without certificates.

Generating certificates takes a separate process; a server whose data folder has them starts at once.
"""

from __future__ import annotations

import base64
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.actors.certificates.shared_folder import own_certificates
from tests.actors.object_store import memory_folder
from tests.gateway.api import ON_ETCD, Api, served
from tests.gateway.initial_data import SECURE_PORT, initial_data_for


def certificates(dialect: str) -> Path:
    """A folder with certificates to copy into a data folder."""
    return own_certificates(dialect).folder


@asynccontextmanager
async def served_securely(**changed: Any) -> AsyncIterator[Api]:
    """Run a server on both ports with a data folder that already has certificates."""
    if initial_data_for(changed) and not ON_ETCD:
        async with served(secure_port=SECURE_PORT, **changed) as api:
            yield api
        return
    with memory_folder() as folder:
        shutil.copytree(certificates(changed.get("dialect", "cluster")), folder / "data" / "pki")
        async with served(folder, secure_port=SECURE_PORT, **changed) as api:
            yield api


def trusting(authority: Path | bytes) -> ssl.SSLContext:
    data = authority.read_bytes() if isinstance(authority, Path) else authority
    return ssl.create_default_context(cadata=data.decode())


def secure_client(api: Api, context: ssl.SSLContext, **more: Any) -> httpx.AsyncClient:
    assert api.addresses.secure is not None
    return httpx.AsyncClient(base_url=f"https://127.0.0.1:{api.addresses.secure[1]}", verify=context, **more)


class Kubeconfig:
    """The server, certificates and key from admin.kubeconfig."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        document = yaml.safe_load(self.text)
        context = _named(document["contexts"], document["current-context"])["context"]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"]
        self.server = cluster["server"]
        self.authority = base64.b64decode(cluster["certificate-authority-data"])
        self.certificate = base64.b64decode(user["client-certificate-data"])
        self.key = base64.b64decode(user["client-key-data"])

    def context(self, folder: Path) -> ssl.SSLContext:
        context = trusting(self.authority)
        pair = folder / "pair.pem"
        pair.write_bytes(self.certificate + self.key)
        context.load_cert_chain(pair)
        return context


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
