"""Serves the group rewound.cluster.io: history, differences, blame, rollback and undelete of one object.

    GET  /apis/rewound.cluster.io/v1/namespaces/default/configmaps/web/history?limit=20
    GET  /apis/rewound.cluster.io/v1/namespaces/default/deployments.apps/web/blame
    POST /apis/rewound.cluster.io/v1/nodes/one/rollback                              {"to": "1042"}

The route has the object's own group and resource, and the last segment as its subresource: the pipeline has authorized
`get` on `configmaps/history` or `create` on `nodes/rollback`. What else is needed is in `actors/rewind/rights.py`.
Reads take turns on the event loop; writes are ordinary commands to the actor of the type.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from rewound.actors.errors import BadRequest, NoSuchResource, NotFound
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import refuse_name
from rewound.actors.messages import Create, Object, Replace, Written
from rewound.actors.names import REWIND_GROUP
from rewound.actors.rewind import documents
from rewound.actors.rewind.blame import blame
from rewound.actors.rewind.documents import (
    Document,
    blame_document,
    blame_lines,
    change_lines,
    event_document,
)
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.moments import Moment, parse_moment, resolve, thinned_warning
from rewound.actors.rewind.restore import absent_fields, rolled_back, undeleted
from rewound.actors.rewind.rights import HistoryRights
from rewound.actors.rewind.versions import Address, looks_like_uid, name_of_uid, newest
from rewound.actors.runtime.large_work import is_large
from rewound.actors.store.document import decode
from rewound.gateway.memory.budget import SMALL, MemoryBudget
from rewound.gateway.message import Response
from rewound.gateway.pipeline import options, render
from rewound.gateway.pipeline.context import RequestContext, new_write_context
from rewound.gateway.pipeline.errors import MethodNotAllowed, NoSuchPath
from rewound.gateway.pipeline.render import Encoders, encode_document
from rewound.gateway.pipeline.route import Route
from rewound.gateway.store import Store
from rewound.gateway.wire.encoders import object_encoder
from rewound.gateway.wire.json import dump_line
from rewound.gateway.wire.negotiate import wants_text
from rewound.gateway.wire.worker_threads import encode_in_thread
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.records import Event, Row
from rewound.rewind import parameters
from rewound.rewind.past_reads import PastReads
from rewound.rewind.turns import LARGE, run_in_turns

VERSION: Final = "v1"
API_VERSION: Final = f"{REWIND_GROUP}/{VERSION}"
# The methods of each path below an object.
_FIELD_SIZE: Final = 200  # bytes that a field takes in a document of blame
METHODS: Final = {"history": "GET", "blame": "GET", "rollback": "POST", "undelete": "POST"}


class Target(msgspec.Struct, frozen=True):
    """The object of a request, which may have been deleted."""

    definition: Definition
    address: Address

    def document(self, kind: str, **more: Any) -> Document:
        """A document about the object."""
        definition, address = self.definition, self.address
        about: Document = {"apiVersion": definition.api_version, "kind": definition.kind}
        if address.namespace:
            about["namespace"] = address.namespace
        return {"kind": kind, "apiVersion": API_VERSION, **more, "object": {**about, "name": address.name}}


class RewindHandler:
    def __init__(self, store: Store, reads: PastReads, encoders: Encoders, *, enabled: bool = True) -> None:
        """Without `enabled`, the group is not served; `?at=` works all the same."""
        self._enabled = enabled
        self._registry = store.registry
        self._journal = store.journal
        self._now = store.write_contexts.now
        self._rights = HistoryRights(store.access.authorizer)
        self.read_at = reads
        self._writes = PastWrites(store, encoders)
        self._respond = partial(respond_document, store.memory)
        self._serve: dict[str, Callable[[RequestContext, Target], Awaitable[Response]]] = {
            "history": self._history,
            "blame": self._blame,
            "rollback": self._rollback,
            "undelete": self._undelete,
        }

    def check(self, context: RequestContext) -> Definition:
        """The definition of the object. Raises if the path or its method is not served."""
        route = context.route
        definition = self._find(route)
        allowed = METHODS[route.subresource]
        if context.request.method != allowed:
            raise MethodNotAllowed([allowed])
        return definition

    async def __call__(self, context: RequestContext) -> Response:
        definition = self.check(context)
        route = context.route
        refuse_name(route.name)
        namespace = route.namespace if definition.namespaced else ""
        verbs = _RIGHTS[route.subresource]
        await self._rights.check(context.user, definition, route.namespace, route.name, *verbs)
        type_id = self._journal.type_id(definition.type_name)
        address = Address(type_id, namespace, route.name, parameters.uid_in(context))
        if looks_like_uid(route.name) and route.subresource != "rollback":
            address = await self._by_uid(address)
            if address.name != route.name:
                await self._rights.check(context.user, definition, route.namespace, address.name, *verbs)
        return await self._serve[route.subresource](context, Target(definition, address))

    async def _by_uid(self, address: Address) -> Address:
        """The address of the object with this uid, unless the uid is the name of some object."""
        if await run_in_turns(newest(self._journal, address, MAX_OFFSET)) is not None:
            return address
        uid = address.name
        name = await run_in_turns(name_of_uid(self._journal, address.type_id, address.namespace, uid))
        return replace(address, name=name, uid=uid) if name else address

    def _find(self, route: Route) -> Definition:
        catalog = self._registry.current
        if not self._enabled:
            raise NoSuchPath
        if route.has_extra_segments or route.version != VERSION or route.subresource not in METHODS:
            raise NoSuchResource
        for version in catalog.groups().get(route.group, ()):
            definition = catalog.find(route.group, version, route.resource)
            if definition is not None:
                if not definition.is_stored or definition.namespaced != _has_namespace(route):
                    raise NoSuchResource
                return definition
        raise NoSuchResource

    def _resolve(self, moment: Moment, name: str) -> int:
        with self._journal.read() as view:
            return resolve(view, moment, self._now(), name)

    def _warn(self, context: RequestContext, target: Target, version: int) -> None:
        """Warn if times of the object at a version may not be exact, or if its history has gaps from there on."""
        with self._journal.read() as view:
            resource = str(target.definition.resource)
            if warning := thinned_warning(view, target.address.type_id, resource, version):
                context.warnings.append(warning)

    # History and differences.

    async def _history(self, context: RequestContext, target: Target) -> Response:
        _refuse(context, "at")
        ends = context.parameters.first("diff")
        if ends is not None:
            return await self._diff(context, target, ends)
        token, last = context.parameters.first("continue"), context.parameters.first("to")
        start = MAX_OFFSET if last is None else self._resolve(parse_moment(last, "to"), "to")
        if token:
            start = min(start, parameters.offset_in(token))
        steps = documents.history_page(
            self._journal,
            target.address,
            start,
            parameters.limit_of(context),
            managed_fields=parameters.wants_managed_fields(context),
            changes=context.parameters.boolean("changes"),
        )
        items, following, size = await run_in_turns(steps)
        if not items and not token:  # the object never existed, or not yet
            raise NotFound(target.definition.resource, target.address.name)
        if items:
            self._warn(context, target, int(items[-1]["version"]) if following else 0)
        metadata = {"continue": parameters.token_of(following)} if following else {}
        document = target.document("History", metadata=metadata, items=items)
        return await self._respond(context, document, size)

    async def _diff(self, context: RequestContext, target: Target, text: str) -> Response:
        if context.parameters.first("to") is not None:
            raise BadRequest("to: has no effect with diff: name both ends there, A..B")
        first, second = parameters.diff_ends(text)
        with self._journal.read() as view:
            now, head = self._now(), view.head
            versions = [
                resolve(view, first, now, "diff"),
                resolve(view, second, now, "diff") if second else head,
            ]
            rows = [view.at(version).get(*_names(target.address)) for version in versions]
        self._warn(context, target, min(versions))
        if rows == [None, None]:
            raise NotFound(target.definition.resource, target.address.name)
        contents = [None if row is None else row.body for row in rows]
        managed = parameters.wants_managed_fields(context)
        size = sum(len(body or b"") for body in contents)
        if wants_text(context.request.headers.get(b"accept")):
            work = partial(documents.changes_of, *contents, managed_fields=False)
            changes = await run_in_turns(_one(work, size))
            lines = [*_existence_lines(contents), *change_lines(changes)]
            return _text(lines)
        patch = await run_in_turns(_one(partial(documents.patch_of, *contents, managed_fields=managed), size))
        ends = [
            {"version": str(version)} | ({"objectVersion": str(row.offset)} if row is not None else {})
            for version, row in zip(versions, rows, strict=True)
        ]
        shown = {"from": ends[0], "to": ends[1], "patch": patch}
        return await self._respond(context, target.document("Difference", **shown), size)

    # Blame.

    async def _blame(self, context: RequestContext, target: Target) -> Response:
        at = context.parameters.at
        upto = self._resolve(parse_moment(at), "at") if at is not None else MAX_OFFSET
        last = await self._version(target, upto)
        found = await run_in_turns(blame(self._journal, last))
        self._warn(context, target, upto)
        size = len(last.body) + _FIELD_SIZE * len(found.fields)
        if wants_text(context.request.headers.get(b"accept")):
            return _text(await run_in_turns(_one(lambda: list(blame_lines(found)), size)))
        shown = {"version": str(last.offset), "time": event_document(last)["time"]}
        fields = await run_in_turns(_one(partial(blame_document, found), size))
        more = {"leftOut": found.left_out} if found.left_out else {}
        return await self._respond(context, target.document("Blame", **shown, fields=fields, **more), size)

    async def _version(self, target: Target, upto: int) -> Event:
        """The newest content of the object up to a version; if it is deleted, the last."""
        event = await run_in_turns(newest(self._journal, target.address, upto))
        if event is not None and event.removed:
            address = replace(target.address, uid="")
            event = await run_in_turns(newest(self._journal, address, event.previous))
        if event is None or event.removed:
            raise NotFound(target.definition.resource, target.address.name)
        return event

    # Writes.

    async def _rollback(self, context: RequestContext, target: Target) -> Response:
        _refuse(context, "at", "uid")
        request = parameters.rollback_request(context, (API_VERSION, "Rollback"))
        version = self._resolve(request.to, "to")
        with self._journal.read() as view:
            row = view.at(version).get(*_names(target.address))
        self._warn(context, target, version)
        if row is None:
            raise BadRequest(
                f"to: {target.definition.resource} {target.address.name} did not exist at version {version}"
            )
        return await self._writes.roll_back(context, target.definition, target.address, row, request.fields)

    async def _undelete(self, context: RequestContext, target: Target) -> Response:
        _refuse(context, "at")
        request = parameters.undelete_request(context, (API_VERSION, "Undelete"))
        uid = request.uid or target.address.uid
        address = replace(target.address, uid=uid)
        # If it still exists, the create is refused.
        deleted = await run_in_turns(newest(self._journal, address, MAX_OFFSET))
        if deleted is None:
            raise NotFound(target.definition.resource, target.address.name)
        return await self._writes.undelete(context, target.definition, deleted)


async def respond_document(
    memory: MemoryBudget, context: RequestContext, document: Document, size: int
) -> Response:
    """Respond with a document. `size` is about that of the document, or of the contents from which it was made."""
    body = dump_line(document) if size <= LARGE else await encode_in_thread(dump_line, document)
    response = await render.respond(context, body)
    if len(response.body) > SMALL:
        memory.take(context.request, len(response.body))
    return response


_RIGHTS: Final[dict[str, tuple[str, ...]]] = {
    "history": ("get",),
    "blame": ("get",),
    "rollback": ("get", "update"),
    "undelete": ("get", "create"),
}


def _names(address: Address) -> tuple[int, str, str]:
    return address.type_id, address.namespace, address.name


def _has_namespace(route: Route) -> bool:
    """Whether the path has a namespace: a Namespace itself has one in its route too."""
    return bool(route.namespace) and not (route.resource == "namespaces" and not route.group)


def _refuse(context: RequestContext, *names: str) -> None:
    for name in names:
        if context.parameters.first(name) is not None:
            raise BadRequest(f"{name}: {context.route.subresource} does not have it")


def _one(work: Callable[[], Any], size: int) -> LongWork[Any]:
    result = yield Piece(work, size)
    return result


def _existence_lines(contents: list[bytes | None]) -> list[str]:
    before, after = contents
    if before is None:
        return ["+ the object"]
    return ["- the object"] if after is None else []


def _text(lines: list[str]) -> Response:
    return render.text("".join(f"{line}\n" for line in lines))


class PastWrites:
    """Rollback and undelete: ordinary updates and creates, with admission, which are journaled with their reason.

    A large object is decided in the thread for large work, like any other write of it.
    """

    def __init__(self, store: Store, encoders: Encoders) -> None:
        self._names, self._rules = store.names, store.rules
        self._registry = store.registry
        self._directory = store.directory
        self._reads = store.reads
        self._write_contexts = store.write_contexts
        self._encoders = encoders

    async def roll_back(
        self,
        context: RequestContext,
        definition: Definition,
        address: Address,
        past: Row,
        fields: tuple[str, ...],
    ) -> Response:
        write = self._write_options(context, "UpdateOptions")
        encoder = self._encoders.of(context, definition)
        body = await self._to_write(definition, self._reads.get(definition, address.namespace, address.name))
        past_body = await self._to_write(definition, past.body)
        large = is_large(body) or is_large(past_body)
        if large:
            wanted, absent = await encode_in_thread(_rolled_back, body, past_body, fields)
        else:
            wanted, absent = _rolled_back(body, past_body, fields)
        context.warnings.extend(absent)
        what = f" ({', '.join(fields)})" if fields else ""
        made = new_write_context(self._write_contexts, context, large=large)
        made = made._replace(reason=f"rollback to {past.offset}{what}"[:MAX_REASON])
        command = Replace(
            self._stored_version(definition),
            address.namespace,
            address.name,
            wanted,
            made,
            dry_run=write.dry_run,
        )
        return await self._write(context, definition, encoder, command)

    async def undelete(self, context: RequestContext, definition: Definition, deleted: Event) -> Response:
        write = self._write_options(context, "CreateOptions")
        encoder = self._encoders.of(context, definition)
        body = await self._to_write(definition, deleted.body)
        large = is_large(body)
        last = await encode_in_thread(_decoded, body) if large else _decoded(body)
        wanted = undeleted(last)
        self._drop_gone_owners(context, wanted, deleted.namespace)
        made = new_write_context(self._write_contexts, context, large=large)
        made = made._replace(reason=f"undelete {deleted.offset}")
        command = Create(self._stored_version(definition), deleted.namespace, wanted, made, write.dry_run)
        return await self._write(context, definition, encoder, command)

    async def _write(
        self, context: RequestContext, definition: Definition, encoder: Any, command: Create | Replace
    ) -> Response:
        outcome = await self._directory.ask_served(definition, command)
        assert isinstance(outcome, Written)
        context.warnings.extend(outcome.warnings)
        body = outcome.body
        if definition.converts_by_webhook:
            body = await self._encoders.converted.one(definition, body)
        document = await encode_document(encoder, body)
        return await render.respond(context, document, 201 if outcome.created else 200)

    async def _to_write(self, definition: Definition, body: bytes) -> bytes:
        """Convert a stored object of a custom kind to the version of the request: it may be stored in any version."""
        if definition.storage.versions is None:
            return body
        if definition.converts_by_webhook:
            return await self._encoders.converted.one(definition, body)
        return object_encoder(definition).converted(body)

    def _stored_version(self, definition: Definition) -> str:
        """The API version in which the object is stored, if it is served: that form is restored."""
        if definition.storage.versions is not None:
            return definition.api_version  # the form that `_to_write` returns
        catalog = self._registry.current
        storage = catalog.storage(definition.type_name)
        return storage.api_version if catalog.holds(storage) else definition.api_version

    def _write_options(self, context: RequestContext, kind: str) -> options.WriteOptions:
        parameters = context.parameters
        return options.write_options(
            self._names,
            kind,
            parameters.all("dryRun"),
            parameters.first("fieldValidation") or "",
            parameters.first("fieldManager") or "",
            self._rules,
        )

    def _drop_gone_owners(self, context: RequestContext, wanted: Object, namespace: str) -> None:
        """Drop owners that no longer exist: the garbage collector would delete the object again."""
        owners = wanted["metadata"].get("ownerReferences") or []
        kept = [owner for owner in owners if self._exists(owner, namespace)]
        if len(kept) == len(owners):
            return
        for owner in owners:
            if owner not in kept:
                who = f"{owner['kind']} {owner['name']}"
                context.warnings.append(f"dropped the owner {who}: it does not exist any more")
        wanted["metadata"]["ownerReferences"] = kept
        if not kept:
            del wanted["metadata"]["ownerReferences"]

    def _exists(self, owner: Object, namespace: str) -> bool:
        definition = self._registry.current.of_kind(owner["apiVersion"], owner["kind"])
        if definition is None:
            return False
        try:
            body = self._reads.get(definition, namespace if definition.namespaced else "", owner["name"])
        except NotFound:
            return False
        return bool(decode(body)["metadata"]["uid"] == owner["uid"])


MAX_REASON = 512  # characters in the journal


def _rolled_back(present: bytes, past: bytes, fields: tuple[str, ...]) -> tuple[Object, list[str]]:
    """The object to write, and warnings."""
    now, then = _decoded(present), _decoded(past)
    absent = absent_fields(now, then, fields)
    return rolled_back(now, then, fields), absent


def _decoded(body: bytes) -> Object:
    document = decode(body)
    document.pop("apiVersion", None)
    return document
