"""The controllers of service accounts: they create what a pod needs to run as one and to verify this server.

`ServiceAccountController` creates the account `default` in every namespace, `TokenSecretController` fills Secrets with
tokens of accounts, `RootCertificatePublisher` maintains a ConfigMap with the CA certificate of this server,
`LegacyTokenTracking` one that says since when the use of such Secrets is tracked. `LegacyTokenUse` labels those that
are used, and `LegacyTokenCleaner` deletes generated ones that nobody uses.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from rewound.actors.access.accounts.claims import Reference
from rewound.actors.access.accounts.tokens import AccountTokens, TokenIssuer
from rewound.actors.certificates.pki import CertificateError
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import Page, each_stored, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import AlreadyExists, Conflict, NotFound, RequestError
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.core.referenced_objects import secrets_of_pod
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.selectors.facts import field_bytes, unpack_uids
from rewound.actors.store.document import decode, is_being_deleted
from rewound.journal.records import Event, Row
from rewound.journal.view import View

DEFAULT = "default"


class ServiceAccountController:
    """The service account controller: creates a service account named `default` in every active namespace.

    Pods that name no service account run as this one. The controller creates it with the namespace and again when it is
    deleted, but not in a terminating namespace, where admission would reject it.
    """

    name = "service account controller"

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._namespaces = context.journal.type_id("namespaces")
        self._accounts = context.journal.type_id("serviceaccounts")
        self.observed_types = frozenset({self._namespaces, self._accounts})
        self._definition = context.registry.current.storage("serviceaccounts")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "service-account-controller"
        )
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._namespaces:
                if not event.previous:
                    self.queue.add(event.name)
            elif event.type_id == self._accounts and event.removed and event.name == DEFAULT:
                self.queue.add(event.namespace)

    async def catch_up(self) -> None:
        await take_pages(self._journal, self._namespaces, "", self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, row in page:
            if view.get(self._accounts, name, DEFAULT) is None and not is_being_deleted(row.body):
                self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        if not self._needs_account(key):
            return
        new = self._definition.schema.decode_object({"metadata": {"name": DEFAULT}}).object
        try:
            await self._client.create(self._definition, key, new)
        except AlreadyExists:
            return

    def _needs_account(self, namespace: str) -> bool:
        with self._journal.read() as view:
            row = view.get(self._namespaces, "", namespace)
            if row is None or is_being_deleted(row.body):
                return False
            return view.get(self._accounts, namespace, DEFAULT) is None


class LegacyTokenTracking:
    """Maintains the ConfigMap that says since when the use of tokens in Secrets is tracked.

    It is created again half an hour after a client has deleted it.
    """

    name = "legacy token tracking controller"

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._clock = context.journal, context.clock
        self._key = _tracking_key(context.names)
        self._config_maps = context.journal.type_id("configmaps")
        self.observed_types = frozenset({self._config_maps})
        self._definition = context.registry.current.storage("configmaps")
        self._client = Client(
            context.directory, context.write_contexts, SERVER_USER, context.names.server_manager
        )
        self._created = -_RECREATION  # microseconds since 1970
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._config_maps and (event.namespace, event.name) == self._key:
                self.queue.add("")

    async def catch_up(self) -> None:
        self.queue.add("")

    async def reconcile(self, key: str) -> None:
        namespace, name = self._key
        with self._journal.read() as view:
            row = view.get(self._config_maps, namespace, name)
        now = self._clock.now()
        today = seconds_text(now)[:10]
        if row is None and now < self._created + _RECREATION:
            self.queue.add_after(key, (self._created + _RECREATION - now) / 1_000_000)
            return
        if row is None:
            await self._create(namespace, name, today)
            self._created = now
        elif not _IS_DATE((stored := decode(row.body)).get("data", {}).get("since", "")):
            changed = {**stored, "data": {**stored.get("data", {}), "since": today}}
            with suppress(Conflict, NotFound):  # an event adds the key again
                await self._client.replace(self._definition, changed)

    async def _create(self, namespace: str, name: str, today: str) -> None:
        new = {"metadata": {"name": name}, "data": {"since": today}}
        decoded = self._definition.schema.decode_object(new).object
        try:
            await self._client.create(self._definition, namespace, decoded)
        except AlreadyExists:
            return
        except NotFound:  # the namespace: on etcd, controllers may start before the initial objects are there
            raise RetryLater from None


def _tracking_key(names: Names) -> tuple[str, str]:
    """Namespace and name of the ConfigMap of `LegacyTokenTracking`."""
    return names.system_namespace, f"{names.server_manager}-legacy-service-account-token-tracking"


class LegacyTokenUse:
    """Labels a Secret with the day on which its token was last used; `AccountTokens` reports the first use of a day.

    Every process that authenticates requests runs one.
    """

    name = "legacy token use"
    observed_types: frozenset[int] = frozenset()

    def __init__(
        self, context: ControllerContext, write_contexts: WriteContexts, tokens: AccountTokens
    ) -> None:
        self._journal, self._clock, self._label = context.journal, context.clock, tokens.last_used_label
        self._secrets = context.journal.type_id("secrets")
        self._definition = context.registry.current.storage("secrets")
        self._client = Client(context.directory, write_contexts, SERVER_USER, context.names.server_manager)
        self.queue: WorkQueue[tuple[str, str]] = WorkQueue()
        tokens.used = lambda secret: self.queue.add((secret.namespace, secret.name))

    def observe(self, events: Sequence[Event]) -> None:
        """Nothing: uses are reported, not stored."""

    async def catch_up(self) -> None:
        """Nothing: the next request reports its token again."""

    async def reconcile(self, key: tuple[str, str]) -> None:
        with self._journal.read() as view:
            row = view.get(self._secrets, *key)
        if row is None:
            return
        labels = {self._label: seconds_text(self._clock.now())[:10]}
        patch = {"metadata": {"uid": unpack_uids(row.facts)[0], "labels": labels}}
        try:
            await self._client.patch(self._definition, *key, patch)
        except (NotFound, Conflict):
            return  # gone, or another Secret of this name


class LegacyTokenCleaner:
    """Marks generated token Secrets invalid that nobody has used for a year, and deletes them after another year.

    A Secret counts as generated if its account lists it. Those that a pod mounts stay, and all stay until their use has
    been tracked for a year. It looks once a day.
    """

    name = "legacy service account token cleaner"
    observed_types: frozenset[int] = frozenset()

    def __init__(self, context: ControllerContext) -> None:
        names = context.names
        self._journal, self._clock = context.journal, context.clock
        self._tracking = _tracking_key(names)
        plurals = ("configmaps", "secrets", "serviceaccounts", "pods")
        self._config_maps, self._secrets, self._accounts, self._pods = map(context.journal.type_id, plurals)
        self._definition = context.registry.current.storage("secrets")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, names, "legacy-service-account-token-cleaner"
        )
        self._type = names.key("service-account-token")
        self._name_key, self._uid_key = names.key("service-account.name"), names.key("service-account.uid")
        self._last_used = names.key("legacy-token-last-used")
        self._invalid_since = names.key("legacy-token-invalid-since")
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        """Nothing: it reads all Secrets once a day."""

    async def catch_up(self) -> None:
        self.queue.add("")

    async def reconcile(self, key: str) -> None:
        self.queue.add_after(key, _DAY)
        now = datetime.fromtimestamp(self._clock.now() // 1_000_000, UTC)
        before = now - _UNUSED
        tracked = self._tracked_since()
        if tracked is None or before < tracked + timedelta(days=1):
            return
        mounted: dict[str, frozenset[str]] = {}
        async with aclosing(each_stored(self._journal, self._secrets, None)) as stored:
            async for secret in stored:
                if self._is_unused(secret, before) and not await self._is_mounted(secret, mounted):
                    await self._clean(secret, now, before)

    def _tracked_since(self) -> datetime | None:
        with self._journal.read() as view:
            row = view.get(self._config_maps, *self._tracking)
        since = "" if row is None else decode(row.body).get("data", {}).get("since", "")
        return datetime.fromisoformat(f"{since}T00:00:00+00:00") if _IS_DATE(since) else None

    def _is_unused(self, secret: Object, before: datetime) -> bool:
        metadata = secret["metadata"]
        if secret.get("type") != self._type or "deletionTimestamp" in metadata:
            return False
        if metadata["creationTimestamp"] >= f"{before:%Y-%m-%dT%H:%M:%SZ}":
            return False
        last_used = (metadata.get("labels") or {}).get(self._last_used)
        if last_used is not None and not (_IS_DATE(last_used) and last_used < f"{before:%Y-%m-%d}"):
            return False
        return self._is_listed(metadata)

    def _is_listed(self, metadata: Object) -> bool:
        annotations = metadata.get("annotations") or {}
        with self._journal.read() as view:
            row = view.get(self._accounts, metadata["namespace"], annotations.get(self._name_key, ""))
        if row is None or annotations.get(self._uid_key, "") not in ("", unpack_uids(row.facts)[0]):
            return False
        return any(one.get("name") == metadata["name"] for one in decode(row.body).get("secrets") or ())

    async def _is_mounted(self, secret: Object, mounted: dict[str, frozenset[str]]) -> bool:
        """Whether a pod refers to the Secret; `mounted` remembers the Secrets of pods by namespace."""
        namespace = secret["metadata"]["namespace"]
        if namespace not in mounted:
            found: set[str] = set()
            async with aclosing(each_stored(self._journal, self._pods, namespace)) as pods:
                async for pod in pods:
                    found.update(secrets_of_pod(pod["spec"]))
            mounted[namespace] = frozenset(found)
        return secret["metadata"]["name"] in mounted[namespace]

    async def _clean(self, secret: Object, now: datetime, before: datetime) -> None:
        metadata = secret["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        since = (metadata.get("labels") or {}).get(self._invalid_since, "")
        try:
            if not _IS_DATE(since):
                labels = {self._invalid_since: f"{now:%Y-%m-%d}"}
                patch = {"metadata": {"uid": metadata["uid"], "labels": labels}}
                await self._client.patch(self._definition, namespace, name, patch)
            elif since < f"{before:%Y-%m-%d}":
                version = DeleteOptions(resource_version=metadata["resourceVersion"])
                await self._client.delete(self._definition, namespace, name, version)
        except RequestError as refused:
            if not isinstance(refused, Conflict | NotFound):
                logger.warning("%s/%s: %s", namespace, name, refused)


_UNUSED = timedelta(days=365)  # before a Secret is marked invalid, and again before it is deleted
_DAY = 86400.0  # seconds
_RECREATION = 1800 * 1_000_000  # microseconds: servers of two versions must not fight over it
_IS_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])").fullmatch
logger = logging.getLogger(__name__)

SECRET, ACCOUNT, REFERENCE = "secret", "account", "reference"
Key = tuple[
    str, str, str, str
]  # what to reconcile, namespace, name, and for a reference the name of the Secret


class TokenSecretController:
    """The token controller: fills Secrets of the service account token type, and deletes those without an account.

    Such a Secret names its account in an annotation. It gets the account's uid, a token that does not expire, the
    namespace and the CA certificate of this server; keys that a client emptied are filled again. The Secret is deleted
    if its account does not exist or has another uid. When it is gone, its name is removed from the account's list of
    secrets.
    """

    name = "service account token controller"

    def __init__(self, context: ControllerContext, issuer: TokenIssuer) -> None:
        self._journal = context.journal
        self._authorities = context.authorities
        self._issuer = issuer
        self._secrets = context.journal.type_id("secrets")
        self._accounts = context.journal.type_id("serviceaccounts")
        self.observed_types = frozenset({self._secrets, self._accounts})
        self._secret_kind = context.registry.current.storage("secrets")
        self._account_kind = context.registry.current.storage("serviceaccounts")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "tokens-controller"
        )
        self._is_token = field_bytes("type", context.names.key("service-account-token"))
        self._name_key = context.names.key("service-account.name")
        self._uid_key = context.names.key("service-account.uid")
        self.queue: WorkQueue[Key] = WorkQueue(namespace_of=lambda key: key[1])

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._accounts:
                if event.removed or not event.previous:
                    self.queue.add((ACCOUNT, event.namespace, event.name, ""))
            elif event.type_id == self._secrets and self._is_token in event.facts:
                if event.removed:
                    self._add_reference(event)
                else:
                    self.queue.add((SECRET, event.namespace, event.name, ""))

    def _add_reference(self, event: Event) -> None:
        account = self._annotations(decode(event.body)).get(self._name_key)
        if account:
            self.queue.add((REFERENCE, event.namespace, account, event.name))

    async def catch_up(self) -> None:
        await self._add_secrets(None)

    async def _add_secrets(self, namespace: str | None, account: str | None = None) -> None:
        """Add all token Secrets, or those of one account."""
        await take_pages(self._journal, self._secrets, namespace, partial(self._take, account))

    def _take(self, account: str | None, view: View, page: Page) -> None:
        for where, name, row in page:
            if self._is_token not in row.facts:
                continue
            if account is None or self._annotations(decode(row.body)).get(self._name_key) == account:
                self.queue.add((SECRET, where, name, ""))

    async def reconcile(self, key: Key) -> None:
        what, namespace, name, secret = key
        if what == ACCOUNT:
            await self._add_secrets(namespace, name)
        elif what == REFERENCE:
            await self._remove_reference(namespace, name, secret)
        else:
            await self._reconcile_secret(namespace, name)

    async def _reconcile_secret(self, namespace: str, name: str) -> None:
        row = self._row(self._secrets, namespace, name)
        if row is None or self._is_token not in row.facts or is_being_deleted(row.body):
            return
        stored = decode(row.body)
        account = self._account_of(stored, namespace)
        if account is None:
            await self._delete(stored)
        elif not stored.get("immutable"):
            await self._fill(stored, account)

    def _account_of(self, secret: Object, namespace: str) -> Reference | None:
        annotations = self._annotations(secret)
        name, uid = annotations.get(self._name_key, ""), annotations.get(self._uid_key, "")
        row = self._row(self._accounts, namespace, name) if name else None
        if row is None:
            return None
        found = unpack_uids(row.facts)[0]
        return Reference("serviceaccounts", namespace, name, found) if uid in ("", found) else None

    async def _delete(self, secret: Object) -> None:
        metadata = secret["metadata"]
        try:
            await self._client.delete(
                self._secret_kind, metadata["namespace"], metadata["name"], DeleteOptions(uid=metadata["uid"])
            )
        except (NotFound, Conflict):
            return  # gone, or another Secret of this name

    async def _fill(self, secret: Object, account: Reference) -> None:
        metadata, data = secret["metadata"], dict(secret.get("data") or {})
        certificate = await self._certificate()
        if certificate is not None:
            data["ca.crt"] = certificate
        if not data.get("namespace"):
            data["namespace"] = _base64(account.namespace.encode())
        if not data.get("token"):
            token = await self._issuer.secret_token(account, metadata["name"])
            data["token"] = _base64(token.encode())
        annotations = {
            **self._annotations(secret),
            self._name_key: account.name,
            self._uid_key: account.uid,
        }
        if data == secret.get("data") and annotations == metadata.get("annotations"):
            return
        filled = {**secret, "metadata": {**metadata, "annotations": annotations}, "data": data}
        try:
            await self._client.replace(self._secret_kind, filled)
        except (NotFound, Conflict):
            return  # its event adds the key again

    async def _certificate(self) -> str | None:
        try:
            return _base64(await self._authorities.server_certificate())
        except CertificateError as error:
            logger.warning("token Secrets get no ca.crt: %s", error)
            return None

    async def _remove_reference(self, namespace: str, name: str, secret: str) -> None:
        row = self._row(self._accounts, namespace, name)
        if row is None or self._row(self._secrets, namespace, secret) is not None:
            return
        account = decode(row.body)
        secrets = account.get("secrets") or []
        kept = [one for one in secrets if one.get("name") != secret]
        if len(kept) == len(secrets):
            return
        changed = {field: value for field, value in account.items() if field != "secrets"}
        if kept:
            changed["secrets"] = kept
        try:
            await self._client.replace(self._account_kind, changed)
        except NotFound:
            return

    def _row(self, type_id: int, namespace: str, name: str) -> Row | None:
        with self._journal.read() as view:
            return view.get(type_id, namespace, name)

    @staticmethod
    def _annotations(stored: Object) -> dict[str, str]:
        annotations: dict[str, str] = stored["metadata"].get("annotations") or {}
        return annotations


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_DESCRIPTION = (
    "CA certificates to verify the API server with, at its internal addresses. Use it for nothing else."
)


class RootCertificatePublisher:
    """The root certificate publisher: maintains a ConfigMap with this server's CA certificate in every namespace.

    Pods mount it next to their token, to verify the server. The ConfigMap is restored when a client changes or deletes
    it. The publisher runs only on servers with a secure port, since others have no certificate to verify; the rule
    `root-certificate` says whether it runs if --controllers does not name it.
    """

    name = "root certificate publisher"

    def __init__(self, context: ControllerContext) -> None:
        names = context.names
        self._journal = context.journal
        self._authorities = context.authorities
        self._namespaces = context.journal.type_id("namespaces")
        self._config_maps = context.journal.type_id("configmaps")
        self.observed_types = frozenset({self._namespaces, self._config_maps})
        self._kind = context.registry.current.storage("configmaps")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, names, "root-ca-cert-publisher"
        )
        self._name = names.root_certificate
        self._description_key = names.key("description")
        self._data: dict[str, str] = {}
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._namespaces:
                if not event.previous:
                    self.queue.add(event.name)
            elif event.type_id == self._config_maps and event.name == self._name:
                self.queue.add(event.namespace)

    async def catch_up(self) -> None:
        self._data = {"ca.crt": (await self._authorities.server_certificate()).decode()}
        await take_pages(self._journal, self._namespaces, "", self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, row in page:
            found = view.get(self._config_maps, name, self._name)
            if not is_being_deleted(row.body) and (
                found is None or not self._is_published(decode(found.body))
            ):
                self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        namespace = self._row(self._namespaces, "", key)
        if namespace is None or is_being_deleted(namespace.body):
            return
        row = self._row(self._config_maps, key, self._name)
        if row is None:
            await self._create(key)
            return
        stored = decode(row.body)
        if not self._is_published(stored):
            await self._restore(stored)

    def _is_published(self, stored: Object) -> bool:
        annotations = stored["metadata"].get("annotations") or {}
        return stored.get("data") == self._data and bool(annotations.get(self._description_key))

    async def _create(self, namespace: str) -> None:
        metadata = {"name": self._name, "annotations": {self._description_key: _DESCRIPTION}}
        new = self._kind.schema.decode_object({"metadata": metadata, "data": self._data}).object
        try:
            await self._client.create(self._kind, namespace, new)
        except AlreadyExists:
            return  # its event adds the key again

    async def _restore(self, stored: Object) -> None:
        metadata = stored["metadata"]
        annotations = {**(metadata.get("annotations") or {}), self._description_key: _DESCRIPTION}
        changed = {**stored, "metadata": {**metadata, "annotations": annotations}, "data": self._data}
        try:
            await self._client.replace(self._kind, changed)
        except (NotFound, Conflict):
            return

    def _row(self, type_id: int, namespace: str, name: str) -> Row | None:
        with self._journal.read() as view:
            return view.get(type_id, namespace, name)
