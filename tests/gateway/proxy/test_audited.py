"""The audit log and the metrics of forwarded requests."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from rewound.gateway.settings.settings import AuditSettings
from tests.gateway.proxy.backends import POD, Call, make_pod, proxying, serving


@pytest.mark.parametrize("mode", ["batch", "blocking-strict"])
async def test_forwarded_requests_have_the_stage_of_their_start(tmp_path: Path, mode: str) -> None:
    async def respond(call: Call) -> None:
        await call.reply(b"ok", status="202 Accepted")

    policy = tmp_path / "policy.yaml"
    rules = "[{level: Metadata, resources: [{group: '', resources: [pods/proxy]}]}, {level: None}]"
    policy.write_text(f"apiVersion: audit.cluster.io/v1\nkind: Policy\nrules: {rules}\n")
    log = tmp_path / "audit.log"
    audit = AuditSettings(audit_policy_file=policy, audit_log_path=log, audit_log_mode=mode)
    async with serving(respond) as backend, proxying(audit=audit) as api:
        await make_pod(api)
        assert (await api.ask("POST", f"{POD}:{backend.port}/proxy/x")).status == 202
        metrics = (await api.ask("GET", "/metrics")).text
        labels = 'group="",resource="pods",scope="resource",subresource="proxy",verb="POST",version="v1"'
        assert (
            f'apiserver_request_total{{code="202",component="apiserver",dry_run="",{labels}}} 1\n' in metrics
        )
    events = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    assert [one["stage"] for one in events] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert {one["verb"] for one in events} == {"create"}
    assert events[0]["objectRef"]["subresource"] == "proxy"
    assert events[0]["objectRef"]["name"] == f"p:{backend.port}"
    assert events[2]["responseStatus"]["code"] == 202
