"""The controllers of bootstrap tokens: sign the kubeconfig in the ConfigMap cluster-info, and delete expired tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Final

from rewound.actors.access.bootstrap_token import (
    SECRET_PREFIX,
    BootstrapToken,
    expiration,
    has_expired,
    secret_type,
    token_of,
)
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import Page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.messages import DeleteOptions
from rewound.actors.profile import Rules
from rewound.actors.store.document import decode, is_being_deleted
from rewound.journal.records import Event
from rewound.journal.view import View

CONFIG_MAP: Final = "cluster-info"
CONTENT: Final = "kubeconfig"
SIGNATURE_PREFIX: Final = "jws-kubeconfig-"


class BootstrapSigner:
    """The bootstrap signer: maintains the signatures in the ConfigMap cluster-info, one per signing bootstrap token.

        data:
          kubeconfig: ...                          written by an administrator
          jws-kubeconfig-<token id>: <signature>   written by this controller

    It signs again when the kubeconfig or a signature changes, removes the signatures of tokens that are gone, expired
    or not for signing, and never creates the ConfigMap. Every change leads to one key, because all signatures are in
    one object; it writes only when a signature differs.
    """

    name = "bootstrap signer"

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._clock, self._names = context.journal, context.clock, context.names
        self._rules = context.rules
        self._secrets = context.journal.type_id("secrets")
        self._config_maps = context.journal.type_id("configmaps")
        self.observed_types = frozenset({self._secrets, self._config_maps})
        self._definition = context.registry.current.storage("configmaps")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "bootstrap-signer"
        )
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        if any(map(self._concerns, events)):
            self.queue.add(CONFIG_MAP)

    def _concerns(self, event: Event) -> bool:
        if event.type_id == self._secrets:
            return event.namespace == self._names.system_namespace and event.name.startswith(SECRET_PREFIX)
        return (
            event.type_id == self._config_maps
            and event.namespace == self._names.public_namespace
            and event.name == CONFIG_MAP
        )

    async def catch_up(self) -> None:
        self.queue.add(CONFIG_MAP)

    async def reconcile(self, key: str) -> None:
        now = self._clock.now()
        with self._journal.read() as view:
            row = view.get(self._config_maps, self._names.public_namespace, key)
            if row is None or is_being_deleted(row.body):
                return
            tokens = self._signing_tokens(view, now)
        self._sign_again_after_expiry(tokens, now)
        stored = decode(row.body)
        data = stored.get("data") or {}
        if CONTENT not in data:
            return
        kept = {name: value for name, value in data.items() if not name.startswith(SIGNATURE_PREFIX)}
        signatures = {
            SIGNATURE_PREFIX + token.id: detached_signature(data[CONTENT], token, self._rules)
            for token in tokens
        }
        if data == kept | signatures:
            return
        try:
            await self._client.replace(self._definition, {**stored, "data": kept | signatures})
        except (Conflict, NotFound):
            raise RetryLater from None

    def _signing_tokens(self, view: View, now: int) -> list[BootstrapToken]:
        """The tokens that sign. The Secrets of bootstrap tokens are adjacent in the order of names."""
        namespace, found = self._names.system_namespace, []
        for _, name, row in view.rows(self._secrets, namespace, (namespace, SECRET_PREFIX)):
            if not name.startswith(SECRET_PREFIX):
                break
            token = None if is_being_deleted(row.body) else token_of(decode(row.body), self._names)
            if token is not None and token.signs and not token.expired(now):
                found.append(token)
        return found

    def _sign_again_after_expiry(self, tokens: list[BootstrapToken], now: int) -> None:
        expiries = [token.expires for token in tokens if token.expires is not None]
        if expiries:
            self.queue.add_after(CONFIG_MAP, (min(expiries) - now) / 1_000_000)


def detached_signature(content: str, token: BootstrapToken, rules: Rules) -> str:
    """The signature of the kubeconfig in cluster-info: a detached JWS, signed with a bootstrap token (HS256).

    A JWS is `<header>.<payload>.<signature>`; a detached one omits the payload. A client that knows the token uses it
    to verify that the kubeconfig is that of the cluster, before it trusts the CA in it. The key is the whole token, or
    its secret alone, as kubeadm verifies it: the rule `cluster-info-key`.
    """
    header = _encoded(json.dumps({"alg": "HS256", "kid": token.id}, separators=(",", ":")).encode())
    signed = f"{header}.{_encoded(content.encode())}"
    key = token.secret if rules.cluster_info_key == "secret" else f"{token.id}.{token.secret}"
    return f"{header}..{_encoded(hmac.digest(key.encode(), signed.encode(), hashlib.sha256))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenCleaner:
    """The token cleaner: deletes the Secrets of expired bootstrap tokens.

    Authentication rejects expired tokens by itself; this controller only removes what no client can use any more.
    """

    name = "token cleaner"

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._clock = context.journal, context.clock
        self._namespace = context.names.system_namespace
        self._type = secret_type(context.names)
        self._secrets = context.journal.type_id("secrets")
        self.observed_types = frozenset({self._secrets})
        self._definition = context.registry.current.storage("secrets")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "token-cleaner"
        )
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._secrets and event.namespace == self._namespace and not event.removed:
                self.queue.add(event.name)

    async def catch_up(self) -> None:
        await take_pages(self._journal, self._secrets, self._namespace, self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, _ in page:
            self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._secrets, self._namespace, key)
        if row is None or is_being_deleted(row.body):
            return
        secret = decode(row.body)
        expires = expiration(secret)
        if secret.get("type") != self._type or expires is None:
            return
        now = self._clock.now()
        if not has_expired(expires, now):
            self.queue.add_after(key, (expires - now) / 1_000_000)
            return
        unchanged = DeleteOptions(resource_version=str(row.offset))
        try:
            await self._client.delete(self._definition, self._namespace, key, unchanged)
        except (Conflict, NotFound):
            return
