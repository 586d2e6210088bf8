"""Creates a `Watch` from a request: its options, selectors, start and timeout."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import trio
from msgspec.structs import replace

from rewound.actors.conversion.reads import ConvertedObjects, RecentConversions
from rewound.actors.errors import BadRequest
from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object
from rewound.actors.selectors import FieldRequirement, FieldSelector, criteria, matcher
from rewound.actors.store.document import type_prefix
from rewound.actors.store.reads import ListOptions, parse_version
from rewound.actors.versions.features import END_IN_TABLES, LIST_BLUEPRINTS, WATCH_LIST
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.render import Encoder
from rewound.gateway.store import Store
from rewound.gateway.watch.framing import Encode, StoredObjects, document
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.initial_events import InitialEvents
from rewound.gateway.watch.interest import Interest, Wrap, account
from rewound.gateway.watch.member import Grant
from rewound.gateway.watch.selection import Selection
from rewound.gateway.watch.watch import Watch
from rewound.gateway.wire.cbor.writer import CborEncoder
from rewound.gateway.wire.encoders import ObjectEncoder, TableEncoder
from rewound.gateway.wire.json import dump_line
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder

MakeEncoder = Callable[[Definition], Encoder]
WatchOpened = Callable[[RequestContext, Watch], None]

# Seconds after which a watch without timeoutSeconds ends: random in this range, so that clients do not reconnect at
# once.
DEFAULT_TIMEOUT = (1800.0, 3600.0)


class WatchOpener:
    """Opens the watches of a server."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        converted: ConvertedObjects,
        *,
        opened: WatchOpened | None = None,
    ) -> None:
        """`opened` gets every new watch before it starts."""
        features = store.release.features
        self.watch_list = WATCH_LIST in features
        self._blueprints = LIST_BLUEPRINTS in features
        self._end_in_tables = END_IN_TABLES in features
        self._opened = opened
        self._conversions = RecentConversions(converted)
        self._names, self._rules = store.names, store.rules
        self._registry = store.registry
        self._hub = hub
        self._reads = store.reads
        self._journal = store.journal
        self._random = store.write_contexts.random

    def sends_initial_events(self, context: RequestContext) -> bool:
        """Whether the client asks for the existing objects and a bookmark after them, and gets them."""
        return self.watch_list and bool(context.parameters.boolean("sendInitialEvents"))

    def open(
        self, context: RequestContext, definition: Definition, options: ListOptions, make_encoder: MakeEncoder
    ) -> Watch:
        namespace = context.route.namespace if definition.namespaced and context.route.namespace else None
        if context.route.name:
            options = replace(options, fields=_with_name(context.route.name, options.fields))
        start = self._start(context, definition, namespace, options)
        seconds = context.seconds("timeoutSeconds") or self._random.uniform(*DEFAULT_TIMEOUT)
        interest = self._interest(context, definition, options, namespace, make_encoder)
        self._hub.check_room(interest)
        assert context.authenticated is not None
        grant = Grant(
            context.attributes,
            context.authenticated,
            context.authorization,
            context.request.peer,
            context.impersonated,
        )
        watch = Watch(self._hub, interest, start, trio.current_time() + seconds, grant)
        if self._opened is not None:
            self._opened(context, watch)
        return watch

    def _start(
        self, context: RequestContext, definition: Definition, namespace: str | None, options: ListOptions
    ) -> int | InitialEvents:
        """The version to start from, or the existing objects. With sendInitialEvents these are at least as new as the
        requested version, and the newest without one.
        """
        version = options.resource_version
        sent = context.parameters.optional_boolean("sendInitialEvents") if self.watch_list else None
        if sent is None:
            if version not in ("", "0"):
                return parse_version(version)
            return InitialEvents(self._reads, definition, namespace, options)
        newest = self._hub.newest()
        if not sent:
            return parse_version(version) if version not in ("", "0") else newest
        oldest = parse_version(version) if version else newest
        return InitialEvents(self._reads, definition, namespace, options, not_older_than=oldest)

    def _interest(
        self,
        context: RequestContext,
        definition: Definition,
        options: ListOptions,
        namespace: str | None,
        make_encoder: MakeEncoder,
    ) -> Interest:
        items = make_encoder(definition)  # refuses an unknown includeObject
        representation = context.representation
        bookmarks = context.parameters.boolean("allowWatchBookmarks")
        labels, fields = str(options.labels or ""), str(options.fields or "")
        key = (
            definition,
            namespace,
            labels,
            fields,
            bookmarks,
            representation.media,
            representation.as_kind,
            representation.as_version,
            context.parameters.first("includeObject") if representation.as_kind else None,
        )

        def make() -> Interest:
            binary = context.protobuf or context.cbor
            wrap = binary.event if binary is not None else document
            tabular = isinstance(items, TableEncoder)
            shown: Any = items
            conversion = None
            if definition.is_custom:
                shown = FollowingEncoder(self._registry, definition, make_encoder)
                conversion = WatchConversion(shown, self._conversions)
            name = options.fields.exact("metadata.name") if options.fields else None
            meta = f"{self._names.group('meta')}/{representation.as_version}"
            prefix = type_prefix(
                representation.as_kind or definition.kind,
                meta if representation.as_kind else definition.api_version,
            )
            parts = self._bookmark(definition, prefix, representation.as_kind)
            end_parts = self._end_of_initial_events(parts)
            if self._blueprints:
                end_parts = _with_blueprint(end_parts, items, binary)
            mark, mark_end = partial(bookmarker, wrap), partial(bookmarker, wrap)
            if tabular and not parts.is_bare:
                row = partial(shown.item, columns=False)
                mark = partial(bookmarker, encoder(wrap, row))
                mark_end = partial(bookmarker, encoder(wrap, partial(row, metadata=self._end_in_tables)))
            return Interest(
                key,
                self._journal.type_id(definition.type_name),
                definition.type_name,
                Selection(
                    namespace,
                    name,
                    matcher(options.labels, options.fields),
                    criteria(options.labels, options.fields),
                ),
                _stored_objects(wrap, shown)
                or encoder(wrap, partial(shown.item, columns=False) if tabular else shown.item),
                encoder(wrap, shown.item) if tabular else None,
                wrap,
                mark(parts) if bookmarks else None,
                mark_end(end_parts) if bookmarks and self.watch_list else None,
                binary=binary is not None,
                definition=definition,
                account=account(context.request.user, labels, fields),
                conversion=conversion,
                sent=self._hub.sent_events(definition),
            )

        return self._hub.interest(key, make)

    def _bookmark(self, definition: Definition, prefix: bytes, as_kind: str) -> BookmarkParts:
        """The bytes before and after the version in bookmarks."""
        if as_kind == "Table" and self._rules.bookmark != "version":  # of a row
            prefix = (
                b'{"apiVersion":"%b",' % definition.api_version.encode() if definition.is_custom else b"{"
            )
        elif self._rules.bookmark == "version" or (definition.is_custom and not as_kind):
            return BookmarkParts(prefix, is_bare=True)
        rest: Object = {}
        if as_kind == "Table":
            rest = empty_stored(definition)
        elif not as_kind:
            rest = definition.schema.decode_object({}, defaults=False).object
        fields = unescaped({name: value for name, value in rest.items() if name != "metadata"})[1:-1]
        created = b',"creationTimestamp":null' if definition.null_creation_time else b""
        return BookmarkParts(prefix, created, b"," + fields if fields else b"")

    def _end_of_initial_events(self, parts: BookmarkParts) -> BookmarkParts:
        annotation = b',"annotations":{"%b/initial-events-end":"true"}' % self._names.group_domain.encode()
        return parts._replace(metadata=parts.metadata + annotation)


