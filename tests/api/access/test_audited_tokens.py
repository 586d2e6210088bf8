"""Audit events name service account tokens without an audience, and tokens that are used past their intended
lifetime.
"""

from __future__ import annotations

from tests.api.access.test_service_account_tokens import pod
from tests.gateway.account_tokens import claims_of, issued, make_account, own_key, signed, status_with
from tests.gateway.audit.auditing import audited, rules

USER = "system:serviceaccount:default:robot"
LEGACY, STALE = "authentication.cluster.io/legacy-token", "authentication.cluster.io/stale-token"


async def test_token_without_an_audience_is_annotated() -> None:
    async with audited(rules("level: Metadata")) as audit:
        api = audit.api
        await make_account(api)
        usual = await issued(api)
        claims = {name: value for name, value in claims_of(usual).items() if name != "aud"}
        for token in (usual, signed(claims, own_key(api))):
            for _ in range(2):  # the second one is found by its header
                assert await status_with(api, token) == 403
        await api.finish()
        ended = [one for one in audit.events if one["stage"] == "ResponseComplete"]
        uses = [one["annotations"] for one in ended if one["user"]["username"] == USER]
        assert [use.get(LEGACY) for use in uses] == [None, None, USER, USER]
        first = [one for one in audit.events if one["stage"] == "RequestReceived"]
        uses_at_first = [one.get("annotations", {}) for one in first if one["user"]["username"] == USER]
        assert uses_at_first == [{}, {}, {LEGACY: USER}, {LEGACY: USER}]
        assert not any(STALE in use for use in uses)


async def test_use_of_a_token_after_its_requested_time_is_annotated() -> None:
    async with audited(rules("level: Metadata")) as audit:
        api = audit.api
        await make_account(api)
        await api.create("pods", pod())
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        token = await issued(api, expirationSeconds=3607, boundObjectRef=reference)
        for seconds in (0, 3606, 11, 5):
            api.clock.advance(seconds)
            assert await status_with(api, token) == 403
        await api.delete("pods", "p", gracePeriodSeconds=0)
        assert await status_with(api, token) == 401
        await api.finish()
        ended = [one for one in audit.events if one["stage"] == "ResponseComplete"]
        uses = [one["annotations"].get(STALE) for one in ended if one["user"].get("username") == USER]
        late = f"subject: {USER}, seconds after warning threshold"
        assert uses == [None, None, f"{late}: 10", f"{late}: 15"]
