"""Every path of a kind and what can be done there, before it is written in either edition.

Only what the server serves is described: a verb that no handler answers is left out, as in discovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from actors.kinds.declaration.definition import Definition, Subresource
from actors.kinds.schema.fields import Struct
from gateway.describe.openapi import parameters
from gateway.describe.openapi.parameters import Parameter
from gateway.describe.openapi.titles import Titles
from gateway.wire import meta_types
from gateway.wire.meta_types import list_of
from gateway.wire.patch_types import PATCH_MEDIA

Answers = tuple[tuple[int, str, Struct | None], ...]  # status, what it means, what is in it; None: text


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
    body_needed: bool = True
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...]
    answers: Answers = ()
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    path: str
    parameters: tuple[Parameter, ...]
    operations: tuple[Operation, ...]


_METHODS: Final = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_VERBS: Final = {"get": "read", "create": "create", "update": "replace", "patch": "patch", "delete": "delete"}
_DONE: Final = "it is done"


class Operations:
    """Of one kind."""

    def __init__(self, definition: Definition, served: frozenset[str], titles: Titles) -> None:
        self._definition = definition
        self._verbs = frozenset(definition.verbs) & served
        self._served = served
        self._titles = titles
        self._infix = titles.infix(definition.group, definition.version)
        self._scope = "Namespaced" if definition.namespaced else ""
        self._blank = Operation(
            tag=titles.tag(definition.group, definition.version),
            kind=self._kind_of(None),
            gives=titles.media,
            deprecated=bool(definition.deprecation_warning),
        )

    def paths(self) -> Iterator[Path]:
        everything = (*self._collections(), self._item(), *self._below(), *self._watches())
        yield from (path for path in everything if path.operations)

    @cached_property
    def _root(self) -> str:
        definition = self._definition
        return f"/apis/{definition.api_version}" if definition.group else f"/api/{definition.version}"

    @cached_property
    def _collection(self) -> str:
        return f"{self._root}{self._place}/{self._definition.plural}"

    @property
    def _place(self) -> str:
        return "/namespaces/{namespace}" if self._definition.namespaced else ""

    @property
    def _where(self) -> tuple[Parameter, ...]:
        return (parameters.NAMESPACE,) if self._definition.namespaced else ()

    def _collections(self) -> Iterator[Path]:
        definition = self._definition
        made = [self._operation("create")] if "create" in self._verbs else []
        listed = [self._list(f"list{self._infix}{self._scope}{definition.kind}")]
        removed = [self._delete_collection()] if "deletecollection" in self._verbs else []
        if "list" not in self._verbs:
            listed = []
        yield Path(self._collection, (*self._where, parameters.PRETTY), (*listed, *made, *removed))
        if definition.namespaced and listed:
            everywhere = self._list(f"list{self._infix}{definition.kind}ForAllNamespaces")
            yield Path(f"{self._root}/{definition.plural}", (parameters.PRETTY,), (everywhere,))

    def _item(self) -> Path:
        verbs = (verb for verb in ("get", "update", "patch", "delete") if verb in self._verbs)
        return self._at(f"{self._collection}/{{name}}", tuple(map(self._operation, verbs)))

    def _below(self) -> Iterator[Path]:
        for one in self._definition.subresources:
            path = f"{self._collection}/{{name}}/{one.name}"
            verbs = tuple(verb for verb in _METHODS if verb in one.verbs and verb in self._served)
            if one.served_by_node and one.name != "log":
                yield self._at(path, tuple(self._connect(verb, one) for verb in verbs))
            else:
                yield self._at(path, tuple(self._operation(verb, one) for verb in verbs))

    def _at(self, path: str, operations: tuple[Operation, ...]) -> Path:
        return Path(path, (parameters.NAME, *self._where, parameters.PRETTY), operations)

    def _watches(self) -> Iterator[Path]:
        """The old form, in which the path and not the query says that a watch is wanted."""
        if "watch" not in self._verbs:
            return
        kind, plural, root = self._definition.kind, self._definition.plural, f"{self._root}/watch"
        usual = (*parameters.LIST, parameters.PRETTY)
        one, many = f"watch{self._infix}{self._scope}{kind}", f"watch{self._infix}{self._scope}{kind}List"
        place = f"{root}{self._place}/{plural}"
        yield Path(place, (*self._where, *usual), (self._watch(many, "watchlist"),))
        named = (parameters.NAME, *self._where, *usual)
        yield Path(f"{place}/{{name}}", named, (self._watch(one, "watch"),))
        if self._definition.namespaced:
            everywhere = self._watch(f"watch{self._infix}{kind}ListForAllNamespaces", "watchlist")
            yield Path(f"{root}/{plural}", usual, (everywhere,))

    def _list(self, id_: str) -> Operation:
        definition = self._definition
        return replace(
            self._blank,
            method="get",
            id=id_,
            text=f"List or watch objects of kind {definition.kind}.",
            action="list",
            parameters=parameters.LIST,
            gives=self._titles.streamed_media,
            answers=((200, "the objects", list_of(definition.fields)),),
        )

    def _watch(self, id_: str, action: str) -> Operation:
        return replace(
            self._blank,
            method="get",
            id=id_,
            text=f"Watch objects of kind {self._definition.kind}: use the query of a list instead.",
            action=action,
            gives=self._titles.streamed_media,
            answers=((200, "one event after another", meta_types.WATCH_EVENT),),
            deprecated=True,
        )

    def _delete_collection(self) -> Operation:
        kind = self._definition.kind
        return replace(
            self._blank,
            method="delete",
            id=f"delete{self._infix}Collection{self._scope}{kind}",
            text=f"Delete all objects of kind {kind} that are selected.",
            action="deletecollection",
            parameters=parameters.DELETE_COLLECTION,
            body=meta_types.DELETE_OPTIONS,
            body_needed=False,
            takes=self._titles.media,
            answers=((200, _DONE, meta_types.STATUS),),
        )

    def _connect(self, verb: str, below: Subresource) -> Operation:
        method, kind = _METHODS[verb], self._definition.kind
        subject = f"{self._scope}{kind}{below.name.capitalize()}"
        return replace(
            self._blank,
            method=method,
            id=f"connect{self._infix}{method.capitalize()}{subject}",
            text=f"Connect to {below.name} of a {kind}.",
            action="connect",
            kind=self._kind_of(below),
            parameters=parameters.OF_AGENTS.get(below.name, ()),
            gives=("*/*",),
            answers=((200, "what the agent answers", None),),
        )

    def _operation(self, verb: str, below: Subresource | None = None) -> Operation:
        definition, name = self._definition, below.name if below else ""
        what = f"{name} of a {definition.kind}" if name else f"a {definition.kind}"
        return replace(
            self._blank,
            method=_METHODS[verb],
            id=f"{_VERBS[verb]}{self._infix}{self._scope}{definition.kind}{name.capitalize()}",
            text=f"{_VERBS[verb].capitalize()} {what}.",
            action=_METHODS[verb],
            kind=self._kind_of(below),
            parameters=_parameters(verb, below),
            body=self._body(verb, name),
            body_needed=verb != "delete",
            takes=_takes(verb, self._titles.media),
            gives=("text/plain",) if below and below.served_by_node else self._titles.media,
            answers=self._answers(verb, below),
        )

    def _kind_of(self, below: Subresource | None) -> tuple[str, str, str]:
        definition = self._definition
        if below is None or not below.kind:
            return definition.group, definition.version, definition.kind
        if below.version:
            return below.group, below.version, below.kind
        return definition.group, definition.version, below.kind

    def _body(self, verb: str, below: str) -> Struct | None:
        if verb == "patch":
            return meta_types.PATCH
        if verb == "delete":
            return meta_types.DELETE_OPTIONS
        return self._definition.definition_at(below).fields if verb != "get" else None

    def _answers(self, verb: str, below: Subresource | None) -> Answers:
        if below is not None and below.served_by_node:
            return ((200, "what was written", None),)
        shown = self._definition.definition_at(below.name if below else "").fields
        if verb == "get":
            return ((200, "the object", shown),)
        if verb == "delete":
            gone = shown if self._definition.deletion.returns_object else meta_types.STATUS
            return (200, _DONE, gone), (202, "it will be done", gone)
        if verb == "create" and self._is_submitted(below):
            return ((201, _DONE, meta_types.STATUS),)
        changed, made = (200, "the object as it is now", shown), (201, "the object that was made", shown)
        return (made,) if verb == "create" else (changed, made)

    def _is_submitted(self, below: Subresource | None) -> bool:
        """Whether what is posted is done with and not shown; what has a status comes back with one."""
        if below is None:
            return bool(self._definition.storage.submits_to[0])
        return "status" not in self._definition.definition_at(below.name).fields.by_name


def _parameters(verb: str, below: Subresource | None) -> tuple[Parameter, ...]:
    if below is not None and below.served_by_node:
        return parameters.OF_AGENTS.get(below.name, ())
    return {
        "get": parameters.READ,
        "create": parameters.WRITE,
        "update": parameters.WRITE,
        "patch": parameters.PATCH,
        "delete": parameters.DELETE,
    }[verb]


def _takes(verb: str, media: tuple[str, ...]) -> tuple[str, ...]:
    if verb == "get":
        return ()
    return PATCH_MEDIA if verb == "patch" else media
