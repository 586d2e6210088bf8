"""Serves POST of a review: it is decoded and admitted like any object, returned with its status, and never stored.

`actors/access/reviews.py` computes the status; this module sets namespace and managedFields. Every user may send a
review, and none has to be large, so its size is limited.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rewound.actors.access.reviews import NO_STATUS, RULES_AT_ONCE, Reviews
from rewound.actors.admission.chain import Chain, admit_ephemeral, validate_ephemeral
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import OBJECT_META, check_address
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object, WriteContext
from rewound.actors.patch.managed_fields.ownership import creator_entries
from rewound.gateway.handlers.bodies import Bodies, check_short
from rewound.gateway.message import Response
from rewound.gateway.pipeline import options, render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.wire.encoders import object_encoder

# Their responses do not repeat the request.
_RULES, _SELF = "SelfSubjectRulesReview", "SelfSubjectReview"
_SYSTEM_FIELDS: Final = frozenset(
    ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
)


class ReviewHandler:
    def __init__(
        self, bodies: Bodies, reviews: Reviews, chain: Callable[[Definition, str, str], Chain]
    ) -> None:
        """`chain` compiles the admission of a definition, operation and subresource."""
        self._bodies = bodies
        self._reviews = reviews
        self._compile = chain
        self._chains: dict[Definition, Chain] = {}

    async def create(
        self,
        context: RequestContext,
        definition: Definition,
        write: options.WriteOptions,
        write_context: WriteContext,
    ) -> Response:
        check_short(context.request.body, definition.kind)
        decoded = await self._bodies.decode(context, definition, write.field_validation)
        review = decoded.object
        review["metadata"] = {
            name: value for name, value in review["metadata"].items() if name not in _SYSTEM_FIELDS
        }
        check_address(review, context.route.namespace)
        if definition.namespaced:
            review["metadata"]["namespace"] = context.route.namespace
        review["metadata"] = await self._bodies.run(
            context, _metadata, definition, review, write_context, in_thread=decoded.large
        )
        review["status"] = NO_STATUS[definition.kind]
        review = await self._admitted(context, definition, review, write_context, dry_run=write.dry_run)
        status = await self._reviews.status(definition, review, context.user)
        large = decoded.large or len(status.get("resourceRules", ())) > RULES_AT_ONCE
        body = await self._bodies.run(
            context, _response_body, definition, review, status, write_context.time, in_thread=large
        )
        return await render.respond(context, object_encoder(definition).document(body), 201)

    async def _admitted(
        self,
        context: RequestContext,
        definition: Definition,
        review: Object,
        write_context: WriteContext,
        *,
        dry_run: bool,
    ) -> Object:
        """Admit and validate the review."""
        chain = self._chains.get(definition)
        if chain is None:
            chain = self._chains[definition] = self._compile(definition, CREATE, "")
        namespace, name = context.route.namespace, review["metadata"].get("name", "")
        request = AdmissionRequest(
            *(CREATE, definition, namespace, name, "", review, None),
            *(write_context.user, dry_run, write_context),
        )
        try:
            await admit_ephemeral(chain, request)
            assert request.object is not None
            self._reviews.check(definition, request.object)
            await validate_ephemeral(chain, request)
            return request.object
        finally:
            context.warnings.extend(request.warnings)
            request.complete(False)


def _response_body(definition: Definition, review: Object, status: Object, time: int) -> bytes:
    if definition.kind == _SELF:
        return dumps({"metadata": {"creationTimestamp": seconds_text(time)}, "status": status})
    metadata, spec = review["metadata"], review["spec"]
    if definition.kind == _RULES:
        metadata, spec = _no_creation_time(definition), {}
    return dumps({"metadata": metadata, "spec": spec, "status": status})


def _no_creation_time(definition: Definition) -> Object:
    return {"creationTimestamp": None} if definition.null_creation_time else {}


def _metadata(definition: Definition, review: Object, write_context: WriteContext) -> Object:
    """Neither creationTimestamp nor uid, because nothing is created; but managedFields of the fields in the request."""
    time = seconds_text(write_context.time)
    owners = creator_entries(definition, "", review, write_context.manager, time)
    metadata = {**review["metadata"], **_no_creation_time(definition)}
    if owners:
        metadata["managedFields"] = owners
    return OBJECT_META.arranged(metadata)
