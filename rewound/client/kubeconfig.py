"""Finds and merges kubeconfig files, and makes a `Target` from the chosen context and the flags of a command.

Files: --kubeconfig alone, or those of KUBECONFIG (several, separated by colons; missing ones are skipped), or
./rewound-data/admin.kubeconfig, or ~/.kube/config. Merged as kubectl merges: the first file that has a cluster, a user,
a context or the current context wins. Flags take precedence over files. In a pod without any of these, the target is
the API server of its cluster, with the token of the pod's service account, as for kubectl.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rewound.actors.access.remote.kubeconfig_file import (
    Cluster,
    Context,
    Kubeconfig,
    KubeconfigError,
    User,
    read_kubeconfig,
    read_pem,
)
from rewound.actors.names import Names
from rewound.client.credentials import (
    ANONYMOUS,
    Credential,
    CredentialSource,
    FixedCredential,
    KeyPair,
    PairFiles,
    TokenFile,
    basic,
    bearer,
)
from rewound.client.errors import ConfigError
from rewound.client.target import (
    Target,
    check_pair,
    checked_url,
    with_url_credentials,
    without_credentials,
)

DATA_FOLDER_FILE = Path("rewound-data", "admin.kubeconfig")
_HINT = "name one with --kubeconfig, or the server with --server"
# Where a kubelet mounts the token of the pod's service account, with the CA and the namespace.
POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Overrides:
    """The flags of a command; empty ones override nothing."""

    kubeconfig: Path | None = None
    context: str = ""
    server: str = ""
    certificate_authority: Path | None = None
    token: str = field(default="", repr=False)
    impersonated_user: str = ""
    impersonated_groups: tuple[str, ...] = ()
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Merged:
    """Several files as one; each entry is found with the file that has it."""

    files: tuple[Kubeconfig, ...]

    @property
    def paths(self) -> str:
        return ", ".join(str(one.path) for one in self.files)

    @property
    def current_context(self) -> str:
        return next((one.current_context for one in self.files if one.current_context), "")

    def context(self, name: str) -> tuple[Path, Context]:
        for one in self.files:
            if name in one.contexts:
                return one.path, one.contexts[name]
        known = sorted({context for one in self.files for context in one.contexts})
        raise ConfigError(f"{self.paths}: there is no context {name!r}; it has {', '.join(known) or 'none'}")

    def cluster(self, context: Context, path: Path) -> tuple[Path, Cluster]:
        for one in self.files:
            if context.cluster in one.clusters:
                return one.path, one.clusters[context.cluster]
        raise self._missing(path, context, "cluster", context.cluster)

    def user(self, context: Context, path: Path) -> tuple[Path, User]:
        if not context.user:
            return path, User("")
        for one in self.files:
            if context.user in one.users:
                return one.path, one.users[context.user]
        raise self._missing(path, context, "user", context.user)

    def _missing(self, path: Path, context: Context, what: str, name: str) -> ConfigError:
        return ConfigError(
            f"{path}: contexts[{context.name}].context.{what}: there is no {what} {name!r}; add it to {what}s"
        )


def load_target(
    overrides: Overrides, environment: Mapping[str, str] = os.environ, pod_folder: Path = POD_FOLDER
) -> Target:
    try:
        merged = load_files(overrides.kubeconfig, environment, named=bool(overrides.context))
        name = overrides.context or merged.current_context
        if not name and overrides.server:
            return _from_flags(overrides)
        if not merged.files:
            if not name and environment.get("KUBERNETES_SERVICE_HOST") and _exists(pod_folder / "token"):
                return _from_pod(overrides, environment, pod_folder)
            raise ConfigError(f"there is no kubeconfig file ({_looked_at(environment)}); {_HINT}")
        if not name:
            raise ConfigError(
                f"{merged.paths}: current-context is missing; set it, or name a context with --context"
            )
        return _from_context(merged, name, overrides)
    except KubeconfigError as error:
        raise ConfigError(f"{error}; correct it, or name another file with --kubeconfig") from error


def load_files(
    explicit: Path | None, environment: Mapping[str, str] = os.environ, *, named: bool = False
) -> Merged:
    """`named`: a context is chosen by its name, so that it may be in ~/.kube/config beside a data folder."""
    if explicit is not None:
        return Merged((read_kubeconfig(explicit),))
    paths = _paths(environment, named=named)
    return Merged(tuple(read_kubeconfig(path) for path in paths if _exists(path)))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from error


def _paths(environment: Mapping[str, str], *, named: bool) -> list[Path]:
    listed = [Path(one) for one in environment.get("KUBECONFIG", "").split(os.pathsep) if one]
    if listed:
        return list(dict.fromkeys(listed))
    home = Path(environment.get("HOME", "/"), ".kube", "config")
    if named:
        return [DATA_FOLDER_FILE, home]
    return [DATA_FOLDER_FILE if _exists(DATA_FOLDER_FILE) else home]


def _looked_at(environment: Mapping[str, str]) -> str:
    if environment.get("KUBECONFIG"):
        return f"KUBECONFIG is {environment['KUBECONFIG']}"
    return f"KUBECONFIG is not set; {DATA_FOLDER_FILE} and ~/.kube/config do not exist"


def _from_flags(overrides: Overrides) -> Target:
    credentials = FixedCredential(Credential(bearer(overrides.token)) if overrides.token else ANONYMOUS)
    groups = overrides.impersonated_groups
    url = checked_url(overrides.server, "--server")
    return Target(
        server=without_credentials(url),
        credentials=with_url_credentials(url, credentials),
        configured_in="--server",
        authority=_authority_flag(overrides.certificate_authority),
        namespace=overrides.namespace or "default",
        impersonated_user=_impersonated(overrides.impersonated_user, groups, "--as-group"),
        impersonated_groups=groups,
    )


def _from_pod(overrides: Overrides, environment: Mapping[str, str], folder: Path) -> Target:
    """The API server of the cluster in which this process runs in a pod."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT") or "443"
    url = checked_url(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", "KUBERNETES_SERVICE_HOST"
    )
    authority = _authority_flag(overrides.certificate_authority)
    if authority is None and _exists(folder / "ca.crt"):
        authority = read_pem(folder, "the CA of the cluster", folder / "ca.crt")
    credentials: CredentialSource = TokenFile(folder / "token", "the service account of this pod", None)
    if overrides.token:
        credentials = FixedCredential(Credential(bearer(overrides.token)))
    groups = overrides.impersonated_groups
    return Target(
        server=url,
        credentials=credentials,
        configured_in=f"{'--token and ' if overrides.token else ''}the service account of this pod, {folder}",
        authority=authority,
        namespace=overrides.namespace or _namespace_of(folder),
        impersonated_user=_impersonated(overrides.impersonated_user, groups, "--as-group"),
        impersonated_groups=groups,
    )


