"""GET timeline/refused: writes that the server, or a recorded one, refused, for callers who may see the authors of a
type's events.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from rewound.rewind.page.refused import FILE, LARGEST, refused_in
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.test_at import allow

REFUSED = "/apis/rewound.cluster.io/v1/timeline/refused"


def request(time: int, user: str, namespace: str = "default", **more: Any) -> bytes:
    document = {"time": time * 1_000_000, "user": user, "verb": "delete", "type": "configmaps", "code": 403}
    return orjson.dumps({**document, "namespace": namespace, "name": "web", "message": "no", **more}) + b"\n"


async def users(api: Api, query: str = "", **more: Any) -> list[str]:
    found = (await api.ask("GET", f"{REFUSED}{query}", **more)).expect(200)
    return [one["user"] for one in found["items"]]


async def test_newest_first_with_filters_and_rights() -> None:
    async with served() as api:
        assert await users(api) == []
        await api.create("configmaps", config_map("web"))
        (api.settings.data_dir / FILE).write_bytes(
            request(1, "first")
            + request(2, "second", "other")
            + b'{"half'
            + b"\n[]\n"
            + request(3, "third", type="unknown.example.com")
            + request(4, "fourth", verb="create", name="else")
        )
        assert await users(api) == ["fourth", "second", "first"]
        assert await users(api, "?limit=1") == ["fourth"]
        assert await users(api, "?namespace=other") == ["second"]
        assert await users(api, "?namespace=!other&verb=delete") == ["first"]
        assert await users(api, "?user=f*&name=web") == ["first"]
        assert await users(api, "?from=1970-01-01T00:00:02Z&to=1970-01-01T00:00:04Z") == ["second"]
        assert await users(api, token=ALICE) == []
        await allow(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
        assert await users(api, "?namespace=default", token=ALICE) == []  # list alone shows no users
        assert (await api.ask("POST", REFUSED)).status == 405


async def test_words_managers_and_updates_of_status() -> None:
    async with served() as api:
        (api.settings.data_dir / FILE).write_bytes(
            request(1, "first", message="exceeded quota: compute", userAgent="kubectl/v1.25", manager="named")
            + request(2, "second", verb="update", subresource="status", userAgent="kubelet/v1.25")
            + request(3, "third", reason="Forbidden", code=422, name=5)
        )
        assert await users(api, "?q=QUO") == ["first"]
        assert await users(api, "?q=%22exceeded%20quota%22%20configm") == ["first"]
        assert await users(api, "?q=%22quota%20exceeded%22") == []
        assert await users(api, "?q=forbidden%20422") == ["third"]
        assert await users(api, "?manager=named") == ["first"]
        assert await users(api, "?manager=kube*") == ["second"]  # by the user agent
        assert await users(api, "?manager=!kubelet") == ["third", "first"]
        assert await users(api, "?status=false") == ["third", "first"]
        assert (await api.ask("GET", f"{REFUSED}?q=--")).status == 400


async def test_a_running_server_keeps_the_writes_that_it_refused() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        path, head = api.path("configmaps", name="web"), api.store.journal.head
        assert (await api.ask("DELETE", path, token=ALICE)).status == 403
        assert (await api.ask("GET", path, token=ALICE)).status == 403  # a read
        assert (await api.ask("DELETE", api.path("configmaps", name="missing"))).status == 404
        assert (await api.ask("POST", api.path("configmaps"), config_map("web"))).status == 409
        wrong = {**config_map("new"), "metadata": {"name": "New"}}
        assert (await api.ask("POST", f"{api.path('configmaps')}?fieldManager=tool", wrong)).status == 422
        secret = {"metadata": {"name": "key"}, "data": {"password": "not in base64"}}
        await api.create("secrets", {"metadata": {"name": "other"}})
        refused = await api.ask("POST", api.path("secrets"), secret)
        assert refused.status == 400
        found = (await api.ask("GET", REFUSED)).expect(200)["items"]
        assert [(one["code"], one["verb"], one["user"], one["name"]) for one in found] == [
            (400, "create", "admin", ""),
            (422, "create", "admin", "New"),
            (409, "create", "admin", "web"),
            (403, "delete", "alice", "web"),
        ]
        assert found[0]["message"] == "" and found[1]["manager"] == "tool"
        assert 'cannot delete resource "configmaps"' in found[3]["message"]
        assert api.store.journal.head == head + 1  # none of them is in the journal
        assert await users(api, token=ALICE) == []
        assert (api.settings.data_dir / FILE).stat().st_mode & 0o777 == 0o600


async def test_conflicts_are_marked_and_can_be_left_out() -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("web"))
        path = api.path("configmaps", name="web")
        assert (await api.ask("POST", api.path("configmaps"), config_map("web"))).status == 409
        stale = {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}
        assert (await api.ask("PUT", path, stale)).status == 409
        preconditions = {"preconditions": {"uid": "another"}}
        assert (await api.ask("DELETE", path, preconditions)).status == 409
        applied = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("web", color="red")}
        apply = {"content-type": "application/apply-patch+yaml"}
        await api.ask("PATCH", f"{path}?fieldManager=first", applied, headers=apply)
        applied["data"] = {"color": "blue"}
        assert (await api.ask("PATCH", f"{path}?fieldManager=second", applied, headers=apply)).status == 409
        found = (await api.ask("GET", REFUSED)).expect(200)["items"]
        assert [(one["verb"], one["conflict"]) for one in found] == [
            ("patch", False),  # of field managers
            ("delete", True),
            ("update", True),
            ("create", True),
        ]
        assert len(await users(api, "?conflicts=false")) == 1


async def test_conflicts_leave_room_for_refusals(tmp_path: Path) -> None:
    conflict = request(2, "busy", code=409, reason="Conflict", message="Operation cannot be fulfilled on it")
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / FILE
    file.write_bytes(request(1, "denied") + conflict * (LARGEST // len(conflict)))
    async with served(tmp_path) as api:
        await api.create("configmaps", config_map("web"))
        assert (await api.ask("DELETE", api.path("configmaps", name="web"), token=ALICE)).status == 403
        assert await users(api) == ["alice", "denied"]


async def test_a_running_server_drops_the_older_half(tmp_path: Path) -> None:
    old = b"".join(request(number, f"{number}", message="x" * 1000) for number in range(LARGEST // 1000))
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / FILE
    file.write_bytes(old)
    async with served(tmp_path) as api:
        await api.create("configmaps", config_map("web"))
        assert (await api.ask("DELETE", api.path("configmaps", name="web"), token=ALICE)).status == 403
        assert (await users(api, "?limit=1"))[0] == "alice"
        kept = list(refused_in(file.parent))
        assert kept[-1]["user"] == "alice" and kept[-2]["user"] == f"{LARGEST // 1000 - 1}"
        assert LARGEST // 3 < file.stat().st_size <= LARGEST
