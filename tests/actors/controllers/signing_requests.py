"""Certificate signing requests for tests of their controllers; a test calls the controllers itself, one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision, Rules
from rewound.actors.certificates.signing import Authorities
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.identity import User
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER
from tests.actors.certificates.making_requests import Wanted
from tests.actors.certificates.shared_folder import own_certificates
from tests.actors.controllers.control_plane import ControlPlane

REQUESTS = "certificatesigningrequests.certificates.cluster.io"
CLIENT = ["digital signature", "key encipherment", "client auth"]
SERVING = ["digital signature", "key encipherment", "server auth"]
NODE_USER: Object = {"username": "system:node:n1", "groups": ["system:nodes"]}
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


class Rights:
    """An authorizer that allows users to create the given subresources; it may wait before it decides."""

    def __init__(
        self, rights: dict[str, set[str]], wait: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.rights, self.asked, self._wait = rights, list[Attributes](), wait

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        self.asked.append(attributes)
        decision = self._decide(attributes)
        return decision if self._wait is None else self._later(self._wait, decision)

    def _decide(self, wanted: Attributes) -> Decision:
        assert (wanted.verb, wanted.group) == ("create", "certificates.cluster.io")
        assert wanted.resource == "certificatesigningrequests" and not wanted.name and not wanted.namespace
        return ALLOWED if wanted.subresource in self.rights.get(wanted.user.name, ()) else NO_OPINION

    async def _later(self, wait: Callable[[], Awaitable[None]], decision: Decision) -> Decision:
        await wait()
        return decision

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


def controller_context(cluster: ControlPlane, **changed: Any) -> ControllerContext:
    values = {
        "authorizer": Rights({}),
        "authorities": Authorities(partial(own_certificates, "cluster")),
        "clock": cluster.clock,
        **changed,
    }
    return ControllerContext(
        CLUSTER,
        cluster.registry,
        cluster.journal,
        cluster.feed,
        cluster.directory,
        cluster.write_contexts,
        **values,
    )


async def create_request(
    cluster: ControlPlane,
    name: str = "r",
    *,
    wanted: Wanted | None = None,
    signer: str = CLUSTER.node_client_signer,
    usages: Sequence[str] = CLIENT,
    conditions: Sequence[str] = (),
    since: str | None = None,
    **spec: Any,
) -> None:
    """Create a request and set its conditions."""
    encoded = (wanted or Wanted()).encoded()
    content = {"spec": {"request": encoded, "signerName": signer, "usages": list(usages), **spec}}
    await cluster.create(REQUESTS, name, content=content)
    for kind in conditions:
        stored = request(cluster, name)
        condition = {"type": kind, "status": "True", "lastUpdateTime": since, "lastTransitionTime": since}
        stored["status"]["conditions"] = [*stored["status"].get("conditions", ()), condition]
        subresource = "status" if kind == FAILED else "approval"
        await cluster.client.replace(cluster.catalog.storage(REQUESTS), stored, subresource)


async def set_certificate(cluster: ControlPlane, encoded: str, name: str = "r") -> None:
    stored = request(cluster, name)
    stored["status"]["certificate"] = encoded
    await cluster.client.replace(cluster.catalog.storage(REQUESTS), stored, "status")


def request(cluster: ControlPlane, name: str = "r") -> Object:
    found = cluster.get(REQUESTS, name)
    assert found is not None
    return found


def conditions_of(cluster: ControlPlane, name: str = "r") -> list[str]:
    return [one["type"] for one in request(cluster, name)["status"].get("conditions", ())]
