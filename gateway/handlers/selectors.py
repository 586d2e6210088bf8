"""The label and field selectors of a list, watch or deletecollection request."""

from __future__ import annotations

import trio

from actors.errors import BadRequest
from actors.kinds.declaration.definition import Definition
from actors.selectors import FieldSelector, LabelSelector
from gateway.requests.context import RequestContext

# Bytes of a label selector that takes as long to parse as a thread takes to start: two hundred requirements.
LARGE = 2048
# One at a time: parsing holds the interpreter lock.
PARSING = trio.CapacityLimiter(1)


async def parse_selectors(
    context: RequestContext, definition: Definition
) -> tuple[LabelSelector | None, FieldSelector | None]:
    """Both with the names that stored objects have; BadRequest for a field that the kind does not offer."""
    label_text = context.parameters.first("labelSelector")
    field_text = context.parameters.first("fieldSelector")
    labels = None
    if label_text and len(label_text) < LARGE:
        labels = LabelSelector.parse(label_text)
    elif label_text:
        labels = await trio.to_thread.run_sync(LabelSelector.parse, label_text, limiter=PARSING)
    if not field_text:
        return labels, None
    return labels, _known_fields(definition, FieldSelector.parse(field_text))


def _known_fields(definition: Definition, fields: FieldSelector) -> FieldSelector:
    for label, _, _ in fields.requirements:
        if not definition.selects(label):
            raise BadRequest(definition.unsupported_field_text(label))
    return fields.renamed(definition.stored_field)
