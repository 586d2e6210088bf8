"""What authorizers decide on: the attributes of a request, from its route, its user and a selector of one name."""

from __future__ import annotations

from rewound.actors.access.authorize import Attributes
from rewound.actors.errors import BadRequest
from rewound.actors.selectors import FieldSelector
from rewound.gateway.pipeline.context import RequestContext

# Characters of a selector that takes as long to parse as a thread takes to start: two hundred requirements.
LARGE = 2048
_SELECT_BY_NAME = frozenset({"list", "watch"})


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
    if not route.is_resource:
        return Attributes(user, route.verb, path=route.path, is_resource=False)
    name = route.name
    if not name and route.verb in _SELECT_BY_NAME:
        name = selected_name(context)
    verb, group, version, resource = route.verb, route.group, route.version, route.resource
    subresource, namespace, path = route.subresource, route.namespace, route.path
    return Attributes(user, verb, group, version, resource, subresource, namespace, name, path)
