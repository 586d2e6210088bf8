"""POST of a review: decoded like any other object, returned with its status, never stored.

`actors/access/reviews.py` makes the status; here the review gets its namespace and managedFields.
"""

from __future__ import annotations

import orjson

from actors.access.reviews import Reviews
from actors.kinds.declaration.definition import Definition
from actors.kinds.values.times import seconds_text
from actors.messages import Object, Stamp
from actors.names import Names
from actors.patch.managed_fields.field_view import FieldViews
from actors.patch.managed_fields.ownership import owned_after
from actors.resource import options
from actors.store.addressing import settle_namespace
from gateway.handlers.bodies import decode_body
from gateway.requests import render
from gateway.requests.call import Call
from gateway.requests.request import Response
from gateway.wire.documents import frame_of

_RULES = "SelfSubjectRulesReview"  # its response repeats nothing of the request


class ReviewHandler:
    def __init__(self, names: Names, reviews: Reviews) -> None:
        self._names = names
        self._reviews = reviews

    async def create(
        self, call: Call, definition: Definition, write: options.WriteOptions, stamp: Stamp
    ) -> Response:
        body = await decode_body(call, definition, self._names, write.field_validation)
        review = body.object
        review.pop("status", None)
        settle_namespace(call.route.namespace, review)
        if definition.namespaced:
            review["metadata"]["namespace"] = call.route.namespace
        status = await self._reviews.status(definition, review, call.user)
        metadata = _metadata(definition, review, stamp)
        spec = review["spec"]
        if definition.kind == _RULES:
            metadata, spec = {"creationTimestamp": None}, {}
        shown = orjson.dumps({"metadata": metadata, "spec": spec, "status": status})
        return await render.answer(call, frame_of(definition).document(shown), 201)


def _metadata(definition: Definition, review: Object, stamp: Stamp) -> Object:
    """Nothing is created, so there is no time and no uid; the fields sent still have a manager."""
    views = FieldViews({definition.api_version: definition})
    view = views(definition.api_version, "")
    owners = owned_after(views, view, None, review, stamp.manager, seconds_text(stamp.time))
    metadata = {**review["metadata"], "creationTimestamp": None}
    if owners:
        metadata["managedFields"] = owners
    return metadata
