"""Builds the audit log from its settings: the policy, and a backend for the file and for the webhook.

In a worker process the backends write and send through another process, which has an `AuditWriter`.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from rewound.actors.access.remote.target import follow_target, read_target
from rewound.actors.names import Names
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.followed_file import FollowedFiles
from rewound.gateway.audit.audit_log import Attached, AuditLog
from rewound.gateway.audit.backends.bounds import Throttle
from rewound.gateway.audit.backends.lines import Lines, Truncation
from rewound.gateway.audit.backends.log_backend import LogBackend, Output
from rewound.gateway.audit.backends.remote import (
    AuditCalls,
    AuditWriter,
    RemoteOutput,
    RemoteWebhook,
    patience,
)
from rewound.gateway.audit.backends.rotated_file import Compression, RotatedFile, StandardOutput
from rewound.gateway.audit.backends.webhook_backend import Sender, WebhookBackend
from rewound.gateway.audit.policy import read_policy
from rewound.gateway.outgoing.webhook import HttpsWebhook
from rewound.gateway.settings.checks import SettingsError, check_parsed
from rewound.gateway.settings.settings import STANDARD_OUTPUT, AuditSettings, BackendSettings

logger = logging.getLogger(__name__)

_MEBIBYTE = 1 << 20
_DEFAULT_MEBIBYTES = 100


def build_audit(
    settings: AuditSettings, names: Names, clock: Clock, calls: AuditCalls | None = None
) -> tuple[AuditLog, list[FollowedFiles]] | None:
    """The audit log, and the files that it follows; None if nothing is to be recorded. Raises SettingsError.

    `calls` are those to the process that writes and sends events for this one, if another does.
    """
    for name in ("log", "webhook"):
        _check_version(name, settings.backend(name).version, names)
    path = settings.audit_policy_file
    files: list[FollowedFiles] = []
    policy = None
    if path is not None:
        flag = "--audit-policy-file"
        files.append(FollowedFiles(flag, [path], lambda _: partial(audit.replace, read_policy(path, names))))
        policy = check_parsed(flag, lambda: read_policy(path, names))
    if not settings.has_backend:
        if policy is not None:
            logger.warning("audit: neither a log nor a webhook is configured, so that no events are recorded")
        return None
    if policy is None:
        logger.warning("audit: no --audit-policy-file is given, so that no events are recorded")
        return None
    backends = []
    if settings.audit_log_path:
        backends.append(_log_backend(settings, names, calls))
    if settings.audit_webhook_config_file is not None:
        backends.append(_webhook_backend(settings, names, calls, files))
    audit = AuditLog(policy, backends, clock)
    return audit, files


def build_audit_writer(settings: AuditSettings) -> AuditWriter | None:
    """The writer and sender of worker processes' events; None if they have none. Raises SettingsError."""
    if settings.audit_policy_file is None or not settings.has_backend:
        return None
    return AuditWriter(
        _output(settings) if settings.audit_log_path else None,
        _webhook(settings, []) if settings.audit_webhook_config_file is not None else None,
        initial_backoff=settings.audit_webhook_initial_backoff,
        in_turn=not settings.backend("webhook").blocking,
    )


def _check_version(backend: str, version: str, names: Names) -> None:
    served = f"{names.group('audit')}/v1"
    if version not in ("", served):
        raise SettingsError(
            f"--audit-{backend}-version", f"{version!r} is not known; the only one is {served}"
        )


def _log_backend(settings: AuditSettings, names: Names, calls: AuditCalls | None) -> Attached:
    given = settings.backend("log")
    output = (
        _output(settings) if calls is None else RemoteOutput(calls.write, patience(blocking=given.blocking))
    )
    backend = LogBackend(
        output,
        _lines(given, names, legacy=settings.audit_log_format == "legacy"),
        buffer_size=given.batch_buffer_size,
        max_size=given.batch_max_size,
        max_wait=given.batch_max_wait,
        throttle=shared_throttle(given, calls),
    )
    return Attached(backend, given.blocking, given.mode == "blocking-strict")


def _webhook_backend(
    settings: AuditSettings, names: Names, calls: AuditCalls | None, files: list[FollowedFiles]
) -> Attached:
    given = settings.backend("webhook")
    webhook: Sender = (
        _webhook(settings, files)
        if calls is None
        else RemoteWebhook(calls.send, patience(blocking=given.blocking))
    )
    backend = WebhookBackend(
        webhook,
        _lines(given, names),
        f"{names.group('audit')}/v1",
        buffer_size=given.batch_buffer_size,
        max_size=given.batch_max_size,
        max_wait=given.batch_max_wait,
        initial_backoff=settings.audit_webhook_initial_backoff,
        throttle=shared_throttle(given, calls),
    )
    return Attached(backend, given.blocking, given.mode == "blocking-strict")


def _webhook(settings: AuditSettings, files: list[FollowedFiles]) -> HttpsWebhook:
    flag, path = "--audit-webhook-config-file", settings.audit_webhook_config_file
    assert path is not None, "without one there is no webhook"
    target = check_parsed(flag, lambda: read_target(path))
    webhook = HttpsWebhook(target)
    files.append(follow_target(flag, path, target, webhook.replace))
    return webhook


def _lines(given: BackendSettings, names: Names, *, legacy: bool = False) -> Lines:
    truncation = None
    if given.truncate_enabled:
        truncation = Truncation(given.truncate_max_event_size, given.truncate_max_batch_size)
    return Lines(names, truncation, legacy=legacy)


def shared_throttle(given: BackendSettings, calls: AuditCalls | None) -> Throttle | None:
    """Only for batches, because blocking modes wait for the backend anyway. Workers share the rate."""
    if given.blocking or not given.batch_throttle_enable:
        return None
    workers = 1 if calls is None else calls.workers
    return Throttle(given.batch_throttle_qps / workers, max(1, given.batch_throttle_burst // workers))


def _output(settings: AuditSettings) -> Output:
    if settings.audit_log_path == STANDARD_OUTPUT:
        return StandardOutput()
    try:
        return RotatedFile(
            Path(settings.audit_log_path),
            max_bytes=(settings.audit_log_maxsize or _DEFAULT_MEBIBYTES) * _MEBIBYTE,
            max_backups=settings.audit_log_maxbackup,
            max_age_days=settings.audit_log_maxage,
            compression=Compression() if settings.audit_log_compress else None,
        )
    except OSError as error:
        raise SettingsError(
            "--audit-log-path", f"cannot write to {settings.audit_log_path}: {error.strerror}"
        ) from None
