"""The settings of the audit log."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from gateway.settings.checks import SettingsError, check_choice, check_file, refuse_without

MODES = ("batch", "blocking", "blocking-strict")
FORMATS = ("json", "legacy")
STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class BackendSettings:
    version: str
    mode: str
    batch_buffer_size: int
    batch_max_size: int
    batch_max_wait: float
    batch_throttle_enable: bool
    batch_throttle_qps: float
    batch_throttle_burst: int
    truncate_enabled: bool
    truncate_max_batch_size: int
    truncate_max_event_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    audit_policy_file: Path | None = None
    audit_log_path: str = ""  # empty: no log; "-": standard output
    audit_log_maxage: int = 0  # days; 0: no limit
    audit_log_maxbackup: int = 0  # files; 0: no limit
    audit_log_maxsize: int = 100  # MiB
    audit_log_compress: bool = False  # rotated files, with gzip
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
    audit_webhook_config_file: Path | None = None  # in kubeconfig format; None: no webhook
    audit_webhook_initial_backoff: float = 10.0
    audit_webhook_version: str = ""
    audit_webhook_mode: str = "batch"
    audit_webhook_batch_buffer_size: int = 10000
    audit_webhook_batch_max_size: int = 400
    audit_webhook_batch_max_wait: float = 30.0
    audit_webhook_batch_throttle_enable: bool = True
    audit_webhook_batch_throttle_qps: float = 10.0
    audit_webhook_batch_throttle_burst: int = 15
    audit_webhook_truncate_enabled: bool = False
    audit_webhook_truncate_max_batch_size: int = 10 << 20
    audit_webhook_truncate_max_event_size: int = 100 << 10

    @property
    def given(self) -> bool:
        """Whether any of these flags is given. If not, nothing of the audit log is imported."""
        return self != AuditSettings()

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
            raise SettingsError(
                "--audit-log-path",
                f"{self.audit_log_path} is a folder; name a file, or - for standard output",
            )
        self._check_backend("log")
        check_file("--audit-webhook-config-file", self.audit_webhook_config_file)
        if self.audit_webhook_initial_backoff <= 0:
            raise SettingsError("--audit-webhook-initial-backoff", "must be longer than nothing")
        self._check_backend("webhook")
        if not self.audit_log_path:
            refuse_without(self, "--audit-log-path", "audit_log_")
        if self.audit_webhook_config_file is None:
            refuse_without(self, "--audit-webhook-config-file", "audit_webhook_")

    def backend(self, name: str) -> BackendSettings:
        """The settings that `log` and `webhook` both have."""
        start = f"audit_{name}_"
        return BackendSettings(*[getattr(self, start + one.name) for one in fields(BackendSettings)])

    def _check_backend(self, name: str) -> None:
        flag, backend = f"--audit-{name}-", self.backend(name)
        check_choice(f"{flag}mode", backend.mode, MODES)
        for one in (
            "batch_buffer_size",
            "batch_max_size",
            "batch_throttle_burst",
            "batch_throttle_qps",
            "truncate_max_event_size",
        ):
            if getattr(backend, one) <= 0:
                raise SettingsError(flag + one.replace("_", "-"), "must be greater than 0")
        if backend.batch_max_wait < 0:
            raise SettingsError(f"{flag}batch-max-wait", "must not be negative")
        if backend.truncate_max_event_size > backend.truncate_max_batch_size:
            raise SettingsError(
                f"{flag}truncate-max-event-size",
                f"must not exceed {flag}truncate-max-batch-size ({backend.truncate_max_batch_size})",
            )
