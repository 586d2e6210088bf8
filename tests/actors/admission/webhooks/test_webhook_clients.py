"""HTTPS clients of admission webhooks: calls to the same webhook share one, even if many start at once."""

from __future__ import annotations

import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import trio

from rewound.actors.access.remote.address import WebhookAddress
from rewound.actors.access.remote.calls import WebhookError
from rewound.actors.access.remote.kubeconfig_file import User
from rewound.actors.admission.webhooks.clients import WebhookClients
from rewound.actors.admission.webhooks.credentials import WebhookCredentials
from rewound.actors.admission.webhooks.services import Services
from rewound.gateway.outgoing.webhook import HttpsCalls
from rewound.journal.log import Journal
from tests.gateway.outgoing.https_peer import Peer, Received, https_peer, pki

CALLS = 20


class CountedContexts(WebhookCredentials):
    """Counts the TLS contexts that get credentials."""

    identified = 0

    def identify(self, context: ssl.SSLContext, user: User) -> None:
        type(self).identified += 1
        super().identify(context, user)


async def call_at_once(folder: Path, peer: Peer, ca_bundle: bytes) -> tuple[list[Any], int]:
    """The results or errors of calls to the same webhook, and how many TLS contexts were created for them."""
    CountedContexts.identified = 0
    with closing(Journal.open(folder / "journal")) as journal:
        clients = WebhookClients(Services(journal), CountedContexts(), HttpsCalls())
        hook = WebhookAddress(f"https://127.0.0.1:{peer.port}/review", None, ca_bundle, 10)
        outcomes: list[Any] = []

        async def call() -> None:
            try:
                outcomes.append(await clients.ask(hook, lambda: b"{}"))
            except WebhookError as error:
                outcomes.append(str(error))

        async with trio.open_nursery() as nursery:
            for _ in range(CALLS):
                nursery.start_soon(call)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clients.run)
            nursery.cancel_scope.cancel()
    return outcomes, CountedContexts.identified


def allow(_: Received) -> Any:
    return {"allowed": True}


async def test_first_calls_share_one_client(tmp_path: Path) -> None:
    async with https_peer(allow, clients=ssl.CERT_NONE) as peer:
        outcomes, contexts = await call_at_once(tmp_path, peer, (pki() / "ca.pem").read_bytes())
    assert (outcomes, contexts) == ([b'{"allowed":true}'] * CALLS, 1)


async def test_every_first_call_reports_a_wrong_ca_bundle(tmp_path: Path) -> None:
    async with https_peer(allow, clients=ssl.CERT_NONE) as peer:
        outcomes, contexts = await call_at_once(tmp_path, peer, b"none")
    why = "unable to load root certificates: unable to parse bytes as PEM block"
    assert (outcomes, contexts) == ([why] * CALLS, 0)
