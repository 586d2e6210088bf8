"""From a request to a `Watch`: options, selectors, where it starts, when it ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import trio

from actors.errors import BadRequest
from actors.kinds.declaration.definition import Definition
from actors.names import Names
from actors.selectors import FieldRequirement, FieldSelector, matcher
from actors.store.document import type_prefix
from actors.store.reads import ListOptions, Reads, parse_version
from gateway.requests.call import Call
from gateway.watch.framing import document
from gateway.watch.hub import Hub
from gateway.watch.interest import Interest, Present, Told
from gateway.watch.selection import Selection
from gateway.watch.state import State
from gateway.watch.watch import Watch
from gateway.wire.forms import TableForm
from journal.log import Journal

# A watch whose client sets no limit ends after this long, at a moment of its own: clients come back one by one.
LONGEST = (1800.0, 3600.0)


class Form(Protocol):
    """How the caller wants to see objects."""

    def item(self, body: bytes) -> bytes: ...


class Opening:
    """Opens watches of one server."""

    def __init__(self, names: Names, hub: Hub, reads: Reads, journal: Journal) -> None:
        self._names = names
        self._hub = hub
        self._reads = reads
        self._journal = journal

    def watch(self, call: Call, definition: Definition, options: ListOptions, form: Form) -> Watch:
        namespace = call.route.namespace if definition.namespaced and call.route.namespace else None
        if call.route.name:
            options = replace(options, fields=_named(call.route.name, options.fields))
        start: int | State
        if options.resource_version in ("", "0"):
            start = State(self._reads, definition, namespace, options)
        else:
            start = parse_version(options.resource_version)
        seconds = call.seconds("timeoutSeconds") or random.uniform(*LONGEST)
        interest = self._interest(call, definition, options, namespace, form)
        return Watch(self._hub, interest, start, trio.current_time() + seconds)

    def _interest(
        self, call: Call, definition: Definition, options: ListOptions, namespace: str | None, form: Form
    ) -> Interest:
        shown = call.representation
        bookmarks = call.parameters.boolean("allowWatchBookmarks")
        key = (
            definition,
            namespace,
            str(options.labels or ""),
            str(options.fields or ""),
            bookmarks,
            shown.media,
            shown.form,
            shown.form_version,
            call.parameters.first("includeObject") if shown.form else None,
        )

        def make() -> Interest:
            tell = call.messages.event if call.messages is not None else document
            tabular = form if isinstance(form, TableForm) else None
            name = options.fields.exact("metadata.name") if options.fields else None
            meta = f"{self._names.group('meta')}/{shown.form_version}"
            prefix = type_prefix(
                shown.form or definition.kind, meta if shown.form else definition.api_version
            )
            return Interest(
                key,
                self._journal.type_id(definition.type_name),
                definition.type_name,
                Selection(namespace, name, matcher(options.labels, options.fields)),
                presenter(tell, partial(tabular.item, columns=False) if tabular else form.item),
                presenter(tell, form.item) if tabular else None,
                tell,
                bookmarker(tell, prefix) if bookmarks else None,
                binary=call.messages is not None,
                definition=definition,
            )

        return self._hub.interest(key, make)


def _named(name: str, fields: FieldSelector | None) -> FieldSelector:
    """A watch of one object is a watch of the collection that shows nothing else.

    A selector beside the name must agree with it: one that leaves other objects in was meant for another path.
    """
    if not fields:
        return FieldSelector((FieldRequirement("metadata.name", "=", name),))
    if fields.exact("metadata.name") != name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return fields


def presenter(tell: Told, item: Callable[[bytes], bytes]) -> Present:
    """Event type and stored bytes to a document, with the object framed by `item`."""
    return lambda kind, body: tell(kind, item(body))


def bookmarker(tell: Told, prefix: bytes) -> Callable[[int], bytes]:
    """A bookmark holds the type and a version, and nothing else."""

    def bookmark(version: int) -> bytes:
        return tell("BOOKMARK", b'%b"metadata":{"resourceVersion":"%d"}}' % (prefix, version))

    return bookmark
