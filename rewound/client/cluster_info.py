"""Fetches and verifies cluster-info: the kubeconfig with address and CA of a cluster, signed with a bootstrap token.

A client that knows the token verifies with it which CA to trust. The signature is a detached JWS:
`<header>..<signature>`, with the payload left out. Only HS256 is accepted: an algorithm that the
sender chooses would let it choose `none`. The key is the whole token or its secret alone, by the rule
`cluster-info-key` of the server, which a client does not know: either proves that the signer knows the secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewound.actors.access.bootstrap_token import parse_token
from rewound.actors.access.remote.kubeconfig_file import Cluster, KubeconfigError, parse_kubeconfig
from rewound.actors.names import NAMES
from rewound.client.credentials import ANONYMOUS, FixedCredential
from rewound.client.errors import ClientError, StatusError
from rewound.client.session import Session
from rewound.client.target import Target, with_url_credentials, without_credentials

NAME = "cluster-info"
_ALGORITHM = "HS256"


def fetch(server: str, authority: bytes | None) -> Mapping[str, Any]:
    """The data of cluster-info, read anonymously. Without an authority the server is not verified."""
    source = with_url_credentials(server, FixedCredential(ANONYMOUS))
    server = without_credentials(server)
    target = Target(server, source, "--server", authority=authority, insecure=authority is None)
    refusal: StatusError | None = None
    with Session(target) as session:
        # The dialect is not known yet: anonymous callers may not read discovery.
        for names in NAMES.values():
            try:
                found = session.get(f"/api/v1/namespaces/{names.public_namespace}/configmaps/{NAME}")
            except StatusError as error:
                # For the namespace of the other dialect a server returns 403: any other error is about the right one.
                if refusal is None or refusal.code == 403 != error.code:
                    refusal = error
            else:
                return _data(found, server)
    raise ClientError(
        f"{server} does not show {NAME} to anonymous callers: {refusal}; create the ConfigMap in the namespace "
        "cluster-public (kube-public in the kubernetes dialect) and allow system:unauthenticated to get it, or pass "
        "it with --file"
    )


def parse_file(path: Path) -> Mapping[str, Any]:
    """The data of the ConfigMap in a file, JSON or YAML."""
    import yaml

    try:
        document = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ClientError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ClientError(f"{path}: is neither YAML nor JSON; save the ConfigMap {NAME} in it") from error
    return _data(document, str(path))


def verified_kubeconfig(data: Mapping[str, Any], token: str) -> str:
    """The kubeconfig of cluster-info if the token has signed it; ClientError otherwise."""
    parsed = parse_token(token.encode())
    if parsed is None:
        raise ClientError("the bootstrap token does not have the form <id>.<secret>: 6 and 16 of a-z and 0-9")
    token_id, secret = parsed
    signature = data.get(f"jws-kubeconfig-{token_id}")
    if not isinstance(signature, str):
        raise ClientError(
            f"{NAME} has no signature of the token {token_id}; it may have expired, or may not be used for signing"
        )
    content = str(data["kubeconfig"])
    _check(content, signature, token_id, (token, secret))
    return content


def cluster_of(content: str) -> Cluster:
    """The one cluster of a verified kubeconfig, with its CA."""
    try:
        clusters = parse_kubeconfig(content.encode(), Path(NAME)).clusters
    except KubeconfigError as error:
        raise ClientError(str(error)) from error
    found = next(iter(clusters.values()), None)
    if len(clusters) != 1 or found is None or not isinstance(found.authority, bytes) or not found.server:
        raise ClientError(
            f"{NAME}: kubeconfig must have one cluster with server and certificate-authority-data; correct it"
        )
    return found


def _data(document: Any, source: str) -> Mapping[str, Any]:
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("kubeconfig"), str):
        raise ClientError(f"{source}: {NAME} has no data.kubeconfig; correct the ConfigMap")
    return data


def _check(content: str, signature: str, token_id: str, keys: tuple[str, ...]) -> None:
    parts = signature.split(".")
    header = _header(parts[0])
    if len(parts) != 3 or parts[1] or header is None:
        raise ClientError(
            f"{NAME}: the signature of the token {token_id} is not a detached JWS; do not trust it"
        )
    if header.get("alg") != _ALGORITHM:
        raise ClientError(
            f"{NAME}: the signature has the algorithm {str(header.get('alg'))[:20]!r}, only {_ALGORITHM} is accepted; "
            "do not trust it"
        )
    if header.get("kid", token_id) != token_id or "crit" in header:
        raise ClientError(f"{NAME}: the signature is not one of the token {token_id}; do not trust it")
    signed = f"{parts[0]}.{_encoded(content.encode())}".encode()
    expected = (_encoded(hmac.digest(key.encode(), signed, hashlib.sha256)) for key in keys)
    if not any(hmac.compare_digest(one.encode(), parts[2].encode()) for one in expected):
        raise ClientError(
            f"{NAME}: the signature does not fit: the kubeconfig was changed, or the token is another; do not trust it"
        )


def _header(text: str) -> Mapping[str, Any] | None:
    try:
        header = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        return None
    return header if isinstance(header, dict) else None


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
