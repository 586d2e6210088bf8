"""`--authorization-mode=ABAC`: policies from a file with a JSON object per line, read at start and when it changes.

    {"apiVersion": "abac.authorization.cluster.io/v1beta1", "kind": "Policy",
     "spec": {"user": "alice", "namespace": "*", "resource": "*", "apiGroup": "*"}}

A policy allows requests of its user, or of its group, or of both if it has both; `*` means every authenticated user. An
empty field matches only an empty value: a policy without `resource` allows no resource requests, one without
`namespace` only cluster-scoped ones. Old files have objects of the version v0, or without apiVersion and kind: they
have the fields of a spec themselves, and empty ones match everything. Empty lines and lines that start with # are
skipped. The names of both dialects are accepted, so that a file can be moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from rewound.actors.access.authorize import (
    ALLOWED,
    ANY,
    Attributes,
    Decision,
    PathRule,
    ResourceRule,
    Rules,
    Verdict,
)
from rewound.actors.identity import AUTHENTICATED, User
from rewound.actors.names import NAMES

READ_VERBS: Final = ("get", "list", "watch")
_NO_MATCH = Decision(Verdict.NO_OPINION, "No policy matched.")
_API_VERSIONS: Final = frozenset(names.key("v1beta1", "abac.authorization") for names in NAMES.values())
_OLD_VERSIONS: Final = frozenset(names.key("v0", "abac.authorization") for names in NAMES.values())
_KIND: Final = "Policy"
_OLD_FIELDS: Final = frozenset({"apiVersion", "kind", "user", "group", "readonly", "resource", "namespace"})


class PolicyFileError(ValueError):
    """The policy file cannot be used; the text names the file, the line and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Policy:
    user: str = ""
    group: str = ""
    namespace: str = ""
    resource: str = ""
    api_group: str = ""
    path: str = ""  # nonResourcePath
    readonly: bool = False

    @property
    def verbs(self) -> tuple[str, ...]:
        return READ_VERBS if self.readonly else (ANY,)

    def allows(self, attributes: Attributes) -> bool:
        """Whether it allows a request of a user that it applies to."""
        if self.readonly and attributes.verb not in READ_VERBS:
            return False
        if not attributes.is_resource:
            return self._allows_path(attributes.path)
        return (
            self.namespace in (ANY, attributes.namespace)
            and self.resource in (ANY, attributes.resource)
            and self.api_group in (ANY, attributes.group)
        )

    def _allows_path(self, path: str) -> bool:
        if self.path.endswith(ANY):
            return path.startswith(self.path.rstrip(ANY))
        return path == self.path


class Abac:
    def __init__(self, policies: Sequence[Policy]) -> None:
        self.replace(policies)

    def replace(self, policies: Sequence[Policy]) -> None:
        self._by_user: dict[str, list[tuple[int, Policy]]] = {}
        self._by_group: dict[str, list[tuple[int, Policy]]] = {}
        for line, policy in enumerate(policies):
            if policy.user:
                self._by_user.setdefault(policy.user, []).append((line, policy))
            elif policy.group:
                self._by_group.setdefault(policy.group, []).append((line, policy))

    def authorize(self, attributes: Attributes) -> Decision:
        for _, policy in self._policies_of(attributes.user):
            if policy.allows(attributes):
                return ALLOWED
        return _NO_MATCH

    async def rules(self, user: User, namespace: str) -> Rules:
        found = [
            policy
            for _, policy in sorted(self._policies_of(user), key=_line)
            if policy.namespace in (ANY, namespace)
        ]
        return Rules(
            tuple(
                ResourceRule(one.verbs, (one.api_group,), (one.resource,)) for one in found if one.resource
            ),
            tuple(PathRule(one.verbs, (one.path,)) for one in found if one.path),
        )

    def _policies_of(self, user: User) -> Iterator[tuple[int, Policy]]:
        for numbered in self._by_user.get(user.name, ()):
            if not numbered[1].group or numbered[1].group in user.groups:
                yield numbered
        for group in user.groups:
            yield from self._by_group.get(group, ())


def _line(numbered: tuple[int, Policy]) -> int:
    return numbered[0]


def read_policies(path: Path) -> list[Policy]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise PolicyFileError(f"{path}: cannot be read: {error.strerror}") from None
    return list(_policies(path, lines))


def _policies(path: Path, lines: Iterable[bytes]) -> Iterator[Policy]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            yield _policy(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            raise PolicyFileError(f"{path}, line {number}: is not JSON: {error.msg}") from None
        except _BadPolicy as error:
            raise PolicyFileError(f"{path}, line {number}: {error}") from None


class _BadPolicy(Exception):
    pass


def _policy(document: Any) -> Policy:
    if not isinstance(document, dict):
        raise _BadPolicy("is not an object; give a Policy on every line")
    api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
    if kind not in ("", _KIND):
        raise _BadPolicy(f"kind {kind!r} is not known; it must be {_KIND}")
    if api_version and api_version not in _API_VERSIONS | _OLD_VERSIONS:
        raise _unknown_version(api_version)
    if not api_version or not kind or api_version in _OLD_VERSIONS:
        return _old_policy(document)
    spec = document.get("spec", {})
    if not isinstance(spec, dict):
        raise _BadPolicy("spec is not an object")
    return _for_everyone(
        Policy(
            _text(spec, "user"),
            _text(spec, "group"),
            _text(spec, "namespace"),
            _text(spec, "resource"),
            _text(spec, "apiGroup"),
            _text(spec, "nonResourcePath"),
            _flag(spec, "readonly"),
        )
    )


def _old_policy(document: Mapping[str, Any]) -> Policy:
    """The oldest form, v0: no API groups, and an empty field matches everything.

    Unknown fields are rejected, because a policy without a user applies to every user: a `spec` whose kind was
    forgotten, or a misspelled `user`, would allow everything to every authenticated user.
    """
    unknown = sorted(document.keys() - _OLD_FIELDS)
    if unknown:
        raise _BadPolicy(
            f"the field {unknown[0]!r} is not known in a policy without apiVersion and kind, or of the version v0; "
            "give both, of the version v1beta1, or remove the field"
        )
    user, group = _text(document, "user"), _text(document, "group")
    namespace, resource = _text(document, "namespace"), _text(document, "resource")
    return _for_everyone(
        Policy(
            user,
            group if user or group else AUTHENTICATED,
            namespace or ANY,
            resource or ANY,
            ANY,
            "" if namespace or resource else ANY,
            _flag(document, "readonly"),
        )
    )


def _for_everyone(policy: Policy) -> Policy:
    """`*` as user or group means every authenticated user, never an anonymous one."""
    if ANY in (policy.user, policy.group):
        return replace(policy, user="", group=AUTHENTICATED)
    return policy


def _unknown_version(api_version: object) -> _BadPolicy:
    return _BadPolicy(f"apiVersion {api_version!r} is not known; use {' or '.join(sorted(_API_VERSIONS))}")


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _BadPolicy(f"{name} is not a string")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _BadPolicy(f"{name} is neither true nor false")
    return value
