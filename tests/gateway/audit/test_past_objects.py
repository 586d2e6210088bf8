"""A policy rule for a resource also covers its history; the timeline never includes objects. Kubernetes policies know
neither.
"""

from __future__ import annotations

import base64

from rewound.actors.access.authorize import Attributes
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER, REWIND_GROUP
from rewound.gateway.audit.policy import LEVEL_NAMES, parse_policy
from tests.cases import cases, checking
from tests.gateway.audit.auditing import PATH, audited, rules

SECRETS = "/api/v1/namespaces/default/secrets"
PAST = f"/apis/{REWIND_GROUP}/v1/namespaces/default"
POLICY = rules(
    "level: Metadata, resources: [{group: '', resources: [secrets]}]",
    "level: RequestResponse",
    more="omitStages: [RequestReceived]\n",
)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_history_of_secrets_is_covered_by_a_rule_for_secrets() -> None:
    first, second = encoded("first-hidden"), encoded("second-hidden")
    async with audited(POLICY) as audit:
        ask = audit.api.ask
        body = {"metadata": {"name": "s"}, "data": {"k": first}}
        version = (await ask("POST", SECRETS, body)).expect(201)["metadata"]["resourceVersion"]
        body["data"] = {"k": second}
        uid = (await ask("PUT", f"{SECRETS}/s", body)).expect(200)["metadata"]["uid"]
        asked = [
            ("GET", f"{SECRETS}/s?at={version}", None),
            ("GET", f"{SECRETS}?at={version}", None),
            ("GET", f"{PAST}/secrets/s/history", None),
            ("GET", f"{PAST}/secrets/{uid}/history", None),
            ("GET", f"{PAST}/secrets/s/blame", None),
            ("POST", f"{PAST}/secrets/s/rollback", {"to": version}),
            ("DELETE", f"{SECRETS}/s", None),
            ("POST", f"{PAST}/secrets/s/undelete", {}),
            ("GET", f"/apis/{REWIND_GROUP}/v1/timeline?limit=5", None),
            ("GET", f"/apis/{REWIND_GROUP}/v1/timeline/?limit=5", None),
        ]
        answers = []
        for method, path, sent in asked:
            answers.append(await ask(method, path, sent))
        await audit.api.finish()
        events = audit.events[2:]
        text = audit.path.read_text()
    assert first not in text and second not in text
    with checking() as case:
        for one, answer, event in zip(asked, answers, events, strict=True):
            with case(one):
                assert answer.status < 300 or one[1].endswith("timeline/?limit=5")
                assert event["level"] == "Metadata"
                assert "requestObject" not in event and "responseObject" not in event


async def test_history_of_other_objects_is_recorded() -> None:
    async with audited(POLICY) as audit:
        body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
        version = (await audit.api.ask("POST", PATH, body)).expect(201)["metadata"]["resourceVersion"]
        (await audit.api.ask("GET", f"{PAST}/configmaps/a/history")).expect(200)
        await audit.api.ask("POST", f"{PAST}/configmaps/a/rollback", {"to": version})
        await audit.api.finish()
        _, history, rollback = audit.events
    assert history["level"] == "RequestResponse"
    assert history["responseObject"]["items"]
    assert rollback["requestObject"] == {"to": version}


@cases(
    ("rule", "path", "resource", "subresource", "name", "level"),
    [
        ("secrets", f"{PAST}/secrets/s/history", "secrets", "history", "s", "Request"),
        ("secrets", f"{PAST}/secrets/s/undelete", "secrets", "undelete", "s", "Request"),
        ("secrets/history", f"{PAST}/secrets/s/history", "secrets", "history", "s", "Request"),
        ("secrets/blame", f"{PAST}/secrets/s/history", "secrets", "history", "s", "RequestResponse"),
        ("pods", f"{PAST}/secrets/s/history", "secrets", "history", "s", "RequestResponse"),
        ("secrets", f"{SECRETS}/s/history", "secrets", "history", "s", "RequestResponse"),
        ("secrets", f"{SECRETS}/s/status", "secrets", "status", "s", "RequestResponse"),
    ],
)
def test_rule_for_a_resource_covers_its_history(
    rule: str, path: str, resource: str, subresource: str, name: str, level: str
) -> None:
    text = rules(f"level: Request, resources: [{{resources: [{rule}]}}]", "level: RequestResponse")
    policy = parse_policy(text.encode(), CLUSTER)
    # The cached result for another path with the same names is not used.
    for other in (f"{SECRETS}/s/{subresource}", f"{PAST}/{resource}/s/{subresource}", path):
        found = policy.evaluate(
            Attributes(User("a"), "get", "", "v1", resource, subresource, "default", name, other)
        )
    assert LEVEL_NAMES[found.level] == level


def test_uid_in_place_of_a_name_shows_no_objects_where_rules_name_some() -> None:
    uid = "0b1f9d9e-7c2d-4f3c-9f65-3c6b3a0d7a10"
    path = f"{PAST}/secrets/{uid}/history"
    asked = Attributes(User("a"), "get", "", "v1", "secrets", "history", "default", uid, path)
    text = rules("level: None, resources: [{resources: [secrets], resourceNames: [s]}]", "level: Request")
    assert LEVEL_NAMES[parse_policy(text.encode(), CLUSTER).evaluate(asked).level] == "Metadata"
    text = rules("level: Request")
    assert LEVEL_NAMES[parse_policy(text.encode(), CLUSTER).evaluate(asked).level] == "Request"
