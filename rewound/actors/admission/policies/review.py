"""One request as policies review it: its values for expressions in each version, and what had to be waited for.

A step keeps its `Review` when it waits and starts again (`MustWait`), so that nothing is fetched twice. One check of
the authorizer is decided once for a request, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import orjson
from trio.lowlevel import in_trio_run

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.admission.policies.expressions import RequestValues, Work
from rewound.actors.admission.policies.params import MustWait
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.webhooks.caller import version_of
from rewound.actors.admission.webhooks.documents import in_version
from rewound.actors.admission.webhooks.matching import NAMESPACES
from rewound.actors.admission.webhooks.review import Reviews, reviewed_name, reviewed_namespace, user_of
from rewound.actors.cel import authorizer as cel
from rewound.actors.conversion.converter import Converter
from rewound.actors.errors import ConversionFailed
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import CEL_AUTHORIZER, MATCHED_KIND_IN_REQUESTS
from rewound.journal.log import Journal

_OF_NAMESPACES = (
    *("name", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers"),
)


class Reviewer:
    """What reviews of all requests share."""

    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        journal: Journal,
        converter: Converter,
        authorizer: Authorizer,
    ) -> None:
        self.reviews = Reviews(names)
        self.journal, self.converter, self.authorizer = journal, converter, authorizer
        self.namespaces = journal.type_id("namespaces")
        self.names_matched_kind = MATCHED_KIND_IN_REQUESTS in features
        self.has_authorizer = CEL_AUTHORIZER in features

    def review(self, request: AdmissionRequest, *, is_prepared: bool = True) -> Review:
        """`is_prepared`: the object is complete, and not one that mutating plugins may still change."""
        return Review(self, request, is_prepared=is_prepared)

    def find_namespace(self, request: AdmissionRequest) -> Object | None:
        """The namespace of a request, as far as expressions see it."""
        name = reviewed_namespace(request)
        if not name or request.definition.resource == NAMESPACES:
            return None
        with self.journal.read() as view:
            row = view.get(self.namespaces, "", name)
        if row is None:
            return None
        stored = orjson.loads(row.body)
        metadata = {**stored["metadata"], "resourceVersion": str(row.offset)}
        shown = {name: metadata[name] for name in _OF_NAMESPACES if name in metadata}
        return {"metadata": shown, "spec": stored.get("spec", {}), "status": stored.get("status", {})}


class Review:
    __slots__ = (
        "_changed",
        "_converted",
        "_decisions",
        "_is_prepared",
        "_restored",
        "_shared",
        "_values",
        "_version",
        "namespace",
        "request",
        "work",
    )

    def __init__(self, shared: Reviewer, request: AdmissionRequest, *, is_prepared: bool = True) -> None:
        self.request = request
        self.work = Work()
        self.namespace = reviewed_namespace(request)
        self._shared, self._is_prepared = shared, is_prepared
        written = request.written
        self._version: str | None = "" if not written else str(written) if isinstance(written, int) else None
        self._converted: dict[Definition, AdmissionRequest | ConversionFailed] = {}
        # Of mutating policies, where a webhook converts: by the JSON of objects that they changed.
        self._changed: dict[bytes, Review] = {}
        self._restored: dict[bytes, Object | ConversionFailed] = {}
        self._decisions = _Decisions(shared.authorizer)
        self._values: dict[tuple[Definition, bool], RequestValues] = {}

    def values(self, definition: Definition, *, for_conditions: bool = False) -> RequestValues:
        """The values of the request in the version of a definition.

        Match conditions see no namespace, and the resource of the request instead of the one that matched. Raises
        MustWait, and ConversionFailed.
        """
        key = definition, for_conditions
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._new_values(definition, for_conditions)
        return found

    def after(self, changed: Object) -> Review:
        """The review of the same request with a changed object; `changed` is in the version of the request."""
        by_webhook = any(one.converts_by_webhook for one in self._converted)
        key = orjson.dumps(changed) if by_webhook else b""
        found = self._changed.get(key) if by_webhook else None
        if found is None:
            found = Review(self._shared, self.request.with_object(changed), is_prepared=self._is_prepared)
            found.work, found._version, found._decisions = self.work, self._version, self._decisions
            found._changed, found._restored = self._changed, self._restored
            if by_webhook:
                self._changed[key] = found
        return found

    def in_own_version(self, definition: Definition, changed: Object) -> Object:
        """An object that was changed in the version of a definition, in that of the request. Raises MustWait."""
        own = self.request.definition
        if definition is own or self.request.viewed_in(definition) is not definition:
            return changed
        if not definition.converts_by_webhook:
            return changed  # `stored_form` has converted it
        key = orjson.dumps(changed)
        found = self._restored.get(key)
        if found is None:
            raise MustWait(partial(self._restore, definition, changed, key))
        if isinstance(found, ConversionFailed):
            raise found
        return found

    async def _restore(self, definition: Definition, changed: Object, key: bytes) -> None:
        versions, own = definition.storage.versions, self.request.definition
        assert versions is not None
        convert = self._shared.converter.convert_one
        try:
            self._restored[key] = await convert(versions, changed, definition.api_version, own.api_version)
        except ConversionFailed as error:
            self._restored[key] = error

    def without_authorizer(self, definition: Definition) -> RequestValues:
        """The same values for expressions that may not ask the authorizer."""
        return self.values(definition).without_authorizer()

    def _new_values(self, definition: Definition, for_conditions: bool) -> RequestValues:
        request, shared = self.in_version(definition), self._shared
        if self._version is None:
            raise MustWait(self._find_version)
        original = request.definition
        # Values refer to the request, not to this review, which has them: their memory is free without a collection.
        return RequestValues(
            shared.reviews,
            request,
            definition,
            self._version,
            is_prepared=self._is_prepared,
            kind=definition if shared.names_matched_kind else original,
            resource=definition if shared.names_matched_kind and not for_conditions else original,
            find_namespace=None if for_conditions else partial(shared.find_namespace, self.request),
            authorizers=partial(_authorizers, self.request, self._decisions)
            if shared.has_authorizer
            else None,
        )

    def in_version(self, definition: Definition) -> AdmissionRequest:
        """The request with its objects in the version of a definition. Raises MustWait, and ConversionFailed."""
        if definition is self.request.definition or not definition.converts_by_webhook:
            return self.request
        found = self._converted.get(definition)
        if found is None:
            raise MustWait(partial(self._convert, definition))
        if isinstance(found, ConversionFailed):
            raise found
        return found

    async def _convert(self, definition: Definition) -> None:
        convert = self._shared.converter.convert_one
        try:
            self._converted[definition] = await in_version(self.request, definition, convert)
        except ConversionFailed as error:
            self._converted[definition] = error

    async def _find_version(self) -> None:
        self._version = await version_of(self.request.written)


def _authorizers(
    request: AdmissionRequest, decisions: _Decisions
) -> tuple[cel.Authorizer, cel.ResourceCheck]:
    """The authorizer of expressions, and its check of the request itself."""
    resource, asking = request.definition.resource, cel.Authorizer(user_of(request), decisions)
    name = reviewed_name(request, None if request.operation == "CONNECT" else request.object)
    return asking, asking.request_resource(
        resource.group, resource.plural, request.subresource, reviewed_namespace(request), name
    )


class _Decisions(cel.Decisions):
    """The decisions of the server's authorizers. One that asks a webhook must be waited for, and so must one that a
    thread needs: authorizers run on the event loop.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def __missing__(self, check: cel.Check) -> cel.Decided:
        if not in_trio_run():
            raise MustWait(partial(self._ask, check))
        decided = self._decide(check)
        if not isinstance(decided, Decision):
            raise MustWait(partial(self._wait, check, decided))
        self[check] = decided
        return decided

    async def _ask(self, check: cel.Check) -> None:
        decided = self._decide(check)
        self[check] = decided if isinstance(decided, Decision) else await decided

    async def _wait(self, check: cel.Check, pending: Awaitable[Decision]) -> None:
        self[check] = await pending

    def _decide(self, check: cel.Check) -> Decision | Awaitable[Decision]:
        return self._authorizer.authorize(
            Attributes(
                check.user,
                check.verb,
                check.group,
                check.version,
                check.resource,
                check.subresource,
                check.namespace,
                check.name,
                check.path,
                check.is_resource,
                check.field_selector,
                check.label_selector,
            )
        )
