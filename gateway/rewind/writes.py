"""Rollback and undelete: ordinary updates and creates, which pass admission and are journaled with their reason.

A large object is decided in the thread for large work, like any other write of it.
"""

from __future__ import annotations

from typing import Any

from actors.conversion.shown import converts
from actors.errors import NotFound
from actors.kinds.declaration.definition import Definition
from actors.messages import Create, Object, Replace, Written
from actors.resource import options
from actors.rewind.restore import absent_fields, rolled_back, undeleted
from actors.rewind.versions import Address
from actors.store.document import decode
from actors.value_count import is_large
from gateway.handlers.encoders import Encoders, encode_document
from gateway.message import Response
from gateway.pipeline import render
from gateway.pipeline.context import RequestContext, new_write_context
from gateway.store import Store
from gateway.wire.encoders import object_encoder
from gateway.wire.worker_threads import encode_in_thread
from journal.records import Event, Row


class PastWrites:
    def __init__(self, store: Store, encoders: Encoders) -> None:
        self._names = store.names
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
        if converts(definition):
            body = await self._encoders.shown.one(definition, body)
        document = await encode_document(encoder, body)
        return await render.respond(context, document, 201 if outcome.created else 200)

    async def _to_write(self, definition: Definition, body: bytes) -> bytes:
        """A stored object of a custom kind in the version of the request: it may be stored in any version."""
        if definition.storage.versions is None:
            return body
        if converts(definition):
            return await self._encoders.shown.one(definition, body)
        return object_encoder(definition).converted(body)

    def _stored_version(self, definition: Definition) -> str:
        """The version in whose form the object is stored, if it is served: its fields are what is restored."""
        if definition.storage.versions is not None:
            return definition.api_version  # what `_to_write` returns
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
        )

    def _drop_gone_owners(self, context: RequestContext, wanted: Object, namespace: str) -> None:
        """The garbage collector would delete the object again, because of an owner that does not exist any more."""
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
    """What to write, and warnings."""
    now, then = _decoded(present), _decoded(past)
    absent = absent_fields(now, then, fields)
    return rolled_back(now, then, fields), absent


def _decoded(body: bytes) -> Object:
    document = decode(body)
    document.pop("apiVersion", None)
    return document
