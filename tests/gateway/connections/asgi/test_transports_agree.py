"""The same conversation gets the same responses over each transport: the slow ones verify the fast one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.gateway.api import ADMIN, ALICE, Api, config_map, served
from tests.gateway.transports import TRANSPORTS, over

# These differ between servers, connections or responses.
DIFFERENT = {
    "alt-svc", "audit-id", "connection", "date", "server", "transfer-encoding",
    "x-cluster-pf-flowschema-uid", "x-cluster-pf-prioritylevel-uid",
}  # fmt: skip
UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}")
MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.cluster.io"}
MERGE = {"content-type": "application/merge-patch+json"}
CONVERSATION: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
    ("GET", "/version", None, {}),
    ("GET", "/apis", None, {"headers": {"accept-encoding": "gzip"}}),
    ("GET", "/openapi/v3", None, {}),
    ("GET", "/no/such/path", None, {}),
    ("GET", "/healthz", None, {"token": None}),
    ("OPTIONS", MAPS, None, {}),
    ("POST", MAPS, config_map("a", k="v" * 300_000), {}),
    ("POST", MAPS, config_map("b", k="ü"), {"headers": {"accept": "application/yaml"}}),
    ("POST", MAPS, b"{", {}),
    ("PATCH", f"{MAPS}/b", {"data": {"more": "1"}}, {"headers": MERGE}),
    ("GET", f"{MAPS}/b", None, {}),
    ("GET", f"{MAPS}/b?pretty=true", None, {}),
    ("GET", MAPS, None, {"headers": TABLE}),
    ("GET", f"{MAPS}?labelSelector=%zz", None, {}),
    ("GET", f"{MAPS}/%zz", None, {}),
    ("GET", MAPS, None, {"headers": {"accept": "application/vnd.cluster.protobuf"}}),
    ("GET", MAPS, None, {"headers": {"accept": "text/plain"}}),
    ("GET", MAPS, None, {"token": ALICE}),
    ("GET", MAPS, None, {"token": "unknown"}),
    ("GET", MAPS, None, {"token": None}),
    ("GET", f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0", None, {}),
    ("GET", f"{MAPS}?watch=1&resourceVersion=x", None, {}),
    ("GET", "/api/v1/namespaces/default/pods/p/exec?command=sh", None, {}),
    ("DELETE", f"{MAPS}/a", None, {}),
    ("DELETE", MAPS, None, {}),
)


async def _conversation(transport: str, **settings: Any) -> list[tuple[Any, ...]]:
    given = {**settings, **TRANSPORTS[transport].settings}
    async with served(**given) as served_api, over(transport, served_api) as api:
        return [await _normal(api, *one) for one in CONVERSATION]


async def _normal(api: Api, method: str, path: str, body: Any, more: dict[str, Any]) -> tuple[Any, ...]:
    found = await api.ask(method, path, body, **{"token": ADMIN, **more})
    fields = {name: value for name, value in found.headers.multi_items() if name not in DIFFERENT}
    if "content-encoding" in fields:
        fields.pop("content-length", None)  # depends on the uids
    names: dict[bytes, bytes] = {}
    text = UID.sub(lambda match: names.setdefault(match[0], b"<%d>" % len(names)), found.body)
    return method, path, found.status, fields, text


@pytest.fixture(scope="module")
def recorded() -> dict[int, list[tuple[Any, ...]]]:
    """The responses over HTTP/1.1, on the secure port: with certificates there are more initial objects."""
    return {}


@pytest.mark.parametrize("transport", [one for one in TRANSPORTS if one != "http1"])
async def test_responses_are_equal(transport: str, recorded: dict[int, list[tuple[Any, ...]]]) -> None:
    port = TRANSPORTS[transport].settings.get("secure_port", 0)
    if port not in recorded:
        recorded[port] = await _conversation("http1", secure_port=port)
    for found, wanted in zip(await _conversation(transport), recorded[port], strict=True):
        for one, other in zip(found, wanted, strict=True):
            assert one == other, found[:3]
