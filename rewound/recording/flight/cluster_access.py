"""Lets users of the recorded cluster read its recording: with their credentials there, and exactly what they may read.

    token               a TokenReview of the recorded cluster names the user
    client certificate  verified with the CA that the cluster publishes in extension-apiserver-authentication
    any read            a SubjectAccessReview of the recorded cluster, with the rights of now

The answers are cached for seconds. Without an answer the read is refused: who may see what is for the cluster to say.
Rights that only this server knows are asked for as those that the cluster knows:

    get on RESOURCE/history and RESOURCE/blame     get and list on RESOURCE
    rewind on secrets                              get and list on secrets, as their values are masked; a recording
                                                   with values asks for the verb rewind itself

Rejected: an authorizer that reads the recorded roles. It would be right only for clusters with RBAC alone, and lag.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import trio

from rewound.actors.access.authentication.token_webhook import TokenWebhook
from rewound.actors.access.authorization.chain import SystemMasters
from rewound.actors.access.authorization.webhook import WebhookAuthorizer
from rewound.actors.access.authorize import Attributes, Authorizer, Decision, Later, Rules, Verdict
from rewound.actors.access.remote.calls import FIRST_DELAY, WebhookError
from rewound.actors.certificates.pki import write_atomically
from rewound.actors.identity import User
from rewound.actors.names import Names
from rewound.actors.rewind.rights import REWIND, SECRETS
from rewound.client.errors import ClientError, StatusError
from rewound.client.streaming import StreamingSession

logger = logging.getLogger(__name__)

SECONDS: Final = 10.0  # of a review
MOST: Final = 1 << 20  # bytes of its response
AT_ONCE: Final = 32  # reviews
# As long as aggregated API servers of Kubernetes trust these answers.
TOKEN_SECONDS: Final = 10.0
RIGHT_SECONDS: Final = 10.0
CA_SECONDS: Final = 60.0  # between two looks at the CA of client certificates
PAST: Final = frozenset({"history", "blame"})


class ClusterReviews:
    """Sends reviews of one kind to the recorded cluster, as the user of the recorder."""

    def __init__(self, session: StreamingSession, path: str, limit: trio.CapacityLimiter) -> None:
        self._session = session
        self._path = path
        self._limit = limit

    @property
    def display_url(self) -> str:
        return self._session.target.server.rstrip("/") + self._path

    async def send(
        self, body: bytes, first_delay: float = FIRST_DELAY, *, after_any_error: bool = False
    ) -> bytes:
        """Without a second attempt: a person waits, and asks again."""
        try:
            with trio.fail_after(SECONDS):
                async with self._limit:
                    return await self._session.post_bytes(self._path, body, SECONDS, MOST)
        except trio.TooSlowError:
            raise WebhookError(f"{self.display_url} did not respond within {SECONDS:g} seconds") from None
        except StatusError as error:
            raise WebhookError(self._refusal(error)) from error
        except ClientError as error:
            raise WebhookError(str(error)) from error

    def _refusal(self, error: StatusError) -> str:
        text = f"{self.display_url}: {error}"
        if error.code != 403:
            return text
        return f"{text}; grant the user of the recorder the ClusterRole system:auth-delegator in the recorded cluster"


class ClusterAuthorizer:
    """Allows what the recorded cluster allows, and denies everything else."""

    def __init__(self, cluster: Authorizer, *, with_secrets: bool) -> None:
        self._cluster = cluster
        self._with_secrets = with_secrets

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        asked = self._asked(attributes)
        decisions = [self._cluster.authorize(one) for one in asked]
        known = [one for one in decisions if isinstance(one, Decision)]
        if len(known) == len(decisions):
            return _all_allow(known)
        return Later(lambda: self._decide(asked))

    async def _decide(self, asked: Sequence[Attributes]) -> Decision:
        found: list[Decision] = []
        for one in asked:
            decision = self._cluster.authorize(one)
            found.append(decision if isinstance(decision, Decision) else await decision)
            if not found[-1].allowed:
                break
        return _all_allow(found)

    def _asked(self, attributes: Attributes) -> tuple[Attributes, ...]:
        """The rights of the recorded cluster that this right needs, all of them."""
        if not attributes.is_resource:
            return (attributes,)
        if attributes.verb == "get" and attributes.subresource in PAST:
            return _to_read(msgspec.structs.replace(attributes, subresource=""))
        if attributes.verb == REWIND and attributes.resource == SECRETS and not attributes.group:
            return (attributes,) if self._with_secrets else _to_read(attributes)
        return (attributes,)

    async def rules(self, user: User, namespace: str) -> Rules:
        return await self._cluster.rules(user, namespace)


def _to_read(attributes: Attributes) -> tuple[Attributes, ...]:
    return msgspec.structs.replace(attributes, verb="get"), msgspec.structs.replace(attributes, verb="list")


def _all_allow(decisions: Sequence[Decision]) -> Decision:
    """The first refusal, or else the last decision. What the cluster has no opinion on is refused."""
    for one in decisions:
        if not one.allowed:
            return replace(one, verdict=Verdict.DENY)
    return decisions[-1]


class ClusterAccess:
    """The token method and the authorizers of a server that shows a recording, and the CA of its clients."""

    def __init__(self, session: StreamingSession, names: Names, ca_file: Path, *, with_secrets: bool) -> None:
        """`ca_file` gets the CA that the cluster trusts for client certificates."""
        self._session = session
        self._path = (
            f"/api/v1/namespaces/{names.system_namespace}/configmaps/extension-apiserver-authentication"
        )
        self._ca_file = ca_file
        limit = trio.CapacityLimiter(AT_ONCE)
        authentication, authorization = names.group("authentication"), names.group("authorization")
        self.tokens = TokenWebhook(
            ClusterReviews(session, f"/apis/{authentication}/v1/tokenreviews", limit),
            f"{authentication}/v1",
            (),
            TOKEN_SECONDS,
        )
        reviews = ClusterReviews(session, f"/apis/{authorization}/v1/subjectaccessreviews", limit)
        cluster = WebhookAuthorizer(
            reviews, authorization, "v1", RIGHT_SECONDS, RIGHT_SECONDS, denies_on_failure=True
        )
        # As in every API server, system:masters need no right; also while the cluster cannot be asked.
        self.authorizers: tuple[Authorizer, ...] = (
            SystemMasters(),
            ClusterAuthorizer(cluster, with_secrets=with_secrets),
        )

    async def begin(self) -> None:
        """Read the CA if there is no file yet: without one, certificates of the cluster mean nothing to the server."""
        if self._ca_file.exists():
            return
        try:
            await self.read_ca()
        except (ClientError, ValueError) as error:
            logger.warning(
                "client certificates of the cluster are not accepted until the next start: %s", error
            )

    async def run(self) -> None:
        """Keep the file with the CA as the cluster has it, until cancelled. The server follows it."""
        problem = ""
        while True:
            await trio.sleep(CA_SECONDS)
            try:
                await self.read_ca()
                problem = ""
            except (ClientError, ValueError) as error:
                if str(error) != problem:
                    logger.warning("the CA of client certificates is that of before: %s", error)
                problem = str(error)

    async def read_ca(self) -> None:
        """Raises ClientError if the cluster cannot be asked; the file stays as it was."""
        with trio.move_on_after(SECONDS) as scope:
            document = await self._session.get_document(self._path)
        if scope.cancelled_caught:
            raise ClientError(f"{self._session.target.server} did not respond within {SECONDS:g} seconds")
        found = document.get("data") or {}
        text = found.get("client-ca-file") if isinstance(found, dict) else None
        if not isinstance(text, str) or "BEGIN CERTIFICATE" not in text:
            raise ValueError(f"{self._path} names no client-ca-file: users sign in with tokens only")
        if not self._ca_file.exists() or self._ca_file.read_text() != text:
            write_atomically(self._ca_file, text.encode(), 0o644)
