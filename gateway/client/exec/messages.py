"""ExecCredential: the JSON that a plugin gets in its environment, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.access.remote.yaml_file import NotYaml, load_yaml
from actors.kinds.values.times import micros_of
from gateway.client.credentials import Credential, KeyPair, bearer
from gateway.client.errors import CredentialError
from gateway.client.exec.config import ExecConfig

KIND = "ExecCredential"


@dataclass(frozen=True, slots=True)
class Issued:
    """The credential that a plugin returned; `expires` is None where it gave no time."""

    credential: Credential
    expires: float | None


def exec_info(config: ExecConfig, cluster: Mapping[str, Any], *, interactive: bool) -> str:
    """The input of the plugin. `cluster` is passed only with provideClusterInfo."""
    spec: dict[str, Any] = {"interactive": interactive}
    if config.provide_cluster_info:
        spec["cluster"] = dict(cluster)
    return json.dumps({"apiVersion": config.api_version, "kind": KIND, "spec": spec})


def parse_output(config: ExecConfig, output: bytes) -> Issued:
    # No error quotes the output: it may contain a token.
    status = _status(config, output)
    token = _text(config, status, "token")
    certificate = _text(config, status, "clientCertificateData")
    key = _text(config, status, "clientKeyData")
    if bool(certificate) != bool(key):
        present, absent = ("certificate", "key") if certificate else ("key", "certificate")
        raise _wrong(config, f"returned a {present} without a {absent}; it must return both or neither")
    if not token and not certificate:
        raise _wrong(config, "returned neither a token nor a certificate with its key")
    if not token.isprintable() or not token.isascii():
        raise _wrong(config, "returned a token with characters that a header cannot have")
    pair = KeyPair(certificate.encode(), key.encode()) if certificate else None
    return Issued(Credential(bearer(token) if token else "", pair), _expires(config, status))


def _status(config: ExecConfig, output: bytes) -> Mapping[str, Any]:
    document = _parsed(output)
    if not isinstance(document, dict):
        raise _wrong(config, f"printed no {KIND} in JSON or YAML to standard output")
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != KIND:
        raise _wrong(config, f"returned the kind {_shown(kind)}; it must return {KIND}")
    if version != config.api_version:
        raise _wrong(
            config,
            f"returned the version {_shown(version)}, but is configured for {config.api_version}; "
            "set apiVersion to what the plugin returns",
        )
    status = document.get("status")
    if not isinstance(status, dict):
        raise _wrong(config, f"returned an {KIND} without status")
    return status


def _parsed(output: bytes) -> Any:
    """JSON, or YAML as kubectl reads it too; None for neither."""
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        if output.lstrip()[:1] in (b"{", b"["):
            return None
    try:
        return load_yaml(output)
    except NotYaml:
        return None


def _expires(config: ExecConfig, status: Mapping[str, Any]) -> float | None:
    text = _text(config, status, "expirationTimestamp")
    if not text:
        return None
    try:
        return micros_of(text) / 1e6
    except ValueError:
        raise _wrong(config, "returned an expirationTimestamp that is not an RFC 3339 time") from None


def _text(config: ExecConfig, status: Mapping[str, Any], field: str) -> str:
    value = status.get(field)
    if value is not None and not isinstance(value, str):
        raise _wrong(config, f"returned a {field} that is not a string")
    return value or ""


def _shown(value: object) -> str:
    return repr(value)[:100] if isinstance(value, str) else "(none)"


def _wrong(config: ExecConfig, what: str) -> CredentialError:
    return CredentialError(f"{config.source}: the plugin {config.command} {what}")
