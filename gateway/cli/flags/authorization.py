"""The flags of authorization: the modes, and what single modes need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_list, duration


def add_flags(group: Any) -> None:
    add_list(
        group,
        "--authorization-mode",
        "MODE,...",
        "what decides on requests, in order: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny; system:masters may do "
        "everything in all of them (default RBAC)",
    )
    add(
        group,
        "--authorization-policy-file",
        Path,
        "FILE",
        "policies of ABAC: a JSON object per line",
    )
    add(
        group,
        "--authorization-webhook-config-file",
        Path,
        "FILE",
        "kubeconfig of the webhook of the mode Webhook",
    )
    add(
        group,
        "--authorization-webhook-cache-authorized-ttl",
        duration,
        "TIME",
        "how long it is not called again for what it allowed (default 5m)",
    )
    add(
        group,
        "--authorization-webhook-cache-unauthorized-ttl",
        duration,
        "TIME",
        "how long it is not called again for what it did not allow (default 30s)",
    )
    add(
        group,
        "--authorization-webhook-version",
        str,
        "VERSION",
        "version of the SubjectAccessReview that it gets: v1 or v1beta1 (default v1beta1)",
    )
