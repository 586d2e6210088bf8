"""/debug/rewound/ exists only with --enable-test-controls, and only for users who may use its paths."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tests.gateway.api import ADMIN, ALICE, served

STATUS = "/debug/rewound/"


async def test_controls_do_not_exist_without_the_flag() -> None:
    async with served() as api:
        for method, path in (("GET", STATUS), ("POST", f"{STATUS}clock"), ("POST", f"{STATUS}snapshots")):
            response = await api.ask(method, path, b"{}")
            assert (response.status, response.text) == (404, "404 page not found\n")


async def test_controls_are_authorized_as_non_resource_urls() -> None:
    async with served(enable_test_controls=True) as api:
        assert (await api.ask("GET", STATUS)).expect(200)["version"] == await api.head()
        assert (await api.ask("GET", STATUS, token=ALICE)).status == 403
        assert (await api.ask("GET", STATUS, token=None)).status == 403
        rule = {"nonResourceURLs": [f"{STATUS}*"], "verbs": ["get"]}
        await api.create("clusterroles", {"metadata": {"name": "tester"}, "rules": [rule]})
        group = api.path("clusterroles").split("/")[2]
        binding = {
            "metadata": {"name": "tester"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "tester"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
        }
        await api.create("clusterrolebindings", binding)
        assert (await api.ask("GET", STATUS, token=ALICE)).status == 200
        assert (await api.ask("POST", f"{STATUS}clock", b"{}", token=ALICE)).status == 403


async def test_unknown_control_is_not_found_and_wrong_method_is_refused() -> None:
    async with served(enable_test_controls=True) as api:
        assert (await api.ask("GET", f"{STATUS}nothing")).status == 404
        refused = await api.ask("DELETE", STATUS)
        assert (refused.status, refused.headers["allow"]) == (405, "GET")


async def test_body_may_arrive_after_the_head() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b'{"na'
        yield b'me": "before"}'

    async with served(enable_test_controls=True) as api:
        headers = {"authorization": f"Bearer {ADMIN}"}
        response = await api.client.post(f"{STATUS}snapshots", content=parts(), headers=headers)
        assert (response.status_code, response.json()["name"]) == (201, "before")
