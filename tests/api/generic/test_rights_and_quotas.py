"""Rights and quotas name the resource, for a built-in and a custom kind."""

from __future__ import annotations

from tests.api.custom.kinds import until
from tests.api.generic.kinds import Opened, both
from tests.gateway.api import ALICE


@both
async def test_rights_are_those_of_the_verb_and_the_resource(opened: Opened) -> None:
    async with opened() as kind:
        refused = (await kind.ask("GET", token=ALICE)).expect(403)
        where = f'cannot list resource "{kind.plural}" in API group "{kind.group}" in the namespace'
        assert where in refused["message"] and kind.namespace in refused["message"]
        rule = {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["get", "list"]}
        named = {"metadata": {"name": "reader"}}
        await kind.api.create("roles", {**named, "rules": [rule]}, kind.namespace)
        role = {"apiGroup": "rbac.authorization.cluster.io", "kind": "Role", "name": "reader"}
        subject = {"apiGroup": "rbac.authorization.cluster.io", "kind": "User", "name": "alice"}
        await kind.api.create(
            "rolebindings", {**named, "roleRef": role, "subjects": [subject]}, kind.namespace
        )
        await kind.create("a")
        assert (await kind.ask("GET", "a", token=ALICE)).status == 200
        assert (await kind.ask("GET", token=ALICE)).status == 200
        for method, name, verb in (("DELETE", "a", "delete"), ("DELETE", "", "deletecollection")):
            denied = (await kind.ask(method, name, token=ALICE)).expect(403)
            assert f'cannot {verb} resource "{kind.plural}"' in denied["message"]
        assert (await kind.other().ask("GET", token=ALICE)).status == 403


@both
async def test_quota_counts_objects(opened: Opened) -> None:
    async with opened() as kind:
        counted = f"count/{kind.resource}"
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {counted: "2"}}}
        await kind.api.create("resourcequotas", quota, kind.namespace)
        await kind.create("a")
        await kind.create("b")
        refused = (await kind.ask("POST", body=kind.body("c"))).expect(403)
        assert f"{counted}=1" in refused["message"] and "exceeded quota: few" in refused["message"]
        (await kind.ask("POST", body=kind.body("c"), dryRun="All")).expect(403)
        (await kind.ask("DELETE", "a")).expect(200)

        async def is_released() -> bool:
            stored = await kind.api.get("resourcequotas", "few", kind.namespace)
            return bool(stored["status"]["used"][counted] == "1")

        await until(kind.api, is_released)
        await kind.create("c")
        await kind.other().create("not-counted")
