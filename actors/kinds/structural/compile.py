"""Compiles the schema of one version of a custom resource to what its Definition and its strategy need.

`compile_schema` takes an `openAPIV3Schema` that `checks.check_schema` has accepted. Compiled schemas are immutable and
usable from any thread. Everything compiles on first use: most kinds of a cluster are never written.

An object is pruned and defaulted when it is written, so that it needs neither when it is read, unless the schema has
changed since. `prune_and_default` is for those: whoever publishes a Definition whose objects may have been stored under
another schema gives it a `Conversion` with it (`Compiled.conversion`), and none otherwise, so that reads stay free of
charge. `is_canonical` says of one stored object whether it needs the conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.kinds.declaration.definition import Conversion, CustomKind
from actors.kinds.declaration.meta import METADATA
from actors.kinds.schema.fields import ANY_JSON, Field, Struct
from actors.kinds.structural.coercion import TYPE_META, Coerce
from actors.kinds.structural.decoder import CustomSchema
from actors.kinds.structural.embedded import compile_coercion as compile_embedded
from actors.kinds.structural.embedded import compile_validation
from actors.kinds.structural.node import Node, count_nodes, has_rules, parse_schema
from actors.kinds.structural.numbers import compile_numbers
from actors.kinds.structural.patterns import has_slow_pattern
from actors.kinds.structural.validation.exact import validate
from actors.kinds.structural.validation.findings import NO_PATH, report
from actors.kinds.structural.validation.list_types import compile_list_types
from actors.kinds.structural.validation.validity import compile_validity, most_checks
from actors.kinds.validation import FieldErrors, collect, invalid
from actors.lazy_property import lazy_property
from actors.messages import Object
from actors.names import Names
from actors.time_limit import need_thread

if TYPE_CHECKING:
    from actors.kinds.structural.rules.evaluation import RuleTree


# Errors about the types and sizes of values: rules could not read them, or would cost too much.
_BLOCKING: Final = frozenset(
    ("FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_FEW_CHECKS: Final = 200  # of one value: up to 0.1 milliseconds
_FEW_NODES: Final = 100  # of a schema: each takes up to 20 microseconds to compile
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class Compiled:
    def __init__(self, schema: Object, *, api_version: str, kind: str, names: Names) -> None:
        self.openapi = schema  # as written in the definition
        self._api_version, self._kind = api_version, kind
        self._names = names
        self._is_ready = False  # validation is compiled, or takes so little that the event loop can do it

    @lazy_property
    def root(self) -> Node:
        return parse_schema(self.openapi, self._names)

    @lazy_property
    def fields(self) -> Struct:
        """The members at the top level, for what needs no more: reset fields, and the type that OpenAPI names."""
        group, _, version = self._api_version.rpartition("/")
        declared = [name for name in self.root.properties if name not in TYPE_META]
        fields = [Field(name, ANY_JSON, 0, pointer=True) for name in declared]
        return Struct(f"{group}.{version}.{self._kind}", METADATA, *fields)

    @lazy_property
    def schema(self) -> CustomSchema:
        return CustomSchema(self.root, self.fields, self._api_version, self._kind)

    @lazy_property
    def custom(self) -> CustomKind:
        """For the Definition."""
        prefix = self._names.extension_prefix
        return CustomKind(schema=self.schema, openapi=self.openapi, extension_prefix=prefix)

    def validate(
        self, errors: FieldErrors, new: Object, old: Object | None = None, *, of_status: bool = False
    ) -> None:
        """The schema, embedded objects, lists of type set and map, and rules. Metadata is the caller's.

        A list that has repeated items already may keep them. `of_status`: only the schema and rules.
        """
        if not self._is_ready:
            if self._takes_long_to_load():
                need_thread()
            self.load()
        if self._is_dear:
            need_thread()
        document = self._document(new)
        if not self._is_valid(document):
            report(errors, "", validate(self.root, document).by_text.values())
        if not of_status:
            self._validate_parts(errors, new, old)
        if self._rules is not None:
            self._validate_rules(errors, document, old)

    def _validate_parts(self, errors: FieldErrors, new: Object, old: Object | None) -> None:
        if self._validate_embedded is not None:
            self._validate_embedded(new, "", errors)
        if self._list_types is not None and not (old is not None and collect(self._list_types, old, "")):
            self._list_types(errors, new, "")

    def _takes_long_to_load(self) -> bool:
        if count_nodes(self.root, _FEW_NODES) > _FEW_NODES:
            return True
        return has_rules(self.root) or has_slow_pattern(self.root)

    def load(self) -> None:
        """Compile what validation needs."""
        _ = self._is_valid, self._validate_embedded, self._list_types, self._rules, self._numbers
        _ = self._is_dear
        self._is_ready = True

    def load_for_reading(self) -> None:
        """Compile what decoding, and showing objects that were stored under another schema, need."""
        _ = self.schema.coerce, self.schema.prune, self.fields, self._embedded

    def _validate_rules(self, errors: FieldErrors, document: Object, old: Object | None) -> None:
        if any(one.reason in _BLOCKING for one in errors.found):
            errors.add(invalid(NO_PATH, None, _NOT_CHECKED))
            return
        assert self._rules is not None
        self._rules.validate(errors, document, None if old is None else self._document(old))

    def prune_and_default(self, stored: Object) -> Object:
        """A stored object as this schema shows it: pruned and defaulted, never refused. `stored` stays as it is."""
        return self._coerced(stored, self.schema.coerce)

    def prune(self, stored: Object) -> Object:
        """The same without defaults: what remains of an object that is converted to this version."""
        return self._coerced(stored, self.schema.prune)

    def _coerced(self, stored: Object, coerce: Coerce) -> Object:
        found: Object = {"metadata": stored["metadata"]}
        found.update(coerce({name: one for name, one in stored.items() if name not in TYPE_META}, []))
        return found if self._embedded is None else self._embedded(found, "", [])

    @lazy_property
    def conversion(self) -> Conversion:
        """For a Definition whose objects were stored under another schema, or in another version of it."""
        return Conversion(to_storage=_as_it_is, from_storage=self.prune_and_default)

    def is_canonical(self, stored: Object) -> bool:
        """Whether a stored object is the same under this schema."""
        return self.prune_and_default(stored) == stored

    def canonicalize(self, new: Object) -> None:
        """Give a valid object the form in which it is stored: 1.0 becomes 1, as Go writes it."""
        if self._numbers is not None:
            for name, member in self._numbers(new).items():
                new[name] = member

    def _document(self, stored: Object) -> Object:
        """With apiVersion and kind, which a schema may restrict and a rule may read."""
        return {"apiVersion": self._api_version, "kind": self._kind, **stored}

    @lazy_property
    def _is_dear(self) -> bool:
        """Whether checking a small object could hold the event loop for long."""
        return most_checks(self.root) > _FEW_CHECKS

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
        from actors.kinds.structural.rules.evaluation import compile_tree

        return compile_tree(self.root, self._names, is_object=True)

    @lazy_property
    def _numbers(self) -> Any:
        return compile_numbers(self.root)


def compile_schema(openapi_v3_schema: Object, *, api_version: str, kind: str, names: Names) -> Compiled:
    return Compiled(openapi_v3_schema, api_version=api_version, kind=kind, names=names)


def _as_it_is(stored: Object) -> Object:
    return stored