class FollowingEncoder:
    """Encodes objects of a custom kind with its current schema, which may change during a watch."""

    def __init__(self, registry: Registry, definition: Definition, make: MakeEncoder) -> None:
        self._registry, self._definition, self._make = registry, definition, make
        self._catalog: Catalog | None = None
        self._encoder = make(definition)

    @property
    def definition(self) -> Definition:
        """The current definition; the last one if the kind is no longer served."""
        self._follow()
        return self._definition

    def _follow(self) -> None:
        catalog = self._registry.current
        if catalog is not self._catalog:
            self._catalog = catalog
            successor = catalog.successor(self._definition)
            if successor is not None and successor is not self._definition:
                self._definition, self._encoder = successor, self._make(successor)

    def item(self, body: bytes, **options: Any) -> bytes:
        self._follow()
        return self._encoder.item(body, **options)


class WatchConversion:
    """Prepares the objects of a watch for encoding, by the current definition of the kind.

    A webhook converts them; a schema that is not compiled yet is compiled in a worker thread.
    """

    def __init__(self, encoder: FollowingEncoder, conversions: RecentConversions) -> None:
        self._encoder, self._conversions = encoder, conversions

    @property
    def needed(self) -> bool:
        definition = self._encoder.definition
        return definition.converts_by_webhook or not definition.is_loaded

    async def __call__(self, bodies: Sequence[bytes]) -> list[bytes]:
        definition = self._encoder.definition
        if not definition.is_loaded:
            await trio.to_thread.run_sync(definition.load)
        return (
            await self._conversions.all(definition, bodies)
            if definition.converts_by_webhook
            else list(bodies)
        )


