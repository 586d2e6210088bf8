"""The paths and operations of a kind, independent of the OpenAPI version.

Verbs that no handler serves are left out, as in discovery. Parameters that all operations of a path have are listed
once, with the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final

from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.schema.fields import CustomStruct, Struct
from rewound.gateway.describe.openapi import parameters
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.parameters import Parameter, in_order
from rewound.gateway.wire import meta_types
from rewound.gateway.wire.meta_types import list_of
from rewound.gateway.wire.negotiate import STRATEGIC

Responses = tuple[tuple[int, str, Struct | None], ...]  # status, description, type; None for plain text


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    tag: str
    method: str = "get"
    id: str = ""
    text: str = ""
    action: str = ""
    kind: tuple[str, str, str] | None = None  # group, version, kind
    parameters: tuple[Parameter, ...] = ()
    body: Struct | None = None
    body_required: bool = True
    consumes: tuple[str, ...] = ()  # media types
    produces: tuple[str, ...]  # media types
    responses: Responses = ()


@dataclass(frozen=True, slots=True)
class Path:
    path: str
    parameters: tuple[Parameter, ...]
    operations: tuple[Operation, ...]

    def sharing_parameters(self) -> Path:
        """The path with the parameters that all operations share moved to it, all sorted by name."""
        common, own = _shared(self.parameters, tuple(one.parameters for one in self.operations))
        operations = zip(self.operations, own, strict=True)
        return Path(self.path, common, tuple(replace(one, parameters=found) for one, found in operations))


@cache
def _shared(
    of_path: tuple[Parameter, ...], of_operations: tuple[tuple[Parameter, ...], ...]
) -> tuple[tuple[Parameter, ...], list[tuple[Parameter, ...]]]:
    """The shared parameters; cached, because most paths have one of a few combinations."""
    first, *others = of_operations
    common = [one for one in first if all(one in other for other in others)]
    own = [in_order(one for one in found if one not in common) for found in of_operations]
    return in_order((*of_path, *common)), own


_METHODS: Final = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_VERBS: Final = {"get": "read", "create": "create", "update": "replace", "patch": "patch", "delete": "delete"}
_PROXY_METHODS: Final = ("get", "post", "put", "delete", "patch", "head", "options")
_ANYTHING: Final = ("*/*",)
_OBJECTS: Final = ("application/json", "application/yaml")  # verbs of custom kinds
_SUCCESS: Final = "the request succeeded"


class Operations:
    """The operations of one kind."""

    def __init__(self, definition: Definition, served: frozenset[str], naming: Naming) -> None:
        self._definition = definition
        self._verbs = frozenset(definition.verbs) & served
        self._served = served
        self._naming = naming
        self._infix = naming.infix(definition.group, definition.version)
        self._scope = "Namespaced" if definition.namespaced else ""
        self._is_custom = isinstance(definition.fields, CustomStruct)
        self._common = Operation(
            tag=naming.tag(definition.group, definition.version),
            kind=self._kind_of(None),
            consumes=_OBJECTS if self._is_custom else _ANYTHING,
            produces=_OBJECTS if self._is_custom else naming.media,
        )

    def paths(self) -> Iterator[Path]:
        paths = (
            *self._collection_paths(),
            self._item_path(),
            *self._subresource_paths(),
            *self._watch_paths(),
        )
        yield from (path.sharing_parameters() for path in paths if path.operations)

    @cached_property
    def _root(self) -> str:
        definition = self._definition
        return f"/apis/{definition.api_version}" if definition.group else f"/api/{definition.version}"

    @cached_property
    def _list_struct(self) -> Struct:
        return list_of(self._definition.fields)

    @cached_property
    def _collection(self) -> str:
        return f"{self._root}{self._namespace_segment}/{self._definition.plural}"

    @property
    def _namespace_segment(self) -> str:
        return "/namespaces/{namespace}" if self._definition.namespaced else ""

    @property
    def _namespace_parameter(self) -> tuple[Parameter, ...]:
        return (parameters.NAMESPACE,) if self._definition.namespaced else ()

    def _collection_paths(self) -> Iterator[Path]:
        definition = self._definition
        create = [self._operation("create")] if "create" in self._verbs else []
        list_ = [self._list(f"list{self._infix}{self._scope}{definition.kind}")]
        delete = [self._delete_collection()] if "deletecollection" in self._verbs else []
        if "list" not in self._verbs:
            list_ = []
        yield Path(
            self._collection, (*self._namespace_parameter, parameters.PRETTY), (*list_, *create, *delete)
        )
        if definition.namespaced and list_:
            everywhere = self._list(f"list{self._infix}{definition.kind}ForAllNamespaces")
            yield Path(f"{self._root}/{definition.plural}", (parameters.PRETTY,), (everywhere,))

    def _item_path(self) -> Path:
        verbs = (verb for verb in ("get", "update", "patch", "delete") if verb in self._verbs)
        return self._at(f"{self._collection}/{{name}}", tuple(map(self._operation, verbs)))

    def _subresource_paths(self) -> Iterator[Path]:
        for one in self._definition.subresources:
            path = f"{self._collection}/{{name}}/{one.name}"
            verbs = tuple(verb for verb in _METHODS if verb in one.verbs and verb in self._served)
            if not one.forwarded or one.name == "log":
                yield self._at(path, tuple(self._operation(verb, one) for verb in verbs))
                continue
            methods = _PROXY_METHODS if "update" in verbs else tuple(_METHODS[verb] for verb in verbs)
            named = (parameters.NAME, *self._namespace_parameter)
            yield Path(path, named, tuple(self._connect(method, one) for method in methods))
            if one.name == "proxy":
                below = tuple(self._connect(method, one, "WithPath") for method in methods)
                yield Path(f"{path}/{{path}}", (*named, parameters.PROXY_PATH), below)

    def _at(self, path: str, operations: tuple[Operation, ...]) -> Path:
        return Path(path, (parameters.NAME, *self._namespace_parameter, parameters.PRETTY), operations)

    def _watch_paths(self) -> Iterator[Path]:
        """The deprecated paths below /watch (use ?watch=true); like in Kubernetes, not for custom kinds."""
        if "watch" not in self._verbs or self._is_custom:
            return
        kind, plural, root = self._definition.kind, self._definition.plural, f"{self._root}/watch"
        common = (*self._existing(parameters.LIST), parameters.PRETTY)
        one, many = f"watch{self._infix}{self._scope}{kind}", f"watch{self._infix}{self._scope}{kind}List"
        collection = f"{root}{self._namespace_segment}/{plural}"
        yield Path(collection, (*self._namespace_parameter, *common), (self._watch(many, "watchlist"),))
        named = (parameters.NAME, *self._namespace_parameter, *common)
        yield Path(f"{collection}/{{name}}", named, (self._watch(one, "watch"),))
        if self._definition.namespaced:
            everywhere = self._watch(f"watch{self._infix}{kind}ListForAllNamespaces", "watchlist")
            yield Path(f"{root}/{plural}", common, (everywhere,))

    def _list(self, id_: str) -> Operation:
        definition = self._definition
        return replace(
            self._common,
            method="get",
            id=id_,
            text=f"List or watch objects of kind {definition.kind}.",
            action="list",
            parameters=self._existing(parameters.LIST),
            produces=_OBJECTS if self._is_custom else self._naming.streamed_media,
            responses=((200, "the objects", self._list_struct),),
        )

    def _watch(self, id_: str, action: str) -> Operation:
        return replace(
            self._common,
            method="get",
            id=id_,
            text=f"Watch objects of kind {self._definition.kind}: use the query of a list instead.",
            action=action,
            produces=self._naming.streamed_media,
            responses=((200, "a stream of watch events", meta_types.WATCH_EVENT),),
        )

    def _delete_collection(self) -> Operation:
        kind = self._definition.kind
        return replace(
            self._common,
            method="delete",
            id=f"delete{self._infix}Collection{self._scope}{kind}",
            text=f"Delete all objects of kind {kind} that are selected.",
            action="deletecollection",
            parameters=self._existing(
                parameters.DELETE_CUSTOM_COLLECTION if self._is_custom else parameters.DELETE_COLLECTION
            ),
            body=meta_types.DELETE_OPTIONS,
            body_required=False,
            responses=((200, _SUCCESS, meta_types.STATUS),),
        )

    def _connect(self, method: str, subresource: Subresource, suffix: str = "") -> Operation:
        kind = self._definition.kind
        subject = f"{self._scope}{kind}{subresource.name.capitalize()}{suffix}"
        return replace(
            self._common,
            method=method,
            id=f"connect{self._infix}{method.capitalize()}{subject}",
            text=f"Connect to {subresource.name} of a {kind}.",
            action="connect",
            kind=self._kind_of(subresource),
            parameters=parameters.SERVED_BY_NODE.get(subresource.name, ()),
            produces=_ANYTHING,
            responses=((200, "the response of the kubelet", None),),
        )

    def _operation(self, verb: str, subresource: Subresource | None = None) -> Operation:
        definition, name = self._definition, subresource.name if subresource else ""
        what = f"{name} of a {definition.kind}" if name else f"a {definition.kind}"
        log = ("text/plain",) if subresource and subresource.forwarded else ()
        return replace(
            self._common,
            method=_METHODS[verb],
            id=f"{_VERBS[verb]}{self._infix}{self._scope}{definition.kind}{name.capitalize()}",
            text=f"{_VERBS[verb].capitalize()} {what}.",
            action=_METHODS[verb],
            kind=self._kind_of(subresource),
            parameters=self._parameters(verb, subresource),
            body=self._body(verb, name),
            body_required=verb != "delete",
            consumes=self._consumes(verb),
            produces=(*log, *self._common.produces),
            responses=self._responses(verb, subresource),
        )

    def _kind_of(self, subresource: Subresource | None) -> tuple[str, str, str]:
        """The kind of an operation; like Kubernetes, for subresources of a custom kind the kind itself."""
        definition = self._definition
        if subresource is None or not subresource.kind or self._is_custom:
            return definition.group, definition.version, definition.kind
        if subresource.version:
            return subresource.group, subresource.version, subresource.kind
        return definition.group, definition.version, subresource.kind

    def _consumes(self, verb: str) -> tuple[str, ...]:
        """The media types of a patch. `kubectl apply` uses strategic merge patch wherever it is listed here."""
        if verb != "patch":
            return self._common.consumes
        strategic = self._definition.strategic_merge_patch
        return tuple(media for media in self._naming.patch_media if strategic or media != STRATEGIC)

    def _body(self, verb: str, subresource: str) -> Struct | None:
        if verb == "patch":
            return meta_types.PATCH
        if verb == "delete":
            return meta_types.DELETE_OPTIONS
        return self._definition.definition_at(subresource).fields if verb != "get" else None

    def _responses(self, verb: str, subresource: Subresource | None) -> Responses:
        if subresource is not None and subresource.forwarded:
            return ((200, "the log", None),)
        view = self._definition.definition_at(subresource.name if subresource else "").fields
        if verb == "get":
            return ((200, "the object", view),)
        if verb == "delete":
            deletion = self._definition.deletion
            deleted = view if deletion.returns_object and deletion.promises_object else meta_types.STATUS
            return (200, _SUCCESS, deleted), (202, "the deletion was accepted", deleted)
        changed, created = (200, "the changed object", view), (201, "the created object", view)
        if verb != "create":
            return changed, created
        return (200, _SUCCESS, view), created, (202, "the creation was accepted", view)

    def _parameters(self, verb: str, subresource: Subresource | None) -> tuple[Parameter, ...]:
        if subresource is not None and subresource.forwarded:
            return parameters.SERVED_BY_NODE.get(subresource.name, ())
        if verb == "get" and self._is_custom:
            return parameters.READ_CUSTOM
        return {
            "get": parameters.READ,
            "create": parameters.WRITE,
            "update": parameters.WRITE,
            "patch": parameters.PATCH,
            "delete": self._existing(parameters.DELETE),
        }[verb]

    def _existing(self, declared: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
        """The parameters that the version of Kubernetes has."""
        return tuple(one for one in declared if not one.since or self._naming.exists(one.since))
