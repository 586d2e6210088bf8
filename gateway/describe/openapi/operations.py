"""The paths and operations of a kind, independent of the OpenAPI version.

Verbs that no handler serves are left out, as in discovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final

from actors.kinds.declaration.definition import Definition, Subresource
from actors.kinds.schema.fields import Struct
from gateway.describe.openapi import parameters
from gateway.describe.openapi.naming import Naming
from gateway.describe.openapi.parameters import Parameter
from gateway.wire import meta_types
from gateway.wire.meta_types import list_of
from gateway.wire.patch_types import PATCH_MEDIA, STRATEGIC
from journal.classes.dataclass import dataclass

Responses = tuple[tuple[int, str, Struct | None], ...]  # status, description, type; None: text


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
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    path: str
    parameters: tuple[Parameter, ...]
    operations: tuple[Operation, ...]


_METHODS: Final = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_VERBS: Final = {"get": "read", "create": "create", "update": "replace", "patch": "patch", "delete": "delete"}
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
        self._common = Operation(
            tag=naming.tag(definition.group, definition.version),
            kind=self._kind_of(None),
            produces=naming.media,
            deprecated=bool(definition.deprecation_warning),
        )

    def paths(self) -> Iterator[Path]:
        paths = (
            *self._collection_paths(),
            self._item_path(),
            *self._subresource_paths(),
            *self._watch_paths(),
        )
        yield from (path for path in paths if path.operations)

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
            if one.forwarded and one.name != "log":
                yield self._at(path, tuple(self._connect(verb, one) for verb in verbs))
            else:
                yield self._at(path, tuple(self._operation(verb, one) for verb in verbs))

    def _at(self, path: str, operations: tuple[Operation, ...]) -> Path:
        return Path(path, (parameters.NAME, *self._namespace_parameter, parameters.PRETTY), operations)

    def _watch_paths(self) -> Iterator[Path]:
        """The deprecated paths that begin with /watch; clients should use ?watch=true."""
        if "watch" not in self._verbs:
            return
        kind, plural, root = self._definition.kind, self._definition.plural, f"{self._root}/watch"
        common = (*parameters.LIST, parameters.PRETTY)
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
            parameters=parameters.LIST,
            produces=self._naming.streamed_media,
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
            deprecated=True,
        )

    def _delete_collection(self) -> Operation:
        kind = self._definition.kind
        return replace(
            self._common,
            method="delete",
            id=f"delete{self._infix}Collection{self._scope}{kind}",
            text=f"Delete all objects of kind {kind} that are selected.",
            action="deletecollection",
            parameters=parameters.DELETE_COLLECTION,
            body=meta_types.DELETE_OPTIONS,
            body_required=False,
            consumes=self._naming.media,
            responses=((200, _SUCCESS, meta_types.STATUS),),
        )

    def _connect(self, verb: str, subresource: Subresource) -> Operation:
        method, kind = _METHODS[verb], self._definition.kind
        subject = f"{self._scope}{kind}{subresource.name.capitalize()}"
        return replace(
            self._common,
            method=method,
            id=f"connect{self._infix}{method.capitalize()}{subject}",
            text=f"Connect to {subresource.name} of a {kind}.",
            action="connect",
            kind=self._kind_of(subresource),
            parameters=parameters.SERVED_BY_NODE.get(subresource.name, ()),
            produces=("*/*",),
            responses=((200, "the response of the kubelet", None),),
        )

    def _operation(self, verb: str, subresource: Subresource | None = None) -> Operation:
        definition, name = self._definition, subresource.name if subresource else ""
        what = f"{name} of a {definition.kind}" if name else f"a {definition.kind}"
        return replace(
            self._common,
            method=_METHODS[verb],
            id=f"{_VERBS[verb]}{self._infix}{self._scope}{definition.kind}{name.capitalize()}",
            text=f"{_VERBS[verb].capitalize()} {what}.",
            action=_METHODS[verb],
            kind=self._kind_of(subresource),
            parameters=_parameters(verb, subresource),
            body=self._body(verb, name),
            body_required=verb != "delete",
            consumes=self._consumes(verb),
            produces=("text/plain",) if subresource and subresource.forwarded else self._naming.media,
            responses=self._responses(verb, subresource),
        )

    def _kind_of(self, subresource: Subresource | None) -> tuple[str, str, str]:
        definition = self._definition
        if subresource is None or not subresource.kind:
            return definition.group, definition.version, definition.kind
        if subresource.version:
            return subresource.group, subresource.version, subresource.kind
        return definition.group, definition.version, subresource.kind

    def _consumes(self, verb: str) -> tuple[str, ...]:
        """`kubectl apply` sends a strategic merge patch to every kind whose patches are described to accept it."""
        if verb == "get":
            return ()
        if verb != "patch":
            return self._naming.media
        strategic = self._definition.strategic_merge_patch
        return tuple(media for media in PATCH_MEDIA if strategic or media != STRATEGIC)

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
            deleted = view if self._definition.deletion.returns_object else meta_types.STATUS
            return (200, _SUCCESS, deleted), (202, "the deletion was accepted", deleted)
        if verb == "create" and self._responds_with_status(subresource):
            return ((201, _SUCCESS, meta_types.STATUS),)
        changed, created = (200, "the changed object", view), (201, "the created object", view)
        return (created,) if verb == "create" else (changed, created)

    def _responds_with_status(self, subresource: Subresource | None) -> bool:
        """Whether a POST responds with a Status and not with the object, as that of a binding or eviction does."""
        if subresource is None:
            return bool(self._definition.storage.submits_to[0])
        return "status" not in self._definition.definition_at(subresource.name).fields.by_name


def _parameters(verb: str, subresource: Subresource | None) -> tuple[Parameter, ...]:
    if subresource is not None and subresource.forwarded:
        return parameters.SERVED_BY_NODE.get(subresource.name, ())
    return {
        "get": parameters.READ,
        "create": parameters.WRITE,
        "update": parameters.WRITE,
        "patch": parameters.PATCH,
        "delete": parameters.DELETE,
    }[verb]
