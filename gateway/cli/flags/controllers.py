"""The flags of: controllers."""

from __future__ import annotations

from typing import Any

from gateway.cli.flags.adding import add, add_list, add_switch, duration


def add_flags(group: Any) -> None:
    add_list(
        group,
        "--controllers",
        "LIST",
        "controllers to run: * for all, name for one, -name for all but that one; tokencleaner and "
        "bootstrapsigner are in * only with --enable-bootstrap-token-auth, root-ca-cert-publisher, "
        "pv-protection and pvc-protection only with --dialect kubernetes (default *)",
    )
    add_switch(
        group,
        "--enable-bootstrap-token-auth",
        "bootstrap tokens in Secrets of the system namespace authenticate (default false)",
    )
    add(
        group,
        "--event-ttl",
        duration,
        "DURATION",
        "delete Events when they have not been written for this time, 0 to keep them (default 1h)",
    )
