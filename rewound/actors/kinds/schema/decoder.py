"""Decodes documents of a kind into canonical objects; no other module does.

Callers are the gateway (bodies of writes), patches and conversions. A `Schema` belongs to one definition and is
compiled on first use. Decoded objects have no kind and apiVersion, have their fields in declared order, and belong to
the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.schema.exact_decoder import ExactDecoder, decisive_error
from rewound.actors.kinds.schema.fields import STRING, Field, ListOf, Struct
from rewound.actors.kinds.schema.json_tree import TOO_DEEP, Members, NotJson, parse_tree, tree_is_too_deep
from rewound.actors.kinds.schema.pydantic_decoder import NO_DECODER, NoDecoder, PydanticDecoder, is_postponed
from rewound.actors.kinds.schema.scalars import WrongType, json_type_of
from rewound.actors.messages import Object

# What Kubernetes reads the type of a document into, as it names it in an error.
TYPED: Final = (
    r'Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


class NotDecodable(Exception):
    """The document is malformed, of another type, or has values of the wrong type.

    `restoring` is the message for the result of a strategic merge patch, which Kubernetes words differently.
    """

    restoring = ""
    why = ""  # the message as Kubernetes has it: without the offset, and in patches without the type of the object


class Unrecognized(NotDecodable):
    """The document has no usable type: it is no JSON object, or its kind or apiVersion is no string."""


class OtherKind(NotDecodable):
    """The document is of another kind."""

    def __init__(self, text: str, kind: str, api_version: str) -> None:
        super().__init__(text)
        self.kind, self.api_version = kind, api_version


class Decoded(NamedTuple):
    """A tuple, because every write creates one and a dataclass costs more."""

    object: Object
    problems: tuple[str, ...] = ()  # unknown and duplicate fields, in document order


class _PydanticOnFirstUse:
    """Compiles the pydantic decoder of a schema, unless its import is postponed: the exact decoder always works."""

    def __get__(self, schema: Schema, owner: type) -> PydanticDecoder | NoDecoder:
        if is_postponed():
            return NO_DECODER
        found: PydanticDecoder = schema.__dict__.setdefault("_pydantic", schema.compile_pydantic())
        return found


class Schema:
    _pydantic = _PydanticOnFirstUse()

    def __init__(
        self,
        struct: Struct,
        api_version: str,
        kind: str,
        set_defaults: Callable[[Object], None] | None = None,
        also_accepts: str = "",  # an older apiVersion that documents may still have
        features: frozenset[str] = frozenset(),
        *,
        ignores_in_schemas: bool = False,
    ) -> None:
        self._features = features
        self._ignores_in_schemas = ignores_in_schemas
        self._struct, self._api_version, self._kind = struct, api_version, kind
        self._also_accepts = also_accepts or api_version
        self._document = Struct(struct.of, *_TYPE_META, *struct.fields)
        self._set_defaults = set_defaults

    def compile_pydantic(self) -> PydanticDecoder:
        return PydanticDecoder(self._struct, self._api_version, self._kind)

    def decode_json(self, raw: bytes, *, defaults: bool = True, in_steps: bool = False) -> Decoded:
        """Decode text. `in_steps`: not with the pydantic decoder, which decodes a large document in one
        uninterruptible call.
        """
        if defaults and not in_steps and (found := self._pydantic.from_json(raw)) is not None:
            return Decoded(self._defaulted(found) if self._set_defaults else found)
        return self.decode_exactly(raw, defaults=defaults)

    def is_canonical(self, raw: bytes) -> bool:
        """Whether a document certainly has the types of this schema, which is fast to find out. False: it may have."""
        return self._pydantic.from_json(raw) is not None

    def decode_exactly(self, raw: bytes, *, defaults: bool = True) -> Decoded:
        """Decode without the pydantic decoder, as `decode_json` does if a document is not canonical."""
        try:
            document = parse_tree(raw)
        except NotJson as error:
            refused = Unrecognized(f"couldn't get version/kind; json parse error: {error}")
            refused.why = f"couldn't get version/kind; json parse error: {error.reason}"
            raise refused from None
        return self._decode(document, (), defaults)

    def decode_object(
        self,
        value: object,
        problems: tuple[str, ...] = (),
        *,
        defaults: bool = True,
        in_steps: bool = False,
    ) -> Decoded:
        """Decode a tree instead of text; `problems` are those that its parser has already found."""
        found = self._pydantic.from_object(value) if defaults and not in_steps else None
        if found is not None:
            return Decoded(self._defaulted(found), problems)
        return self._decode(value, problems, defaults)

    def decode_merged(self, merged: Object, *, in_steps: bool = False) -> Decoded:
        """Decode an object into which an apply has merged its configuration."""
        return self.decode_object(merged, in_steps=in_steps)

    def _decode(self, document: Any, problems: tuple[str, ...], defaults: bool) -> Decoded:
        self.check_type(document)
        if tree_is_too_deep(document):
            raise NotDecodable(self._not_handled(TOO_DEEP))
        decoder = ExactDecoder(defaults=defaults, ignores_in_schemas=self._ignores_in_schemas)
        try:
            found = decoder.struct(self._document, document)
        except ValueError as first:
            in_schemas = self._ignores_in_schemas
            error = decisive_error(self._document, document, ignores_in_schemas=in_schemas) or first
            typed = error if isinstance(error, WrongType) else None
            why = str(error) if typed is None else typed.text(self._api_version, self._features)
            refused = NotDecodable(self._not_handled(why))
            refused.why = why
            refused.restoring = why if typed is None else typed.restoring()
            raise refused from None
        except RecursionError:
            raise NotDecodable(self._not_handled(TOO_DEEP)) from None
        found.pop("apiVersion", None)
        found.pop("kind", None)
        self._keep_empty_lists(found, document)
        return Decoded(self._defaulted(found) if defaults else found, (*problems, *decoder.problems))

    @cached_property
    def always_present_lists(self) -> tuple[tuple[str, ...], ...]:
        """Paths of lists that objects have even when empty, except inside lists and maps."""
        return tuple(_lists(self._struct, lambda field: field.always))

    @cached_property
    def dropped_empty_lists(self) -> tuple[tuple[str, ...], ...]:
        """Paths of lists that are dropped when empty, after admission was informed; except inside lists and maps."""
        return tuple(_lists(self._struct, lambda field: field.dropped_when_empty))

    def drop_empty_lists(self, decoded: Object) -> frozenset[str]:
        """Remove such empty lists from the object; return their paths, for admission."""
        found = [path for path in self.dropped_empty_lists if member_at(decoded, path) == []]
        for *around, last in found:
            left = {name: value for name, value in member_at(decoded, tuple(around)).items() if name != last}
            put_at(decoded, tuple(around), left)
        return frozenset(map(".".join, found))

    def null_empty_lists(self, decoded: Object) -> None:
        """Replace an empty list by null if the wire format always has it; drop it if it is dropped when empty."""
        self.drop_empty_lists(decoded)
        for path in self.always_present_lists:
            if member_at(decoded, path) == []:
                put_at(decoded, path, None)

    def _keep_empty_lists(self, found: Object, document: Any) -> None:
        """An empty list is stored as null, but a manager that sends one owns the field, unlike one that omits it.

        An empty list of managedFields may reset them.
        """
        for path in (*self.always_present_lists, *self.dropped_empty_lists):
            if member_at(document, path) == []:
                put_at(found, path, [])
        if "metadata" in found and member_at(document, MANAGED_FIELDS) == []:
            put_at(found, MANAGED_FIELDS, [])

    def _defaulted(self, found: Object) -> Object:
        if self._set_defaults is not None:
            self._set_defaults(found)
        return found

    def require_type(self, document: Any) -> None:
        """For kinds whose documents must have kind and apiVersion: check that a document of a client has them."""

    def check_type(self, document: Any) -> None:
        """apiVersion and kind may be omitted, but must not be those of another type."""
        if not isinstance(document, (Members, dict)):
            found = "null" if document is None else json_type_of(document)
            raise Unrecognized(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {found} into {TYPED}"
            )
        members = dict(document)
        kind, api_version = members.get("kind") or self._kind, members.get("apiVersion") or self._api_version
        if kind == self._kind and api_version in (self._api_version, self._also_accepts):
            return
        if type(kind) is not str or type(api_version) is not str:
            raise Unrecognized(
                "couldn't get version/kind; json parse error: apiVersion and kind must be strings"
            )
        if kind == self._kind:
            raise NotDecodable(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({self._api_version})"
            )
        version = api_version.rpartition("/")[2]
        raise OtherKind(
            f"{kind} in version {quoted_start(version)} cannot be handled as a {self._kind}: "
            f"this address takes objects of kind {self._kind} in {self._api_version}",
            kind,
            api_version,
        )

    def _not_handled(self, why: str) -> str:
        version = self._api_version.rpartition("/")[2]
        return f'{self._kind} in version "{version}" cannot be handled as a {self._kind}: {why}'


def _lists(
    struct: Struct, wanted: Callable[[Field], bool], around: tuple[Struct, ...] = ()
) -> Iterator[tuple[str, ...]]:
    for field in struct.fields:
        if isinstance(field.type, ListOf) and wanted(field):
            yield (field.name,)
        elif isinstance(field.type, Struct) and field.type not in around:
            for path in _lists(field.type, wanted, (*around, struct)):
                yield (field.name, *path)


def member_at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, Members):
            document = dict(document).get(name)
        else:
            return None
        if document is None:
            return None
    return document


def put_at(found: Object, path: tuple[str, ...], value: Any) -> None:
    """Set a member of `found`; maps on the path are replaced by copies, not changed."""
    *around, last = path
    for name in around:
        found[name] = dict(found[name])
        found = found[name]
    found[last] = value


MANAGED_FIELDS = ("metadata", "managedFields")
_TYPE_META = (Field("apiVersion", STRING, 0), Field("kind", STRING, 0))
