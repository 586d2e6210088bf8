"""The resourceVersion in the response to a delete: that of the removal since 1.26, before that of the object."""

from __future__ import annotations

import pytest

from tests.gateway.api import served


@pytest.mark.parametrize(("kubernetes", "newer"), [("1.25", False), ("1.36", True)])
async def test_version_of_a_deleted_object(kubernetes: str, newer: bool) -> None:
    async with served(dialect="kubernetes", kubernetes_version=kubernetes) as api:
        path = "/api/v1/namespaces/default/resourcequotas"
        made = (await api.ask("POST", path, {"metadata": {"name": "q"}})).expect(201)
        tried = (await api.ask("DELETE", f"{path}/q?dryRun=All")).expect(200)
        assert tried["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        deleted = (await api.ask("DELETE", f"{path}/q")).expect(200)
        versions = [int(one["metadata"]["resourceVersion"]) for one in (made, deleted)]
        assert (versions[1] > versions[0]) == newer
