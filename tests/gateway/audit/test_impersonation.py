"""Audit events have both identities of an impersonated request; the policy is matched with the caller's."""

from __future__ import annotations

from tests.gateway.api import ALICE
from tests.gateway.audit.auditing import PATH, audited, rules

POLICY = rules(
    "level: Metadata, users: [admin, alice]", "level: None", more="omitStages: [RequestReceived]\n"
)


async def test_both_identities_are_shown() -> None:
    async with audited(POLICY) as audit:
        headers = {"impersonate-user": "bob", "impersonate-group": "ops", "impersonate-uid": "7"}
        assert (await audit.api.ask("GET", PATH, headers=headers)).status == 403
        await audit.api.finish()
        event = audit.one()
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"] == {
        "username": "bob",
        "uid": "7",
        "groups": ["ops", "system:authenticated"],
    }
    assert event["responseStatus"]["code"] == 403
    assert event["annotations"]["authorization.cluster.io/decision"] == "forbid"


async def test_a_refused_impersonation_is_shown_as_the_callers() -> None:
    async with audited(POLICY) as audit:
        refused = await audit.api.ask("GET", PATH, token=ALICE, headers={"impersonate-user": "admin"})
        assert refused.status == 403
        await audit.api.finish()
        event = audit.one()
    assert event["user"]["username"] == "alice"
    assert "impersonatedUser" not in event
    assert event["responseStatus"]["code"] == 403
