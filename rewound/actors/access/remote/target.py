"""The target of webhook calls, from a kubeconfig file: URL, TLS, credentials.

`read_target` reads everything at server start, so that a wrong file, a missing certificate or a key that does not match
stops the start with an error that names the file and the field. `follow_target` reads it again when one of the files
changes; whoever calls the webhook reads a token file now and then.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rewound.actors.access.remote.address import cleaned_url
from rewound.actors.access.remote.kubeconfig_file import (
    Cluster,
    KubeconfigError,
    Pem,
    Selected,
    User,
    read_kubeconfig,
    read_pem,
)
from rewound.actors.certificates.trust import InvalidBundle, unverifying, verifying
from rewound.actors.runtime.followed_file import FollowedFiles

ANONYMOUS: Final = User("")


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    url: str  # to call
    display_url: str  # the URL without query and credentials, for errors and logs
    tls: ssl.SSLContext
    server_name: str = ""  # in the certificate, if it is not the host of the URL
    proxy_url: str = ""
    user: User = ANONYMOUS
    host: str = ""  # by which the webhook is known, with the port, if the URL has another one
    files: tuple[Path, ...] = ()  # that the kubeconfig names, without a token file


def read_target(path: Path) -> Target:
    """Read the target of a kubeconfig file. Raises KubeconfigError for anything that cannot work."""
    return target_of(path, read_kubeconfig(path).selected())


def target_of(path: Path, selected: Selected) -> Target:
    cluster, user = selected.cluster, selected.user
    field = f"clusters[{cluster.name}].cluster"
    url = urlsplit(cluster.server)
    if url.scheme != "https" or not url.hostname:
        raise KubeconfigError(f"{path}: {field}.server: must be a URL that begins with https://")
    if user.fields.keys() & {"exec", "auth-provider"}:
        raise KubeconfigError(
            f"{path}: users[{user.name}].user: exec and auth-provider are not for webhooks; "
            "give a certificate, a token or a tokenFile"
        )
    if cluster.proxy_url and urlsplit(cluster.proxy_url).scheme not in ("http", "https"):
        raise KubeconfigError(f"{path}: {field}.proxy-url: must begin with http:// or https://")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return Target(
        cleaned_url(cluster.server),
        f"https://{host}{f':{url.port}' if url.port else ''}{url.path}",
        _tls(path, cluster, user),
        cluster.tls_server_name,
        cluster.proxy_url,
        user,
        files=tuple(one for one in (cluster.authority, user.certificate, user.key) if isinstance(one, Path)),
    )


def follow_target(flag: str, path: Path, first: Target, replace: Callable[[Target], None]) -> FollowedFiles:
    """Follow a kubeconfig file and the files that it names, and call `replace` with the target that they describe."""
    paths = [path, *first.files]

    def read(_: Sequence[bytes]) -> Callable[[], None]:
        return partial(put_in_force, read_target(path))

    def put_in_force(target: Target) -> None:
        paths[:] = [path, *target.files]
        replace(target)

    return FollowedFiles(flag, paths, read)


def _tls(path: Path, cluster: Cluster, user: User) -> ssl.SSLContext:
    field = f"clusters[{cluster.name}].cluster"
    if cluster.insecure and cluster.authority is not None:
        raise KubeconfigError(
            f"{path}: {field}.insecure-skip-tls-verify: cannot be used with a certificate-authority"
        )
    if cluster.insecure:
        context = unverifying()
    elif cluster.authority is None:
        context = verifying(None)
    else:
        context = _trusting(path, f"{field}.certificate-authority", cluster.authority)
    identify(context, path, user)
    return context


def _trusting(path: Path, field: str, authority: Pem) -> ssl.SSLContext:
    try:
        return verifying(read_pem(path, field, authority))
    except InvalidBundle:
        raise KubeconfigError(f"{path}: {field}: has no certificates in PEM") from None


def identify(context: ssl.SSLContext, path: Path, user: User) -> None:
    """Load the client certificate of a user; `path` is the kubeconfig."""
    field = f"users[{user.name}].user"
    if user.certificate is None and user.key is None:
        return
    if user.certificate is None or user.key is None:
        missing = "client-certificate" if user.certificate is None else "client-key"
        raise KubeconfigError(f"{path}: {field}.{missing}: is missing; certificate and key belong together")
    certificate = read_pem(path, f"{field}.client-certificate", user.certificate)
    key = read_pem(path, f"{field}.client-key", user.key)
    try:
        with _private_file(certificate + b"\n" + key) as pair:
            context.load_cert_chain(pair, password=_no_password)
    except (ssl.SSLError, ValueError):
        raise KubeconfigError(
            f"{path}: {field}.client-key: certificate and key are not in PEM, or do not fit each other"
        ) from None


def _no_password() -> str:
    """Called for an encrypted key: a server has no terminal for a password."""
    raise ValueError


@contextmanager
def _private_file(contents: bytes) -> Iterator[str]:
    """A file that only this process reads, because `ssl` loads keys only from files."""
    descriptor, name = tempfile.mkstemp()
    try:
        with open(descriptor, "wb") as file:
            file.write(contents)
        yield name
    finally:
        os.unlink(name)
