"""Applies manifests to a cluster: what others depend on first, and custom objects when their kinds are served."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from rewound.client.errors import ClientError, Failure, StatusError
from rewound.client.session import Session
from rewound.client.target import segment
from rewound.recording.manifests import Item, Manifests

MANAGER: Final = "rewound-up"
_DEFINITION: Final = "CustomResourceDefinition"
# Kinds in the order in which they are applied; all others come before the last ones, which affect later writes.
_FIRST: Final = (
    *(
        "Namespace",
        _DEFINITION,
        "PriorityClass",
        "StorageClass",
        "RuntimeClass",
        "IngressClass",
        "ServiceAccount",
    ),
    *("Secret", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "LimitRange"),
    *("PersistentVolume", "PersistentVolumeClaim", "Service"),
)
_LAST: Final = (
    *(
        "ResourceQuota",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
    ),
    *("MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    "APIService",
)
_WAIT_SECONDS: Final = 60.0  # until a custom kind is served, or a namespace has its service account
_POLL_SECONDS: Final = 0.05


def load(session: Session, paths: Iterable[Path]) -> tuple[int, list[str]]:
    """Apply all objects; returns how many, and which files were left out. Raises Failure that names the document."""
    manifests = Manifests()
    try:
        items = manifests.read(paths)
    except Failure as error:
        raise Failure(str(error).replace("--file:", "--load:", 1)) from error
    loading = Loading(session)
    for item in sorted(items, key=_rank):
        try:
            loading.apply(item.document)
        except (ClientError, Failure) as error:
            raise Failure(f"--load: {_named(item)}: {error}") from error
    return len(items), list(manifests.left_out.values())


def _rank(item: Item) -> int:
    kind = item.document["kind"]
    if kind in _LAST:
        return len(_FIRST) + 1 + _LAST.index(kind)
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _named(item: Item) -> str:
    metadata = item.document.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return f"{item.where}, document {item.number} ({item.document['kind']} {name})"


class Loading:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._resources: dict[
            tuple[str, str], tuple[str, bool]
        ] = {}  # apiVersion and kind -> plural, namespaced

    def apply(self, document: dict[str, Any]) -> None:
        metadata = document.get("metadata")
        if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
            raise Failure("metadata.name is missing")
        path = self._path(document, metadata)
        if metadata.get("name"):
            target = f"{path}/{segment(str(metadata['name']))}"
            self._retried(lambda: self._session.apply(target, document, MANAGER))
        else:
            self._retried(lambda: self._session.post(path, document))
        if document["kind"] == _DEFINITION:
            self._await_served(document)

    def _path(self, document: dict[str, Any], metadata: dict[str, Any]) -> str:
        version = document["apiVersion"]
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural, namespaced = self._resource(prefix, version, document["kind"])
        if not namespaced:
            return f"{prefix}/{plural}"
        return f"{prefix}/namespaces/{segment(str(metadata.get('namespace') or 'default'))}/{plural}"

    def _resource(self, prefix: str, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._resources:
            try:
                listed = self._session.get(prefix).get("resources", ())
            except StatusError as error:
                if error.code != 404:
                    raise
                listed = ()
            for one in listed:
                if "/" not in one["name"]:
                    self._resources[version, one["kind"]] = one["name"], bool(one["namespaced"])
        found = self._resources.get((version, kind))
        if found is None:
            raise Failure(
                f"the server has no kind {kind} in {version}; add its definition, or correct the manifest"
            )
        return found

    def _retried(self, write: Callable[[], object]) -> None:
        """Write; once more while the service account of a new namespace is missing, which a controller creates."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                write()
                return
            except StatusError as error:
                missing = error.code == 403 and "service account" in str(error).replace(
                    "serviceaccount", "service account"
                )
                if not missing or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_SECONDS)

    def _await_served(self, definition: dict[str, Any]) -> None:
        """Wait until the kind of a definition is served in every version that it says."""
        path = f"/apis/{definition['apiVersion']}/customresourcedefinitions/{definition['metadata']['name']}"
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            stored = self._session.get(path)
            conditions = {one["type"]: one for one in (stored.get("status") or {}).get("conditions") or ()}
            accepted = conditions.get("NamesAccepted", {})
            if accepted.get("status") == "False":
                raise Failure(f"its names are not accepted: {accepted.get('message')}")
            if conditions.get("Established", {}).get("status") == "True" and self._is_served(stored["spec"]):
                return
            if time.monotonic() > deadline:
                raise Failure(f"is not established after {_WAIT_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _is_served(self, spec: dict[str, Any]) -> bool:
        versions = [f"{spec['group']}/{one['name']}" for one in spec["versions"] if one["served"]]
        try:
            for version in versions:
                self._resource(f"/apis/{version}", version, spec["names"]["kind"])
        except Failure:
            return False
        return True
