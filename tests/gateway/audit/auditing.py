"""A server with an audit log in a file, and the events that it wrote."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from rewound.gateway.settings.settings import AuditSettings
from tests.actors.object_store import memory_folder
from tests.gateway.api import ADMIN, Api, served

PATH = "/api/v1/namespaces/default/configmaps"
HEAD = "apiVersion: audit.cluster.io/v1\nkind: Policy\n"
# The server's own start makes no requests; the helper that waits for controllers lists what they write.
IGNORED = re.compile(r"^/api/v1/serviceaccounts$|^/api/v1/configmaps$|/flowschemas$|/clusterroles$")


def rules(*levels: str, more: str = "") -> str:
    """A policy with rules in YAML's flow style."""
    return HEAD + more + "rules:\n" + "".join(f"- {{{rule}}}\n" for rule in levels)


@dataclass
class Audited:
    """A server with an audit log. Its events can be read after the server has stopped."""

    api: Api
    path: Path

    def lines(self, path: Path | None = None) -> list[str]:
        return (path or self.path).read_text().splitlines()

    @property
    def all_events(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.lines()]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for event in self.all_events if not IGNORED.search(event["requestURI"])]

    @property
    def stages(self) -> list[str]:
        return [event["stage"] for event in self.events]

    def one(self, stage: str = "ResponseComplete") -> dict[str, Any]:
        [event] = [event for event in self.events if event["stage"] == stage]
        return event


async def watch_briefly(api: Api, path: str) -> None:
    """Start a watch, and disconnect."""
    async with api.client.stream("GET", f"{path}?watch=1", headers={"authorization": f"Bearer {ADMIN}"}):
        pass


@asynccontextmanager
async def audited(policy: str, settings: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[Audited]:
    """Serve with this policy; `settings` are of the audit log. Call `finish` before reading events."""
    with memory_folder() as folder:
        (folder / "policy.yaml").write_text(policy)
        path = folder / "logs" / "audit.log"
        given: dict[str, Any] = {
            "audit_policy_file": folder / "policy.yaml",
            "audit_log_path": str(path),
            "audit_log_batch_max_wait": 0.0,
        }
        given |= settings or {}
        async with served(audit=AuditSettings(**given), **more) as api:
            yield Audited(api, path)
