"""The label and field selectors of a list, watch or deletecollection request."""

from __future__ import annotations

from actors.errors import BadRequest
from actors.kinds.declaration.definition import Definition
from actors.selectors import FieldSelector, LabelSelector
from gateway.requests.context import RequestContext


def parse_selectors(
    context: RequestContext, definition: Definition
) -> tuple[LabelSelector | None, FieldSelector | None]:
    """Both with the names that stored objects have; BadRequest for a field that the kind does not offer."""
    label_text = context.parameters.first("labelSelector")
    field_text = context.parameters.first("fieldSelector")
    labels = LabelSelector.parse(label_text) if label_text else None
    if not field_text:
        return labels, None
    return labels, _known_fields(definition, FieldSelector.parse(field_text))


def _known_fields(definition: Definition, fields: FieldSelector) -> FieldSelector:
    for label, _, _ in fields.requirements:
        if not definition.selects(label):
            raise BadRequest(definition.unsupported_field_text(label))
    return fields.renamed(definition.stored_field)
