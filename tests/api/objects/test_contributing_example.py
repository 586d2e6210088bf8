"""The kind that CONTRIBUTING.md adds as an example is short, and a server serves it fully."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from rewound.actors.kinds import built_in
from tests.gateway.api import Api, served

GUIDE = Path(__file__).parents[3] / "CONTRIBUTING.md"
BOATS = "/apis/harbour.cluster.io/v1/namespaces/default/boats"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.cluster.io"}


def example() -> str:
    found = re.search(r"## Adding a kind.*?```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture
def harbour(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("harbour")
    exec(compile(example(), str(GUIDE), "exec"), vars(module))
    monkeypatch.setattr(built_in, "_GROUPS", (*built_in._GROUPS, module))


def test_example_is_short() -> None:
    assert len([line for line in example().splitlines() if line]) < 40


@pytest.mark.usefixtures("harbour")
async def test_server_serves_the_example_kind() -> None:
    async with served() as api:
        await served_like_any_other(api)
        await refused_where_it_is_wrong(api)


async def served_like_any_other(api: Api) -> None:
    (entry,) = (await api.ask("GET", "/apis/harbour.cluster.io/v1")).expect(200)["resources"]
    assert (entry["name"], entry["kind"], entry["shortNames"]) == ("boats", "Boat", ["bo"])
    document = {"metadata": {"name": "a"}, "spec": {"berth": 3, "crew": ["ann"]}}
    made = (await api.ask("POST", BOATS, document)).expect(201)
    assert made["spec"] == {"berth": 3, "flag": "white", "crew": ["ann"]}
    assert made["metadata"]["managedFields"]
    table = (await api.ask("GET", BOATS, headers=TABLE)).expect(200)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Berth", "Age"]
    assert table["rows"][0]["cells"][:2] == ["a", 3]
    applied = {"apiVersion": "harbour.cluster.io/v1", "kind": "Boat", "spec": {"crew": ["bob"]}}
    apply = {"content-type": "application/apply-patch+yaml"}
    changed = await api.ask("PATCH", f"{BOATS}/a", applied, headers=apply, fieldManager="m")
    assert changed.expect(200)["spec"]["crew"] == ["ann", "bob"]


async def refused_where_it_is_wrong(api: Api) -> None:
    refused = (await api.ask("POST", BOATS, {"metadata": {"name": "b"}, "spec": {"berth": 0}})).expect(422)
    assert refused["details"]["causes"][0]["field"] == "spec.berth"
    odd = {"metadata": {"name": "b"}, "spec": {"berth": 1, "sails": 2}}
    response = await api.ask("POST", BOATS, odd)
    assert response.warnings == ['299 - "unknown field \\"spec.sails\\""']
