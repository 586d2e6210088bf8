"""The error for a setting that cannot be served, and the checks that several groups of settings share."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rewound.actors.certificates.trust import InvalidBundle, trust

T = TypeVar("T")
REVIEW_VERSIONS = ("v1", "v1beta1")  # versions of the reviews sent to webhooks


class SettingsError(Exception):
    """A setting cannot be served; `flag` is the one to change."""

    def __init__(self, flag: str, why: str) -> None:
        self.flag = flag
        super().__init__(f"{flag}: {why}")


def check_parsed(flag: str, parse: Callable[[], T]) -> T:
    """The result of `parse`; if it raises ValueError, a SettingsError with the flag."""
    try:
        return parse()
    except ValueError as error:
        raise SettingsError(flag, str(error)) from None


def split_list(flag: str, values: tuple[str, ...]) -> list[str]:
    """The values of a repeatable flag, each with one or more values separated by commas; quotes protect a comma."""
    if not any(special in value for value in values for special in '"\r\n'):
        return [one for value in values for one in value.split(",")]
    import csv  # imported here, because a start without quotes does not need it

    try:
        return [one for row in csv.reader(values, strict=True) for one in row or [""]]
    except csv.Error as error:
        raise SettingsError(flag, f"the list cannot be read: {error}") from None


def check_choice(flag: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(flag, f"{value!r} is not known; choose one of {' | '.join(allowed)}")


def check_file(flag: str, path: Path | None) -> None:
    if path is None:
        return
    if path == Path():
        raise SettingsError(flag, "is empty; give the path of a file, or leave the flag out")
    if not path.is_file():
        raise SettingsError(flag, f"there is no file {path}; check the path")


def check_authorities(flag: str, path: Path | None) -> None:
    """Refuse a file without CA certificates."""
    if path is None:
        return
    check_file(flag, path)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust(context, path.read_bytes())
        context.load_verify_locations(cafile=path)  # raises if one certificate of the file cannot be read
    except (InvalidBundle, ssl.SSLError):
        raise SettingsError(
            flag, f"{path} contains no certificate in PEM form; give a file that does"
        ) from None
    except OSError as error:
        raise SettingsError(flag, f"cannot read {path}: {error.strerror}; check its permissions") from None


def check_certificate_and_key(flags: list[str], certificate: Path, key: Path) -> None:
    """Refuse two files that are not a certificate and its key; `flags` are their flags."""

    def refuse_password() -> NoReturn:
        raise SettingsError(flags[1], f"the key {key} is encrypted with a password; give one without")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=refuse_password)
    except ssl.SSLError:
        raise SettingsError(
            flags[0],
            f"{certificate} and {key} are not a certificate and its key; both must be PEM files, "
            "and the key must be that of the first certificate",
        ) from None
    except OSError as error:
        raise SettingsError(flags[0], f"cannot read {certificate} or {key}: {error.strerror}") from None


def refuse_without(group: Any, needed: str, prefix: str = "") -> None:
    """Refuse every setting of a group that differs from its default: it has no effect without the flag `needed`."""
    for one in fields(group):
        if one.name.startswith(prefix) and getattr(group, one.name) != one.default:
            flag = f"--{one.name.replace('_', '-')}"
            raise SettingsError(flag, f"has no effect without {needed}; add it or leave this out")
