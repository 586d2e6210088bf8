"""Settings of a node whose journal is ordered by etcd: `--journal` and the flags of the connection to etcd."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewound.gateway.settings.checks import (
    SettingsError,
    check_authorities,
    check_certificate_and_key,
    check_file,
    refuse_without,
)

SCHEME: Final = "etcd://"
DEFAULT_PREFIX: Final = "/registry"
_EXAMPLE: Final = "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    journal: str = ""  # etcd://host:port,...[/prefix]; empty: this server orders its journal itself
    etcd_cafile: Path | None = None  # if given, connections use TLS
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    etcd_user_file: Path | None = None  # one line, user:password

    def __post_init__(self) -> None:
        if not self.journal:
            refuse_without(self, "--journal", "etcd_")
            return
        for endpoint in self.endpoints:
            _check_endpoint(endpoint)
        check_authorities("--etcd-cafile", self.etcd_cafile)
        check_file("--etcd-certfile", self.etcd_certfile)
        check_file("--etcd-keyfile", self.etcd_keyfile)
        check_file("--etcd-user-file", self.etcd_user_file)
        self._check_certificate()
        self.credentials()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """host:port of each etcd member."""
        if not self.journal.startswith(SCHEME):
            raise SettingsError("--journal", f"{self.journal!r} is not an address of etcd; give {_EXAMPLE}")
        hosts = self.journal[len(SCHEME) :].partition("/")[0]
        return tuple(one.strip() for one in hosts.split(","))

    @property
    def prefix(self) -> str:
        return "/" + (self.journal[len(SCHEME) :].partition("/")[2].strip("/") or DEFAULT_PREFIX.strip("/"))

    def credentials(self) -> tuple[str, str] | None:
        """User and password. Raises SettingsError if the file has none."""
        if self.etcd_user_file is None:
            return None
        user, colon, password = self.etcd_user_file.read_text().strip().partition(":")
        if not colon or not user:
            raise SettingsError("--etcd-user-file", "has no line user:password; write one")
        return user, password

    def _check_certificate(self) -> None:
        pair = (("--etcd-certfile", self.etcd_certfile), ("--etcd-keyfile", self.etcd_keyfile))
        given = [flag for flag, value in pair if value is not None]
        if len(given) == 1:
            [missing] = [flag for flag, value in pair if value is None]
            raise SettingsError(given[0], f"has no effect without {missing}; add it or leave this out")
        if given and self.etcd_cafile is None:
            raise SettingsError(given[0], "needs --etcd-cafile, with which connections to etcd use TLS")
        if self.etcd_certfile is not None and self.etcd_keyfile is not None:
            check_certificate_and_key(given, self.etcd_certfile, self.etcd_keyfile)


def _check_endpoint(endpoint: str) -> None:
    host, colon, port = endpoint.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise SettingsError("--journal", f"{endpoint!r} is not host:port; give {_EXAMPLE}")
