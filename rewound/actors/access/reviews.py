"""Computes the status of TokenReviews and of subject access and rules reviews.

The gateway decodes a review, gets its status here, and responds with both; nothing is stored. The authenticator and the
authorizer are those of all requests, so a review gives the same result as a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rewound.actors.access.authentication.authenticate import Authenticated, Authenticator
from rewound.actors.access.authorize import (
    Attributes,
    Authorizer,
    Decision,
    ResourceRule,
    Rules,
    Verdict,
    join_errors,
)
from rewound.actors.errors import BadRequest, Invalid, Unauthorized
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect
from rewound.actors.messages import Object
from rewound.actors.runtime.threads import run_in_thread

RULES_AT_ONCE: Final = 500  # rules of a review converted on the event loop: more take a millisecond
# The status that webhooks see in a review, before there is one.
_NO_ACCESS: Final[Object] = {"allowed": False}
NO_STATUS: Final[Mapping[str, Object]] = {
    "TokenReview": {"user": {}},
    "SubjectAccessReview": _NO_ACCESS,
    "LocalSubjectAccessReview": _NO_ACCESS,
    "SelfSubjectAccessReview": _NO_ACCESS,
    "SelfSubjectRulesReview": {"resourceRules": None, "nonResourceRules": None, "incomplete": False},
}
WRONG_TOKEN = "invalid bearer token"  # other reasons follow it


class Reviews:
    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, audiences: tuple[str, ...] = ()
    ) -> None:
        """`audiences` are those of this server, for tokens that name none."""
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._audiences = audiences

    def check(self, definition: Definition, review: Object) -> None:
        """Raise the first error of a review, before validating admission sees it."""
        errors = collect(definition.strategy.validate_create, review)
        if errors:
            # A review is not stored: the Status has neither its kind nor its name.
            raise Invalid(definition.group, "", "", [error.cause() for error in errors])
        if definition.kind == "TokenReview" and not review["spec"].get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        if definition.kind == "SelfSubjectRulesReview" and not review["spec"].get("namespace"):
            raise BadRequest("no namespace on request")

    async def status(self, definition: Definition, review: Object, user: User) -> Object:
        """The status of a review that `user` creates and `check` has passed."""
        spec = review["spec"]
        match definition.kind:
            case "TokenReview":
                return await self._token(spec)
            case "SelfSubjectAccessReview":
                return await self._access(spec, user)
            case "SelfSubjectRulesReview":
                return await self._rules(spec, user)
            case _:
                return await self._access(spec, _subject(spec))

    async def _token(self, spec: Object) -> Object:
        token = spec["token"]
        wanted = tuple(spec.get("audiences") or ())
        try:
            who, audiences = await self._authenticated(token.encode(), wanted)
        except Unauthorized as error:
            return {"user": {}, "error": join_errors((WRONG_TOKEN, *error.reasons))}
        status: Object = {"authenticated": True, "user": _user_info(who.user)}
        if audiences:
            status["audiences"] = list(audiences)
        return status

    async def _authenticated(
        self, token: bytes, wanted: tuple[str, ...]
    ) -> tuple[Authenticated, tuple[str, ...]]:
        """The user of the token, and the wanted audiences that it is valid for (none wanted: any).

        Tokens that name no audience are valid for those of this server: if one of these is wanted, the token is tried a
        second time as that of a request.
        """
        own = tuple(one for one in wanted if one in self._audiences) if wanted else self._audiences
        try:
            found = self._authenticator.by_token(token, wanted)
            who = found if isinstance(found, Authenticated) else await found
        except Unauthorized as refused:
            if not wanted or not own:
                raise
            return await self._authenticated_here(token, own, refused)
        return who, who.audiences or own

    async def _authenticated_here(
        self, token: bytes, own: tuple[str, ...], refused: Unauthorized
    ) -> tuple[Authenticated, tuple[str, ...]]:
        try:
            found = self._authenticator.by_token(token)
            who = found if isinstance(found, Authenticated) else await found
        except Unauthorized:
            raise refused from None
        audiences = tuple(one for one in own if one in who.audiences) if who.audiences else own
        if not audiences:
            raise refused
        return who, audiences

    async def _access(self, spec: Object, user: User) -> Object:
        decision = self._authorizer.authorize(_attributes(spec, user))
        if not isinstance(decision, Decision):
            decision = await decision
        status: Object = {"allowed": decision.allowed}
        if decision.verdict is Verdict.DENY:
            status["denied"] = True
        if decision.reason:
            status["reason"] = decision.reason
        if decision.error:
            status["evaluationError"] = decision.error
        return status

    async def _rules(self, spec: Object, user: User) -> Object:
        rules = await self._authorizer.rules(user, spec["namespace"])
        if len(rules.resources) + len(rules.paths) <= RULES_AT_ONCE:
            return _rules_status(rules)
        return await run_in_thread(_rules_status, rules)


def _subject(spec: Object) -> User:
    return User.from_fields(spec.get("user"), spec.get("uid"), spec.get("groups"), spec.get("extra"))


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info


def _attributes(spec: Object, user: User) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(user, path.get("verb", ""), path=path.get("path", ""), is_resource=False)
    wanted = spec["resourceAttributes"]
    return Attributes(
        user,
        wanted.get("verb", ""),
        wanted.get("group", ""),
        wanted.get("version", ""),
        wanted.get("resource", ""),
        wanted.get("subresource", ""),
        wanted.get("namespace", ""),
        wanted.get("name", ""),
    )


def _rules_status(rules: Rules) -> Object:
    status: Object = {
        "resourceRules": [_resource_rule(one) for one in rules.resources],
        "nonResourceRules": [
            {"verbs": list(one.verbs), "nonResourceURLs": list(one.paths)} for one in rules.paths
        ],
        "incomplete": rules.incomplete,
    }
    if rules.errors:
        status["evaluationError"] = join_errors(rules.errors)
    return status


def _resource_rule(rule: ResourceRule) -> Object:
    shown: Object = {
        "verbs": list(rule.verbs),
        "apiGroups": list(rule.groups),
        "resources": list(rule.resources),
    }
    if rule.names:
        shown["resourceNames"] = list(rule.names)
    return shown
