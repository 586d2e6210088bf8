"""Reads the file of --audit-policy-file: a Policy in YAML or JSON.

    apiVersion: audit.cluster.io/v1
    kind: Policy
    rules:
      - level: Metadata

The file is read strictly: an unknown field, a wrong type or a value that can never match is an error that names the
path of the field, because a policy that silently records less is noticed when the record is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from actors.kinds.validation import dns_subdomain
from actors.names import Names
from gateway.audit.policy import LEVELS, STAGES, Level, Policy, Resources, Rule, Treatment
from gateway.wire import yaml

_POLICY = ("apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields")
_RULE = (
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
)
_RESOURCES = ("group", "resources", "resourceNames")
_STAGES = {stage: stage for stage in STAGES}
T = TypeVar("T")


class PolicyError(ValueError):
    """The policy cannot be used; the text names the field and says what it must be."""


def read_policy(path: Path, names: Names) -> Policy:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"cannot read {path}: {error.strerror}") from error
    try:
        return parse_policy(raw, names)
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None


def parse_policy(raw: bytes, names: Names) -> Policy:
    try:
        loaded = yaml.load(raw)
    except yaml.YamlError as error:
        raise PolicyError(f"is not YAML: {error}") from None
    if loaded.problems:
        raise PolicyError("; ".join(loaded.problems))
    document = _mapping("the file", loaded.value, _POLICY)
    _check_type(document, names)
    if document.get("metadata") is not None and not isinstance(document["metadata"], dict):
        raise PolicyError("metadata: must be a mapping")
    rules = _list("rules", document.get("rules"))
    if not rules:
        raise PolicyError("rules: is empty, so that nothing would ever be recorded; give at least one rule")
    default = Treatment(
        Level.NONE,
        _stages("omitStages", document.get("omitStages")),
        _boolean("omitManagedFields", document.get("omitManagedFields"), False),
    )
    return Policy(tuple(_rule(f"rules[{n}]", one, default) for n, one in enumerate(rules)), default)


def _check_type(document: Mapping[str, Any], names: Names) -> None:
    for field, expected in (("apiVersion", f"{names.group('audit')}/v1"), ("kind", "Policy")):
        if document.get(field) != expected:
            found = f"{document[field]!r}" if field in document else "missing"
            raise PolicyError(f"{field}: is {found}; write {field}: {expected}")


def _rule(path: str, value: Any, default: Treatment) -> Rule:
    rule = _mapping(path, value, _RULE)
    level = _choice(f"{path}.level", rule.get("level"), LEVELS)
    resources = _list(f"{path}.resources", rule.get("resources"))
    namespaces = _exact(f"{path}.namespaces", rule.get("namespaces"))
    urls = _strings(f"{path}.nonResourceURLs", rule.get("nonResourceURLs"))
    if urls and (resources or namespaces):
        raise PolicyError(
            f"{path}.nonResourceURLs: a rule cannot have these and resources or namespaces; write two rules"
        )
    for number, url in enumerate(urls):
        _check_url(f"{path}.nonResourceURLs[{number}]", url)
    treatment = Treatment(
        level,
        default.omit_stages | _stages(f"{path}.omitStages", rule.get("omitStages")),
        _boolean(f"{path}.omitManagedFields", rule.get("omitManagedFields"), default.omit_managed_fields),
    )
    return Rule(
        treatment,
        frozenset(_exact(f"{path}.users", rule.get("users"))),
        frozenset(_exact(f"{path}.userGroups", rule.get("userGroups"))),
        frozenset(_exact(f"{path}.verbs", rule.get("verbs"))),
        tuple(_resources(f"{path}.resources[{n}]", one) for n, one in enumerate(resources)),
        frozenset(namespaces),
        tuple(urls),
    )


def _resources(path: str, value: Any) -> Resources:
    given = _mapping(path, value, _RESOURCES)
    group = given.get("group")
    if group is None:
        group = ""
    if not isinstance(group, str):
        raise PolicyError(f'{path}.group: must be a string; "" is the core group')
    if "/" in group:
        raise PolicyError(f"{path}.group: {group!r} must be the name of a group without a version")
    if group and dns_subdomain(group):
        raise PolicyError(
            f'{path}.group: {group!r} is no name of a group; "" is the core group, and there is none for all: '
            "list the groups, or leave resources out"
        )
    resources = _strings(f"{path}.resources", given.get("resources"))
    for number, pattern in enumerate(resources):
        _check_resource(f"{path}.resources[{number}]", pattern)
    names = _strings(f"{path}.resourceNames", given.get("resourceNames"))
    if names and not resources:
        raise PolicyError(f"{path}.resourceNames: needs at least one resource in {path}.resources")
    return Resources(group, tuple(resources), frozenset(names))


def _check_resource(path: str, pattern: str) -> None:
    """`pods`, `pods/log`, `pods/*`, `*/status` and `*`; others never match."""
    parts = pattern.split("/")
    if len(parts) > 2 or not all(parts):
        raise PolicyError(f"{path}: {pattern!r} must be a resource, or a resource/subresource")
    if pattern == "*/*" or any("*" in part and part != "*" for part in parts):
        raise PolicyError(f"{path}: {pattern!r} matches nothing; use *, <resource>/* or */<subresource>")


def _check_url(path: str, url: str) -> None:
    if url == "*":
        return
    if not url.startswith("/"):
        raise PolicyError(f"{path}: {url!r} must begin with a slash")
    if "*" in url[:-1]:
        raise PolicyError(f"{path}: {url!r} may have a * at its end only")


def _mapping(path: str, value: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: must be a mapping")
    for field in value:
        if field not in known:
            place = field if path == "the file" else f"{path}.{field}"
            raise PolicyError(f"{place}: is not a field of a policy; known here are {', '.join(known)}")
    return value


def _list(path: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise PolicyError(f"{path}: must be a list")
    return value


def _strings(path: str, value: Any) -> list[str]:
    found = _list(path, value)
    for number, one in enumerate(found):
        if not isinstance(one, str):
            raise PolicyError(f"{path}[{number}]: must be a string")
    return found


def _exact(path: str, value: Any) -> list[str]:
    """Strings that have to be equal: a * would match nothing."""
    found = _strings(path, value)
    if "*" in found:
        raise PolicyError(
            f"{path}[{found.index('*')}]: '*' matches nothing; leave the field out to match all"
        )
    return found


def _stages(path: str, value: Any) -> frozenset[str]:
    found = _strings(path, value)
    return frozenset(_choice(f"{path}[{number}]", one, _STAGES) for number, one in enumerate(found))


def _boolean(path: str, value: Any, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise PolicyError(f"{path}: must be true or false")
    return value


def _choice(path: str, value: Any, allowed: Mapping[str, T]) -> T:
    if not isinstance(value, str) or value not in allowed:
        found = "is missing" if value is None else f"is {value!r}"
        raise PolicyError(f"{path}: {found}; choose one of {', '.join(allowed)}")
    return allowed[value]
