"""Compiles the schema of one version of a custom resource to what its Definition and its strategy need.

`compile_schema` takes an `openAPIV3Schema` that `check_schema` has accepted. Compiled schemas are immutable and
usable from any thread. Everything compiles on first use: most kinds of a cluster are never written.

`CustomSchema` decodes documents, with the interface of the decoder of built-in kinds. The order of the steps, and so
of the problems that a client gets, is that of v1.25: duplicate fields, kind and apiVersion (required here), metadata,
unknown fields by name, the metadata of embedded objects. Decoded objects have no kind and apiVersion; their fields
are in the order of the document, followed by those that were defaulted. Numbers that are written as integers are
64-bit integers, all others floating point, even 1.0; rules see the difference. orjson parses most documents. The
exact parser, ten times slower, reads those in which a field may be duplicate, an integer needs more than 64 bits, or
something is wrong. A floating-point number without a fraction is stored without one, as Go's JSON does: an object
that was created with 1.0 has 1 when it is read.

An object is pruned and defaulted when it is written, so that it needs neither when it is read, unless the schema has
changed since: `prune_and_default` is for those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import is_
from typing import TYPE_CHECKING, Any, Final

import orjson

from rewound.actors.errors import Cause, DefaultsTooLarge, Invalid
from rewound.actors.golang.json import DEEPEST, unescaped
from rewound.actors.golang.quoting import cut, quoted, quoted_start
from rewound.actors.kinds.declaration.definition import CustomKind
from rewound.actors.kinds.declaration.lazy_property import lazy_property
from rewound.actors.kinds.declaration.meta import METADATA, OBJECT_META
from rewound.actors.kinds.schema.decoder import Decoded, NotDecodable, Schema, Unrecognized
from rewound.actors.kinds.schema.exact_decoder import ExactDecoder, Problems
from rewound.actors.kinds.schema.fields import ANY_JSON, Field, Struct
from rewound.actors.kinds.schema.json_tree import (
    TOO_DEEP,
    Members,
    NotJson,
    Number,
    parse_tree,
    plain,
    stored_numbers,
)
from rewound.actors.kinds.schema.pydantic_decoder import PydanticDecoder, is_postponed
from rewound.actors.kinds.structural.coercion import (
    TYPE_META,
    Coerce,
    Create,
    compile_coercion,
    create_default,
    has_default_of,
    unknown_fields,
)
from rewound.actors.kinds.structural.embedded import NotAnObject, compile_validation, sorted_members
from rewound.actors.kinds.structural.embedded import compile_coercion as compile_embedded
from rewound.actors.kinds.structural.formats import has_slow_pattern
from rewound.actors.kinds.structural.schema_node import Node, count_nodes, has_rules, parse_schema
from rewound.actors.kinds.structural.validation import (
    NO_OLD,
    NO_PATH,
    compile_list_types,
    compile_validity,
    most_checks,
    report,
    validate,
)
from rewound.actors.kinds.validation import FieldErrors, collect, invalid
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.time_limit import check_time, need_thread
from rewound.actors.versions.features import RATCHETING, STATUS_ALONE, STATUS_LISTS, STATUS_PATHS

if TYPE_CHECKING:
    from rewound.actors.kinds.structural.rules import RuleTree


_SHORTEST_MEMBER: Final = 4  # "":0
_AS_NINES: Final = bytes.maketrans(b"012345678", b"9" * 9)
_BIG_NUMBER: Final = b"9" * 19
_LONGEST_PATH: Final = 4096


def parse_document(raw: bytes, *, in_steps: bool) -> tuple[Any, tuple[str, ...]]:
    """Return the value and its duplicate fields. `in_steps`: not in one uninterruptible call.

    Raises NotJson if the text is not JSON.
    """
    if not in_steps:
        try:
            value = orjson.loads(raw)
            if _is_whole(raw, orjson.dumps(value)) and _BIG_NUMBER not in raw.translate(_AS_NINES):
                return value, ()
        except (orjson.JSONDecodeError, TypeError):
            pass  # the exact parser reports what is wrong
    problems = Problems()
    return _plain(parse_tree(raw), "", DEEPEST, problems), problems.texts()


def _is_whole(raw: bytes, written: bytes) -> bool:
    """Whether no member was lost: the text would be longer than what was read from it."""
    if len(raw) - len(written) < _SHORTEST_MEMBER:
        return True
    return _length(raw) - _length(written) < _SHORTEST_MEMBER


def _length(text: bytes) -> int:
    return len(text.translate(None, b" \t\r\n"))


def _plain(value: Any, path: str, depth: int, problems: Problems) -> Any:
    if not depth:
        raise NotJson(TOO_DEEP)
    if type(value) is Members:
        check_time()
        found: dict[str, Any] = {}
        for name, member in value:
            here = (f"{path}.{name}" if path else name)[:_LONGEST_PATH]
            if name in found:
                problems.add(f"duplicate field {quoted(here)}")
            found[name] = _plain(member, here, depth - 1, problems)
        return found
    if type(value) is list:
        return [_plain(item, f"{path}[{index}]", depth - 1, problems) for index, item in enumerate(value)]
    return _number(value) if type(value) is Number else value


def _number(text: Number) -> int | float:
    whole = text.whole()
    if whole is not None and -(2**63) <= whole < 2**63:
        return whole
    return float(text.nearest())


Convert = Callable[[Any], Any]

_MAY_CHANGE: Final = frozenset((float, list, dict))
_NUMERIC: Final = frozenset(("integer", "number", ""))


def compile_numbers(node: Node) -> Convert | None:
    if node.preserve or node.embedded or node.additional is True:
        return stored_numbers
    if node.type in _NUMERIC:
        return stored_numbers
    items = compile_numbers(node.items) if node.items is not None else None
    values = compile_numbers(node.values) if node.values is not None else None
    inner = {
        name: convert
        for name, one in node.properties.items()
        if (convert := compile_numbers(one)) is not None
    }
    if items is None and values is None and not inner:
        return None
    return _convert(inner, items, values, frozenset(node.properties))


def _convert(
    inner: dict[str, Convert], items: Convert | None, values: Convert | None, declared: frozenset[str]
) -> Convert:
    steps = tuple(inner.items())

    def convert(value: Any) -> Any:
        if type(value) is list:
            return _items(value, items) if items is not None else value
        if type(value) is not dict:
            return value
        changed: dict[str, Any] = {}
        for name, step in steps:
            member = value.get(name)
            if type(member) in _MAY_CHANGE and (converted := step(member)) is not member:
                changed[name] = converted
        if values is not None:
            for name, member in value.items():
                if type(member) in _MAY_CHANGE and name not in declared:
                    changed[name] = values(member)
        return {**value, **changed} if changed else value

    return convert


def _items(value: list[Any], convert: Convert) -> list[Any]:
    found = [convert(item) if type(item) in _MAY_CHANGE else item for item in value]
    return value if all(map(is_, found, value)) else found


_LONGEST_BODY: Final = 1024  # characters of the document in a message
_SUMMARY: Final = 30


@cache
def _metadata_decoder() -> PydanticDecoder:
    return PydanticDecoder(Struct("meta.v1.ObjectWithMeta", METADATA), "", "")


class CustomSchema(Schema):
    def __init__(self, root: Node, fields: Struct, api_version: str, kind: str) -> None:
        super().__init__(fields, api_version, kind)
        self._root = root
        self._embedded = compile_embedded(root, drop_invalid=False)

    @lazy_property
    def coerce(self) -> Coerce:
        return compile_coercion(self._root, defaults=True)

    @lazy_property
    def prune(self) -> Coerce:
        return compile_coercion(self._root, defaults=False)

    @lazy_property
    def keep_nulls(self) -> Coerce:
        return compile_coercion(self._root, defaults=True, keep_nulls=True)

    def decode_json(self, raw: bytes, *, defaults: bool = True, in_steps: bool = False) -> Decoded:
        try:
            document, problems = parse_document(raw, in_steps=in_steps)
        except NotJson as error:
            raise Unrecognized(f"couldn't get version/kind; json parse error: {error}") from None
        if (
            type(document) is not dict
            or document.get("kind") != self._kind
            or document.get("apiVersion") != self._api_version
        ):
            self.require_type(document, raw)
        return self._decoded(document, problems, self.coerce if defaults else self.prune)

    def decode_exactly(self, raw: bytes, *, defaults: bool = True) -> Decoded:
        return self.decode_json(raw, defaults=defaults, in_steps=True)

    def decode_object(
        self,
        value: object,
        problems: tuple[str, ...] = (),
        *,
        defaults: bool = True,
        in_steps: bool = False,
    ) -> Decoded:
        try:
            document = plain(value) if type(value) is Members else value
        except NotJson as error:
            raise NotDecodable(self._not_handled(str(error))) from None
        self.check_type(document)
        assert isinstance(document, dict)
        return self._decoded(document, problems, self.coerce if defaults else self.prune)

    def decode_merged(self, merged: Object, *, in_steps: bool = False) -> Decoded:
        """Keep all nulls: an apply sets the value that it names, and validation refuses what the schema does."""
        self.check_type(merged)
        return self._decoded(merged, (), self.keep_nulls)

    def require_type(self, document: Any, raw: bytes = b"") -> None:
        """Unlike for built-in kinds, documents of clients must have kind and apiVersion."""
        self.check_type(document)
        if not document.get("kind"):
            body = raw or unescaped(document)
            text = body[: _LONGEST_BODY + 1].decode("utf-8", "replace")
            start = body[:_SUMMARY].decode("utf-8", "replace")
            summary = f"{start} ..." if len(body) > _SUMMARY else start
            raise NotDecodable(
                f"the object provided is unrecognized (must be of type {self._kind}): "
                f"Object 'Kind' is missing in '{cut(text, _LONGEST_BODY)}' ({summary})"
            )
        if not document.get("apiVersion"):
            raise NotDecodable(self._other_version(""))

    def check_type(self, document: Any) -> None:
        """Check apiVersion and kind, if they are present."""
        if type(document) is not dict:
            super().check_type(document)
        kind, api_version = (
            document.get("kind") or self._kind,
            document.get("apiVersion") or self._api_version,
        )
        if kind == self._kind and api_version == self._api_version:
            return
        if type(kind) is not str or type(api_version) is not str:
            super().check_type(document)
        if api_version != self._api_version:
            raise NotDecodable(self._other_version(api_version))
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else ""
        cause = Cause(
            "FieldValueInvalid", f"Invalid value: {quoted_start(kind)}: must be {self._kind}", "kind"
        )
        group = self._api_version.rpartition("/")[0]
        raise Invalid(group, cut(kind), name if isinstance(name, str) else "", [cause])

    def _other_version(self, sent: str) -> str:
        return (
            f"the API version in the data ({cut(sent)}) does not match the expected API version "
            f"({self._api_version})"
        )

    def _decoded(self, document: Object, problems: tuple[str, ...], coerce: Coerce) -> Decoded:
        sent = {name: member for name, member in document.items() if name not in TYPE_META}
        try:
            found, more = self._metadata(document)
            dropped: list[str] = []
            found.update(coerce(sent, dropped))
            if dropped:
                more = (*more, *unknown_fields(self._root, sent))
            if self._embedded is not None:
                found, more = self._with_embedded(found, more)
        except RecursionError:
            raise NotDecodable(self._not_handled(TOO_DEEP)) from None
        if not more:
            return Decoded(found, problems)
        named = Problems(problems)
        for path in more:
            named.add(f'unknown field "{path}"')
        return Decoded(found, named.texts())

    def _metadata(self, document: Object) -> tuple[Object, tuple[str, ...]]:
        """Return the start of the object, and the unknown fields in its metadata."""
        if "metadata" not in document:
            return {}, ()
        sent = document["metadata"]
        if sent and not is_postponed():
            found = _metadata_decoder().from_object({"metadata": sent})
            if found is not None:
                return found, ()
        decoder = ExactDecoder(defaults=False)
        try:
            read = decoder.struct(OBJECT_META, {} if sent is None else sorted_members(sent), "metadata")
        except ValueError as error:
            raise NotDecodable(self._not_handled(str(error))) from None
        return {"metadata": read}, tuple(one.removeprefix('unknown field "')[:-1] for one in decoder.problems)

    def _with_embedded(self, found: Object, more: tuple[str, ...]) -> tuple[Object, tuple[str, ...]]:
        assert self._embedded is not None
        unknown: list[str] = []
        try:
            coerced: Object = self._embedded(found, "", unknown)
        except NotAnObject as error:
            raise NotDecodable(self._not_handled(str(error))) from None
        return coerced, (*more, *sorted(unknown))


# Errors about types and sizes of values: rules could not read these, or would cost too much.
_BLOCKING: Final = frozenset(
    ("FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_FEW_CHECKS: Final = 200  # per value: up to 0.1 milliseconds
# Bytes of a default: an object that is not large has up to 600 items, each of which may get one.
_SMALL_DEFAULT: Final = 2048
_FEW_NODES: Final = 100  # of a schema: each takes up to 20 microseconds to compile
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class Compiled:
    def __init__(
        self, schema: Object, *, api_version: str, kind: str, names: Names, features: frozenset[str]
    ) -> None:
        self.openapi = schema  # as written in the definition
        self._features = features
        self._api_version, self._kind = api_version, kind
        self._names = names
        self._is_ready = False  # validation is compiled, or compiles fast enough for the event loop

    @lazy_property
    def root(self) -> Node:
        return parse_schema(self.openapi, self._names)

    @lazy_property
    def fields(self) -> Struct:
        """The top-level members, which is enough for reset fields and for the type that OpenAPI names."""
        group, _, version = self._api_version.rpartition("/")
        declared = [name for name in self.root.properties if name not in TYPE_META]
        fields = [Field(name, ANY_JSON, 0, pointer=True) for name in declared]
        return Struct(f"{group}.{version}.{self._kind}", METADATA, *fields)

    @lazy_property
    def schema(self) -> CustomSchema:
        return CustomSchema(self.root, self.fields, self._api_version, self._kind)

    @lazy_property
    def custom(self) -> CustomKind:
        """What the Definition needs."""
        prefix = self._names.extension_prefix
        return CustomKind(schema=self.schema, openapi=self.openapi, extension_prefix=prefix)

    def validate(
        self, errors: FieldErrors, new: Object, old: Object | None = None, *, of_status: bool = False
    ) -> None:
        """Validate the schema, embedded objects, lists of type set and map, and rules. The caller validates metadata.

        A list that already has repeated items may keep them. `of_status`: only the schema and rules.
        """
        if not self._is_ready:
            if self._takes_long_to_load():
                need_thread()
            self.load()
        if self._is_expensive:
            need_thread()
        document = self._document(new)
        if not self._is_valid(document):
            self._report(errors, document, old, of_status=of_status)
        if not of_status:
            self._validate_parts(errors, new, old)
        elif STATUS_LISTS in self._features:
            self._validate_lists(errors, new, old)
        if self._rules is not None:
            self._validate_rules(errors, document, old)

    def _report(self, errors: FieldErrors, document: Object, old: Object | None, *, of_status: bool) -> None:
        features = self._features
        ratchets = old is not None and RATCHETING in features
        before = self._document(old) if old is not None and ratchets else {}
        if not (of_status and STATUS_ALONE in features):
            found = validate(self.root, document, "", before if ratchets else NO_OLD)
            report(errors, "", found.by_text.values())
            return
        status = self.root.properties.get("status")
        if status is not None and "status" in document:
            found = validate(status, document["status"], "", before.get("status", NO_OLD))
            report(errors, "status" if STATUS_PATHS in features else "", found.by_text.values())

    def _validate_parts(self, errors: FieldErrors, new: Object, old: Object | None) -> None:
        if self._validate_embedded is not None:
            self._validate_embedded(new, "", errors)
        self._validate_lists(errors, new, old)

    def _validate_lists(self, errors: FieldErrors, new: Object, old: Object | None) -> None:
        if self._list_types is not None and not (old is not None and collect(self._list_types, old, "")):
            self._list_types(errors, new, "")

    def _takes_long_to_load(self) -> bool:
        if count_nodes(self.root, _FEW_NODES) > _FEW_NODES:
            return True
        return has_rules(self.root) or has_slow_pattern(self.root)

    def load(self) -> None:
        """Compile what validation needs."""
        _ = self._is_valid, self._validate_embedded, self._list_types, self._rules, self._numbers
        _ = self._is_expensive
        self._is_ready = True

    def load_for_reading(self) -> None:
        """Compile what decoding, and reading objects that were stored under another schema, need."""
        _ = self.schema.coerce, self.schema.prune, self.fields, self._embedded, self.has_large_defaults

    def _validate_rules(self, errors: FieldErrors, document: Object, old: Object | None) -> None:
        if any(one.reason in _BLOCKING for one in errors.found):
            errors.add(invalid(NO_PATH, None, _NOT_CHECKED))
            return
        assert self._rules is not None
        self._rules.validate(errors, document, None if old is None else self._document(old))

    def prune_and_default(self, stored: Object) -> Object:
        """Return a stored object in the form of this schema: pruned and defaulted, never refused. `stored` does not
        change.

        If the defaults of a later schema would make it larger than any object may be, it gets none.
        """
        try:
            return self._coerced(stored, self.schema.coerce)
        except DefaultsTooLarge:
            return self._coerced(stored, self.schema.prune)

    def prune(self, stored: Object) -> Object:
        """Prune without defaults: what remains of an object that is converted to this version."""
        return self._coerced(stored, self.schema.prune)

    def _coerced(self, stored: Object, coerce: Coerce) -> Object:
        found: Object = {"metadata": stored["metadata"]}
        found.update(coerce({name: one for name, one in stored.items() if name not in TYPE_META}, []))
        return found if self._embedded is None else self._embedded(found, "", [])

    def default_status(self, new: Object) -> Object:
        """Return an object to store, with the default of its status if it has none.

        No create can set the status where that is a subresource. v1.25 stores such objects without one and adds the
        default whenever it reads them; here, objects are stored in the form in which they are read.
        """
        if "status" in new or self._create_status is None:
            return new
        return {**new, "status": self._create_status()}

    @lazy_property
    def _create_status(self) -> Create | None:
        status = self.root.properties.get("status")
        return None if status is None else create_default(status)

    def canonicalize(self, new: Object) -> None:
        """Bring a valid object into its stored form: 1.0 becomes 1, as Go writes it."""
        if self._numbers is not None:
            for name, member in self._numbers(new).items():
                new[name] = member

    def _document(self, stored: Object) -> Object:
        """Add apiVersion and kind, which a schema may restrict and a rule may read."""
        return {"apiVersion": self._api_version, "kind": self._kind, **stored}

    @lazy_property
    def has_large_defaults(self) -> bool:
        """Whether defaults could turn a small object into a large one."""
        return has_default_of(self.root, _SMALL_DEFAULT)

    @lazy_property
    def _is_expensive(self) -> bool:
        """Whether checking a small object could block the event loop for long."""
        return self.has_large_defaults or most_checks(self.root) > _FEW_CHECKS

    @lazy_property
    def _is_valid(self) -> Any:
        return compile_validity(self.root)

    @lazy_property
    def _embedded(self) -> Any:
        return compile_embedded(self.root, drop_invalid=True)

    @lazy_property
    def _validate_embedded(self) -> Any:
        return compile_validation(self.root)

    @lazy_property
    def _list_types(self) -> Any:
        return compile_list_types(self.root)

    @lazy_property
    def _rules(self) -> RuleTree | None:
        if not has_rules(self.root):
            return None
        # CEL is imported with the first kind that has rules.
        from rewound.actors.kinds.structural.rules import compile_tree

        return compile_tree(self.root, self._names, self._features, is_object=True)

    @lazy_property
    def _numbers(self) -> Any:
        return compile_numbers(self.root)


def compile_schema(
    openapi_v3_schema: Object,
    *,
    api_version: str,
    kind: str,
    names: Names,
    features: frozenset[str] = frozenset(),
) -> Compiled:
    return Compiled(openapi_v3_schema, api_version=api_version, kind=kind, names=names, features=features)
