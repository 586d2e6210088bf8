"""Reviews over HTTP: decoded like any other object, answered at once, and gone.

The access rules answer (`actors/access/reviews.py`); here is what every new object gets: where it lives, and who
said what of it.
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

_RULES = "SelfSubjectRulesReview"  # the answer to it repeats nothing of the question


class ReviewDesk:
    def __init__(self, names: Names, reviews: Reviews) -> None:
        self._names = names
        self._reviews = reviews

    async def create(
        self, call: Call, definition: Definition, write: options.WriteOptions, stamp: Stamp
    ) -> Response:
        body = await decode_body(call, definition, self._names, write.field_validation)
        asked = body.object
        asked.pop("status", None)
        settle_namespace(call.route.namespace, asked)
        if definition.namespaced:
            asked["metadata"]["namespace"] = call.route.namespace
        status = self._reviews.answer(definition, asked, call.user)
        metadata = _metadata(definition, asked, stamp)
        spec = asked["spec"]
        if definition.kind == _RULES:
            metadata, spec = {"creationTimestamp": None}, {}
        shown = orjson.dumps({"metadata": metadata, "spec": spec, "status": status})
        return await render.answer(call, frame_of(definition).item(shown), 201)


def _metadata(definition: Definition, asked: Object, stamp: Stamp) -> Object:
    """Nothing is made, so nothing has a time or a uid; but what was said was said by somebody."""
    doors = FieldViews({definition.api_version: definition})
    door = doors(definition.api_version, "")
    owners = owned_after(doors, door, None, asked, stamp.manager, seconds_text(stamp.time))
    metadata = {**asked["metadata"], "creationTimestamp": None}
    if owners:
        metadata["managedFields"] = owners
    return metadata
