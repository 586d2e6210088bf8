"""The contents of audit events, by level and stage, as a real server writes them to a real file."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.gateway.handlers.dispatch import Dispatch
from rewound.gateway.settings.settings import AuditSettings
from rewound.server.extensions import Extensions
from tests.gateway.api import ALICE, config_map, served
from tests.gateway.audit.auditing import PATH, audited, rules, watch_briefly
from tests.gateway.observing import Observer

METADATA = rules("level: Metadata")
COMPLETE = rules("level: Metadata", more="omitStages: [RequestReceived]\n")
ALL = rules("level: RequestResponse", more="omitStages: [RequestReceived]\n")
ADMIN_USER = {"username": "admin", "uid": "1", "groups": ["system:masters", "system:authenticated"]}


async def test_every_field_of_a_get() -> None:
    async with audited(METADATA) as audit:
        await audit.api.ask("POST", PATH, config_map("a"))
        response = await audit.api.ask("GET", f"{PATH}/a?pretty=false")
        await audit.api.finish()
        first, last = audit.events[-2:]
    moment = last["stageTimestamp"]
    assert last == {
        "kind": "Event",
        "apiVersion": "audit.cluster.io/v1",
        "level": "Metadata",
        "auditID": response.headers["audit-id"],
        "stage": "ResponseComplete",
        "requestURI": f"{PATH}/a?pretty=false",
        "verb": "get",
        "user": ADMIN_USER,
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "test/1",
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": moment,
        "stageTimestamp": moment,
        "annotations": {"authorization.cluster.io/decision": "allow", "authorization.cluster.io/reason": ""},
    }
    assert first == {
        key: value
        for key, value in {**last, "stage": "RequestReceived"}.items()
        if key not in ("responseStatus", "annotations")
    }
    assert len(moment) == len("2026-01-01T00:00:00.000000Z")


async def test_kubernetes_dialect_has_its_domains() -> None:
    policy = COMPLETE.replace("cluster.io", "k8s.io")
    async with audited(policy, dialect="kubernetes") as audit:
        await audit.api.ask("GET", "/version")
        await audit.api.finish()
        event = audit.one()
    assert event["apiVersion"] == "audit.k8s.io/v1"
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert "objectRef" not in event


async def test_write_shows_what_the_body_says_of_its_object() -> None:
    async with audited(COMPLETE) as audit:
        created = (await audit.api.ask("POST", PATH, config_map("a"))).document
        await audit.api.ask("PUT", f"{PATH}/a", created)
        named = (await audit.api.ask("POST", PATH, {"metadata": {"generateName": "web-"}})).document
        await audit.api.ask("DELETE", f"{PATH}/a")
        await audit.api.finish()
        create, update, generated, delete = audit.events
    assert create["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "name": "a",
        "apiVersion": "v1",
    }
    assert update["objectRef"]["uid"] == created["metadata"]["uid"]
    assert update["objectRef"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert generated["objectRef"]["name"] == named["metadata"]["name"]
    assert delete["responseStatus"]["status"] == "Success"
    assert [event["responseStatus"]["code"] for event in (create, update, delete)] == [201, 200, 200]
    for event in (create, update, generated, delete):
        assert "requestObject" not in event and "responseObject" not in event


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("Metadata", []),
        ("Request", ["requestObject"]),
        ("RequestResponse", ["requestObject", "responseObject"]),
    ],
)
async def test_level_decides_which_objects_are_shown(level: str, shown: list[str]) -> None:
    async with audited(rules(f"level: {level}")) as audit:
        made = await audit.api.ask("POST", PATH, config_map("a", key="value"))
        await audit.api.finish()
        event = audit.one()
        received = audit.one("RequestReceived")
    assert [field for field in ("requestObject", "responseObject") if field in event] == shown
    assert "requestObject" not in received
    if shown:
        sent = config_map("a", key="value")
        assert event["requestObject"] == {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            **sent,
            "metadata": {**sent["metadata"], "creationTimestamp": None},
        }
    if len(shown) > 1:
        assert event["responseObject"] == made.document


async def test_level_none_records_nothing() -> None:
    async with audited(rules("level: None")) as audit:
        await audit.api.ask("GET", PATH)
        await audit.api.finish()
        assert audit.all_events == []


async def test_managed_fields_are_omitted_from_objects_lists_and_tables() -> None:
    policy = rules("level: RequestResponse, omitManagedFields: true", more="omitStages: [RequestReceived]\n")
    table = {"accept": "application/json;as=Table;v=v1;g=meta.cluster.io"}
    async with audited(policy) as audit:
        made = (await audit.api.ask("POST", PATH, config_map("a", key="value"))).document
        await audit.api.ask("PUT", f"{PATH}/a", made)
        await audit.api.ask("GET", PATH)
        await audit.api.ask("GET", f"{PATH}?includeObject=Object", headers=table)
        await audit.api.finish()
        assert "managedFields" in made["metadata"]
        assert len(audit.events) == 4
        assert audit.events[3]["responseObject"]["rows"][0]["object"]["metadata"]["name"] == "a"
        assert not any("managedFields" in line for line in audit.lines())


@pytest.mark.parametrize("media", ["application/yaml", "application/vnd.cluster.protobuf"])
async def test_objects_of_other_formats_are_shown_as_json(media: str) -> None:
    async with audited(ALL) as audit:
        made = await audit.api.ask("POST", PATH, config_map("a"))
        got = await audit.api.ask("GET", f"{PATH}/a", headers={"accept": media})
        listed = await audit.api.ask("GET", PATH, headers={"accept": media})
        missing = await audit.api.ask("GET", f"{PATH}/b", headers={"accept": media})
        body = got.body
        put = await audit.api.ask("PUT", f"{PATH}/a", body, headers={"content-type": media})
        await audit.api.finish()
        _, get, list_, none, update = audit.events
    assert [one.status for one in (got, listed, missing, put)] == [200, 200, 404, 200]
    assert get["responseObject"] == made.document
    assert list_["responseObject"]["items"][0]["metadata"]["name"] == "a"
    assert none["responseStatus"]["reason"] == "NotFound"
    assert update["requestObject"]["metadata"]["name"] == "a"


async def test_compressed_response_is_shown_and_a_large_one_left_out() -> None:
    async with audited(ALL) as audit:
        await audit.api.ask("POST", PATH, config_map("a", b="x" * 200_000))
        await audit.api.ask("GET", f"{PATH}/a", headers={"accept-encoding": "gzip"})
        await audit.api.ask("POST", PATH, config_map("c", b="x" * 800_000))
        await audit.api.finish()
        _, packed, large = audit.events
    assert len(packed["responseObject"]["data"]["b"]) == 200_000
    assert "requestObject" not in large and "responseObject" not in large
    assert large["annotations"]["audit.cluster.io/truncated"] == "true"
    assert large["objectRef"]["name"] == "c"


async def test_apply_and_patch_bodies_are_shown() -> None:
    apply = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    async with audited(ALL) as audit:
        await audit.api.ask(
            "PATCH",
            f"{PATH}/a?fieldManager=x",
            apply,
            headers={"content-type": "application/apply-patch+yaml"},
        )
        await audit.api.ask(
            "PATCH",
            f"{PATH}/a",
            b'{"data":{"k":\n"v"}}',
            headers={"content-type": "application/merge-patch+json"},
        )
        await audit.api.ask("POST", PATH, b"{not json")
        await audit.api.finish()
        applied, merged, broken = audit.events
    assert applied["requestObject"] == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert merged["requestObject"] == {"data": {"k": "v"}}
    assert "requestObject" not in broken
    assert broken["responseStatus"]["reason"] == "BadRequest"


async def test_refused_request_shows_the_decision_and_the_status() -> None:
    async with audited(COMPLETE) as audit:
        response = await audit.api.ask("GET", f"{PATH}/a", token=ALICE)
        await audit.api.finish()
        event = audit.one()
    status = response.document
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": status["message"],
        "reason": "Forbidden",
        "details": status["details"],
        "code": 403,
    }
    assert event["annotations"]["authorization.cluster.io/decision"] == "forbid"
    assert event["user"]["username"] == "alice"


@pytest.mark.parametrize(
    ("accept", "query"), [("application/json", ""), ("application/json", "?watch=1"), ("text/plain", "")]
)
async def test_failed_authentication_has_one_event_without_the_token(accept: str, query: str) -> None:
    headers = {"authorization": "Bearer s3cret", "accept": accept}
    async with audited(rules("level: RequestResponse")) as audit:
        response = await audit.api.ask("GET", PATH + query, token=None, headers=headers)
        await audit.api.finish()
        [event] = [event for event in audit.events if event["user"] == {}]
        assert "s3cret" not in audit.path.read_text()
    assert response.status == 401
    assert (event["stage"], event["verb"]) == ("ResponseStarted", "watch" if query else "list")
    if accept == "text/plain":  # a Status that was not negotiated is not included
        message = "Authentication failed, attempted: bearer"
        assert event["responseStatus"] == {"metadata": {}, "message": message, "code": 401}
        assert "responseObject" not in event
    else:
        assert event["responseObject"] == response.document
        assert event["responseStatus"] == {
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }
    assert event["objectRef"]["resource"] == "configmaps"


async def test_audit_id_of_the_client_is_kept() -> None:
    async with audited(COMPLETE) as audit:
        response = await audit.api.ask("GET", "/version", headers={"audit-id": 'own "id"'})
        await audit.api.finish()
        assert audit.one()["auditID"] == response.headers["audit-id"] == 'own "id"'


@pytest.mark.parametrize(
    ("headers", "addresses"),
    [
        ({"x-forwarded-for": "10.0.0.1, junk,2001:DB8::1"}, ["10.0.0.1", "2001:db8::1", "127.0.0.1"]),
        ({"x-forwarded-for": "127.0.0.1"}, ["127.0.0.1"]),
        ({"x-real-ip": "10.0.0.9"}, ["10.0.0.9", "127.0.0.1"]),
        ({"x-real-ip": "10.0.0.1", "x-forwarded-for": "10.0.0.1"}, ["10.0.0.1", "127.0.0.1"]),
    ],
)
async def test_source_addresses(headers: dict[str, str], addresses: list[str]) -> None:
    async with audited(COMPLETE) as audit:
        await audit.api.ask("GET", "/version", headers=headers)
        await audit.api.finish()
        assert audit.one()["sourceIPs"] == addresses


async def test_long_user_agent_is_shortened() -> None:
    async with audited(COMPLETE) as audit:
        await audit.api.ask("GET", "/version", headers={"user-agent": "x" * 2000})
        await audit.api.finish()
        assert audit.one()["userAgent"] == "x" * 1024 + "...TRUNCATED"


async def test_internal_error_is_a_panic_and_has_no_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with audited(METADATA) as audit:
        monkeypatch.setattr(Dispatch, "find", lambda *_: 1 / 0)
        await audit.api.ask("GET", PATH)
        monkeypatch.undo()
        await audit.api.finish()
        stages = [event["stage"] for event in audit.events if event["verb"] == "list"]
        event = audit.one("Panic")
    assert stages == ["RequestReceived", "Panic"]
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "APIServer panic'd: ZeroDivisionError",
        "reason": "InternalError",
        "code": 500,
    }


async def test_watch_has_a_start_and_an_end() -> None:
    async with audited(METADATA) as audit:
        await watch_briefly(audit.api, PATH)
        await audit.api.finish()
        assert audit.stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
        assert {event["verb"] for event in audit.events} == {"watch"}
        assert audit.events[1]["responseStatus"]["code"] == 200


@pytest.mark.parametrize("mode", ["batch", "blocking"])
async def test_watch_that_is_refused_has_a_start_too(mode: str) -> None:
    async with audited(METADATA, {"audit_log_mode": mode}) as audit:
        assert (await audit.api.ask("GET", f"{PATH}?watch=1", token=ALICE)).status == 403
        await audit.api.finish()
        assert audit.stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
        _, started, complete = audit.events
    assert started["responseStatus"] == complete["responseStatus"]
    assert (started["responseStatus"]["code"], started["responseStatus"]["reason"]) == (403, "Forbidden")
    assert started["annotations"]["authorization.cluster.io/decision"] == "forbid"


async def test_log_of_a_pod_that_runs_nowhere_has_a_start() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with audited(rules("level: Metadata, resources: [{resources: [pods/log]}]")) as audit:
        assert (await audit.api.ask("POST", "/api/v1/namespaces/default/pods", pod)).status == 201
        assert (await audit.api.ask("GET", "/api/v1/namespaces/default/pods/p/log")).status == 204
        await audit.api.finish()
        assert audit.stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
        assert audit.events[1]["responseStatus"]["code"] == 204


async def test_deprecated_version_is_annotated() -> None:
    async with audited(COMPLETE) as audit:
        await audit.api.ask("GET", "/apis/autoscaling/v2beta2/horizontalpodautoscalers")
        await audit.api.finish()
        annotations = audit.one()["annotations"]
    assert (annotations["cluster.io/deprecated"], annotations["cluster.io/removed-release"]) == (
        "true",
        "1.26",
    )


async def test_impersonation_shows_both_users() -> None:
    policy = rules("level: Metadata, users: [admin]")  # rules match the authenticated user
    headers = {"impersonate-user": "bob", "impersonate-group": "ops"}
    async with audited(policy) as audit:
        response = await audit.api.ask("GET", PATH, headers=headers)
        await audit.api.finish()
        received, complete = audit.events
    assert response.status == 403
    assert received["user"] == complete["user"] == ADMIN_USER
    assert "impersonatedUser" not in received
    assert complete["impersonatedUser"] == {"username": "bob", "groups": ["ops", "system:authenticated"]}
    assert complete["annotations"]["authorization.cluster.io/decision"] == "forbid"


async def test_embedding_program_observes_beside_the_audit_log() -> None:
    observer = Observer()
    async with audited(COMPLETE, extensions=Extensions(observer=observer)) as audit:
        await audit.api.ask("GET", f"{PATH}/a")
        [seen] = await observer.ended(1, PATH)
        await audit.api.finish()
        assert audit.one()["verb"] == "get"
    assert seen.end[0] == 404


@pytest.mark.parametrize("missing", ["audit_policy_file", "audit_log_path"])
async def test_policy_and_backend_are_both_needed(missing: str, caplog: pytest.LogCaptureFixture) -> None:
    given: dict[str, Any] = {"audit_policy_file": None}
    if missing == "audit_log_path":
        given = {"audit_log_path": "", "audit_log_batch_max_wait": AuditSettings().audit_log_batch_max_wait}
    async with audited(METADATA, given) as audit:
        await audit.api.ask("GET", PATH)
        await audit.api.finish()
        assert not audit.path.exists()
    assert "no events are recorded" in caplog.text


async def test_server_without_audit_flags_has_no_observer() -> None:
    async with served(audit=AuditSettings()) as api:
        assert (await api.ask("GET", "/metrics")).text.count("apiserver_audit") == 0
