"""requestObject is the decoded object: requests that are refused before decoding have none."""

from __future__ import annotations

from typing import Any

from tests.cases import checking
from tests.gateway.api import ADMIN, ALICE, config_map
from tests.gateway.audit.auditing import PATH, audited, rules

ALL = rules("level: RequestResponse", more="omitStages: [RequestReceived]\n")
MERGE = {"content-type": "application/merge-patch+json"}
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT = {
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, **POD},
        "unknown": "secret",
    },
}
SECRET = config_map("a", key="hidden")


async def test_refused_requests_show_no_object() -> None:
    cases: list[tuple[str, str, Any, dict[str, Any], int]] = [
        ("POST", PATH, SECRET, {"token": ALICE}, 403),
        ("POST", PATH, SECRET, {"token": "wrong"}, 401),
        ("PATCH", f"{PATH}/a", {"data": {"k": "hidden"}}, {"token": ALICE, "headers": MERGE}, 403),
        ("DELETE", f"{PATH}/a", {"gracePeriodSeconds": 1}, {"token": ALICE}, 403),
        ("POST", PATH, SECRET, {"headers": {"impersonate-user": "alice"}}, 403),
        ("POST", PATH, SECRET, {"headers": {"accept": "text/plain"}}, 406),
        ("POST", PATH, SECRET, {"headers": {"content-type": "text/hidden"}}, 415),
        ("PATCH", f"{PATH}/a", {"data": {"k": "hidden"}}, {}, 415),
        ("POST", f"{PATH}/a", SECRET, {}, 405),
        ("POST", f"{PATH}?dryRun=Some", SECRET, {}, 422),
        ("POST", PATH, {**SECRET, "data": "hidden"}, {}, 400),
        ("POST", PATH, {**SECRET, "apiVersion": "v2"}, {}, 400),
        ("POST", f"{PATH}?fieldValidation=Strict", {**SECRET, "more": "hidden"}, {}, 400),
        ("DELETE", f"{PATH}/a", {"gracePeriodSeconds": "hidden"}, {}, 400),
        ("POST", "/api/v1/namespaces/default/services/web/proxy/x", {"k": "hidden"}, {}, 404),
        ("POST", "/nowhere", {"k": "hidden"}, {}, 404),
    ]
    async with audited(ALL) as audit:
        statuses = []
        for number, (method, path, body, more, _) in enumerate(cases):
            headers = {**more.get("headers", {}), "audit-id": str(number)}
            response = await audit.api.ask(
                method, path, body, token=more.get("token", ADMIN), headers=headers
            )
            statuses.append(response.status)
        await audit.api.finish()
        found = {event["auditID"]: event for event in audit.all_events}
    with checking() as case:
        for number, one in enumerate(cases):
            with case(one):
                assert statuses[number] == one[-1]
                event = found[str(number)]
                assert event["responseStatus"]["code"] == one[-1]
                assert "requestObject" not in event
                if one[-1] == 406:
                    assert event["responseStatus"] == {"metadata": {}, "code": 406}
                    assert "responseObject" not in event


async def test_created_object_is_shown_as_it_was_decoded() -> None:
    async with audited(ALL) as audit:
        path = audit.api.path("deployments")
        (await audit.api.ask("POST", path, DEPLOYMENT)).expect(201)
        (await audit.api.ask("POST", path, {**DEPLOYMENT, "spec": {}})).expect(422)
        await audit.api.finish()
        created, invalid = audit.events
    shown = created["requestObject"]
    assert (shown["kind"], shown["apiVersion"]) == ("Deployment", "apps/v1")
    assert shown["metadata"] == {"name": "d", "creationTimestamp": None}
    assert shown["spec"]["replicas"] == 1
    assert shown["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert shown["status"] == {}
    assert "unknown" not in shown["spec"]
    assert invalid["requestObject"]["spec"]["replicas"] == 1


async def test_delete_options_are_shown_decoded() -> None:
    async with audited(ALL) as audit:
        (await audit.api.ask("POST", PATH, config_map("a"))).expect(201)
        options = {"propagationPolicy": "Sometimes", "more": "unknown"}
        await audit.api.ask("DELETE", f"{PATH}/a", options)
        options = {"preconditions": {"uid": "x"}, "dryRun": ["All"], "gracePeriodSeconds": 5}
        await audit.api.ask("DELETE", f"{PATH}/a", options)
        await audit.api.ask("DELETE", f"{PATH}/a")
        await audit.api.finish()
        _, refused, failed, deleted = audit.events
    head = {"kind": "DeleteOptions", "apiVersion": "meta.cluster.io/__internal"}
    assert refused["requestObject"] == {**head, "propagationPolicy": "Sometimes"}
    assert failed["requestObject"] == {**head, **options}
    assert "requestObject" not in deleted


async def test_only_objects_of_the_api_are_shown_of_responses() -> None:
    async with audited(ALL) as audit:
        for path in ("/version", "/openapi/v3", "/api/v1", "/apis"):
            (await audit.api.ask("GET", path)).expect(200)
        await audit.api.finish()
        version, openapi, resources, groups = audit.events
    assert "responseObject" not in version and "responseObject" not in openapi
    assert resources["responseObject"]["kind"] == "APIResourceList"
    assert groups["responseObject"]["kind"] == "APIGroupList"
