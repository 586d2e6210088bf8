"""The label and field selectors of a list, watch or deletecollection request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from rewound.actors.errors import BadRequest
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.selectors import FieldSelector, LabelSelector
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.parameters import LARGE_SELECTOR

# One at a time: parsing holds the interpreter lock.
PARSING = trio.CapacityLimiter(1)
T = TypeVar("T")


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
    if len(text) < LARGE_SELECTOR:
        return parse(text)
    return await run_in_thread(parse, text, limiter=PARSING)


def _known_fields(definition: Definition, fields: FieldSelector) -> FieldSelector:
    for label, _, _ in fields.requirements:
        if not definition.selects(label):
            raise BadRequest(definition.unsupported_field_text(label))
    return fields.renamed(definition.stored_field)
