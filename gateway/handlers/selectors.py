"""The label and field selectors of a list, watch or deletecollection request, and what authorizers decide on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from actors.access.attributes import Attributes
from actors.errors import BadRequest
from actors.kinds.declaration.definition import Definition
from actors.selectors import FieldSelector, LabelSelector
from gateway.pipeline.context import RequestContext

# Characters of a selector that takes as long to parse as a thread takes to start: two hundred requirements.
LARGE = 2048
# One at a time: parsing holds the interpreter lock.
PARSING = trio.CapacityLimiter(1)
T = TypeVar("T")
_new_tuple = tuple.__new__


async def parse_selectors(
    context: RequestContext, definition: Definition
) -> tuple[LabelSelector | None, FieldSelector | None]:
    """Both with the names that stored objects have; BadRequest for a field that the kind does not offer."""
    label_text = context.parameters.first("labelSelector")
    field_text = context.parameters.first("fieldSelector")
    labels = await _parse(LabelSelector.parse, label_text) if label_text else None
    if not field_text:
        return labels, None
    return labels, _known_fields(definition, await _parse(FieldSelector.parse, field_text))


async def _parse(parse: Callable[[str], T], text: str) -> T:
    if len(text) < LARGE:
        return parse(text)
    return await trio.to_thread.run_sync(parse, text, limiter=PARSING)


def _known_fields(definition: Definition, fields: FieldSelector) -> FieldSelector:
    for label, _, _ in fields.requirements:
        if not definition.selects(label):
            raise BadRequest(definition.unsupported_field_text(label))
    return fields.renamed(definition.stored_field)


def selected_name(context: RequestContext) -> str:
    """The name that the field selector of a list or watch selects: a rule for that name alone may allow it."""
    text = context.parameters.first("fieldSelector")
    if not text or len(text) > LARGE:  # a long one is parsed in a thread, once the request is authorized
        return ""
    try:
        name = FieldSelector.parse(text).exact("metadata.name") or ""
    except BadRequest:
        return ""  # dispatch refuses the selector, once the request is authorized
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def attributes_of(context: RequestContext) -> Attributes:
    """The attributes of a request: of its route, and the name that a selector selects."""
    route, user = context.route, context.user
    if route.asked is not None:
        return _new_tuple(Attributes, (user, *route.asked))
    if not route.is_resource:
        return Attributes(user, route.verb, path=route.path, is_resource=False)
    name = route.name or selected_name(context)
    verb, group, version, resource = route.verb, route.group, route.version, route.resource
    subresource, namespace, path = route.subresource, route.namespace, route.path
    return Attributes(user, verb, group, version, resource, subresource, namespace, name, path)
