"""The settings of the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.settings.checks import SettingsError, check_choice, check_file

MODES = ("batch", "blocking", "blocking-strict")
FORMATS = ("json", "legacy")
STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    audit_policy_file: Path | None = None
    audit_log_path: str = ""  # empty: no log; "-": standard output
    audit_log_maxage: int = 0  # days; 0: no limit
    audit_log_maxbackup: int = 0  # files; 0: no limit
    audit_log_maxsize: int = 100  # MiB
    audit_log_format: str = "json"
    audit_log_version: str = ""  # empty: v1 of the dialect, which is the only one
    audit_log_mode: str = "batch"
    audit_log_batch_buffer_size: int = 10000
    audit_log_batch_max_size: int = 64
    audit_log_batch_max_wait: float = 0.1
    audit_log_batch_throttle_enable: bool = False
    audit_log_batch_throttle_qps: float = 10.0
    audit_log_batch_throttle_burst: int = 15
    audit_log_truncate_enabled: bool = False
    audit_log_truncate_max_batch_size: int = 10 << 20
    audit_log_truncate_max_event_size: int = 100 << 10

    def __post_init__(self) -> None:
        check_file("--audit-policy-file", self.audit_policy_file)
        check_choice("--audit-log-format", self.audit_log_format, FORMATS)
        for name in ("maxage", "maxbackup", "maxsize"):
            if getattr(self, f"audit_log_{name}") < 0:
                raise SettingsError(f"--audit-log-{name}", "must not be negative; 0 is the default")
        if (
            self.audit_log_path != STANDARD_OUTPUT
            and self.audit_log_path
            and Path(self.audit_log_path).is_dir()
        ):
            raise SettingsError("--audit-log-path", f"{self.audit_log_path} is a folder; name a file, or - ")
        self._check_backend("log")

    def _check_backend(self, backend: str) -> None:
        start, flag = f"audit_{backend}_", f"--audit-{backend}-"
        check_choice(f"{flag}mode", getattr(self, f"{start}mode"), MODES)
        for name in (
            "batch_buffer_size",
            "batch_max_size",
            "batch_throttle_burst",
            "batch_throttle_qps",
            "truncate_max_event_size",
        ):
            if getattr(self, start + name) <= 0:
                raise SettingsError(flag + name.replace("_", "-"), "must be greater than 0")
        if getattr(self, f"{start}batch_max_wait") < 0:
            raise SettingsError(f"{flag}batch-max-wait", "must not be negative")
        event, batch = (getattr(self, f"{start}truncate_max_{what}_size") for what in ("event", "batch"))
        if event > batch:
            raise SettingsError(
                f"{flag}truncate-max-event-size", f"must not exceed {flag}truncate-max-batch-size ({batch})"
            )
