"""A resourceVersion in a sent object must be a 64-bit number, for a built-in and a custom kind."""

from __future__ import annotations

from tests.api.generic.kinds import MERGE, Opened, both
from tests.cases import checking
from tests.gateway.shared_server import shared

APPLY = {"content-type": "application/apply-patch+yaml"}
NO_VERSIONS = ("v1", "-1", "+5", " 5", "5 ", "1.0", "0x5", "1_0", "a/b", "\u0663", str(2**64), "9" * 5000)


@both
async def test_create_ignores_what_is_no_version(opened: Opened) -> None:
    async with opened() as kind:
        with checking() as case:
            for text in (*NO_VERSIONS, "", "0", "00"):
                with case(text[:30]):
                    made = await kind.ask("POST", body=kind.body("a", metadata={"resourceVersion": text}))
                    assert int(made.expect(201)["metadata"]["resourceVersion"]) > 0
                    (await kind.ask("DELETE", "a")).expect(200)
            for text in ("1", "007", str(2**64 - 1)):
                with case(text):
                    refused = await kind.ask("POST", body=kind.body("a", metadata={"resourceVersion": text}))
                    assert "resourceVersion should not be set" in refused.expect(400)["message"]


@both
async def test_other_writes_refuse_what_is_no_version(opened: Opened) -> None:
    async with opened() as kind:
        before = await kind.create("a", k="1")
        with checking() as case:
            for text in NO_VERSIONS:
                with case(text[:30]):
                    sent = kind.body("a", metadata={"resourceVersion": text}, k="2")
                    for refused in (
                        await kind.ask("PUT", "a", sent),
                        await kind.ask("PATCH", "a", sent, headers=MERGE),
                        await kind.ask("PATCH", "a", sent, headers=APPLY, fieldManager="m", force="true"),
                    ):
                        message = refused.expect(400)["message"]
                        assert message.startswith("metadata.resourceVersion: Invalid value: ")
            with case("an apply that would create"):
                sent = kind.body("b", metadata={"resourceVersion": "v1"})
                (await kind.ask("PATCH", "b", sent, headers=APPLY, fieldManager="m")).expect(400)
        assert await kind.get("a") == before


@both
async def test_zeros_before_a_version_do_not_count(opened: Opened) -> None:
    async with opened() as kind:
        before = await kind.create("a", k="1")
        version = before["metadata"]["resourceVersion"]
        sent = kind.body("a", metadata={"resourceVersion": f"00{version}"}, k="2")
        (await kind.ask("PUT", "a", sent)).expect(200)
        (await kind.ask("PUT", "a", sent)).expect(409)


async def test_update_that_creates_refuses_what_is_no_version() -> None:
    async with shared() as api:
        lease = {"metadata": {"name": "none", "resourceVersion": "v1"}}
        refused = await api.ask("PUT", api.path("leases", name="none"), lease, dryRun="All")
        assert refused.expect(400)["message"].startswith("metadata.resourceVersion: Invalid value: ")
