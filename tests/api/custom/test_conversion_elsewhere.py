"""Conversion webhooks called by the server for itself: for admission, history and metrics."""

from __future__ import annotations

import base64
import ssl
from typing import Any

from tests.api.custom.converting import converting
from tests.api.custom.kinds import GROUP
from tests.api.webhooks.hooking import adding
from tests.gateway.outgoing.https_peer import Received, https_peer, pki

RULE = {"operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["v2"], "resources": ["widgets"]}


async def test_equivalent_admission_webhooks_get_and_patch_the_version_of_their_rules() -> None:
    async def respond(received: Received) -> Any:
        review = received.document
        response: Any = {"uid": review["request"]["uid"], "allowed": True}
        if review["request"]["operation"] == "CREATE":
            response |= adding("/spec/length", 40)
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}

    async with converting() as server, https_peer(respond, clients=ssl.CERT_OPTIONAL) as admission:
        ca = base64.b64encode((pki() / "ca.pem").read_bytes()).decode()
        hook = {
            "name": "a.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{admission.port}/", "caBundle": ca},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [RULE],
            "matchPolicy": "Equivalent",
        }
        path = server.api.path("mutatingwebhookconfigurations", None)
        configuration = {"metadata": {"name": "hooks"}, "webhooks": [hook]}
        (await server.api.ask("POST", path, configuration)).expect(201)
        assert (await server.create("a", size=3))["spec"] == {"size": 40}
        await server.patch("v2", "a", {"spec": {"text": "x"}})
        (await server.api.ask("DELETE", server.path("v1", "a"))).expect(200)
        # Called once for each write: conversions do not repeat admission.
        created, updated, deleted = (one.document["request"] for one in admission.received)
        assert created["object"]["apiVersion"] == f"{GROUP}/v2"
        assert created["object"]["spec"] == {"length": 3}
        assert (created["kind"]["version"], created["requestKind"]["version"]) == ("v2", "v1")
        assert updated["oldObject"]["spec"] == {"length": 40}
        assert updated["object"]["spec"] == {"length": 40, "text": "x"}
        assert deleted["oldObject"]["spec"] == {"length": 40, "text": "x"}


async def test_history_is_returned_and_restored_in_any_version() -> None:
    async with converting() as server:
        first = (await server.create("a", size=1))["metadata"]["resourceVersion"]
        await server.declare(storage="v2")
        await server.patch("v2", "a", {"spec": {"length": 2}})
        past = (await server.api.ask("GET", server.path("v2", "a"), at=first)).expect(200)
        assert past["spec"] == {"length": 1}
        listed = (await server.api.ask("GET", server.path("v2"), at=first)).expect(200)
        assert [one["spec"] for one in listed["items"]] == [{"length": 1}]
        rewind = f"/apis/rewound.cluster.io/v1/namespaces/default/widgets.{GROUP}/a"
        rolled = (await server.api.ask("POST", f"{rewind}/rollback", {"to": first})).expect(200)
        assert rolled["metadata"]["name"] == "a"
        assert (await server.get("v1", "a"))["spec"] == {"size": 1}
        (await server.api.ask("DELETE", server.path("v1", "a"))).expect(200)
        (await server.api.ask("POST", f"{rewind}/undelete", {})).expect(201)
        assert (await server.get("v2", "a"))["spec"] == {"length": 1}


async def test_calls_are_metered() -> None:
    async with converting() as server:
        await server.create("a")
        await server.get("v2", "a")
        text = (await server.api.ask("GET", "/metrics")).text
        labels = f'crd_name="widgets.{GROUP}",from_version="v1",succeeded="true",to_version="v2"'
        assert f"apiserver_crd_webhook_conversion_duration_seconds_count{{{labels}}} 1" in text
