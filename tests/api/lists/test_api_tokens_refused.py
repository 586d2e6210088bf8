"""Continue tokens that this list cannot use are a 400."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.actors.object_store import Refused, Verbs
from tests.cases import checking
from tests.gateway.api import Opener, config_map, everywhere, names
from tests.gateway.shared_server import shared


def forged(**fields: Any) -> str:
    whole = {"v": 1, "t": 1_700_000_000_000_000, "n": "default", "a": "a", "r": 1, **fields}
    return base64.urlsafe_b64encode(json.dumps(whole).encode()).rstrip(b"=").decode()


async def refused_with(api: Verbs, token: str, **query: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        await api.list("configmaps", **{"continue": token, **query})
    return refused.value


MALFORMED = [
    "x",
    "!!!!",
    "eyJ2",
    "AAAA",
    "%00",
    "ü",
    base64.urlsafe_b64encode(b"[]").decode(),
    base64.urlsafe_b64encode(b"null").decode(),
    base64.urlsafe_b64encode(b"{}").decode(),
    base64.urlsafe_b64encode(b"[" * 5000).decode(),
    "A" * 5000,
    forged(v="1"),
    forged(v=0),
    forged(v=-2),
    forged(v=1.5),
    forged(v=True),
    forged(v=None),
    forged(v=2**64),
    forged(t="now"),
    forged(n=1),
    forged(a=""),
    forged(a=None),
    forged(r="many"),
]


@everywhere
async def test_malformed_tokens_are_refused(opened: Opener) -> None:
    async with opened() as api:
        with checking() as case:
            for token in MALFORMED:
                with case(token):
                    refused = await refused_with(api, token)
                    assert refused.reason == "BadRequest"
                    assert refused.message.startswith("continue key is not valid: ")


@everywhere
async def test_token_with_an_impossible_name_is_accepted(opened: Opener) -> None:
    async with opened() as api:
        head = int((await api.create("configmaps", config_map("m")))["metadata"]["resourceVersion"])
        with checking() as case:
            for name in ("\0", "a\0b", "x" * 10_000, "../..", "ü\u2028", "\ufffe"):
                with case(name):
                    page = await api.list("configmaps", **{"continue": forged(v=head, a=name)})
                    assert names(page) == (["m"] if name < "m" else [])


@everywhere
async def test_token_of_another_namespace_is_refused(opened: Opener) -> None:
    async with opened() as api:
        for name in ("a", "b"):
            await api.create("configmaps", config_map(name))
        token = (await api.list("configmaps", limit=1))["metadata"]["continue"]
        with pytest.raises(Refused, match="another namespace") as refused:
            await api.list("configmaps", "cluster-system", **{"continue": token})
        assert refused.value.reason == "BadRequest"


@everywhere
async def test_token_of_all_namespaces_stays_in_the_requested_one(opened: Opener) -> None:
    async with opened() as api:
        for namespace in ("cluster-public", "default"):
            for name in ("a", "b"):
                await api.create("configmaps", config_map(name), namespace)
        token = (await api.list("configmaps", None, limit=1))["metadata"]["continue"]
        page = await api.list("configmaps", "cluster-public", **{"continue": token})
        assert names(page) == ["b"]


@everywhere
async def test_token_of_a_future_version_is_refused(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.actors.store.reads.VERSION_WAIT", 0.01)
    async with opened() as api:
        assert (await refused_with(api, forged(v=1_000_000))).reason == "Timeout"


@everywhere
@pytest.mark.parametrize("issued", [-(2**63), 2**63 - 1])
async def test_token_with_a_forged_time_expires_or_continues(opened: Opener, issued: int) -> None:
    async with opened() as api:
        head = int((await api.create("configmaps", config_map("m")))["metadata"]["resourceVersion"])
        token = forged(v=head, t=issued)
        if issued < 0:
            assert (await refused_with(api, token)).reason == "Expired"
        else:
            assert names(await api.list("configmaps", **{"continue": token})) == ["m"]


@everywhere
async def test_forged_count_does_not_change_the_items(opened: Opener) -> None:
    async with opened() as api:
        for name in ("a", "b", "c"):
            made = await api.create("configmaps", config_map(name))
        with checking() as case:
            for remaining in (-(2**63), -5, 0, 2**63 - 1):
                with case(remaining):
                    token = forged(v=int(made["metadata"]["resourceVersion"]), r=remaining)
                    assert await names_from(api, token) == ["b", "c"]


async def names_from(api: Verbs, token: str) -> list[str]:
    """The names on all pages, starting with a token."""
    seen: list[str] = []
    while token:
        page = await api.list("configmaps", limit=1, **{"continue": token})
        seen += names(page)
        token = page["metadata"].get("continue", "")
    return seen


async def test_status_names_the_parameter() -> None:
    async with shared() as api:
        status = (await api.ask("GET", api.path("configmaps"), **{"continue": "x"})).expect(400)
        assert status["reason"] == "BadRequest"
        assert "continue key is not valid" in status["message"]
        assert (await api.ask("GET", "/livez")).status == 200
