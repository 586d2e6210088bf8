"""From a request to a `Watch`: options, selectors, where it starts, when it ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import trio

from actors.feed import Feed
from actors.kinds.definition import Definition
from actors.resource.document import type_prefix
from actors.resource.reads import ListOptions, Reads, parse_version
from actors.selectors import FieldRequirement, FieldSelector, matcher
from gateway.call import Call
from gateway.documents import frame_of
from gateway.watch.hub import Hub, Interest
from gateway.watch.selection import Selection
from gateway.watch.watch import Start, Watch, bookmarker, presenter
from journal.log import Journal

# A watch whose client sets no limit ends after this long, at a moment of its own: clients come back one by one.
LONGEST = (1800.0, 3600.0)


class Opening:
    """Opens watches of one server."""

    def __init__(
        self, hub: Hub, feed: Feed, reads: Reads, floor: Callable[[], int], journal: Journal
    ) -> None:
        self._hub = hub
        self._feed = feed
        self._reads = reads
        self._floor = floor
        self._journal = journal

    def watch(self, call: Call, definition: Definition, options: ListOptions) -> Watch:
        namespace = call.route.namespace if definition.namespaced and call.route.namespace else None
        name = call.route.name or (options.fields.exact("metadata.name") if options.fields else None) or None
        version = options.resource_version
        if call.route.name:
            options = replace(options, fields=_of_name(options.fields, call.route.name))
        start = Start(
            None if version in ("", "0") else parse_version(version), options, definition, namespace
        )
        return Watch(
            self._hub,
            self._feed,
            self._reads,
            self._floor,
            self._interest(call, definition, options, namespace, name),
            start,
            trio.current_time() + (call.seconds("timeoutSeconds") or random.uniform(*LONGEST)),
        )

    def _interest(
        self,
        call: Call,
        definition: Definition,
        options: ListOptions,
        namespace: str | None,
        name: str | None,
    ) -> Interest:
        bookmarks = call.parameters.boolean("allowWatchBookmarks")
        key = (
            definition.api_version,
            definition.plural,
            namespace,
            name,
            str(options.labels or ""),
            str(options.fields or ""),
            bookmarks,
        )
        prefix = type_prefix(definition.kind, definition.api_version)
        return Interest(
            key,
            self._journal.type_id(definition.type_name),
            Selection(namespace, name, matcher(options.labels, options.fields)),
            presenter(frame_of(definition).item),
            bookmarker(prefix) if bookmarks else None,
        )


def _of_name(fields: FieldSelector | None, name: str) -> FieldSelector:
    """The watch of one object is the watch of its name."""
    asked = fields.requirements if fields else ()
    return FieldSelector((*asked, FieldRequirement("metadata.name", "=", name)))