def empty_stored(definition: Definition) -> Object:
    """An object without a name, as storage has it: the row of a bookmark in a Table shows its cells."""
    if definition.is_custom:
        return {}
    found, conversion = definition.schema.decode_object({}).object, definition.storage.conversion
    return found if conversion is None else conversion.to_storage(found)


def _with_name(name: str, fields: FieldSelector | None) -> FieldSelector:
    """Turn the name in the path into a field selector: a watch of one object is a watch of its collection.

    Raises BadRequest if a field selector in the query selects another name.
    """
    if not fields:
        return FieldSelector((FieldRequirement("metadata.name", "=", name),))
    if fields.exact("metadata.name") != name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return fields


def encoder(wrap: Wrap, item: Callable[[bytes], bytes]) -> Encode:
    """Return the function that encodes an event: `item` converts the stored object, `wrap` adds the event type."""
    return lambda kind, body: wrap(kind, item(body))


def _stored_objects(wrap: Wrap, shown: object) -> StoredObjects | None:
    """The same for JSON and objects that are sent as they are stored; None for others."""
    if wrap is not document or not isinstance(shown, ObjectEncoder) or shown.stored_prefix is None:
        return None
    return StoredObjects(shown.stored_prefix)


class BookmarkParts(NamedTuple):
    """The parts of a bookmark besides the version: type, and other fields of metadata and object."""

    prefix: bytes
    metadata: bytes = b""
    rest: bytes = b""
    is_bare: bool = False  # it has nothing but its type and the version


def _with_blueprint(
    parts: BookmarkParts, encoder: Encoder, binary: ProtobufEncoder | CborEncoder | None
) -> BookmarkParts:
    """With an annotation that has an empty list, encoded like the events."""
    document = dump_line({**encoder.list_type.before({}), encoder.list_type.elements: None})
    encoded = document if binary is None else binary.from_json(document) or b""
    annotation = b',"kubernetes.io/initial-events-list-blueprint":"%b"}' % b64encode(encoded)
    return parts._replace(metadata=parts.metadata.removesuffix(b"}") + annotation)


def bookmarker(wrap: Wrap, parts: BookmarkParts) -> Callable[[int], bytes]:
    """Return the function that encodes a bookmark."""
    template = b'%b"metadata":{"resourceVersion":"%%d"%b}%b}' % tuple(
        part.replace(b"%", b"%%") for part in parts[:3]
    )

    def bookmark(version: int) -> bytes:
        return wrap("BOOKMARK", template % version)

    return bookmark
