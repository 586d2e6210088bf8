"""Decides whether a FlowSchema matches a request: its subjects, and its rules for resources and for other paths."""

from __future__ import annotations

from typing import Any, Final

from actors.access.authorize import Attributes
from actors.identity import User
from actors.messages import Object

ALL: Final = "*"
ACCOUNT_PREFIX: Final = "system:serviceaccount:"


def matches(spec: Object, request: Attributes) -> bool:
    """Whether one of the rules has a subject and a resource rule, or path rule, for the request."""
    return any(
        _matches_subject(rules["subjects"] or (), request.user) and _matches_rule(rules, request)
        for rules in spec.get("rules", ())
    )


def _matches_subject(subjects: Any, user: User) -> bool:
    return any(_is_subject(subject, user) for subject in subjects)


def _is_subject(subject: Object, user: User) -> bool:
    kind = subject["kind"]
    if kind == "User":
        return subject["user"]["name"] in (ALL, user.name)
    if kind == "Group":
        name = subject["group"]["name"]
        return name == ALL or name in user.groups
    if kind == "ServiceAccount":
        account = subject["serviceAccount"]
        prefix = f"{ACCOUNT_PREFIX}{account['namespace']}:"
        if account["name"] == ALL:
            return user.name.startswith(prefix)
        return user.name == prefix + str(account["name"])
    return False


def _matches_rule(rules: Object, request: Attributes) -> bool:
    if request.is_resource:
        return any(_matches_resource(rule, request) for rule in rules.get("resourceRules", ()))
    return any(_matches_path(rule, request) for rule in rules.get("nonResourceRules", ()))


def _matches_resource(rule: Object, request: Attributes) -> bool:
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return (
        _contains(rule["verbs"], request.verb)
        and _contains(rule["apiGroups"], request.group)
        and _contains(rule["resources"], resource)
        and (_contains(rule["namespaces"], request.namespace) if request.namespace else _clusterwide(rule))
    )


def _clusterwide(rule: Object) -> bool:
    return bool(rule.get("clusterScope"))


def _contains(values: list[str] | None, value: str) -> bool:
    return values is not None and (ALL in values or value in values)


def _matches_path(rule: Object, request: Attributes) -> bool:
    return _contains(rule["verbs"], request.verb) and any(
        url == request.path or (url.endswith(ALL) and request.path.startswith(url[:-1]))
        for url in rule["nonResourceURLs"] or ()
    )
