"""The flags of the audit log: mistakes are refused with the flag and what to do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rewound.actors.names import CLUSTER
from rewound.gateway.audit.build import build_audit
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import AuditSettings
from rewound.server.flags.parser import parse_flags
from tests.actors.object_store import ManualClock
from tests.cases import cases
from tests.gateway.audit.auditing import rules


def test_flags_become_settings(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(rules("level: None"))
    settings, _ = parse_flags(
        [
            f"--audit-policy-file={policy}",
            "--audit-log-path=-",
            "--audit-log-maxsize=5",
            "--audit-log-batch-max-wait=2s",
            "--audit-log-truncate-enabled",
        ]
    )
    audit = settings.audit
    assert (audit.audit_policy_file, audit.audit_log_path, audit.audit_log_maxsize) == (policy, "-", 5)
    assert (audit.audit_log_batch_max_wait, audit.audit_log_truncate_enabled) == (2.0, True)


def test_flag_compresses_rotated_files(tmp_path: Path) -> None:
    policy, rotated = tmp_path / "policy.yaml", tmp_path / "audit-2025-11-15T09-46-40.000.log"
    policy.write_text(rules("level: None"))
    rotated.write_bytes(b"a\n")
    settings, _ = parse_flags(
        [f"--audit-policy-file={policy}", f"--audit-log-path={tmp_path}/audit.log", "--audit-log-compress"]
    )
    build_audit(settings.audit, CLUSTER, ManualClock())
    for thread in threading.enumerate():
        if thread.name == "audit log compression":
            thread.join(60)
    assert not rotated.exists() and rotated.with_suffix(".log.gz").exists()


@cases(
    ("flags", "message"),
    [
        (["--audit-policy-file=/nowhere"], "--audit-policy-file: there is no file /nowhere"),
        (["--audit-log-mode=async"], "--audit-log-mode: 'async' is not known; choose one of batch"),
        (["--audit-log-format=xml"], "--audit-log-format: 'xml' is not known; choose one of json | legacy"),
        (["--audit-log-maxage=-1"], "--audit-log-maxage: must not be negative"),
        (["--audit-log-maxage=5"], "--audit-log-maxage: has no effect without --audit-log-path"),
        (
            ["--audit-webhook-mode=blocking", "--audit-log-path=-"],
            "--audit-webhook-mode: has no effect without --audit-webhook-config-file",
        ),
        (["--audit-log-path=/"], "--audit-log-path: / is a folder"),
        (["--audit-log-batch-buffer-size=0"], "--audit-log-batch-buffer-size: must be greater than 0"),
        (
            ["--audit-log-truncate-max-event-size=99999999"],
            "--audit-log-truncate-max-event-size: must not exceed",
        ),
    ],
)
def test_mistake_names_its_flag(flags: list[str], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_flags(flags)
    assert message in str(refused.value)


def test_start_reports_what_cannot_be_used(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(rules("level: All"))
    file = tmp_path / "file"
    file.touch()
    good = tmp_path / "good.yaml"
    good.write_text(rules("level: None"))
    for settings, message in (
        (AuditSettings(audit_policy_file=policy), "--audit-policy-file: .*rules.0..level: is 'All'"),
        (
            AuditSettings(audit_policy_file=good, audit_log_path=f"{file}/audit.log"),
            "--audit-log-path: cannot write to .*",
        ),
        (
            AuditSettings(audit_log_path="-", audit_log_version="v2"),
            "--audit-log-version: 'v2' is not known; the only one is audit.c",
        ),
    ):
        with pytest.raises(SettingsError, match=message):
            build_audit(settings, CLUSTER, ManualClock())
