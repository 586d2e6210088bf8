"""The flags of: audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_switch, duration, number, rate


def add_flags(group: Any) -> None:
    add(
        group,
        "--audit-policy-file",
        Path,
        "FILE",
        "the policy: which requests are recorded, and how much of them",
    )
    add(group, "--audit-log-path", str, "FILE", "write events to this file, or to standard output if it is -")
    add(group, "--audit-log-maxage", number, "DAYS", "delete rotated files that are older (default 0: never)")
    add(group, "--audit-log-maxbackup", number, "N", "keep this many rotated files (default 0: all)")
    add(group, "--audit-log-maxsize", number, "MIB", "rotate the file before it is larger")
    add_switch(group, "--audit-log-compress", "compress rotated files with gzip")
    add(group, "--audit-log-format", str, "json|legacy", "one JSON document or one line of text per event")
    _add_backend(group, "log")
    add(
        group,
        "--audit-webhook-config-file",
        Path,
        "FILE",
        "send events to the server in this file, which has kubeconfig format",
    )
    add(
        group,
        "--audit-webhook-initial-backoff",
        duration,
        "TIME",
        "pause after the first failed call; later pauses are longer (default 10s)",
    )
    _add_backend(group, "webhook")


def _add_backend(group: Any, backend: str) -> None:
    flag = f"--audit-{backend}-"
    add(group, f"{flag}version", str, "VERSION", "API version of the events (default v1, the only one)")
    add(
        group,
        f"{flag}mode",
        str,
        "batch|blocking|blocking-strict",
        "batch never delays a request and may lose events; blocking delays it until its events are stored; "
        "blocking-strict also refuses it if the first cannot be stored",
    )
    add(group, f"{flag}batch-buffer-size", number, "N", "events that wait at most; further ones are lost")
    add(group, f"{flag}batch-max-size", number, "N", "events in a batch at most")
    add(
        group, f"{flag}batch-max-wait", duration, "TIME", "how long a batch waits for more events, like 100ms"
    )
    add_switch(group, f"{flag}batch-throttle-enable", "limit the number of batches a second")
    add(group, f"{flag}batch-throttle-qps", rate, "N", "batches a second on average, if throttled")
    add(group, f"{flag}batch-throttle-burst", number, "N", "batches at once after a pause, if throttled")
    add_switch(group, f"{flag}truncate-enabled", "leave objects out of large events, and split large batches")
    add(group, f"{flag}truncate-max-batch-size", number, "BYTES", "size of a batch at most, if truncated")
    add(group, f"{flag}truncate-max-event-size", number, "BYTES", "size of an event at most, if truncated")
