"""The flags of: service account tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_list, add_switch, duration


def add_flags(group: Any) -> None:
    add(
        group,
        "--service-account-signing-key-file",
        Path,
        "FILE",
        "RSA or ECDSA key (PEM) that signs tokens (default a key in the data folder)",
    )
    add_list(
        group,
        "--service-account-key-file",
        "FILE",
        "accept tokens that these RSA or ECDSA keys have signed too (PEM, public or private; repeatable; default "
        "the key of --tls-private-key-file)",
    )
    add_switch(
        group,
        "--service-account-lookup",
        "refuse tokens of Secrets that were deleted or whose account was deleted (default true)",
    )
    add_list(
        group,
        "--service-account-issuer",
        "URL",
        "issuer of tokens; the first one signs, all are accepted (default the DNS name of the API's service)",
    )
    add_list(group, "--api-audiences", "NAME,...", "audiences of this server (default the issuers)")
    add(
        group,
        "--service-account-max-token-expiration",
        duration,
        "TIME",
        "longest life of a requested token; 0 is no limit (default 0)",
    )
    add_switch(
        group,
        "--service-account-extend-token-expiration",
        "accept the hourly tokens of pods for a year, with a warning in the log (default true)",
    )
    add(
        group,
        "--service-account-jwks-uri",
        str,
        "URL",
        "where others find the keys, in the OpenID configuration (default at this server)",
    )
