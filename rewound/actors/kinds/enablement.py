"""Which declared kinds a server serves: `--runtime-config`, comma-separated `<key>[=true|false]`.

    api/all=false,v1=true,apps/v1=true      only the core group and apps/v1
    api/beta=false                          no version with beta in its name
    apps/v1=false,apps/v1/deployments       only deployments of apps/v1

More specific keys take precedence, in any order: a resource, its version, the stage of its version (`api/ga`,
`api/beta`, `api/alpha`), then `api/all`. If no key applies, a kind is served unless its definition turns it off by
default. Requests for a kind that is not served get 404; its stored objects stay, and are readable again when it is
served again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from rewound.actors.names import REWIND_GROUP, Names

if TYPE_CHECKING:  # flags are parsed before anything about kinds is loaded
    from rewound.actors.kinds.declaration.definition import Definition

ALL, LEGACY = "api/all", "api/legacy"
STAGES: Final = {
    "api/ga": re.compile(r"v\d+"),
    "api/beta": re.compile(r"v\d+beta\d+"),
    "api/alpha": re.compile(r"v\d+alpha\d+"),
}

Key = tuple[str, ...]  # (group, version) or (group, version, plural)


class Enablement(msgspec.Struct, frozen=True):
    """The parsed keys; without any, every kind that is on by default is served."""

    every: bool | None = None
    stages: Mapping[str, bool] = msgspec.field(default_factory=dict)
    keys: Mapping[Key, bool] = msgspec.field(default_factory=dict)

    def serves(self, definition: Definition) -> bool:
        group, version, plural = definition.group, definition.version, definition.plural
        if (group, version, plural) in self.keys:
            return self.keys[group, version, plural]
        return self.serves_version(group, version, on_by_default=definition.on_by_default)

    def serves_version(self, group: str, version: str, *, on_by_default: bool) -> bool:
        """Whether a group version in which no kind is declared is served."""
        if (group, version) in self.keys:
            return self.keys[group, version]
        for stage, pattern in STAGES.items():
            if stage in self.stages and pattern.fullmatch(version):
                return self.stages[stage]
        return on_by_default if self.every is None else self.every

    def refuse_unknown(self, definitions: Iterable[Definition], names: Names) -> None:
        """Raise ValueError for a group, version or resource in which no kind is declared."""
        known: dict[str, dict[str, set[str]]] = {
            names.group("imagepolicy"): {"v1alpha1": set()},
            REWIND_GROUP: {"v1": set()},
        }
        for one in definitions:
            known.setdefault(one.group, {}).setdefault(one.version, set()).add(one.plural)
        for group, version, *plural in self.keys:
            _refuse(known, group, version, plural)


DEFAULT: Final = Enablement()


def parse_enablement(text: str) -> Enablement:
    """Parse the flag. Raises ValueError, which says which entry is wrong, and why."""
    every: bool | None = None
    stages: dict[str, bool] = {}
    keys: dict[Key, bool] = {}
    for entry in filter(None, (one.strip() for one in text.split(","))):
        key, _, text_value = entry.partition("=")
        value = _value(entry, text_value if "=" in entry else "true")
        if key == ALL:
            every = value
        elif key in STAGES:
            stages[key] = value
        elif key != LEGACY:  # once meant the core group; operators still write it; it has no effect
            keys[_key(key)] = value
    if every is False and True not in (*stages.values(), *keys.values()):
        raise ValueError(f"{text!r} leaves nothing to serve; add what is wanted, such as v1=true")
    return Enablement(every, stages, keys)


def _value(entry: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{entry!r} is neither true nor false")
    return text == "true"


def _key(key: str) -> Key:
    parts = key.split("/")
    if len(parts) == 1 and re.fullmatch(r"v\d+\w*", key):
        return ("", key)  # the core group has no name
    if len(parts) > 1 and parts[0] == "api":
        parts = ["", *parts[1:]]
    elif not parts[0]:
        raise ValueError(
            f"{key!r} names no group; write <group>/<version>[/<resource>], v1 for the core group"
        )
    if len(parts) not in (2, 3) or not all(parts[1:]):
        raise ValueError(f"{key!r} is not of the form <group>/<version>[/<resource>], v1 or api/all")
    return tuple(parts)


def _refuse(known: Mapping[str, Mapping[str, set[str]]], group: str, version: str, plural: list[str]) -> None:
    if group not in known:
        raise ValueError(f"there is no group {group!r}; there are {_listed(known)}")
    if version not in known[group]:
        raise ValueError(f"there is no version {_path(group, version)!r}; there are {_listed(known[group])}")
    if plural and plural[0] not in known[group][version]:
        resources = known[group][version]
        raise ValueError(
            f"there is no {plural[0]!r} in {_path(group, version)}; there are {_listed(resources)}"
        )


def _path(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(filter(None, names)))
