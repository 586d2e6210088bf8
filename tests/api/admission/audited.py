"""An audit log for the servers of these tests, and the annotations of its events."""

from __future__ import annotations

from pathlib import Path

import orjson

from rewound.gateway.settings.settings import AuditSettings

_POLICY = """apiVersion: audit.cluster.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


def audited(folder: Path) -> AuditSettings:
    (folder / "policy.yaml").write_text(_POLICY)
    return AuditSettings(audit_policy_file=folder / "policy.yaml", audit_log_path=str(folder / "audit.log"))


def annotations_of_pods(folder: Path, domain: str) -> list[dict[str, str]]:
    """Annotations whose prefix ends with the domain, of each create of a pod. The server must have stopped."""
    events = [orjson.loads(line) for line in (folder / "audit.log").read_bytes().splitlines()]
    created = [
        one for one in events if one["verb"] == "create" and one["objectRef"].get("resource") == "pods"
    ]
    return [
        {
            key: value
            for key, value in one.get("annotations", {}).items()
            if key.partition("/")[0].endswith(domain)
        }
        for one in created
    ]
