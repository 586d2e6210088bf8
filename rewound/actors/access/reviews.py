"""Computes the status of TokenReviews, of SelfSubjectReviews, and of subject access and rules reviews.

The gateway decodes a review, gets its status here, and responds with both; nothing is stored. The authenticator and the
authorizer are those of all requests, so a review gives the same result as a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec.structs import replace

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
from rewound.actors.kinds.validation import collect_with
from rewound.actors.messages import Object
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.selectors.fields import FieldRequirement, FieldSelector
from rewound.actors.selectors.labels import ABSENT, EXISTS, IN, NOT_IN, LabelRequirement, LabelSelector
from rewound.actors.versions.features import REVIEW_OF_ANY_VERSION

RULES_AT_ONCE: Final = 500  # rules of a review converted on the event loop: more take a millisecond
# The status that webhooks see in a review, before there is one.
_NO_ACCESS: Final[Object] = {"allowed": False}
NO_STATUS: Final[Mapping[str, Object]] = {
    "TokenReview": {"user": {}},
    "SubjectAccessReview": _NO_ACCESS,
    "LocalSubjectAccessReview": _NO_ACCESS,
    "SelfSubjectAccessReview": _NO_ACCESS,
    "SelfSubjectReview": {"userInfo": {}},
    "SelfSubjectRulesReview": {"resourceRules": None, "nonResourceRules": None, "incomplete": False},
}
_IGNORED: Final = "spec.resourceAttributes.{} ignored due to parse error"
_PARTIALLY_IGNORED: Final = "spec.resourceAttributes.{} partially ignored due to parse error"
_FIELD_OPERATORS: Final[Mapping[str, Literal["=", "!="]]] = {"In": "=", "NotIn": "!="}
_LABEL_OPERATORS: Final = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": ABSENT}
WRONG_TOKEN = "invalid bearer token"  # other reasons follow it


class Reviews:
    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        audiences: tuple[str, ...] = (),
        features: frozenset[str] = frozenset(),
    ) -> None:
        """`audiences` are those of this server, for tokens that name none."""
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._audiences = audiences
        self._any_version = "*" if REVIEW_OF_ANY_VERSION in features else ""

    def check(self, definition: Definition, review: Object) -> None:
        """Drop fields of gates that are off, and raise the first error, before validating admission sees the review."""
        if definition.strategy.prepare_for_create is not None:
            definition.strategy.prepare_for_create(review)
        errors = collect_with(definition.features, definition.strategy.validate_create, review)
        if errors:
            # A review is not stored: the Status has neither its kind nor its name.
            raise Invalid(definition.group, "", "", [error.cause() for error in errors])
        if definition.kind == "TokenReview" and not review["spec"].get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        if definition.kind == "SelfSubjectRulesReview" and not review["spec"].get("namespace"):
            raise BadRequest("no namespace on request")

    async def status(self, definition: Definition, review: Object, user: User) -> Object:
        """The status of a review that `user` creates and `check` has passed."""
        if definition.kind == "SelfSubjectReview":
            return {"userInfo": _user_info(user)}
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
        attributes, ignored = self._attributes(spec, user)
        decision = self._authorizer.authorize(attributes)
        if not isinstance(decision, Decision):
            decision = await decision
        status: Object = {"allowed": decision.allowed}
        if decision.verdict is Verdict.DENY:
            status["denied"] = True
        if decision.reason:
            status["reason"] = decision.reason
        if decision.error or ignored:
            status["evaluationError"] = "; ".join(filter(None, (decision.error, *ignored)))
        return status

    def _attributes(self, spec: Object, user: User) -> tuple[Attributes, list[str]]:
        """The attributes of a review, and which of its selectors are ignored."""
        path = spec.get("nonResourceAttributes")
        if path is not None:
            attributes = Attributes(user, path.get("verb", ""), path=path.get("path", ""), is_resource=False)
            return attributes, []
        wanted = spec["resourceAttributes"]
        attributes = Attributes(
            user,
            wanted.get("verb", ""),
            wanted.get("group", ""),
            wanted.get("version", "") or self._any_version,
            wanted.get("resource", ""),
            wanted.get("subresource", ""),
            wanted.get("namespace", ""),
            wanted.get("name", ""),
        )
        ignored: list[str] = []
        if fields := wanted.get("fieldSelector"):
            found = _field_requirements(fields, ignored)
            attributes = replace(attributes, field_selector=found)
        if labels := wanted.get("labelSelector"):
            found_labels = _label_requirements(labels, ignored)
            attributes = replace(attributes, label_selector=found_labels)
        return attributes, ignored

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


def _field_requirements(selector: Object, ignored: list[str]) -> tuple[FieldRequirement, ...]:
    """The requirements that authorizers understand: others are left out, which only widens the question."""
    requirements, found = selector.get("requirements", ()), []
    if not requirements:
        try:
            return FieldSelector.parse(selector["rawSelector"]).requirements
        except BadRequest:
            ignored.append(_IGNORED.format("fieldSelector"))
            return ()
    for one in requirements:
        operator, values = _FIELD_OPERATORS.get(one["operator"]), one.get("values", ())
        if operator is not None and len(values) == 1:
            found.append(FieldRequirement(one["key"], operator, values[0]))
    _add_ignored(ignored, "fieldSelector", len(found), len(requirements))
    return tuple(found)


def _label_requirements(selector: Object, ignored: list[str]) -> tuple[LabelRequirement, ...]:
    requirements, found = selector.get("requirements", ()), []
    if not requirements:
        try:
            return LabelSelector.parse(selector["rawSelector"]).requirements
        except BadRequest:
            ignored.append(_IGNORED.format("labelSelector"))
            return ()
    for one in requirements:
        operator = _LABEL_OPERATORS.get(one["operator"])
        if operator is not None:
            found.append(LabelRequirement(one["key"], operator, tuple(sorted(set(one.get("values", ()))))))
    _add_ignored(ignored, "labelSelector", len(found), len(requirements))
    return tuple(found)


def _add_ignored(ignored: list[str], name: str, understood: int, given: int) -> None:
    if understood < given:
        ignored.append((_PARTIALLY_IGNORED if understood else _IGNORED).format(name))


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
