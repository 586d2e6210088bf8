"""Parses files in kubeconfig format: clusters, users and contexts, for webhooks of the server and for our own client.

    kubeconfig = read_kubeconfig(path)
    selected = kubeconfig.selected()            # of current-context, or of a context by name
    selected.cluster.server, selected.user.token

Relative paths are relative to the folder of the file. Certificates and keys stay paths until `read_pem` reads them, so
that a missing file of a user that is not selected is no error. An error names the file and the field. Fields that only
one caller understands (`exec`, `auth-provider`, impersonation) are in `User.fields`, unparsed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rewound.actors.access.remote.yaml_file import NotYaml, load_yaml

Pem = bytes | Path  # the contents, or their file


class KubeconfigError(ValueError):
    """The file cannot be used; the text names it and the field."""


class Cluster(msgspec.Struct, frozen=True):
    name: str
    server: str  # a URL, with its path
    authority: Pem | None = None
    insecure: bool = False  # the certificate of the server is not verified
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: Mapping[str, Any] = msgspec.field(default_factory=dict)  # by name
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)  # the whole entry as in the file


@dataclass(frozen=True, slots=True, repr=False)
class User:
    name: str
    certificate: Pem | None = None
    key: Pem | None = None
    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)  # the whole entry as in the file


class Context(msgspec.Struct, frozen=True):
    name: str
    cluster: str
    user: str
    namespace: str = ""


class Selected(msgspec.Struct, frozen=True):
    """A context with its cluster and its user."""

    context: Context
    cluster: Cluster
    user: User


class Kubeconfig(msgspec.Struct, frozen=True):
    path: Path
    clusters: Mapping[str, Cluster]
    users: Mapping[str, User]
    contexts: Mapping[str, Context]
    current_context: str = ""

    def selected(self, context: str = "") -> Selected:
        """The named context, or the current one. Raises KubeconfigError if there is none."""
        name = context or self.current_context
        if not name:
            raise KubeconfigError(f"{self.path}: current-context is missing; name one of its contexts")
        if name not in self.contexts:
            raise KubeconfigError(f"{self.path}: there is no context {name!r}")
        chosen = self.contexts[name]
        return Selected(chosen, self._cluster(chosen), self._user(chosen))

    def _cluster(self, context: Context) -> Cluster:
        if context.cluster not in self.clusters:
            raise KubeconfigError(
                f"{self.path}: contexts[{context.name}].context.cluster: there is no cluster {context.cluster!r}"
            )
        return self.clusters[context.cluster]

    def _user(self, context: Context) -> User:
        if not context.user:
            return User("")
        if context.user not in self.users:
            raise KubeconfigError(
                f"{self.path}: contexts[{context.name}].context.user: there is no user {context.user!r}"
            )
        return self.users[context.user]


def read_kubeconfig(path: Path) -> Kubeconfig:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_kubeconfig(raw, path)


def parse_kubeconfig(raw: bytes, path: Path) -> Kubeconfig:
    """`path` is where the file is: errors name it, and relative paths start from its folder."""
    document = _load(raw, path)
    if document.get("kind", "Config") != "Config" or document.get("apiVersion", "v1") != "v1":
        raise KubeconfigError(f"{path}: is not a kubeconfig: kind must be Config and apiVersion v1")
    top = _Fields(path, "", document)
    return Kubeconfig(
        path,
        {name: _cluster(name, entry) for name, entry in top.named("clusters", "cluster")},
        {name: _user(name, entry) for name, entry in top.named("users", "user")},
        {name: _context(name, entry) for name, entry in top.named("contexts", "context")},
        top.text("current-context"),
    )


def read_pem(path: Path, field_name: str, pem: Pem) -> bytes:
    """The contents of a certificate, a key or a CA; `path` is the kubeconfig that names it."""
    if isinstance(pem, bytes):
        return pem
    try:
        return pem.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{path}: {field_name}: cannot read {pem}: {error.strerror}") from None


def _load(raw: bytes, path: Path) -> Mapping[str, Any]:
    try:
        document = load_yaml(raw)
    except NotYaml as error:
        raise KubeconfigError(f"{path}: {error}") from None
    if document is None:
        return {}  # as for kubectl, an empty file such as /dev/null has no entries
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: is not a kubeconfig: it must be a mapping with clusters and contexts")
    return document


class _Fields(msgspec.Struct, frozen=True):
    """One mapping of the file, with its position for errors."""

    path: Path
    place: str
    values: Mapping[str, Any]

    def error(self, name: str, why: str) -> KubeconfigError:
        return KubeconfigError(f"{self.path}: {self.place}{name}: {why}")

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, "must be a string")
        return value

    def flag(self, name: str) -> bool:
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def file(self, name: str) -> Path | None:
        value = self.text(name)
        return self.path.parent / value if value else None

    def pem(self, name: str) -> Pem | None:
        """The field `<name>-data` in base64, or the file that `<name>` names; data takes precedence."""
        data = self.text(f"{name}-data")
        if not data:
            return self.file(name)
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(f"{name}-data", "is not base64") from None

    def named(self, name: str, inner: str) -> list[tuple[str, _Fields]]:
        """A list of `{name, <inner>: {...}}` with unique names."""
        entries = self.values.get(name) or []
        if not isinstance(entries, list):
            raise self.error(name, "must be a list")
        found: dict[str, _Fields] = {}
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise self.error(f"{name}[{index}].name", "is missing")
            place = f"{name}[{entry['name']}].{inner}"
            value = entry.get(inner)
            if value is None:
                value = {}
            if not isinstance(value, dict):
                raise self.error(place, "must be a mapping")
            if entry["name"] in found:
                raise self.error(f"{name}[{entry['name']}]", "occurs twice")
            found[entry["name"]] = _Fields(self.path, f"{place}.", value)
        return list(found.items())


def _cluster(name: str, entry: _Fields) -> Cluster:
    extensions = entry.values.get("extensions") or []
    if not isinstance(extensions, list) or not all(isinstance(one, dict) for one in extensions):
        raise entry.error("extensions", "must be a list of mappings with name and extension")
    return Cluster(
        name,
        entry.text("server"),
        entry.pem("certificate-authority"),
        entry.flag("insecure-skip-tls-verify"),
        entry.text("tls-server-name"),
        entry.text("proxy-url"),
        {str(one.get("name", "")): one.get("extension") for one in extensions},
        entry.values,
    )


def _user(name: str, entry: _Fields) -> User:
    return User(
        name,
        entry.pem("client-certificate"),
        entry.pem("client-key"),
        entry.text("token"),
        entry.file("tokenFile"),
        entry.text("username"),
        entry.text("password"),
        entry.values,
    )


def _context(name: str, entry: _Fields) -> Context:
    return Context(name, entry.text("cluster"), entry.text("user"), entry.text("namespace"))
