"""The variable `authorizer`: expressions ask whether a user may do something, as the authorizers of the server decide.

    authorizer.group("apps").resource("deployments").namespace("a").check("create").allowed()
    authorizer.serviceAccount("a", "builder").path("/healthz").check("get").reason()

An evaluation is synchronous, and an authorizer may have to call a webhook. So `check` only looks the decision up in
the `Decisions` of the request; if it is missing, the evaluation ends with `Undecided`, and whoever started it asks the
authorizers and evaluates again:

    decisions = Decisions()
    asking = Authorizer(user, decisions)
    while True:
        try:
            return program.evaluate((..., asking))
        except Undecided as missing:
            decisions[missing.check] = await authorize(missing.check)

One check is decided once for a request, as in Kubernetes; its cost allows two of them in an expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from rewound.actors.cel.values import SPACE, EvaluationError, no_such_overload
from rewound.actors.identity import User
from rewound.actors.runtime.budget import Budget

_is_label: Final = re.compile("[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_is_subdomain: Final = re.compile(r"[a-z0-9][-a-z0-9]*+(?<!-)(?:\.[a-z0-9][-a-z0-9]*+(?<!-))*+").fullmatch


@dataclass(frozen=True, slots=True)
class Check:
    """What an expression asks: may this user do this? The fields are those of an authorizer's attributes."""

    user: User
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True
    field_selector: str = ""
    label_selector: str = ""


class Decided(Protocol):
    """What an authorizer decides; `error` is empty unless it could not decide."""

    @property
    def allowed(self) -> bool: ...

    @property
    def reason(self) -> str: ...

    @property
    def error(self) -> str: ...


class Undecided(Exception):
    """Ends an evaluation: it needs the decision on `check`, and must be started again with it."""

    def __init__(self, check: Check) -> None:
        super().__init__(check)
        self.check = check


class Decisions(dict[Check, Decided]):
    """The decisions of one request. Raises Undecided for a check that nobody has decided."""

    def __missing__(self, check: Check) -> Decided:
        raise Undecided(check)


class _Opaque:
    """A value that has functions but no fields, and equals nothing: cel-go cannot even compare it with itself."""

    __slots__ = ()

    def equals(self, other: Any, _: Budget) -> bool:
        if isinstance(other, EvaluationError):
            raise other
        raise no_such_overload()


@dataclass(frozen=True, slots=True, eq=False)
class Authorizer(_Opaque):
    user: User
    decisions: Decisions

    type_name = "kubernetes.authorization.Authorizer"

    def request_resource(
        self, group: str, resource: str, subresource: str, namespace: str, name: str
    ) -> ResourceCheck:
        """Return the value of `authorizer.requestResource`."""
        asked = Check(self.user, "", group, "*", resource, subresource, namespace, name)
        return ResourceCheck(asked, self.decisions)


@dataclass(frozen=True, slots=True, eq=False)
class PathCheck(_Opaque):
    asked: Check
    decisions: Decisions

    type_name = "kubernetes.authorization.PathCheck"


@dataclass(frozen=True, slots=True, eq=False)
class GroupCheck(_Opaque):
    asked: Check
    decisions: Decisions

    type_name = "kubernetes.authorization.GroupCheck"


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck(_Opaque):
    asked: Check
    decisions: Decisions

    type_name = "kubernetes.authorization.ResourceCheck"


@dataclass(frozen=True, slots=True, eq=False)
class Decision(_Opaque):
    decided: Decided

    type_name = "kubernetes.authorization.Decision"


def path(given: Authorizer, text: str) -> PathCheck:
    if not text.strip(SPACE):
        raise EvaluationError("path must not be empty")
    return PathCheck(Check(given.user, path=text, is_resource=False), given.decisions)


def group(given: Authorizer, name: str) -> GroupCheck:
    return GroupCheck(Check(given.user, group=name, version="*"), given.decisions)


def service_account(given: Authorizer, namespace: str, name: str) -> Authorizer:
    if len(name) > 253 or not _is_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if not _is_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Authorizer(User(f"system:serviceaccount:{namespace}:{name}", "", groups), given.decisions)


def resource(given: GroupCheck, name: str) -> ResourceCheck:
    if not name.strip(SPACE):
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(replace(given.asked, resource=name), given.decisions)


def narrowed(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    """Return the function that sets one field of a check."""

    def narrow(given: ResourceCheck, value: str) -> ResourceCheck:
        changed: dict[str, Any] = {field: value}
        return ResourceCheck(replace(given.asked, **changed), given.decisions)

    return narrow


def check(given: PathCheck | ResourceCheck, verb: str) -> Decision:
    return Decision(given.decisions[replace(given.asked, verb=verb)])
