"""The settings of the authenticating proxy."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from actors.access.authentication.authenticate import RequestHeaders
from gateway.settings.checks import SettingsError, check_authorities, split_list

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What the server itself reads as something else.
_RESERVED = ("authorization", "host", "content-length", "transfer-encoding", "connection", "upgrade")
_IMPERSONATE = "impersonate-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderSettings:
    requestheader_username_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()
    requestheader_client_ca_file: Path | None = None
    requestheader_allowed_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = ["--" + one.name.replace("_", "-") for one in fields(self) if getattr(self, one.name)]
        if not given:
            return
        if not self.requestheader_client_ca_file:
            raise SettingsError(
                given[0], "needs the CA of the proxy; give it with --requestheader-client-ca-file"
            )
        if not self.requestheader_username_headers:
            raise SettingsError(
                given[0],
                "needs the header of the user name; give --requestheader-username-headers=X-Remote-User",
            )
        check_authorities("--requestheader-client-ca-file", self.requestheader_client_ca_file)
        for flag, values in (
            ("--requestheader-username-headers", self.requestheader_username_headers),
            ("--requestheader-group-headers", self.requestheader_group_headers),
            ("--requestheader-extra-headers-prefix", self.requestheader_extra_headers_prefix),
        ):
            _check_headers(flag, values)
        if "" in split_list("--requestheader-allowed-names", self.requestheader_allowed_names):
            raise SettingsError(
                "--requestheader-allowed-names", "has an empty name; leave the flag out to allow every name"
            )

    @property
    def headers(self) -> RequestHeaders | None:
        """None without an authenticating proxy."""
        if self.requestheader_client_ca_file is None:
            return None
        return RequestHeaders(
            _names(self.requestheader_username_headers),
            _names(self.requestheader_group_headers),
            _names(self.requestheader_extra_headers_prefix),
            frozenset(split_list("--requestheader-allowed-names", self.requestheader_allowed_names)),
        )


def _check_headers(flag: str, values: tuple[str, ...]) -> None:
    for name in split_list(flag, values):
        if _HEADER.fullmatch(name) is None:
            raise SettingsError(flag, f"{name!r} is not a header name; give one like X-Remote-User")
        if name.lower() in _RESERVED or name.lower().startswith(_IMPERSONATE):
            raise SettingsError(flag, f"{name} has another meaning; let the proxy use a header of its own")


def _names(values: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.lower().encode() for name in split_list("", values))
