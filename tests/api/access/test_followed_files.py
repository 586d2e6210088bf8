"""Token, policy and audit policy files count as soon as they change; wrong ones leave those before in force."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import orjson
import trio

from rewound.gateway.settings.access import AuthorizationSettings
from rewound.gateway.settings.settings import AuditSettings
from tests.gateway.api import ADMIN, ALICE, TOKENS, served

PATH = "/api/v1/namespaces/default/configmaps"
POLICY = "apiVersion: audit.cluster.io/v1\nkind: Policy\nrules: [{level: %s}]\n"
ABAC = '{"user": "%s", "namespace": "*", "resource": "*"}\n'


async def until(holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Wait for a task of the server that looks once a second."""
    with trio.fail_after(120):
        while not await holds():
            await trio.sleep(0.1)


async def test_changed_files_are_in_force_without_a_restart(tmp_path: Path) -> None:
    policy, log, abac = (tmp_path / name for name in ("policy.yaml", "audit.log", "abac.jsonl"))
    policy.write_text(POLICY % "Metadata")
    abac.write_text(ABAC % "alice")
    audit = AuditSettings(audit_policy_file=policy, audit_log_path=str(log), audit_log_mode="blocking")
    rights = AuthorizationSettings(authorization_policy_file=abac)
    async with served(tmp_path, audit=audit, authorization_mode="ABAC", authorization=rights) as api:

        async def status(token: str) -> int:
            return (await api.ask("GET", PATH, headers={"authorization": f"Bearer {token}"})).status

        async def outdated() -> set[str]:
            lines = (await api.ask("GET", "/metrics")).text.splitlines()
            found = [one for one in lines if one.startswith("rewound_file_outdated") and one.endswith(" 1")]
            return {one.partition('flag="')[2].partition('"')[0] for one in found}

        assert await status(ALICE) == 200 and await outdated() == set()
        tokens = tmp_path / "tokens.csv"
        tokens.write_text(TOKENS + "carols-token,carol,3\n")
        abac.write_text(ABAC % "carol")
        policy.write_text(POLICY % "RequestResponse")

        async def carol() -> bool:
            return (await status("carols-token"), await status(ALICE)) == (200, 403)

        await until(carol)
        tokens.write_text(TOKENS.replace("alice-token", "other-token"))

        async def refused() -> bool:
            return (await status("carols-token"), await status(ALICE)) == (401, 401)

        await until(refused)

        async def body() -> bool:
            await status(ADMIN)
            return "responseObject" in orjson.loads(log.read_text().splitlines()[-1])

        await until(body)
        for path in (tokens, abac, policy):
            path.write_text("nothing that can be read: {")

        async def all_wrong() -> bool:
            return await outdated() == {
                "--token-auth-file",
                "--authorization-policy-file",
                "--audit-policy-file",
            }

        await until(all_wrong)
        assert (await status("other-token"), await status(ADMIN), await body()) == (403, 200, True)
