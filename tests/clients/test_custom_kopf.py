"""A kopf operator finds a kind that is defined while it runs, and writes the status of its objects."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import trio

from rewound.testing.fixture.rewound import Rewound
from tests.clients.program import TIMEOUT, program
from tests.clients.shops import DEFINITION, shop

OPERATOR = Path(__file__).parent / "python" / "shop_operator.py"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHOPS = "/apis/example.com/v1/namespaces/default/shops"
MERGE = {"content-type": "application/merge-patch+json"}


async def test_kopf_operator_writes_the_status_of_a_custom_kind(
    python_clients: dict[str, str], rewound: Rewound, tmp_path: Path
) -> None:
    async with rewound.client("httpx-async") as api:
        environment = {**python_clients, **rewound.environment, "HOME": str(tmp_path)}
        command = [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", str(OPERATOR)]
        async with program(command, environment) as operator:
            await expect(api.post(DEFINITIONS, json=DEFINITION))
            await until(api, DEFINITIONS + "/shops.example.com", is_established)
            await expect(api.post(SHOPS, json=shop("corner", "red")))
            await operator.until(lambda lines: '["created", "corner"]' in lines)
            found = await until(api, f"{SHOPS}/corner", lambda one: phase(one) == "Open in red")
            assert found["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
            await expect(api.patch(f"{SHOPS}/corner", json={"spec": {"colour": "blue"}}, headers=MERGE))
            await until(api, f"{SHOPS}/corner", lambda one: phase(one) == "Open in blue")
            await expect(api.delete(f"{SHOPS}/corner"))
            await operator.until(lambda lines: '["deleted", "corner"]' in lines)
            await until(api, f"{SHOPS}/corner", lambda one: one.get("reason") == "NotFound")
    # kopf promises to call a handler at least once.
    assert [json.loads(line) for line in dict.fromkeys(operator.lines)] == [
        ["created", "corner"],
        ["painted", "corner", "red", "blue"],
        ["deleted", "corner"],
    ]


async def expect(request: Any) -> None:
    response = await request
    assert response.is_success, response.text


async def until(api: httpx.AsyncClient, path: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    with trio.fail_after(TIMEOUT):
        while True:
            found: dict[str, Any] = (await api.get(path)).json()
            if holds(found):
                return found
            await trio.sleep(0.05)


def is_established(definition: dict[str, Any]) -> bool:
    conditions = definition["status"]["conditions"] or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def phase(found: dict[str, Any]) -> str:
    return str(found.get("status", {}).get("phase", ""))
