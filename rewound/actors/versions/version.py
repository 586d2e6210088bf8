"""The versions of Kubernetes that a server can be, and how `--kubernetes-version` names them."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

FIRST, NEWEST = "1.25", "1.36"
# The patch release of each version whose behaviour this server has, and which /version names.
PATCH_RELEASES: Final = {
    "1.25": "v1.25.16",
    "1.26": "v1.26.15",
    "1.27": "v1.27.16",
    "1.28": "v1.28.15",
    "1.29": "v1.29.15",
    "1.30": "v1.30.14",
    "1.31": "v1.31.14",
    "1.32": "v1.32.13",
    "1.33": "v1.33.13",
    "1.34": "v1.34.11",
    "1.35": "v1.35.8",
    "1.36": "v1.36.4",
}
DOCUMENTS_DIALECT: Final = "cluster"
_DEFAULTS: Final = {DOCUMENTS_DIALECT: FIRST, "kubernetes": NEWEST}  # of --kubernetes-version
VERSIONS: Final = tuple(PATCH_RELEASES)
_VERSION: Final = re.compile(r"v?(1\.[0-9]{1,3})(\.[0-9]{1,3})?")


def parse_version(text: str) -> str:
    """Return the version that a text names: `1.33`, `v1.33` or `1.33.4`. Raises ValueError if there is none."""
    match = _VERSION.fullmatch(text)
    if match is None or match[1] not in PATCH_RELEASES:
        raise ValueError(
            f"there is no Kubernetes version {text!r} here; give one from {FIRST} to {NEWEST}, such as {NEWEST}"
        )
    return match[1]


def stored_version(recorded: str) -> str:
    """Return the version that a journal records; earlier releases, which were 1.25, recorded nothing."""
    return recorded or FIRST


def nearest_version(text: str) -> str:
    """Return the version nearest to that of another server, such as v1.24.17 or 1.33+; the newest if unknown."""
    match = re.match(r"v?1\.([0-9]{1,3})", text)
    if match is None:
        return NEWEST
    return f"1.{min(max(int(match[1]), minor(FIRST)), minor(NEWEST))}"


def record_of(version: str) -> str:
    """Return a version as journals record it: nothing for the first, so that earlier releases can open those."""
    return "" if version == FIRST else version


@cache
def minor(version: str) -> int:
    """Return the second number of a version, by which versions are ordered."""
    return int(version.partition(".")[2])


def later(version: str, by: int) -> str:
    """Return the version that came so many versions later."""
    return f"1.{minor(version) + by}"


def exists_in(version: str, since: str, until: str) -> bool:
    """Whether something exists in a version that came with `since` and was there last in `until`; empty: no limit."""
    if not since and not until:
        return True
    at = minor(version)
    return (not since or minor(since) <= at) and (not until or at <= minor(until))


def check_upgrade(present: str, target: str) -> None:
    """Raises ValueError if a version is older than the present one."""
    if minor(target) < minor(present):
        raise ValueError(
            f"{target} is older than {present}, the present version; give {present} or a later one"
        )


def check_version(dialect: str, text: str) -> str:
    """Return the version of a server of this dialect: the one that `text` names, or else the default.

    Raises ValueError if there is no such version, or if the dialect does not have it.
    """
    version = parse_version(text) if text else _DEFAULTS[dialect]
    if dialect == DOCUMENTS_DIALECT and version != FIRST:
        raise ValueError(
            f"the dialect {dialect} is always Kubernetes {FIRST}; leave it out, or add --dialect kubernetes"
        )
    return version
