"""Custom resources have a history like every other kind."""

from __future__ import annotations

from tests.api.custom.kinds import GROUP, MERGE, WIDGETS, define, definition, widget
from tests.gateway.api import served
from tests.rewind.test_at import version_of
from tests.rewind.test_group import ROOT

HISTORY = f"{ROOT}/namespaces/default/widgets.{GROUP}/a"


async def test_custom_resources_have_a_history() -> None:
    async with served() as api:
        await define(api, definition())
        made = version_of((await api.ask("POST", WIDGETS, widget("a"))).expect(201))
        changed = {"spec": {"size": 77}}
        (await api.ask("PATCH", f"{WIDGETS}/a", changed, headers=MERGE)).expect(200)
        items = (await api.ask("GET", f"{HISTORY}/history", managedFields="false")).expect(200)["items"]
        assert [one["verb"] for one in items] == ["patch", "create"]
        assert "/spec/size" in str(items[0]["patch"])
        fields = (await api.ask("GET", f"{HISTORY}/blame")).expect(200)["fields"]
        assert next(one for one in fields if one["field"] == "spec.size")["value"] == 77
        before = (await api.ask("GET", f"{WIDGETS}/a", at=made)).expect(200)
        rolled = (await api.ask("POST", f"{HISTORY}/rollback", {"to": made})).expect(200)
        assert rolled.get("spec") == before.get("spec")
        (await api.ask("DELETE", f"{WIDGETS}/a")).expect(200)
        back = (await api.ask("POST", f"{HISTORY}/undelete", {})).expect(201)
        assert back.get("spec") == before.get("spec") and back["kind"] == before["kind"]
        listed = (await api.ask("GET", ROOT)).expect(200)["resources"]
        assert f"widgets.{GROUP}/history" in {one["name"] for one in listed}
