"""Watches are authorized before all other checks, and by name if the selector matches only one name."""

from __future__ import annotations

import pytest

from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision, Rules
from rewound.actors.identity import User
from rewound.server.extensions import Extensions
from tests.cases import cases
from tests.gateway.api import ALICE, config_map, served
from tests.gateway.shared_server import shared
from tests.gateway.watch.watching import watching

PATH = "/api/v1/namespaces/default/configmaps"


class OnlyMine:
    """Alice may watch the object called mine."""

    def authorize(self, attributes: Attributes) -> Decision:
        asked = (attributes.user.name, attributes.verb, attributes.name)
        return ALLOWED if asked == ("alice", "watch", "mine") else NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


@pytest.mark.parametrize("path", [f"{PATH}?watch=1", "/api/v1/watch/namespaces/default/configmaps"])
async def test_watch_without_permission_is_forbidden(path: str) -> None:
    async with shared() as api:
        status = (await api.ask("GET", path, token=ALICE)).expect(403)
        assert status["message"] == (
            'configmaps is forbidden: User "alice" cannot watch resource "configmaps" in API group "" '
            'in the namespace "default"'
        )


async def test_permission_for_one_name_allows_a_watch_of_it() -> None:
    async with served(extensions=Extensions(authorizers=[OnlyMine()])) as api:
        for query in ({"fieldSelector": "metadata.name=mine"}, {"fieldSelector": "metadata.name==mine"}):
            async with watching(api, PATH, token=ALICE, **query) as watch:
                assert watch.status == 200
        async with watching(api, f"{PATH}/mine", token=ALICE) as watch:
            await api.create("configmaps", config_map("other"))
            await api.create("configmaps", config_map("mine"))
            assert await watch.types_and_names(1) == [("ADDED", "mine")]
        for selector in (
            "",
            "metadata.name=other",
            "metadata.name!=mine",
            "metadata.name=mine/..",
            "metadata.namespace=mine",
            "metadata.name=a\\",
        ):
            response = await api.ask("GET", PATH, token=ALICE, watch=1, fieldSelector=selector)
            assert response.status == 403


async def test_forbidden_message_has_the_selected_name() -> None:
    async with shared() as api:
        query = {"watch": 1, "fieldSelector": "metadata.name=other"}
        status = (await api.ask("GET", PATH, token=ALICE, **query)).expect(403)
        assert status["details"] == {"name": "other", "kind": "configmaps"}
        assert status["message"].startswith('configmaps "other" is forbidden: User "alice" cannot watch')


@cases("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_deprecated_watch_paths_allow_only_get(method: str) -> None:
    async with shared() as api:
        for path in (
            "/api/v1/watch/namespaces/default/configmaps",
            "/api/v1/watch/namespaces/default/configmaps/a",
        ):
            response = await api.ask(method, path, config_map("a"))
            assert response.status == 405
        assert (await api.list("configmaps", fieldSelector="metadata.name=a"))["items"] == []
