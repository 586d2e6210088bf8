"""A path longer than any that a client needs is refused before it is decoded."""

from __future__ import annotations

import pytest

from rewound.gateway.pipeline.route import LONGEST_PATH, find_route
from tests.gateway.api import ALICE, served


@pytest.mark.parametrize("token", [ALICE, None])
async def test_long_paths_are_refused(token: str | None) -> None:
    async with served() as api:
        for start in ("/api/v1/namespaces/default/configmaps/", "/healthz/", "/apis/a.example.com/v1/"):
            for piece in ("%41", "a/", "x"):
                path = start + piece * (LONGEST_PATH // len(piece))
                refused = await api.ask("GET", path, token=token)
                assert (refused.status, "Request URI too long" in refused.text) == (414, True), path[:60]
        longest = "/api/v1/namespaces/default/configmaps/"
        longest += "x" * (LONGEST_PATH - len(longest))
        assert (await api.ask("GET", longest)).status == 404


def test_route_of_a_path_that_is_too_long_has_only_its_beginning() -> None:
    route = find_route("GET", "/api/v1/" + "%41" * LONGEST_PATH)
    assert (len(route.path), route.is_resource, "%41" in route.path) == (LONGEST_PATH, False, True)
