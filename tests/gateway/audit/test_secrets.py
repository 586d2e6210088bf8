"""Tokens and secrets are in no audit event at level Metadata, and the policy in the documentation keeps them there."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from rewound.actors.access.authorize import Attributes
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER, KUBERNETES, REWIND_GROUP, Names
from rewound.gateway.audit.policy import LEVEL_NAMES, parse_policy
from tests.cases import cases
from tests.gateway.api import ADMIN
from tests.gateway.audit.auditing import PATH, audited

DOCUMENTED = Path(__file__).parents[3] / "docs" / "audit.md"


def documented(names: Names = CLUSTER) -> str:
    [policy] = re.findall(r"```yaml\n(apiVersion: audit.*?)```", DOCUMENTED.read_text(), re.DOTALL)
    return str(policy).replace("cluster.io", names.group_domain)


@cases("names", [CLUSTER, KUBERNETES])
@cases(
    ("verb", "group", "resource", "subresource", "level"),
    [
        ("create", "", "secrets", "", "Metadata"),
        ("update", "", "configmaps", "", "Metadata"),
        ("create", "", "secrets", "rollback", "Metadata"),
        ("create", "", "serviceaccounts", "token", "Metadata"),
        ("create", "authentication", "tokenreviews", "", "Metadata"),
        ("create", "rbac.authorization", "roles", "", "RequestResponse"),
        ("get", "rbac.authorization", "roles", "", "Metadata"),
        ("create", "", "pods", "", "Request"),
        ("update", "coordination", "leases", "", "None"),
    ],
)
def test_documented_policy(
    names: Names, verb: str, group: str, resource: str, subresource: str, level: str
) -> None:
    policy = parse_policy(documented(names).encode(), names)
    path = f"/apis/{REWIND_GROUP}/v1/namespaces/default/{resource}/x/rollback"
    asked = Attributes(
        *(User("alice"), verb, names.group(group) if group else "", "v1", resource, subresource, "default"),
        *("x", path if subresource == "rollback" else ""),
    )
    assert LEVEL_NAMES[policy.evaluate(asked).level] == level


async def test_no_token_or_secret_is_recorded() -> None:
    hidden = base64.b64encode(b"top-secret").decode()
    protocol = (
        "base64url.bearer.authorization.cluster.io." + base64.urlsafe_b64encode(ADMIN.encode()).decode()
    )
    review = {"spec": {"token": "reviewed-token"}}
    async with audited(documented()) as audit:
        ask = audit.api.ask
        await ask(
            "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "data": {"k": hidden}}
        )
        await ask("GET", "/api/v1/namespaces/default/secrets/s")
        await ask("POST", "/apis/authentication.cluster.io/v1/tokenreviews", review)
        made = await ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
        await ask(
            "GET",
            f"{PATH}?watch=1&timeoutSeconds=1",
            token=None,
            headers={
                "connection": "upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
                "sec-websocket-protocol": f"{protocol}, base64.binary.k8s.io",
            },
        )
        await audit.api.finish()
        text = audit.path.read_text()
        assert len(audit.events) >= 5
        watches = [event for event in audit.events if event["verb"] == "watch"]
        assert {event["user"].get("username") for event in watches} == {"admin"}
    issued = made.document.get("status", {}).get("token", "none")
    for secret in (hidden, "reviewed-token", ADMIN, protocol, issued.rpartition(".")[2], "top-secret"):
        assert secret not in text or secret == "none"
