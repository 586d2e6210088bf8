"""The kinds of webhook configurations over HTTP: versions, patches, and servers without them."""

from __future__ import annotations

from tests.api.webhooks.hooking import hooking
from tests.gateway.api import served

GROUP = "admissionregistration.cluster.io"
PLURALS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


async def test_configurations_have_one_version() -> None:
    async with served() as api:
        found = (await api.ask("GET", f"/apis/{GROUP}")).expect(200)
        assert [one["version"] for one in found["versions"]] == ["v1"]
        assert (await api.ask("GET", f"/apis/{GROUP}/v1beta1/{PLURALS[0]}")).status == 404


async def test_webhooks_of_a_configuration_are_merged_by_name() -> None:
    async with hooking() as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com"), hooks.hook("b.example.com"))
        path = f"{hooks.api.path(PLURALS[1], None)}/hooks"
        patch = {"webhooks": [{"name": "b.example.com", "timeoutSeconds": 3}]}
        headers = {"content-type": "application/strategic-merge-patch+json"}
        changed = (await hooks.api.ask("PATCH", path, patch, headers=headers)).expect(200)
        seconds = {one["name"]: one["timeoutSeconds"] for one in changed["webhooks"]}
        assert seconds == {"a.example.com": 10, "b.example.com": 3}


async def test_plugins_and_kinds_can_be_disabled_together() -> None:
    kinds = ",".join(f"{GROUP}/v1/{plural}=false" for plural in PLURALS)
    plugins = "MutatingAdmissionWebhook,ValidatingAdmissionWebhook"
    async with served(runtime_config=kinds, disable_admission_plugins=plugins) as api:
        for plural in PLURALS:
            assert (await api.ask("GET", f"/apis/{GROUP}/v1/{plural}")).status == 404
        await api.create("configmaps", {"metadata": {"name": "a"}})
