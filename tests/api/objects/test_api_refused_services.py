"""A service that is not stored keeps no address and no port, whatever refuses it."""

from __future__ import annotations

from typing import Any

from tests.api.webhooks.hooking import DENY, Hooks, hooking

SERVICES = "/api/v1/namespaces/default/services"
ALL_SERVICES = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}
REFUSES_FULL = {"metadata": {"name": "full"}, "spec": {"hard": {"services": "0"}}}


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}], **spec}}


async def next_items(hooks: Hooks, name: str) -> tuple[str, int]:
    """The address and the port of a service that is stored and deleted again."""
    spec = (await hooks.api.ask("POST", SERVICES, service(name))).expect(201)["spec"]
    (await hooks.api.ask("DELETE", f"{SERVICES}/{name}")).expect(200)
    return spec["clusterIP"], spec["ports"][0]["nodePort"]


async def refuse_many(hooks: Hooks, code: int, body: dict[str, Any], query: str = "") -> None:
    for _ in range(5):
        (await hooks.api.ask("POST", f"{SERVICES}{query}", body)).expect(code)


async def test_next_service_gets_the_next_address_and_port() -> None:
    async with hooking(deny=DENY) as hooks:
        api = hooks.api
        (await api.ask("POST", SERVICES, service("there"))).expect(201)
        address, port = await next_items(hooks, "first")

        def following(found: tuple[str, int]) -> bool:
            nonlocal address, port
            before, (address, port) = (address, port), found
            return (int(before[0].rpartition(".")[2]) + 1, before[1] + 1) == (
                int(address.rpartition(".")[2]),
                port,
            )

        await refuse_many(hooks, 409, service("there"))
        assert following(await next_items(hooks, "after-conflicts"))

        await refuse_many(hooks, 201, service("dry"), "?dryRun=All")
        assert following(await next_items(hooks, "after-dry-runs"))

        await refuse_many(hooks, 422, service("bad", sessionAffinity="Magic"))
        await refuse_many(hooks, 422, service("bad", ports=[{"port": 80}, {"port": 81, "nodePort": 1}]))
        assert following(await next_items(hooks, "after-validation"))

        await hooks.configure("validating", hooks.hook("a.example.com", "/deny", rules=[ALL_SERVICES]))
        await refuse_many(hooks, 400, service("denied"))
        await hooks.remove("validating")
        assert following(await next_items(hooks, "after-denials"))

        quotas = "/api/v1/namespaces/default/resourcequotas"
        (await api.ask("POST", quotas, REFUSES_FULL)).expect(201)
        await refuse_many(hooks, 403, service("too-many"))
        (await api.ask("DELETE", f"{quotas}/full")).expect(200)
        assert following(await next_items(hooks, "after-quota"))

        large = [{"name": f"p{number}", "port": number + 1} for number in range(300)]
        await refuse_many(hooks, 409, service("there", ports=large))  # decided in a thread
        assert following(await next_items(hooks, "after-large"))
