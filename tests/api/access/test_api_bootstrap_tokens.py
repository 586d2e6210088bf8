"""Bootstrap tokens over HTTP: which user they authenticate, and that they work only when enabled."""

from __future__ import annotations

from rewound.gateway.settings.settings import ControllerSettings
from tests.gateway.api import Api, served

TOKEN = "abc123.0123456789abcdef"
ENABLED = ControllerSettings(enable_bootstrap_token_auth=True)


async def create_token(api: Api, domain: str, namespace: str) -> None:
    secret = {
        "metadata": {"name": "bootstrap-token-abc123"},
        "type": f"bootstrap.{domain}/token",
        "stringData": {
            "token-id": "abc123",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:rack1",
        },
    }
    (await api.ask("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)).expect(201)


async def test_token_is_a_user_in_its_groups() -> None:
    async with served(controllers=ENABLED) as api:
        await create_token(api, "cluster.io", "cluster-system")
        review = {"spec": {"token": TOKEN}}
        path = "/apis/authentication.cluster.io/v1/tokenreviews"
        status = (await api.ask("POST", path, review)).expect(201)["status"]
        assert status["user"] == {
            "username": "system:bootstrap:abc123",
            "groups": ["system:bootstrappers", "system:bootstrappers:rack1", "system:authenticated"],
        }
        refused = (await api.ask("GET", "/api/v1/nodes", token=TOKEN)).expect(403)
        assert 'User "system:bootstrap:abc123" cannot list' in refused["message"]
        (await api.ask("GET", "/api/v1/nodes", token=TOKEN[:-1] + "0")).expect(401)


async def test_token_works_in_the_kubernetes_dialect() -> None:
    async with served(controllers=ENABLED, dialect="kubernetes") as api:
        await create_token(api, "kubernetes.io", "kube-system")
        (await api.ask("GET", "/api/v1/nodes", token=TOKEN)).expect(403)


async def test_without_the_flag_the_token_is_unknown() -> None:
    async with served() as api:
        await create_token(api, "cluster.io", "cluster-system")
        (await api.ask("GET", "/api/v1/nodes", token=TOKEN)).expect(401)
