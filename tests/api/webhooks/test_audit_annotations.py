"""Audit events and responses about webhooks that deny, fail, return bad patches or are reinvoked."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from rewound.gateway.settings.settings import AuditSettings
from tests.actors.object_store import memory_folder
from tests.api.webhooks.hooking import MAPS, Hooks, adding, hooking, patching
from tests.cases import checking
from tests.gateway.outgoing.https_peer import Reply

POLICY = """\
apiVersion: audit.cluster.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, verbs: [create, patch], resources: [{group: "", resources: [configmaps]}]}
- {level: None}
"""
NOT_A_PATCH = {"patchType": "JSONPatch", "patch": base64.b64encode(b"{nothing").decode()}
DENIED = {
    "allowed": False,
    "status": {"code": 429, "message": "later", "details": {"retryAfterSeconds": 7}},
}
KEYS = {"good": "1", "bad key": "2", "a/b": "3", "": "4", "x" * 64: "5", "y" * 63: "6", "-z": "7"}


async def test_every_call_of_a_mutating_webhook_is_recorded() -> None:
    """For each webhook path: failurePolicy, status of the create, whether the object changed."""
    calls: dict[str, tuple[str, int, bool]] = {
        "deny": ("Fail", 429, False),
        "dead": ("Fail", 500, False),
        "missing": ("Ignore", 201, False),
        "misfit": ("Fail", 500, False),
        "broken": ("Ignore", 500, False),
        "untyped": ("Ignore", 500, False),
        "patch": ("Fail", 201, True),
        "empty": ("Fail", 201, False),
    }
    paths: dict[str, Any] = {
        "deny": DENIED,
        "dead": Reply(500, b""),
        "missing": Reply(404, b""),
        "misfit": patching({"op": "remove", "path": "/data/absent"}),
        "broken": NOT_A_PATCH,
        "untyped": adding("/data", 5),
        "patch": patching({"value": "<v>", "path": "/data/x", "op": "add"}),
        "empty": patching(),
    }
    with memory_folder() as folder:
        audit = _auditing(folder)
        async with hooking(changed={"audit": audit}, **paths) as hooks:
            statuses = {}
            for name, (policy, _, _) in calls.items():
                await hooks.configure(
                    "mutating",
                    hooks.hook("a.example.com", "/allow"),
                    hooks.hook("b.example.com", f"/{name}", failurePolicy=policy),
                    name=name,
                )
                statuses[name] = (await hooks.create(name)).status
                await hooks.remove("mutating", name)
        annotations = _annotations(audit)
    with checking() as case:
        for name, (policy, status, mutated) in calls.items():
            with case(name):
                found = annotations[name]
                assert statuses[name] == status
                hook = {"configuration": name, "webhook": "b.example.com", "mutated": mutated}
                assert orjson.loads(found[_key("mutation", 1)]) == hook
                assert not orjson.loads(found[_key("mutation", 0)])["mutated"]
                failed = found.get(_key("failed-open.mutation", 1))
                assert failed == ("b.example.com" if (policy, status) == ("Ignore", 201) else None)
                assert (_key("patch", 1) in found) == mutated
    assert annotations["patch"][_key("patch", 1)] == (
        '{"configuration":"patch","webhook":"b.example.com",'
        '"patch":[{"op":"add","path":"/data/x","value":"\\u003cv\\u003e"}],"patchType":"JSONPatch"}'
    )


async def test_validating_webhooks_are_counted_among_those_that_are_asked() -> None:
    with memory_folder() as folder:
        audit = _auditing(folder)
        async with hooking(changed={"audit": audit}, dead=Reply(500, b"")) as hooks:
            await hooks.configure(
                "validating",
                hooks.hook("a.example.com", "/allow", rules=[]),
                hooks.hook("b.example.com", "/allow"),
                hooks.hook("c.example.com", "/dead", failurePolicy="Ignore"),
            )
            (await hooks.create("a")).expect(201)
        found = _annotations(audit)["a"]
    failed = {key: value for key, value in found.items() if "failed-open" in key}
    assert failed == {_key("failed-open.validating", 1): "c.example.com"}


async def test_annotations_without_a_valid_key_are_left_out() -> None:
    with memory_folder() as folder:
        audit = _auditing(folder)
        async with hooking(changed={"audit": audit}, notes={"auditAnnotations": KEYS}) as hooks:
            await hooks.configure("validating", hooks.hook("a.example.com", "/notes"))
            (await hooks.create("a")).expect(201)
        found = _annotations(audit)["a"]
    notes = {key: value for key, value in found.items() if key.startswith("a.example.com/")}
    assert notes == {"a.example.com/good": "1", f"a.example.com/{'y' * 63}": "6"}


async def test_denial_with_seconds_has_retry_after() -> None:
    async with hooking(deny=DENIED, no={"allowed": False}) as hooks:
        await hooks.configure("mutating", hooks.hook("a.example.com", "/deny"))
        denied = await hooks.create("a")
        await hooks.remove("mutating")
        await hooks.configure("validating", hooks.hook("a.example.com", "/no"))
        plain = await hooks.create("a")
    assert (denied.status, denied.headers["retry-after"]) == (429, "7")
    assert denied.document["details"] == {"retryAfterSeconds": 7}
    assert (plain.status, plain.headers.get("retry-after")) == (400, None)


async def test_warnings_of_repeated_rounds_are_sent_once_each() -> None:
    """A write whose object changes while a webhook is called is admitted again."""
    calls = 0
    merge = {"content-type": "application/merge-patch+json"}

    async def warn(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        call = calls
        if call == 1:  # the intermediate write is reviewed too
            await opened[0].api.ask("PATCH", f"{MAPS}/a", {"data": {"other": "1"}}, headers=merge)
        return {"warnings": [f"call {call}", "always"]}

    opened: list[Hooks] = []
    async with hooking(warn=warn) as hooks:
        opened.append(hooks)
        (await hooks.create("a")).expect(201)
        rules = [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"]}]
        await hooks.configure("mutating", hooks.hook("a.example.com", "/warn", rules=rules))
        patched = await hooks.api.ask("PATCH", f"{MAPS}/a", {"data": {"mine": "1"}}, headers=merge)
    assert patched.expect(200)["data"] == {"k": "v", "other": "1", "mine": "1"}
    assert calls == 3
    warnings = patched.headers.get_list("warning")
    assert [one.split('"')[1] for one in warnings] == ["call 1", "always", "call 3"]


def _key(kind: str, index: int) -> str:
    return f"{kind}.webhook.admission.cluster.io/round_0_index_{index}"


def _auditing(folder: Any) -> AuditSettings:
    (folder / "policy.yaml").write_text(POLICY)
    return AuditSettings(audit_policy_file=folder / "policy.yaml", audit_log_path=str(folder / "audit.log"))


def _annotations(audit: AuditSettings) -> dict[str, dict[str, str]]:
    """Annotations by the name of the object; the server must have stopped."""
    with open(audit.audit_log_path) as log:
        events = [orjson.loads(line) for line in log]
    return {event["objectRef"]["name"]: event["annotations"] for event in events}
