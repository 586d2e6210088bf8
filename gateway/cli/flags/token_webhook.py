"""The flags of the token webhook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, duration


def add_flags(group: Any) -> None:
    add(
        group,
        "--authentication-token-webhook-config-file",
        Path,
        "FILE",
        "kubeconfig of the webhook that authenticates tokens which nothing else knows",
    )
    add(
        group,
        "--authentication-token-webhook-cache-ttl",
        duration,
        "TIME",
        "how long its responses are used again (default 2m)",
    )
    add(
        group,
        "--authentication-token-webhook-version",
        str,
        "VERSION",
        "version of the TokenReview that it gets: v1 or v1beta1 (default v1beta1)",
    )
