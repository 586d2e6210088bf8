"""Finds the resource at a path, and which methods it allows: the verbs of its kind or subresource that fit the path.

`dispatch` checks them before it serves a request; a 405 response lists the allowed methods in `Allow`. `may_create`
says whether an update or apply may also create the object.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.errors import BadRequest, NoSuchResource, NotFound, Resource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import MethodNotAllowed, NoSuchPath
from rewound.gateway.pipeline.route import COLLECTION_VERBS, ITEM_VERBS, Route

PROXY: Final = "proxy"  # this subresource forwards any method and any path
NAMESPACES: Final = Resource("", "namespaces")
_ITEM_ONLY = frozenset({"update", "patch"})
_ACROSS_NAMESPACES: Final = frozenset({"list", "watch"})


def find_definition(registry: Registry, route: Route) -> Definition:
    """The definition of the resource at this path. Raises NoSuchResource, NoSuchPath or (custom kinds) NotFound."""
    definition = registry.current.find(route.group, route.version, route.resource)
    if definition is None:
        # An unknown resource in a group of custom kinds is an unknown path.
        if route.group and not registry.built_in.group_exists(route.group):
            raise NoSuchPath
        raise NoSuchResource
    if (route.has_extra_segments and route.subresource != PROXY) or not in_scope(definition, route):
        raise NoSuchPath if definition.is_custom else NoSuchResource
    if route.name and not route.subresource and not definition.has_items:
        raise NoSuchResource
    if route.subresource and definition.subresource(route.subresource) is None:
        raise NotFound(definition.resource, route.name) if definition.is_custom else NoSuchResource
    # pods//eviction would use the name in the body, for which the request was not authorized.
    if route.subresource and not route.name:
        raise NoSuchResource
    return definition


def check_method(definition: Definition, route: Route, method: str) -> None:
    """Raise MethodNotAllowed. HEAD is authorized like GET, but built-in kinds do not serve it, except by a proxy."""
    if method == "OPTIONS" and route.subresource == PROXY and definition.subresource(PROXY) is not None:
        return
    if not _allows(definition, route) or (method == "HEAD" and not _serves_head(definition, route)):
        if definition.is_custom:
            _refuse_custom(definition, route, method)
        raise MethodNotAllowed(allowed_methods(definition, route))
    if route.verb == "watch" and method != "GET" and not (method == "HEAD" and definition.is_custom):
        raise MethodNotAllowed(["GET"])
    if definition.create_refusal and route.verb == "create":
        allowed = [one for one in allowed_methods(definition, route) if one != "POST"]
        raise MethodNotAllowed(allowed, definition.create_refusal, definition.resource)


def _refuse_custom(definition: Definition, route: Route, method: str) -> None:
    """Raise the errors of custom kinds, which depend on the verb of a request instead of path and method."""
    if route.verb in _ITEM_ONLY and not route.name:
        raise BadRequest("name must be provided")
    if route.subresource or method not in ITEM_VERBS:
        why = f'{route.verb} is not supported on resources of kind "{definition.resource}"'
        raise MethodNotAllowed(allowed_methods(definition, route), why, definition.resource)


def allowed_methods(definition: Definition, route: Route) -> list[str]:
    if route.verb == "watch":
        return ["GET"]
    verbs = ITEM_VERBS if route.name else COLLECTION_VERBS
    return [
        method
        for method, verb in verbs.items()
        if (method != "HEAD" or _serves_head(definition, route))
        and _allows(definition, route.with_verb(verb))
    ]


def _serves_head(definition: Definition, route: Route) -> bool:
    """Custom kinds serve HEAD like GET, because its verb is the same; the response has no body."""
    return definition.is_custom or route.subresource == PROXY


def _allows(definition: Definition, route: Route) -> bool:
    if route.subresource:
        subresource = definition.subresource(route.subresource)
        return subresource is not None and route.verb in subresource.verbs
    if route.verb == "create" and (
        # Custom kinds accept a POST to the path of an object, and use the name in the body.
        (route.name and not definition.is_custom) or (definition.namespaced and not route.namespace)
    ):
        return False
    if route.verb in _ITEM_ONLY and not route.name:
        return False
    if route.verb == "deletecollection" and definition.namespaced and not route.namespace:
        return False
    return route.verb in definition.verbs


def in_scope(definition: Definition, route: Route) -> bool:
    """Whether the path has a namespace if and only if the kind is namespaced; lists may span all namespaces."""
    if definition.namespaced:
        if definition.is_custom:
            return bool(route.namespace) or (route.verb in _ACROSS_NAMESPACES and not route.name)
        return bool(route.namespace) or ("list" in definition.verbs and not route.name)
    # A Namespace object is in the scope of its own namespace only: rights in one must not reach another.
    return not route.namespace or (definition.resource == NAMESPACES and route.name == route.namespace)


async def may_create(authorizer: Authorizer, context: RequestContext) -> bool:
    """Whether the user may also create the object: an apply needs that, and a PUT to kinds that it may create."""
    return (await authorize_also(authorizer, context, "create")).allowed


async def authorize_also(authorizer: Authorizer, context: RequestContext, verb: str) -> Decision:
    """Decide whether the user may do something else with the object of the request."""
    route, user = context.route, context.user
    group, version, resource, namespace = route.group, route.version, route.resource, route.namespace
    attributes = Attributes(user, verb, group, version, resource, "", namespace, route.name, route.path)
    decision = authorizer.authorize(attributes)
    return decision if isinstance(decision, Decision) else await decision
