"""Builds the audit log from its settings: the policy, and a backend for the file and for the webhook."""

from __future__ import annotations

import logging
from pathlib import Path

from actors.clock import Clock
from actors.names import Names
from gateway.audit.audit_log import Attached, AuditLog
from gateway.audit.event import EventFormat
from gateway.audit.lines import Lines, Truncation
from gateway.audit.log_backend import LogBackend, Output
from gateway.audit.policy_file import read_policy
from gateway.audit.rotated_file import RotatedFile, StandardOutput
from gateway.audit.throttle import Throttle
from gateway.settings.audit import STANDARD_OUTPUT, AuditSettings
from gateway.settings.checks import SettingsError, check_parsed

logger = logging.getLogger(__name__)

_MEBIBYTE = 1 << 20
_DEFAULT_MEBIBYTES = 100


def build_audit(settings: AuditSettings, names: Names, clock: Clock) -> AuditLog | None:
    """The audit log; None if nothing is to be recorded. SettingsError."""
    _check_version("log", settings.audit_log_version, names)
    if not settings.audit_log_path:
        if settings.audit_policy_file is not None:
            check_parsed("--audit-policy-file", lambda: read_policy(_policy_path(settings), names))
            logger.warning("audit: no backend is configured, so that no events are recorded")
        return None
    if settings.audit_policy_file is None:
        logger.warning("audit: no --audit-policy-file is given, so that no events are recorded")
        return None
    policy = check_parsed("--audit-policy-file", lambda: read_policy(_policy_path(settings), names))
    backends = []
    if settings.audit_log_path:
        backends.append(_log_backend(settings, names))
    return AuditLog(policy, backends, clock)


def _policy_path(settings: AuditSettings) -> Path:
    assert settings.audit_policy_file is not None
    return settings.audit_policy_file


def _check_version(backend: str, version: str, names: Names) -> None:
    served = f"{names.group('audit')}/v1"
    if version not in ("", served):
        raise SettingsError(
            f"--audit-{backend}-version", f"{version!r} is not known; the only one is {served}"
        )


def _log_backend(settings: AuditSettings, names: Names) -> Attached:
    truncation = None
    if settings.audit_log_truncate_enabled:
        truncation = Truncation(
            settings.audit_log_truncate_max_event_size, settings.audit_log_truncate_max_batch_size
        )
    throttle = None
    if settings.audit_log_batch_throttle_enable:
        throttle = Throttle(settings.audit_log_batch_throttle_qps, settings.audit_log_batch_throttle_burst)
    blocking = settings.audit_log_mode != "batch"
    backend = LogBackend(
        _output(settings),
        Lines(EventFormat(names), truncation, legacy=settings.audit_log_format == "legacy"),
        buffer_size=settings.audit_log_batch_buffer_size,
        max_size=settings.audit_log_batch_max_size,
        max_wait=settings.audit_log_batch_max_wait,
        throttle=None if blocking else throttle,
    )
    return Attached(backend, blocking, strict=settings.audit_log_mode == "blocking-strict")


def _output(settings: AuditSettings) -> Output:
    if settings.audit_log_path == STANDARD_OUTPUT:
        return StandardOutput()
    try:
        return RotatedFile(
            Path(settings.audit_log_path),
            max_bytes=(settings.audit_log_maxsize or _DEFAULT_MEBIBYTES) * _MEBIBYTE,
            max_backups=settings.audit_log_maxbackup,
            max_age_days=settings.audit_log_maxage,
        )
    except OSError as error:
        raise SettingsError(
            "--audit-log-path", f"cannot write to {settings.audit_log_path}: {error.strerror}"
        ) from None
