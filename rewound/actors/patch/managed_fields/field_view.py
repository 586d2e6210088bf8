"""Field views: what managers can own through one version of a kind and one path, the object or a subresource.

A view also converts from and to storage; for custom kinds, from and to the version of the command. Fields that a path
resets to their old value whatever the client sends (`reset_fields` in declarations) are left out of its shape, so no
manager owns them there, removes them or conflicts over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rewound.actors.kinds.custom import CustomDefinition
from rewound.actors.kinds.declaration.definition import ConvertByWebhook, Definition, Versions
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.decoder import Schema
from rewound.actors.kinds.schema.fields import zero_struct
from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields.comparison import NewObjects
from rewound.actors.patch.managed_fields.topology import NOTHING, Excluded, Record, SchemaShapes, Shapes
from rewound.actors.versions.features import ORDER_APPLIED, OWNED_DUPLICATES

# The server sets this metadata; no manager owns it.
NEVER_OWNED: Final = (
    "name",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
)


Convert = Callable[[Object], Object]


class FieldView(msgspec.Struct, frozen=True):
    version: str
    subresource: str
    schema: Schema
    shape: Record
    # Like `shape`, but raises DuplicateKeys for list entries with missing keys, and until 1.28 with equal ones.
    exact: Record
    nothing: Object  # the object without any field set
    new: NewObjects  # of `exact` and `nothing`
    # Convert an object from `working` or storage to this version, and back. Where a webhook converts, use `shown` and
    # `stored`.
    show: Convert
    store: Convert
    resets: tuple[str, ...] = ()  # paths that a write through this view resets to their old value
    # Drops fields that the schema of this version does not declare; None if all versions have the same fields.
    prune: Callable[[Object], Object] | None = None
    is_custom: bool = False
    reset_clears_owners: bool = False  # after a reset nobody owns anything, whatever else the write changes
    empty_resets: bool = False  # an empty managedFields list resets them
    working: str = ""  # the version of custom objects during a write
    by_webhook: Versions | None = None  # set if only the webhook converts from and to this version
    keeps_order: bool = False  # an apply that only moves entries of a list changes the object

    async def shown(self, one: Object, convert: ConvertByWebhook) -> Object:
        """Return an object in this version. Raises ConversionFailed if the webhook fails."""
        if self.by_webhook is None:
            return self.show(one)
        return await convert(self.by_webhook, one, self.working, self.version)

    async def stored(self, one: Object, convert: ConvertByWebhook) -> Object:
        """Convert an object of this version back. Raises ConversionFailed if the webhook fails."""
        if self.by_webhook is None:
            return self.store(one)
        return await convert(self.by_webhook, one, self.version, self.working)

    @property
    def shows_unchanged(self) -> bool:
        """Whether `show` returns its argument."""
        return self.show is _unchanged

    def declares_all(self, shown: Object) -> bool:
        """Whether this version declares all fields of an object in another version."""
        return self.prune is None or self.prune(shown) == shown


class FieldViews:
    """The views of one stored type, created on first use."""

    def __init__(self, definitions: Mapping[str, Definition], working: str = "") -> None:
        """`working` is the version of custom objects during a write."""
        self._definitions = definitions
        self._working = working
        self._shapes = {
            version: (Shapes(), Shapes(exact=True, repeats=OWNED_DUPLICATES in one.features))
            for version, one in definitions.items()
        }
        self._made: dict[tuple[str, str], FieldView] = {}

    def find(self, version: str, subresource: str) -> FieldView | None:
        """Return the view, or None for a version that is not served, or no longer."""
        made = self._made.get((version, subresource))
        if made is None and version in self._definitions:
            made = self._made[version, subresource] = self._make(version, subresource)
        return made

    def __call__(self, version: str, subresource: str) -> FieldView:
        view = self.find(version, subresource)
        assert view is not None
        return view

    def _make(self, version: str, subresource: str) -> FieldView:
        definition = self._definitions[version]
        excluded, by_webhook = _excluded(definition, subresource), self._by_webhook(definition)
        show, store = (_by_webhook, _by_webhook) if by_webhook else self._conversion(definition)
        shape, exact = (self._root(shapes, definition, excluded) for shapes in self._shapes[version])
        nothing: Object = {"metadata": {}}
        if not definition.is_custom:
            nothing = zero_struct(definition.fields, defaults=False)
        return FieldView(
            version,
            subresource,
            definition.schema,
            shape,
            exact,
            nothing,
            NewObjects(exact, nothing),
            show,
            store,
            definition.reset_fields(subresource),
            self._prune(definition),
            definition.is_custom,
            definition.rules.reset_owner == "nobody",
            definition.rules.empty_owner_list == "reset",
            self._working,
            by_webhook,
            ORDER_APPLIED in definition.features,
        )

    def _by_webhook(self, definition: Definition) -> Versions | None:
        versions, working = definition.storage.versions, self._working
        if versions is None or versions.webhook is None or working in ("", definition.api_version):
            return None
        return versions

    def _prune(self, definition: Definition) -> Convert | None:
        """Return what drops undeclared fields. After conversion by a webhook, no version has fields of another."""
        versions = definition.storage.versions
        if versions is None or versions.webhook is not None or len(self._definitions) == 1:
            return None
        return definition.prune if isinstance(definition, CustomDefinition) else None

    def _conversion(self, definition: Definition) -> tuple[Convert, Convert]:
        conversion, versions = definition.storage.conversion, definition.storage.versions
        if conversion is not None:
            return conversion.from_storage, conversion.to_storage
        working, own = self._working, definition.api_version
        if versions is None or not working or working == own:
            return _unchanged, _unchanged
        convert = versions.convert
        return (lambda one: convert(one, working, own)), (lambda one: convert(one, own, working))

    def _root(self, shapes: Shapes, definition: Definition, excluded: Excluded) -> Record:
        custom = definition.custom
        if custom is None:
            return shapes.root(definition.fields, excluded)
        metadata = shapes.of_field(METADATA, excluded["metadata"] or NOTHING)
        embedded = shapes.of_field(METADATA, NOTHING)
        made = SchemaShapes(
            custom.extension_prefix, metadata, embedded, exact=shapes.exact, repeats=shapes.repeats
        )
        return made.root(custom.openapi, excluded)


def _unchanged(stored: Object) -> Object:
    return stored


def _by_webhook(_: Object) -> Object:
    raise AssertionError("only the webhook converts this version: await `shown` or `stored`")


def _excluded(definition: Definition, subresource: str) -> dict[str, Any]:
    excluded: dict[str, Any] = {"metadata": dict.fromkeys(NEVER_OWNED)}
    for path in definition.reset_fields(subresource):
        *around, name = path.split(".")
        inside = excluded
        for outer in around:
            inside = inside.setdefault(outer, {})
        inside[name] = None
    return excluded
