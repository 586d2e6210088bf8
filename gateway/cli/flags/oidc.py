"""The flags of OpenID Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_list


def add_flags(group: Any) -> None:
    add(
        group,
        "--oidc-issuer-url",
        str,
        "URL",
        "issuer whose ID tokens sign in; HTTPS, without /.well-known/...",
    )
    add(group, "--oidc-client-id", str, "ID", "client id that all tokens must be issued for")
    add(group, "--oidc-username-claim", str, "CLAIM", "claim with the user name")
    add(
        group,
        "--oidc-username-prefix",
        str,
        "TEXT",
        "put before user names; - is none (default the issuer and #, none for the claim email)",
    )
    add(group, "--oidc-groups-claim", str, "CLAIM", "claim with the groups, an array of strings")
    add(group, "--oidc-groups-prefix", str, "TEXT", "put before groups")
    add_list(
        group,
        "--oidc-required-claim",
        "CLAIM=VALUE",
        "claim that tokens must have with this value; repeatable",
    )
    add(
        group,
        "--oidc-ca-file",
        Path,
        "FILE",
        "CAs of the issuer's web certificate (default those of the host)",
    )
    add_list(
        group, "--oidc-signing-algs", "NAME,...", "algorithms that tokens may be signed with (default RS256)"
    )
