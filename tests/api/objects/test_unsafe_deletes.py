"""Deletes that ask to ignore read errors: their options and rights; objects that can be read are never deleted so."""

from __future__ import annotations

from rewound.actors.versions.features import UNSAFE_DELETES
from tests.actors.access.authorization.policies import binding, role, rule, user
from tests.gateway.api import ALICE, served

OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
UNSAFE = {"kind": "DeleteOptions", "apiVersion": "v1", OPTION: True}


async def test_unsafe_deletes_need_options_and_rights() -> None:
    gate = f"{UNSAFE_DELETES}=true"
    async with served(dialect="kubernetes", kubernetes_version="1.36", feature_gates=gate) as api:
        await api.create("configmaps", {"metadata": {"name": "a"}})
        path = api.path("configmaps", name="a")

        refused = (await api.ask("DELETE", path, UNSAFE)).expect(422)
        assert refused["message"] == (
            f'configmaps "a" is invalid: {OPTION}: Invalid value: true: is exclusively used to delete '
            "corrupt object(s), try again by removing this option"
        )
        assert (await api.ask("DELETE", f"{path}?{OPTION}=true")).status == 422
        both = (await api.ask("DELETE", path, {**UNSAFE, "gracePeriodSeconds": 1, "dryRun": ["All"]})).expect(
            422
        )
        assert [one["message"] for one in both["details"]["causes"]] == [
            "Invalid value: true: cannot be set together with .dryRun",
            "Invalid value: true: cannot be set together with .gracePeriodSeconds",
        ]
        many = (await api.ask("DELETE", api.path("configmaps"), UNSAFE)).expect(422)
        assert many["message"].endswith(
            "is not allowed with DELETECOLLECTION, try again after removing the option"
        )

        await api.create("clusterroles", role("deleting", rule("delete", "configmaps", "")))
        await api.create("clusterrolebindings", binding("deleting", "deleting", user("alice")))
        mine = (await api.ask("DELETE", path, UNSAFE, token=ALICE)).expect(403)
        text = 'configmaps "a" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: '
        assert mine["message"].startswith(text)
        assert (await api.ask("DELETE", path)).status == 200


async def test_option_is_ignored_without_its_gate() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        await api.create("configmaps", {"metadata": {"name": "a"}})
        (
            await api.ask("DELETE", api.path("configmaps", name="a"), {**UNSAFE, "gracePeriodSeconds": 0})
        ).expect(200)
