"""API servers that send audit events to a recorder's webhook over TLS: in batches, repeated, and out of order."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import orjson
import yaml

from rewound.recording.record.audit_sink import AuditSink


def settings_of(config_file: Path) -> tuple[str, str, str]:
    """Address, token and CA, as an API server reads them from the file that the sink wrote."""
    config = yaml.safe_load(config_file.read_bytes())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return cluster["server"], user["token"], base64.b64decode(cluster["certificate-authority-data"]).decode()


def client_of(
    sink: AuditSink, *, token: str | None = None, certificate: tuple[Path, Path] | None = None
) -> httpx.AsyncClient:
    """An API server that was started with the sink's file; or one with another token, or with a certificate."""
    url, written, authority = settings_of(sink.config_file)
    context = ssl.create_default_context(cadata=authority)
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # as Go does: the file may have a certificate without its CA
    if certificate is not None:
        context.load_cert_chain(*certificate)
    sent = written if token is None else token
    headers = {"authorization": f"Bearer {sent}"} if sent else {}
    return httpx.AsyncClient(base_url=url, verify=context, headers=headers, timeout=None)


def event_list(events: Iterable[dict[str, Any]], version: str = "audit.k8s.io/v1") -> bytes:
    return orjson.dumps({"kind": "EventList", "apiVersion": version, "metadata": {}, "items": list(events)})


def shuffled_batches(events: list[dict[str, Any]], random: Random, servers: int = 2) -> list[bytes]:
    """Every event is of one of the servers; each sends batches, some of them twice, in any order."""
    version = events[0]["apiVersion"]
    by_server: list[list[dict[str, Any]]] = [[] for _ in range(servers)]
    for event in events:
        by_server[random.randrange(servers)].append(event)
    found: list[bytes] = []
    for own in by_server:
        while own:
            size = random.randint(1, 30)
            part, own = own[:size], own[size:]
            found += [event_list(part, version)] * random.choice((1, 1, 2, 3))
    random.shuffle(found)
    return found
