"""Answers to reviews: whose token is this, may somebody do that, what may I do.

The gateway decodes a review, asks here, and shows it with the status that this makes; nothing is stored. The
authenticator and the authorizer that answer are those of every request, so a review never says anything else than
a request would have met.
"""

from __future__ import annotations

from actors.access.authenticate import Authenticator
from actors.access.authorize import Attributes, Authorizer
from actors.access.rules import Rules
from actors.errors import BadRequest, Invalid, Unauthorized
from actors.identity import User
from actors.kinds.declaration.definition import Definition
from actors.kinds.validation.tally import few_enough
from actors.messages import Object

WRONG_TOKEN = "invalid bearer token"


class Reviews:
    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._answers = {
            "TokenReview": self._token,
            "SubjectAccessReview": self._of_subject,
            "LocalSubjectAccessReview": self._of_subject,
            "SelfSubjectAccessReview": self._access,
            "SelfSubjectRulesReview": self._rules,
        }

    def answer(self, definition: Definition, asked: Object, user: User) -> Object:
        """The status of a review that `user` makes."""
        errors = few_enough(definition.validate_create, asked)
        if errors:
            # As a review is no object, neither its kind nor a name is told.
            raise Invalid(definition.group, "", "", [error.cause() for error in errors])
        return self._answers[definition.kind](asked["spec"], user)

    def _token(self, spec: Object, _: User) -> Object:
        token = spec.get("token", "")
        if not token:
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            # Tokens are for this server alone so far: whoever asks for other audiences does not find theirs.
            if spec.get("audiences"):
                raise Unauthorized
            user = self._authenticator.by_token(token.encode()).user
        except Unauthorized:
            return {"user": {}, "error": WRONG_TOKEN}
        return {"authenticated": True, "user": _described(user)}

    def _of_subject(self, spec: Object, _: User) -> Object:
        extra = tuple((key, tuple(values)) for key, values in spec.get("extra", {}).items())
        subject = User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups", ())), extra)
        return self._access(spec, subject)

    def _access(self, spec: Object, user: User) -> Object:
        decision = self._authorizer.authorize(user, _attributes(spec))
        status: Object = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return status

    def _rules(self, spec: Object, user: User) -> Object:
        if not spec.get("namespace"):
            raise BadRequest("no namespace on request")
        return _listed(self._authorizer.rules(user, spec["namespace"]))


def _described(user: User) -> Object:
    told: Object = {"username": user.name}
    if user.uid:
        told["uid"] = user.uid
    if user.groups:
        told["groups"] = list(user.groups)
    if user.extra:
        told["extra"] = {key: list(values) for key, values in user.extra}
    return told


def _attributes(spec: Object) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""), is_resource=False)
    asked = spec["resourceAttributes"]
    return Attributes(
        asked.get("verb", ""),
        asked.get("group", ""),
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
    )


def _listed(rules: Rules) -> Object:
    return {
        "resourceRules": [
            {"verbs": list(one.verbs), "apiGroups": list(one.groups), "resources": list(one.resources)}
            for one in rules.resources
        ],
        "nonResourceRules": [
            {"verbs": list(one.verbs), "nonResourceURLs": list(one.paths)} for one in rules.paths
        ],
        "incomplete": False,
    }
