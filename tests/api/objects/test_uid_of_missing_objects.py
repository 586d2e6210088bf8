"""An update with the uid of an object that does not exist is a conflict, whether or not updates create the kind."""

from __future__ import annotations

from tests.gateway.api import served


async def test_update_of_a_missing_object_with_a_uid_is_a_conflict() -> None:
    async with served() as api:
        sent = {"metadata": {"name": "none", "uid": "other"}}
        (await api.ask("PUT", api.path("configmaps", name="none"), sent)).expect(409)
        (await api.ask("PUT", api.path("leases", name="none"), sent)).expect(409)
        del sent["metadata"]["uid"]
        (await api.ask("PUT", api.path("configmaps", name="none"), sent)).expect(404)
