"""ServiceAccount: every pod runs as a service account of its namespace and gets that account's token in a volume.

Mirror pods of static pods get no service account and may reference neither one nor secrets. The service account
controller creates the account `default` shortly after the namespace; a pod created before that is admitted with it too.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.containers import CONTAINER
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.core.referenced_objects import (
    projected_sources,
    secrets_of_pod,
    variables_from_secrets,
)
from rewound.actors.kinds.core.volume_sources import FILE_MODE
from rewound.actors.kinds.validation import name_is_path_segment
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal
from rewound.journal.records import Event

PODS: Final = Resource("", "pods")
DEFAULT: Final = "default"
TOKEN_SECONDS: Final = 3607  # an hour; the extra seconds identify tokens of this volume, as in Kubernetes
# Parsed accounts are cached, because every pod needs one: this many, each of up to this many bytes of JSON.
MAX_CACHED, LARGEST_CACHED = 1024, 4096
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class Accounts:
    """Stored service accounts; the most recently used are cached, parsed, until they change."""

    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("serviceaccounts")
        self._cached: dict[tuple[str, str], Object] = {}
        feed.follow(self._committed, frozenset({self._type_id}))

    def get(self, namespace: str, name: str, *, in_thread: bool) -> Object | None:
        """Callers must not change the result. A thread caches nothing, because the account may be changing."""
        found = self._cached.get((namespace, name))
        if found is not None:
            return found
        with self._journal.read() as view:
            row = view.get(self._type_id, namespace, name)
        if row is None:
            return None
        account = decode(row.body)
        if not in_thread and len(row.body) <= LARGEST_CACHED:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            self._cached[namespace, name] = account
        return account

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self._cached.pop((event.namespace, event.name), None)


class ServiceAccount(Plugin):
    name = "ServiceAccount"
    thread_safe = True
    mutates = (rule(CREATE, of=(PODS,)),)
    validates = (rule(CREATE, of=(PODS,)), rule(UPDATE, of=(PODS,), subresources=("ephemeralcontainers",)))

    def __init__(self, names: Names, accounts: Accounts) -> None:
        self._accounts = accounts
        self._mirror = names.key("config.mirror")
        self._enforce = names.key("enforce-mountable-secrets")
        self._mount_path = f"/var/run/secrets/{names.key('serviceaccount')}"
        self._volume_prefix = f"{names.api_access}-"
        self._root_certificate = names.root_certificate

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod = request.object
        assert pod is not None
        if self._is_mirror(pod):
            _refuse_references(pod, request)
            return None
        account = self._account(pod["spec"].get("serviceAccountName") or DEFAULT, request)
        changed = self._with_account(pod, account, request)
        self._refuse_unlisted(changed, account, request)
        return changed

    def validate(self, request: AdmissionRequest) -> None:
        pod = request.object
        assert pod is not None
        if request.operation == CREATE and self._is_mirror(pod):
            _refuse_references(pod, request)
        else:
            account = self._account(pod["spec"].get("serviceAccountName", ""), request)
            self._refuse_unlisted(pod, account, request)

    def _refuse_unlisted(self, pod: Object, account: Object, request: AdmissionRequest) -> None:
        """Reject secrets that the account does not list, if its annotation enforces mountable secrets."""
        if _is_true(account["metadata"].get("annotations", {}).get(self._enforce, "")):
            why = _unlisted(pod["spec"], account, added=bool(request.subresource))
            if why:
                raise forbidden(request, why)

    def _is_mirror(self, pod: Object) -> bool:
        return self._mirror in pod["metadata"].get("annotations", {})

    def _account(self, name: str, request: AdmissionRequest) -> Object:
        if not name:
            why = f"no service account specified for pod {request.namespace}/{request.name}"
            raise forbidden(request, why)
        found = self._accounts.get(request.namespace, name, in_thread=request.in_thread)
        if found is not None:
            return found
        if name == DEFAULT:
            return {"metadata": {"name": DEFAULT}}
        wrong = name_is_path_segment(name, prefix=False)
        why = (
            f"invalid resource name {quoted_start(name)}: [{' '.join(wrong)}]"
            if wrong
            else f"serviceaccount {quoted_start(name)} not found"
        )
        where = f"{request.namespace}/{name}"
        raise forbidden(request, f"error looking up service account {where}: {why}")

    def _with_account(self, pod: Object, account: Object, request: AdmissionRequest) -> Object:
        name = account["metadata"]["name"]
        spec = {**pod["spec"], "serviceAccountName": name, "serviceAccount": name}
        wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
        if wanted:
            self._mount_token(spec, f"{request.namespace}/{request.name}")
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(one) for one in account["imagePullSecrets"]]
        return {**pod, "spec": POD_SPEC.arranged(spec)}

    def _mount_token(self, spec: Object, seed: str) -> None:
        """Mount the token in every container that has no mount at that path. Copies lists before changing them."""
        volumes = spec.get("volumes", [])
        found = next((one["name"] for one in volumes if one["name"].startswith(self._volume_prefix)), "")
        name = found or self._volume_prefix + _suffix(seed)
        mount = {"name": name, "readOnly": True, "mountPath": self._mount_path}
        needed = False
        for part in ("initContainers", "containers"):
            containers = spec.get(part)
            if not containers:
                continue
            mounted = spec[part] = [self._with_mount(one, mount) for one in containers]
            needed = needed or any(one is not was for one, was in zip(mounted, containers, strict=True))
        if needed and not found:
            spec["volumes"] = [*volumes, {"name": name, "projected": self._token_source()}]

    def _with_mount(self, container: Object, mount: Object) -> Object:
        mounts = container.get("volumeMounts", [])
        if any(one["mountPath"] == self._mount_path for one in mounts):
            return container
        return CONTAINER.arranged({**container, "volumeMounts": [*mounts, mount]})

    def _token_source(self) -> Object:
        namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
        certificate = {"key": "ca.crt", "path": "ca.crt"}
        return {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": self._root_certificate, "items": [certificate]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
            "defaultMode": FILE_MODE,
        }


def _suffix(seed: str) -> str:
    """Five letters that depend only on the pod, so that a create that is decided again gets the same."""
    number = zlib.crc32(seed.encode())
    letters = []
    for _ in range(5):
        number, index = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[index])
    return "".join(letters)


def _is_true(text: str) -> bool:
    return text in ("1", "t", "T", "TRUE", "true", "True")


def _refuse_references(pod: Object, request: AdmissionRequest) -> None:
    spec = pod["spec"]
    volumes = spec.get("volumes", ())
    if spec.get("serviceAccountName"):
        raise forbidden(request, "a mirror pod may not reference service accounts")
    if next(secrets_of_pod(spec), None) is not None:
        raise forbidden(request, "a mirror pod may not reference secrets")
    if any("serviceAccountToken" in source for one in volumes for source in projected_sources(one)):
        why = "a mirror pod may not use ServiceAccountToken volume projections"
        raise forbidden(request, why)


def _unlisted(spec: Object, account: Object, *, added: bool) -> str:
    """Why a secret of the pod is rejected because its account does not list it; "" if none is."""
    name = account["metadata"]["name"]
    listed = {one.get("name") for one in account.get("secrets", ())}
    no_secret = f"is not allowed because service account {name} does not reference that secret"
    kinds = (
        (("ephemeralContainers", "ephemeral container"),)
        if added
        else (("initContainers", "init container"), ("containers", "container"))
    )
    if not added:
        for volume in spec.get("volumes", ()):
            secret = volume.get("secret", {}).get("secretName")
            if secret is not None and secret not in listed:
                return f'volume with secret.secretName="{secret}" {no_secret}'
    for part, what in kinds:
        for container in spec.get(part) or ():
            for variable, secret in variables_from_secrets(container):
                if secret not in listed:
                    where = f"{what} {container['name']} with envVar {variable}"
                    return f'{where} referencing secret.secretName="{secret}" {no_secret}'
    return "" if added else _unlisted_pull_secret(spec, account)


def _unlisted_pull_secret(spec: Object, account: Object) -> str:
    listed = {one.get("name") for one in account.get("imagePullSecrets", ())}
    for index, reference in enumerate(spec.get("imagePullSecrets", ())):
        name = reference.get("name", "")
        if name not in listed:
            return (
                f'imagePullSecrets[{index}].name="{name}" is not allowed because service account '
                f"{account['metadata']['name']} does not reference that imagePullSecret"
            )
    return ""
