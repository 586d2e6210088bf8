"""componentstatuses: the health of the server's parts, computed on every read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal.errors import StorageFull
from rewound.journal.log import Journal
from tests.cases import cases
from tests.gateway.api import config_map, names, served
from tests.gateway.protobuf_client import MEDIA
from tests.gateway.shared_server import shared

PATH = "/api/v1/componentstatuses"
COMPONENTS = {"cluster": ["controllers", "journal"], "kubernetes": ["controller-manager", "etcd-0"]}
WARNING = '299 - "v1 ComponentStatus is deprecated in v1.19+"'
dialects = pytest.mark.parametrize("dialect", COMPONENTS)


@dialects
async def test_healthy_server_has_healthy_components(dialect: str) -> None:
    async with served(dialect=dialect) as api:
        response = await api.ask("GET", PATH)
        listed = response.expect(200)
        assert response.warnings == [WARNING]
        assert (listed["kind"], listed["apiVersion"], listed["metadata"]) == ("ComponentStatusList", "v1", {})
        assert names(listed) == COMPONENTS[dialect]
        for one in listed["items"]:
            [condition] = one["conditions"]
            assert (condition["type"], condition["status"], "error" in condition) == (
                "Healthy",
                "True",
                False,
            )
            assert ("message" in condition) == (one["metadata"]["name"] != "etcd-0")
            assert one["metadata"]["creationTimestamp"] is None
            got = (await api.ask("GET", f"{PATH}/{one['metadata']['name']}")).expect(200)
            assert got == {"kind": "ComponentStatus", "apiVersion": "v1", **one}


async def test_full_disk_makes_the_journal_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StorageFull(Path("data"), "No space left on device")

    async with served(dialect="kubernetes") as api:
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "write", full)
            (await api.ask("POST", api.path("configmaps"), config_map("a"))).expect(507)
            [condition] = (await api.ask("GET", f"{PATH}/etcd-0")).expect(200)["conditions"]
            assert (condition["type"], condition["status"]) == ("Healthy", "False")
            assert "No space left on device" in condition["error"]
            assert "[-]etcd failed" in (await api.ask("GET", "/readyz?verbose")).text
            assert (await api.ask("GET", "/livez/etcd")).status == 200
            assert (await api.ask("GET", "/readyz/etcd-readiness")).status == 200


async def test_component_statuses_as_a_table() -> None:
    async with served() as api:
        table = "application/json;as=Table;g=meta.cluster.io;v=v1"
        returned = (await api.ask("GET", PATH, headers={"accept": table})).expect(200)
        assert [column["name"] for column in returned["columnDefinitions"]] == [
            "Name",
            "Status",
            "Message",
            "Error",
        ]
        assert [row["cells"][:2] for row in returned["rows"]] == [
            ["controllers", "Healthy"],
            ["journal", "Healthy"],
        ]


@cases(
    ("query", "found"),
    [
        ("fieldSelector=metadata.name=journal", ["journal"]),
        ("fieldSelector=metadata.name!=journal", ["controllers"]),
        ("labelSelector=a=b", []),
        ("labelSelector=!a", ["controllers", "journal"]),
    ],
)
async def test_selectors_select_component_statuses(query: str, found: list[str]) -> None:
    async with shared() as api:
        assert names((await api.ask("GET", f"{PATH}?{query}")).expect(200)) == found


async def test_component_statuses_in_protobuf() -> None:
    async with served() as api:
        response = await api.ask("GET", f"{PATH}/journal", headers={"accept": MEDIA})
        assert (response.status, response.body[:4]) == (200, b"k8s\x00")


async def test_component_statuses_are_read_only() -> None:
    async with served() as api:
        (await api.ask("GET", f"{PATH}/missing")).expect(404)
        for method, path in (("POST", PATH), ("DELETE", PATH), ("PUT", f"{PATH}/journal")):
            response = await api.ask(method, path, {})
            assert (response.status, response.headers["allow"]) == (405, "GET")
        (await api.ask("GET", f"{PATH}?watch=1")).expect(405)


async def test_list_refuses_a_wrong_timeout() -> None:
    async with shared() as api:
        refused = (await api.ask("GET", f"{PATH}?timeoutSeconds=soon")).expect(400)
        assert "must be a 64-bit integer" in refused["message"]
        (await api.ask("GET", f"{PATH}?timeoutSeconds=5")).expect(200)
