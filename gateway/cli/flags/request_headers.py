"""The flags of the authenticating proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_list


def add_flags(group: Any) -> None:
    add(
        group,
        "--requestheader-client-ca-file",
        Path,
        "FILE",
        "CAs of the proxies (PEM); the headers count only on connections with a certificate of theirs",
    )
    add_list(
        group,
        "--requestheader-username-headers",
        "NAME,...",
        "headers with the user name, like X-Remote-User; the first with a value counts",
    )
    add_list(
        group,
        "--requestheader-group-headers",
        "NAME,...",
        "headers with groups, like X-Remote-Group; all values of all of them count",
    )
    add_list(
        group,
        "--requestheader-extra-headers-prefix",
        "PREFIX,...",
        "prefixes of headers with extra values, like X-Remote-Extra-; the rest of the name is the key",
    )
    add_list(
        group,
        "--requestheader-allowed-names",
        "NAME,...",
        "common names that a proxy's certificate may have (default any)",
    )
