"""The flags of authorization: the modes, and what single modes need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_list


def add_flags(group: Any) -> None:
    add_list(
        group,
        "--authorization-mode",
        "MODE,...",
        "what decides on requests, in order: Node, RBAC, ABAC, AlwaysAllow, AlwaysDeny; system:masters may do "
        "everything in all of them (default RBAC)",
    )
    add(
        group,
        "--authorization-policy-file",
        Path,
        "FILE",
        "policies of ABAC: a JSON object per line",
    )
