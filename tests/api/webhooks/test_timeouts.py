"""A write that waits for webhooks ends after the client's timeout, or 34 s: 504, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.server import open_store
from tests.api.webhooks.hooking import CONFIG_MAPS, MAPS, Hooks, hooking
from tests.gateway.api import ApiResponse, SlowDisk
from tests.settling import settled

ALLOTTED = "Timeout: request did not complete within the allotted timeout"
REQUESTED = "Timeout: request did not complete within requested timeout - context deadline exceeded"


class Hanging:
    """A webhook that responds when the test lets it."""

    def __init__(self) -> None:
        self.reached, self.may_respond = trio.Event(), trio.Event()

    async def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        self.reached.set()
        await self.may_respond.wait()
        return {}


class Asked:
    """A request that was sent, and its response."""

    def __init__(self, hooks: Hooks, method: str, path: str, body: Any = None, **more: Any) -> None:
        self._arrived = trio.Event()
        self._response: ApiResponse | None = None
        hooks.api.nursery.start_soon(self._ask, hooks, method, path, body, more)

    async def _ask(self, hooks: Hooks, method: str, path: str, body: Any, more: dict[str, Any]) -> None:
        self._response = await hooks.api.ask(method, path, body, **more)
        self._arrived.set()

    @property
    def is_answered(self) -> bool:
        return self._arrived.is_set()

    async def response(self) -> ApiResponse:
        await self._arrived.wait()
        assert self._response is not None
        return self._response


def check_timeout(response: ApiResponse, message: str) -> None:
    status = response.expect(504)
    assert (status["reason"], status["message"], status["details"]) == ("Timeout", message, {})
    assert "retry-after" not in response.headers


WRITES: dict[str, tuple[str, str, Any, dict[str, str]]] = {
    "create": ("POST", MAPS, {"metadata": {"name": "b"}}, {}),
    "replace": ("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"x": "y"}}, {}),
    "patch": ("PATCH", f"{MAPS}/a", {"data": {"x": "y"}}, {"content-type": "application/merge-patch+json"}),
    "delete": ("DELETE", f"{MAPS}/a", None, {}),
}


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@pytest.mark.parametrize("write", WRITES)
async def test_timeout_of_the_client_ends_a_write(write: str, kind: str, mock_clock: MockClock) -> None:
    method, path, body, headers = WRITES[write]
    async with hooking(hang=(hanging := Hanging())) as hooks:
        (await hooks.create("a")).expect(201)
        await hooks.configure(kind, hooks.hook("a.example.com", "/hang", failurePolicy="Ignore"))
        head = await hooks.api.head()
        asked = Asked(hooks, method, path, body, headers=headers, timeout="2s")
        await hanging.reached.wait()
        mock_clock.jump(1.9)
        await settled()
        assert not asked.is_answered
        mock_clock.jump(0.1)
        check_timeout(await asked.response(), ALLOTTED)
        hanging.may_respond.set()
        await settled()
        assert await hooks.api.head() == head


@pytest.mark.parametrize("query", [{}, {"timeout": "50s"}])
async def test_write_ends_after_34_seconds(query: dict[str, str], mock_clock: MockClock) -> None:
    """With two webhooks that take 20 s each, even if the client allows more."""
    first, second = Hanging(), Hanging()
    async with hooking(first=first, second=second) as hooks:
        for name, kind in (("first", "mutating"), ("second", "validating")):
            await hooks.configure(kind, hooks.hook(f"{name}.example.com", f"/{name}", timeoutSeconds=30))
        head = await hooks.api.head()
        asked = Asked(hooks, "POST", MAPS, {"metadata": {"name": "a"}}, **query)
        await first.reached.wait()
        mock_clock.jump(20)
        first.may_respond.set()
        await second.reached.wait()
        mock_clock.jump(13.9)
        await settled()
        assert not asked.is_answered
        mock_clock.jump(0.1)
        check_timeout(await asked.response(), REQUESTED)
        second.may_respond.set()
        assert await hooks.api.head() == head


async def test_timeout_that_is_not_positive_is_none(mock_clock: MockClock) -> None:
    async with hooking(hang=(hanging := Hanging())) as hooks:
        await hooks.configure("mutating", hooks.hook("a.example.com", "/hang"))
        asked = [
            Asked(hooks, "POST", MAPS, {"metadata": {"name": f"a{n}"}}, timeout=f"{n}s") for n in (0, -1)
        ]
        await hanging.reached.wait()
        mock_clock.jump(5)
        await settled()
        hanging.may_respond.set()
        for one in asked:
            (await one.response()).expect(201)


@pytest.mark.parametrize(
    ("resource", "group", "path", "body"),
    [
        (
            "subjectaccessreviews",
            "authorization.cluster.io",
            "/apis/authorization.cluster.io/v1/subjectaccessreviews",
            {"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}},
        ),
        (
            "serviceaccounts/token",
            "",
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            {"spec": {}},
        ),
        (
            "pods/eviction",
            "",
            "/api/v1/namespaces/default/pods/p/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}},
        ),
    ],
)
async def test_timeout_of_the_client_ends_what_is_not_stored(
    resource: str, group: str, path: str, body: dict[str, Any], mock_clock: MockClock
) -> None:
    async with hooking(hang=(hanging := Hanging())) as hooks:
        rule = {**CONFIG_MAPS, "resources": [resource], "apiGroups": [group]}
        await hooks.configure("validating", hooks.hook("a.example.com", "/hang", rules=[rule]))
        asked = Asked(hooks, "POST", path, body, timeout="2s")
        await hanging.reached.wait()
        mock_clock.jump(2)
        check_timeout(await asked.response(), ALLOTTED)
        hanging.may_respond.set()


async def test_write_that_is_being_stored_at_its_deadline_says_so(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 504 means that nothing is stored, so a write that waits for the disk never gets one."""
    monkeypatch.setattr(open_store, "Committer", SlowDisk)
    async with hooking(hang=(hanging := Hanging())) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/hang"))
        asked = Asked(hooks, "POST", MAPS, {"metadata": {"name": "a"}}, timeout="2s")
        await hanging.reached.wait()
        monkeypatch.setattr(SlowDisk, "gate", gate := trio.Event())
        hanging.may_respond.set()
        await settled()
        mock_clock.jump(40)
        await settled()
        assert not asked.is_answered
        gate.set()
        (await asked.response()).expect(201)
        (await hooks.api.ask("GET", f"{MAPS}/a")).expect(200)
