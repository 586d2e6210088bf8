"""Authorizers of type Webhook: they POST a SubjectAccessReview with all attributes of a request to a webhook.

`status.allowed` allows and `status.denied` denies; with neither, the webhook has no opinion, and the next authorizer
decides. A failed call is no opinion too, or a denial (`failurePolicy`), with an error: the request gets a 500 unless
another authorizer allows it, and access reviews show it as evaluationError. A webhook with match conditions is called
only if all are true. Decisions are cached by the whole spec, so that a repeated request needs no coroutine; failures
are not cached.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Final

from msgspec.structs import replace

from rewound.actors.access.authorization.match_conditions import MatchConditions, Matched
from rewound.actors.access.authorization.statistics import WebhookStatistics
from rewound.actors.access.authorize import (
    NO_OPINION,
    Attributes,
    Decision,
    Later,
    Rules,
    Verdict,
    field_requirements,
    field_selector_attributes,
    label_requirements,
    label_selector_attributes,
)
from rewound.actors.access.remote.calls import Reviewer, WebhookError, review
from rewound.actors.access.remote.shared_calls import ExpiringCache, SharedCalls
from rewound.actors.identity import User

logger = logging.getLogger(__name__)

MAX_CACHED: Final = 8192
MAX_CACHED_LENGTH: Final = 10_000  # characters of attributes that clients choose
_NO_RULES: Final = Rules(
    errors=("webhook authorizer does not support user rule resolution",), incomplete=True
)


class WebhookAuthorizer:
    """`version` is that of the SubjectAccessReview; times in seconds. With `selectors`, it has those of lists."""

    def __init__(
        self,
        webhook: Reviewer,
        group: str,
        version: str,
        allowed_seconds: float,
        other_seconds: float,
        *,
        selectors: bool = False,
        conditions: MatchConditions | None = None,
        denies_on_failure: bool = False,
        statistics: WebhookStatistics | None = None,
    ) -> None:
        self._webhook = webhook
        self._api_version = f"{group}/{version}"
        self._groups_field = "group" if version == "v1beta1" else "groups"
        self._allowed_seconds = allowed_seconds
        self._other_seconds = other_seconds
        self.selectors = selectors
        self._conditions = conditions
        self._on_failure = Verdict.DENY if denies_on_failure else Verdict.NO_OPINION
        self._statistics = WebhookStatistics() if statistics is None else statistics
        self._cache: ExpiringCache[Attributes, Decision] = ExpiringCache(MAX_CACHED)
        self._calls: SharedCalls[Attributes, Decision] = SharedCalls()

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        key = self._key(attributes)
        if self._conditions is None:
            return self._decide(key)
        started = perf_counter()
        matched = self._conditions.match(key)
        if isinstance(matched, Matched):
            return self._decide_matched(key, matched, started)
        return Later(partial(self._decide_later, key, matched, started))

    async def rules(self, user: User, namespace: str) -> Rules:
        return _NO_RULES

    def _key(self, attributes: Attributes) -> Attributes:
        """The attributes that the webhook sees."""
        key = replace(attributes, path="") if attributes.is_resource and attributes.path else attributes
        if key.field_selector or key.label_selector:
            key = replace(
                key,
                field_selector=field_requirements(key) if self.selectors else "",
                label_selector=label_requirements(key) if self.selectors else "",
            )
        return key

    async def _decide_later(self, key: Attributes, pending: Awaitable[Matched], started: float) -> Decision:
        """Decide when a thread has evaluated the conditions."""
        decision = self._decide_matched(key, await pending, started)
        return decision if isinstance(decision, Decision) else await decision

    def _decide_matched(
        self, key: Attributes, matched: Matched, started: float
    ) -> Decision | Awaitable[Decision]:
        seconds = perf_counter() - started
        self._statistics.evaluated(seconds, excluded=matched.excluded, failed=bool(matched.errors))
        if matched.excluded:
            return NO_OPINION
        return Decision(self._on_failure, error=matched.errors) if matched.errors else self._decide(key)

    def _decide(self, key: Attributes) -> Decision | Awaitable[Decision]:
        known = self._cache.get(key)
        return known if known is not None else Later(partial(self._ask, key))

    async def _ask(self, key: Attributes) -> Decision:
        try:
            return await self._calls.result(key, lambda: self._call(key))
        except WebhookError as error:
            if self._on_failure is Verdict.NO_OPINION:
                self._statistics.failed_open()
            return Decision(self._on_failure, error=str(error))

    async def _call(self, key: Attributes) -> Decision:
        try:
            status = await review(self._webhook, self._api_version, "SubjectAccessReview", self._spec(key))
        except WebhookError as error:
            logger.warning("authorization webhook: %s", error)
            raise
        decision = _decision(status)
        if _length(key) < MAX_CACHED_LENGTH:
            seconds = self._allowed_seconds if status.get("allowed") is True else self._other_seconds
            self._cache.put(key, decision, seconds)
        return decision

    def _spec(self, attributes: Attributes) -> dict[str, Any]:
        user = attributes.user
        subject = {
            "user": user.name,
            self._groups_field: list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "uid": user.uid,
        }
        return {**_request(attributes), **_filled(subject)}


def _length(attributes: Attributes) -> int:
    """The number of characters that the client chose: access reviews and impersonation choose the user too."""
    user = attributes.user
    extra = sum(len(name) + sum(map(len, values)) for name, values in user.extra)
    texts = (
        attributes.verb,
        attributes.group,
        attributes.version,
        attributes.resource,
        attributes.subresource,
    )
    where = (attributes.namespace, attributes.name, attributes.path)
    selectors = len(str(attributes.field_selector)) + len(str(attributes.label_selector))
    return sum(map(len, (*texts, *where, user.name, user.uid, *user.groups))) + extra + selectors


def _request(attributes: Attributes) -> dict[str, Any]:
    if not attributes.is_resource:
        return {"nonResourceAttributes": _filled({"path": attributes.path, "verb": attributes.verb})}
    fields = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
    selectors = {
        "fieldSelector": _filled({"requirements": field_selector_attributes(attributes)}),
        "labelSelector": _filled({"requirements": label_selector_attributes(attributes)}),
    }
    return {"resourceAttributes": _filled({name: getattr(attributes, name) for name in fields} | selectors)}


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _decision(status: Mapping[str, Any]) -> Decision:
    reason = status.get("reason")
    reason = reason if isinstance(reason, str) else ""
    allowed, denied = status.get("allowed") is True, status.get("denied") is True
    if allowed and denied:
        return Decision(
            Verdict.DENY, reason, "webhook subject access review returned both allow and deny response"
        )
    if denied:
        return Decision(Verdict.DENY, reason)
    return Decision(Verdict.ALLOW if allowed else Verdict.NO_OPINION, reason)