def _namespace_of(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _from_context(merged: Merged, name: str, overrides: Overrides) -> Target:
    path, context = merged.context(name)
    cluster_path, cluster = merged.cluster(context, path)
    user_path, user = merged.user(context, path)
    authority = _authority(cluster_path, cluster, overrides)
    field_name = f"{cluster_path}: clusters[{cluster.name}].cluster.server"
    url = checked_url(overrides.server or cluster.server, "--server" if overrides.server else field_name)
    server = without_credentials(url)
    if overrides.server:
        # As with kubectl: another server has another name in its certificate.
        cluster = replace(cluster, tls_server_name="")
    if overrides.certificate_authority is not None:
        cluster = replace(cluster, insecure=False)
    source = _credentials(user_path, user, overrides, ClusterInfo(cluster, server, authority))
    who, groups = _impersonation(user_path, user, overrides)
    return Target(
        server=server,
        credentials=with_url_credentials(url, source),
        configured_in=f"{'--token and ' if overrides.token else ''}context {name} of {merged.paths}",
        authority=authority,
        insecure=cluster.insecure,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
        namespace=overrides.namespace or context.namespace or "default",
        impersonated_user=who,
        impersonated_groups=groups,
    )


def _credentials(path: Path, user: User, overrides: Overrides, info: ClusterInfo) -> CredentialSource:
    if overrides.token:
        # Replaces all other credentials: servers prefer a certificate to a token.
        return FixedCredential(Credential(bearer(overrides.token)))
    return credentials_of(path, user, info)


def _authority(path: Path, cluster: Cluster, overrides: Overrides) -> bytes | None:
    if overrides.certificate_authority is not None:
        return _authority_flag(overrides.certificate_authority)
    if cluster.authority is None:
        return None
    place = f"clusters[{cluster.name}].cluster"
    check_one_form(path, place, cluster.fields, "certificate-authority")
    if cluster.insecure:
        raise ConfigError(
            f"{path}: {place}: certificate-authority and insecure-skip-tls-verify exclude each other; remove one"
        )
    return read_pem(path, f"{place}.certificate-authority", cluster.authority)


def _authority_flag(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--certificate-authority: cannot read {path}: {error.strerror}; check the path"
        ) from error


def _impersonation(path: Path, user: User, overrides: Overrides) -> tuple[str, tuple[str, ...]]:
    """The user and groups to impersonate. Each flag replaces its field in the file, as with kubectl."""
    place = f"{path}: users[{user.name}].user"
    for unsupported in ("as-uid", "as-user-extra"):
        if user.fields.get(unsupported):
            raise ConfigError(
                f"{place}.{unsupported}: this client impersonates a user and groups only; remove it"
            )
    who, listed = user.fields.get("as") or "", user.fields.get("as-groups") or []
    if not isinstance(who, str):
        raise ConfigError(f"{place}.as is not a string; put it in quotes")
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise ConfigError(f"{place}.as-groups is not a list of strings")
    groups = overrides.impersonated_groups or tuple(listed)
    source = "--as-group" if overrides.impersonated_groups else f"{place}.as-groups"
    return _impersonated(overrides.impersonated_user or who, groups, source), groups


def _impersonated(user: str, groups: tuple[str, ...], field_name: str) -> str:
    if groups and not user:
        raise ConfigError(f"{field_name}: groups cannot be impersonated without a user; give one with --as")
    return user


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster, in the form for plugins with provideClusterInfo."""

    cluster: Cluster
    server: str
    authority: bytes | None

    def document(self, names: Names) -> dict[str, Any]:
        cluster = self.cluster
        found: dict[str, Any] = {"server": self.server}
        if cluster.tls_server_name:
            found["tls-server-name"] = cluster.tls_server_name
        if cluster.insecure:
            found["insecure-skip-tls-verify"] = True
        if self.authority is not None:
            found["certificate-authority-data"] = base64.b64encode(self.authority).decode()
        if cluster.proxy_url:
            found["proxy-url"] = cluster.proxy_url
        config = cluster.extensions.get(f"{names.group('client.authentication')}/exec")
        if config is not None:
            found["config"] = config
        return found


def credentials_of(path: Path, user: User, info: ClusterInfo) -> CredentialSource:
    """Make the credential source of a user in a kubeconfig file.

    If a user has several credentials, a token file takes precedence over a token, and both over a plugin or a
    provider. A certificate is presented along with any of them, and a plugin does not run for a user who has one. A
    user without any is anonymous.

    `path` is the file that has the user.
    """
    pair = _pair(path, user)
    source = _source(path, user, info, pair)
    files = [one for one in (user.certificate, user.key) if isinstance(one, Path)]
    if pair is None or not files:
        return source
    return PairFiles(source, pair, lambda: _fitting_pair(path, user), files)


def _source(path: Path, user: User, info: ClusterInfo, pair: KeyPair | None) -> CredentialSource:
    place = f"{path}: users[{user.name}].user"
    plugin, provider = _mapping(user, "exec", place), _mapping(user, "auth-provider", place)
    if plugin is not None and provider is not None:
        raise ConfigError(f"{place}: exec and auth-provider exclude each other; remove one")
    if user.username and (user.token or user.token_file):
        raise ConfigError(f"{place}: username and token exclude each other; remove one")
    if user.token_file is not None:
        return TokenFile(user.token_file, f"{place}.tokenFile", pair, user.token)
    if user.token:
        return FixedCredential(Credential(bearer(user.token), pair))
    if user.username:
        return FixedCredential(Credential(basic(user.username, user.password), pair))
    if plugin is not None:
        from rewound.client.exec import ExecPlugin, parse_exec

        config = parse_exec(plugin, f"{place}.exec", path.absolute().parent)
        if pair is None:
            return ExecPlugin(config, info.document(config.names))
    if provider is not None:
        from rewound.client.oidc import OidcTokens

        return OidcTokens(path, user.name, provider, pair)
    return FixedCredential(Credential("", pair))


def check_one_form(path: Path, place: str, fields: Mapping[str, Any], name: str) -> None:
    """Refuse a file and data at the same time, as kubectl does: they may differ."""
    if fields.get(name) and fields.get(f"{name}-data"):
        raise ConfigError(f"{path}: {place}: {name} and {name}-data exclude each other; remove one")


def _fitting_pair(path: Path, user: User) -> KeyPair:
    """Raises CredentialError if the certificate and the key do not belong together."""
    pair = _pair(path, user)
    assert pair is not None
    check_pair(pair, str(path))
    return pair


def _pair(path: Path, user: User) -> KeyPair | None:
    place = f"users[{user.name}].user"
    for name in ("client-certificate", "client-key"):
        check_one_form(path, place, user.fields, name)
    if (user.certificate is None) != (user.key is None):
        present, absent = ("client-certificate", "client-key")[:: 1 if user.key is None else -1]
        raise ConfigError(f"{path}: {place}: {present} is given without {absent}; give both or neither")
    if user.certificate is None or user.key is None:
        return None
    certificate = read_pem(path, f"{place}.client-certificate", user.certificate)
    return KeyPair(certificate, read_pem(path, f"{place}.client-key", user.key))


def _mapping(user: User, name: str, place: str) -> Mapping[str, Any] | None:
    value = user.fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{place}.{name} is not a mapping; see the documentation of kubeconfig files")
    return value
