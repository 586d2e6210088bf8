"""Kinds that CustomResourceDefinitions declare: definitions made from stored objects at run time.

`definitions_of` makes one definition for each version of a custom kind. Names are those that the naming controller
has accepted. A server may have thousands of custom kinds and use few of them, so a definition keeps the stored bytes
of its CustomResourceDefinition instead of the schema, which is parsed and compiled on first use (`LazySchema`). All
definitions of a kind share its `Versions`, which convert objects between them.

Objects pass through the `CustomStrategy` (preparation, validation, the form in which they are stored) in the version
that the client uses. Conversion to the storage version comes after that.

The scale subresource has replicas and selector at paths that the definition gives. The paths have no brackets or
other operators, so that an update through the subresource can set the replicas:

    specReplicasPath: .spec.replicas
    statusReplicasPath: .status.replicas
    labelSelectorPath: .status.selector

The columns of tables are the printer columns, or the name and the time of creation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import orjson

from rewound.actors.errors import BadRequest, NoReplicas
from rewound.actors.golang.format import float_text
from rewound.actors.golang.json import dumps, unescaped
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.apiextensions import ESTABLISHED, NAMES_ACCEPTED, is_true
from rewound.actors.kinds.catalog import preference
from rewound.actors.kinds.declaration.columns import DEFAULT_COLUMNS, NAME, ROW_SECONDS, Column, since
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    CustomKind,
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Storage,
    Strategy,
    Subresource,
    Table,
    Versions,
    VersionSchema,
)
from rewound.actors.kinds.declaration.lazy_property import lazy_property
from rewound.actors.kinds.declaration.meta import STANDARD_FINALIZERS, metadata_update_rules
from rewound.actors.kinds.declaration.scale import COLUMNS, SCALE
from rewound.actors.kinds.json_path import JsonPath, NotAPath, PathBudget
from rewound.actors.kinds.schema.decoder import Schema
from rewound.actors.kinds.schema.fields import CustomStruct, Struct
from rewound.actors.kinds.validation import FieldErrors, invalid, name_is_subdomain, qualified_name
from rewound.actors.kinds.values.times import canonical_seconds
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.runtime.background_import import is_imported
from rewound.actors.runtime.budget import Budget, OverBudget
from rewound.actors.versions.features import (
    FIELD_SELECTORS,
    FINALIZER_WARNINGS,
    OWNED_CUSTOM_SCALES,
    STATUS_OWNS_STATUS,
)

if TYPE_CHECKING:
    from rewound.actors.kinds.structural.compile import Compiled


class SchemaSource(msgspec.Struct, frozen=True):
    """Where to find the schema of a version."""

    body: bytes  # of the CustomResourceDefinition
    version: str
    api_version: str
    kind: str
    names: Names
    features: frozenset[str] = frozenset()

    def parse(self) -> Object:
        """Return the schema. A version without one, which older servers could store, gets a schema that allows
        everything.
        """
        for version in orjson.loads(self.body)["spec"]["versions"]:
            if version["name"] == self.version and "openAPIV3Schema" in version.get("schema", {}):
                schema: Object = version["schema"]["openAPIV3Schema"]
                return schema
        return {"type": "object", f"{self.names.extension_prefix}preserve-unknown-fields": True}


class LazySchema:
    """A schema that is compiled on first use. Its methods are the functions of a strategy."""

    def __init__(self, source: SchemaSource) -> None:
        self.source = source

    @lazy_property
    def compiled(self) -> Compiled:
        from rewound.actors.kinds.structural.compile import compile_schema

        source = self.source
        return compile_schema(
            source.parse(),
            api_version=source.api_version,
            kind=source.kind,
            names=source.names,
            features=source.features,
        )

    def openapi(self) -> Object:
        """Return the schema as it was written, not cached: documents are made once."""
        compiled: Compiled | None = self.__dict__.get("compiled")
        return self.source.parse() if compiled is None else compiled.openapi

    @property
    def is_loaded(self) -> bool:
        """Whether the event loop can use the schema: it is compiled, or compiles in less than a millisecond."""
        if "compiled" in self.__dict__:
            return True
        return len(self.source.body) <= _SMALL and is_imported(
            "rewound.actors.kinds.structural.compile", "compile_schema"
        )

    def load(self) -> None:
        """Compile what reading and decoding need, in any thread."""
        self.compiled.load_for_reading()

    @property
    def has_large_defaults(self) -> bool:
        """Whether its defaults may turn a small object into a large one. It must be loaded."""
        return self.compiled.has_large_defaults

    def upgrade(self, stored: Object) -> Object:
        """Return an object that was stored under an earlier schema, in the form of this one."""
        return self.compiled.prune_and_default(stored)

    def prune(self, shown: Object) -> Object:
        return self.compiled.prune(shown)

    def default_status(self, new: Object) -> Object:
        return self.compiled.default_status(new)


_SMALL: Final = 4096  # bytes of a definition: about a hundred nodes at most
NO_FIELDS = Struct("")


class CustomDefinition(Definition):
    def __init__(self, lazy: LazySchema, storage_schema: LazySchema, uid: str, **declared: Any) -> None:
        """`uid` is that of the CustomResourceDefinition: another one with the same name declares another kind.

        `storage_schema` is that of the storage version, in which most objects are stored.
        """
        super().__init__(fields=NO_FIELDS, **declared)
        for compiled in ("fields", "custom"):
            del self.__dict__[compiled]
        self.__dict__["lazy"] = lazy
        self.__dict__["storage_schema"] = storage_schema
        self.__dict__["uid"] = uid

    lazy: LazySchema
    storage_schema: LazySchema
    uid: str

    def continues(self, previous: Definition) -> bool:
        return (
            isinstance(previous, CustomDefinition) and previous.uid == self.uid and previous.kind == self.kind
        )

    def without_creates(self, refusal: str) -> CustomDefinition:
        """Return a definition that shares everything compiled, but refuses creates."""
        made = object.__new__(CustomDefinition)  # `copy` would compile everything
        made.__dict__.update(self.__dict__, create_refusal=refusal)
        return made

    @property
    def is_custom(self) -> bool:
        return True

    @property
    def is_loaded(self) -> bool:
        return self.lazy.is_loaded and self.storage_schema.is_loaded

    def load(self) -> None:
        self.lazy.load()
        self.storage_schema.load()

    @property
    def has_large_defaults(self) -> bool:
        return self.is_loaded and (self.lazy.has_large_defaults or self.storage_schema.has_large_defaults)

    @lazy_property
    def schema(self) -> Schema:
        return self.custom.schema

    def prune(self, shown: Object) -> Object:
        """Return an object without what the schema of this version does not declare."""
        return self.lazy.prune(shown)

    @lazy_property
    def custom(self) -> CustomKind:
        return self.lazy.compiled.custom

    @lazy_property
    def fields(self) -> Struct:
        return CustomStruct(
            self.group,
            self.version,
            self.kind,
            *self.lazy.compiled.fields.fields,
            list_kind=self.list_kind,
            make_schema=self.lazy.openapi,
        )


MAX_REPLICAS: Final = 2**31 - 1
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class WrongKindOfValue(ValueError):
    """A value at a path has the wrong type."""


class ScalePaths(msgspec.Struct, frozen=True):
    spec: str
    status: str
    selector: str = ""

    @classmethod
    def of(cls, declared: Object) -> ScalePaths:
        selector = declared.get("labelSelectorPath", "")
        return cls(declared["specReplicasPath"], declared["statusReplicasPath"], selector)


def scale_subresource(
    paths: ScalePaths, namespaced: bool, rules: Rules, features: frozenset[str]
) -> Subresource:
    view = Definition(
        group="autoscaling",
        version="v1",
        kind="Scale",
        plural="scale",
        namespaced=namespaced,
        check_name=name_is_subdomain,
        fields=SCALE,
        storage=Storage(conversion=Conversion(to_storage=_as_sent, from_storage=partial(show_scale, paths))),
        table=Table(COLUMNS),
        rules=rules,
        features=features,
    )
    return Subresource(
        name="scale",
        replicas=tuple(_split(paths.spec)) if OWNED_CUSTOM_SCALES in features else (),
        kind="Scale",
        group="autoscaling",
        version="v1",
        view=view,
        check_read=partial(_check_replicas, paths),
        update_object=partial(set_replicas, paths),
    )


def _check_replicas(paths: ScalePaths, stored: Object) -> None:
    if _scale_number(stored, paths.spec) is None:
        raise NoReplicas(paths.spec)


def _as_sent(document: Object) -> Object:
    return document


def show_scale(paths: ScalePaths, stored: Object) -> Object:
    metadata = stored["metadata"]
    wanted, found = _scale_number(stored, paths.spec), _scale_number(stored, paths.status)
    selector = _scale_text(stored, paths.selector) if paths.selector else None
    return {
        "metadata": {part: metadata[part] for part in _SHOWN if part in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": found or 0, "selector": selector} if selector else {"replicas": found or 0},
    }


def set_replicas(paths: ScalePaths, sent: Object, stored: Object) -> Object:
    if "replicas" not in sent["spec"] and _scale_number(stored, paths.spec) is None:
        raise BadRequest(f'the spec replicas field "{paths.spec}" cannot be empty')
    *around, last = _split(paths.spec)
    new = here = dict(stored)
    for name in around:
        inner = here.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise BadRequest(f"value cannot be set because {paths.spec} is not a map[string]interface{{}}")
        here[name] = here = dict(inner or {})
    here[last] = sent["spec"].get("replicas", 0)
    if here[last] != _scale_number(stored, paths.spec):
        new["metadata"] = _without_owners(new["metadata"], [f"f:{name}" for name in (*around, last)])
    return new


def _without_owners(metadata: Object, path: list[str]) -> Object:
    """Remove the replicas from all entries of managedFields, after a write to /scale."""
    entries = []
    for entry in metadata.get("managedFields", ()):
        fields = _without_field(entry.get("fieldsV1") or {}, path)
        if fields:
            entries.append({**entry, "fieldsV1": fields})
    rest = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**rest, "managedFields": entries} if entries else rest


def _without_field(fields: Object, path: list[str]) -> Object:
    """Return a set of fields without one. A member that has nothing inside any more is written without a dot."""
    name, *inside = path
    if name not in fields:
        return fields
    rest = {key: value for key, value in fields.items() if key != name}
    if not inside:
        return rest
    left = _without_field(fields[name], inside)
    if left == {".": {}}:
        return {**fields, name: {}}
    return {**fields, name: left} if left else rest


def spec_rules(errors: FieldErrors, paths: ScalePaths, new: Object) -> None:
    _replicas_rules(errors, paths.spec, new)


def scale_status_rules(errors: FieldErrors, paths: ScalePaths, new: Object) -> None:
    _replicas_rules(errors, paths.status, new)
    if paths.selector:
        try:
            _scale_text(new, paths.selector)
        except WrongKindOfValue as error:
            errors.add(invalid(paths.selector, "", str(error)))


def _replicas_rules(errors: FieldErrors, path: str, new: Object) -> None:
    try:
        replicas = _scale_number(new, path) or 0
    except WrongKindOfValue as error:
        errors.add(invalid(path, 0, str(error)))
        return
    if replicas < 0:
        errors.add(invalid(path, replicas, "should be a non-negative integer"))
    elif replicas > MAX_REPLICAS:
        errors.add(invalid(path, replicas, f"should be less than or equal to {MAX_REPLICAS}"))


def _split(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _scale_number(stored: Object, path: str) -> int | None:
    value = _value(stored, path)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _wrong(path, value, "int64")
    return value


def _scale_text(stored: Object, path: str) -> str | None:
    value = _value(stored, path)
    if value is not None and not isinstance(value, str):
        raise _wrong(path, value, "string")
    return value


def _value(stored: Object, path: str) -> Any:
    """Return the value at a path, or None if there is none. Raises WrongKindOfValue if a parent is not an object."""
    value: Any = stored
    for name in _split(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(path, value, "map[string]interface{}")
        value = value.get(name)
    return value


def _wrong(path: str, value: Any, expected: str) -> WrongKindOfValue:
    return WrongKindOfValue(
        f"{path} accessor error: {value!s:.64} is of the type {_go_type(value)}, expected {expected}"
    )


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "int64" if isinstance(value, int) else "float64"
    if isinstance(value, str):
        return "string"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"


class CustomStrategy:
    def __init__(
        self, schema: LazySchema, scale: ScalePaths | None, *, has_status: bool, warns: bool
    ) -> None:
        """`warns`: about finalizers without a domain."""
        self._schema, self._warns = schema, warns
        self._scale = scale
        self._has_status = has_status

    def strategy(self) -> Strategy:
        return Strategy(
            allow_unconditional_update=False,
            prepare_for_create=self.prepare_create,
            prepare_for_update=self.prepare_update,
            validate_create=self.validate_create,
            validate_update=self.validate_update,
            canonicalize=self.canonicalize,
            warnings=finalizer_warnings if self._warns else None,
        )

    def prepare_create(self, new: Object) -> None:
        if self._has_status:
            new.pop("status", None)
        new["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object) -> None:
        """A change of anything but metadata, and status where it is a subresource, makes a new generation."""
        if self._has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if _content(new) != _content(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Object, old: Object) -> None:
        """Only the status changes, and its managers."""
        status = {"status": new["status"]} if "status" in new else {}
        entries = new["metadata"].get("managedFields")
        new.clear()
        new.update({name: value for name, value in old.items() if name != "status"})
        new["metadata"] = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        if entries:
            new["metadata"]["managedFields"] = entries
        new.update(status)

    def validate_create(self, errors: FieldErrors, new: Object) -> None:
        self._schema.compiled.validate(errors, new, None)
        self._scale_rules(errors, new)

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
        self._schema.compiled.validate(errors, new, old)
        self._scale_rules(errors, new)

    def validate_status(self, errors: FieldErrors, new: Object, old: Object) -> None:
        """As in v1.25, embedded objects and duplicate list items are not checked."""
        metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
        self._schema.compiled.validate(errors, new, old, of_status=True)
        if self._scale is not None:
            scale_status_rules(errors, self._scale, new)

    def canonicalize(self, new: Object) -> None:
        self._schema.compiled.canonicalize(new)

    def _scale_rules(self, errors: FieldErrors, new: Object) -> None:
        if self._scale is not None:
            spec_rules(errors, self._scale, new)
            scale_status_rules(errors, self._scale, new)


def _content(one: Object) -> Object:
    return {name: value for name, value in one.items() if name != "metadata"}


# The most characters of a list or map that a column shows: tables are for people.
LONGEST_CELL: Final = 64 * 1024
# Characters of all paths of a table, which is made in the event loop: parsing takes a microsecond for each.
MOST_OF_PATHS: Final = 16 * 1024
_PARSE_SECONDS: Final = 0.1
_LOWEST: Final = -(2**63)  # which Go on amd64 makes of a float that is no int64
_HTML: Final = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})

_AGE: Final = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "Time since the object was created.",
}

Convert = Callable[[Any, int], Any]  # (value, now) -> cell


def table_of(declared: list[Object], rules: Rules = DOCUMENTED) -> Table:
    """Return the columns up to the first one whose path cannot be parsed, or with which the paths are too long."""
    budget = PathBudget(_PARSE_SECONDS)
    if not declared:
        return Table((NAME, _column(_AGE, budget)) if rules.custom_columns == "age" else DEFAULT_COLUMNS)
    columns, room = [NAME], MOST_OF_PATHS
    for one in declared:
        room -= len(one["jsonPath"])
        if room < 0:
            break
        try:
            columns.append(_column(one, budget))
        except (NotAPath, OverBudget):
            break
    return Table(tuple(columns))


def _column(declared: Object, budget: Budget) -> Column:
    path = declared["jsonPath"]
    text = declared.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    cell = PathCell(JsonPath(path, budget), _CONVERSIONS[declared["type"]])
    return Column(
        declared["name"],
        declared["type"],
        text,
        cell.alone,
        search=cell.search,
        format=declared.get("format", ""),
        priority=declared.get("priority", 0),
    )


class PathCell:
    def __init__(self, path: JsonPath, convert: Convert) -> None:
        self._path, self._convert = path, convert

    def search(self, shown: Object, now: int, budget: Budget) -> Any:
        """Return the cell, or None if there is no value, or one of another type. Raises OverBudget."""
        found = self._path.first(shown, budget)
        return None if found is None else self._convert(found, now)

    def alone(self, shown: Object, now: int) -> Any:
        """The cell of a row that has no other."""
        return self.search(shown, now, PathBudget(ROW_SECONDS))


def _cell_text(value: Any, _: int) -> str:
    """Encode maps and lists as Go's JSON encoder does: sorted, and HTML-safe."""
    if isinstance(value, (dict, list)):
        text = unescaped(value, option=orjson.OPT_SORT_KEYS).decode()[:LONGEST_CELL]
        return text.translate(_HTML)[:LONGEST_CELL]
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_text(value) if isinstance(value, float) else str(value)


def _integer(value: Any, _: int) -> int | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    number = int(value)
    return number if _LOWEST <= number < -_LOWEST else _LOWEST


def _cell_number(value: Any, _: int) -> int | float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: Any, _: int) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: int) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        moment = canonical_seconds(value) if value else None
    except ValueError:
        return "<invalid>"
    return since(moment, now)


_CONVERSIONS: Final[dict[str, Convert]] = {
    "string": _cell_text,
    "integer": _integer,
    "number": _cell_number,
    "boolean": _boolean,
    "date": _date,
}


VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
TERMINATING = "create not allowed while custom resource definition is terminating"


class DeclaredKind(msgspec.Struct, frozen=True):
    """What a CustomResourceDefinition declares."""

    served: tuple[Definition, ...] = ()
    unserved: tuple[Definition, ...] = ()  # storage versions that clients are not served

    @property
    def definitions(self) -> tuple[Definition, ...]:
        return (*self.served, *self.unserved)


def is_served(stored: Object) -> bool:
    return is_true(stored, NAMES_ACCEPTED) or is_true(stored, ESTABLISHED)


def definitions_of(
    stored: Object,
    body: bytes,
    since: int,
    names: Names,
    rules: Rules = DOCUMENTED,
    features: frozenset[str] = frozenset(),
) -> DeclaredKind:
    """Make the definitions. All objects written at or after the offset `since` have the form of these schemas.

    A version that is neither served nor stored has no definition.
    """
    maker = _Maker(stored, body, since, names, rules, features)
    versions = stored["spec"]["versions"]
    served = tuple(maker.definition(one) for one in versions if one["served"])
    unserved = tuple(maker.definition(one) for one in versions if one["storage"] and not one["served"])
    return DeclaredKind(served, unserved)


class _Maker:
    def __init__(
        self, stored: Object, body: bytes, since: int, names: Names, rules: Rules, features: frozenset[str]
    ) -> None:
        self._features = features
        self._stored, self._body, self._since, self._names = stored, body, since, names
        self._rules = rules
        self._spec = spec = stored["spec"]
        self._accepted = accepted = stored["status"]["acceptedNames"]
        self._storage = next(one for one in spec["versions"] if one["storage"])
        self._schemas = {one["name"]: self._schema(one) for one in spec["versions"]}
        self._discovery_names = DiscoveryNames(
            singular=accepted.get("singular", ""),
            short_names=tuple(accepted.get("shortNames", ())),
            categories=tuple(accepted.get("categories", ())),
            list_kind=accepted.get("listKind", ""),
        )
        self._versions = self._make_versions()

    def _schema(self, version: Object) -> LazySchema:
        name = version["name"]
        api_version = f"{self._spec['group']}/{name}"
        kind, names = self._accepted["kind"], self._names
        return LazySchema(SchemaSource(self._body, name, api_version, kind, names, self._features))

    def definition(self, version: Object) -> Definition:
        spec, accepted = self._spec, self._accepted
        schema = self._schemas[version["name"]]
        subresources = version.get("subresources", {})
        scale = ScalePaths.of(subresources["scale"]) if "scale" in subresources else None
        custom = CustomStrategy(
            schema,
            scale,
            has_status="status" in subresources,
            warns=FINALIZER_WARNINGS in self._features,
        )
        stored_as = "" if version is self._storage else f"{accepted['plural']}.{spec['group']}"
        terminating = "deletionTimestamp" in self._stored["metadata"]
        return CustomDefinition(
            schema,
            self._schemas[self._storage["name"]],
            self._stored["metadata"]["uid"],
            group=spec["group"],
            version=version["name"],
            kind=accepted["kind"],
            plural=accepted["plural"],
            names=self._discovery_names,
            namespaced=spec["scope"] == "Namespaced",
            check_name=name_is_subdomain,
            verbs=VERBS,
            strategic_merge_patch=False,
            subresources=tuple(self._subresources(subresources, custom, scale)),
            deprecation_warning=_deprecation(spec, version),
            create_refusal=TERMINATING if terminating else "",
            storage=Storage(stored_as=stored_as, versions=self._versions),
            deletion=Deletion(only_known_finalizers=False),
            selection=self._selection(version, is_storage=not stored_as),
            table=table_of(version.get("additionalPrinterColumns", []), self._rules),
            strategy=custom.strategy(),
            rules=self._rules,
            features=self._features,
        )

    def _selection(self, version: Object, *, is_storage: bool) -> Selection:
        """Return what field selectors may name. The storage version has the fields of all: it is read for facts."""
        if FIELD_SELECTORS not in self._features:
            return Selection(own_label_conversion=True)
        own, others = _selectable(version), self._spec["versions"] if is_storage else ()
        paths = {label: _path(one, label) for one in (*others, version) for label in _selectable(one)}
        return Selection(
            fields={label: partial(_selected_text, paths[label]) for label in sorted(paths)},
            stored_labels={label: label for label in ("metadata.name", *own)},
            own_label_conversion=True,
            late={label: _key_of(paths[label]) for label in own},
        )

    def _subresources(
        self, declared: Object, custom: CustomStrategy, scale: ScalePaths | None
    ) -> list[Subresource]:
        found = []
        if "status" in declared:
            found.append(
                Subresource(
                    name="status",
                    prepare=custom.prepare_status,
                    validate=custom.validate_status,
                    reset_fields=(*(("metadata",) if STATUS_OWNS_STATUS in self._features else ()), "spec"),
                )
            )
        if scale is not None:
            namespaced = self._spec["scope"] == "Namespaced"
            found.append(scale_subresource(scale, namespaced, self._rules, self._features))
        return found

    def _make_versions(self) -> Versions:
        spec, accepted = self._spec, self._accepted
        group, schemas = spec["group"], dict[str, VersionSchema]()
        first: list[Object] = []  # the first version with each schema
        for one in spec["versions"]:
            same = next((other for other in first if other.get("schema") == one.get("schema")), None)
            if same is None:
                first.append(same := one)
            lazy = self._schemas[one["name"]]
            schemas[f"{group}/{one['name']}"] = VersionSchema(
                lazy.upgrade, lazy.prune, lazy.default_status, same["name"], partial(_is_loaded, lazy)
            )
        return Versions(
            self._stored["metadata"]["name"],
            accepted["kind"],
            accepted.get("listKind") or f"{accepted['kind']}List",
            f"{group}/{self._storage['name']}",
            self._since,
            schemas,
            spec["conversion"].get("webhook") if spec["conversion"]["strategy"] == "Webhook" else None,
        )


def _selectable(version: Object) -> list[str]:
    """Return the names by which field selectors name the selectable fields of a version."""
    return [one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ()]


class _Step(NamedTuple):
    """A name in the path of a selectable field."""

    name: str
    default: Any
    nullable: bool


def _path(version: Object, label: str) -> list[_Step]:
    node, steps = version.get("schema", {}).get("openAPIV3Schema", {}), []
    for name in label.split("."):
        node = node.get("properties", {}).get(name, {})
        steps.append(_Step(name, node.get("default"), node.get("nullable", False)))
    return steps


def _key_of(path: Sequence[_Step]) -> bytes:
    """Return bytes that the JSON of every object with this field contains; none if the schema may default it."""
    return b"" if any(step.default is not None for step in path) else dumps(path[-1].name) + b":"


def _selected_text(path: Sequence[_Step], stored: Object) -> str:
    """Return the value of a selectable field as Go prints it, by default that of the schema; empty if there is none."""
    value: Any = stored
    for name, default, nullable in path:
        if not isinstance(value, dict):
            return ""
        present = nullable and name in value
        value = value.get(name)
        if value is None and not present:
            value = default
    if value is None or isinstance(value, (dict, list)):
        return ""
    return _cell_text(value, 0)


def finalizer_warnings(new: Object, old: Object | None) -> list[str]:
    """Return warnings about finalizers that a write adds."""
    before = () if old is None else old["metadata"].get("finalizers", ())
    added = sorted(set(new["metadata"].get("finalizers", ())) - set(before))
    return [text for one in added for text in _finalizer_warnings(one)]


def _finalizer_warnings(name: str) -> Iterator[str]:
    where = f"metadata.finalizers: {quoted(name)}"
    for text in qualified_name(name):
        yield f"{where}: {text}"
    if "/" not in name and name not in STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        rest = "to avoid accidental conflicts with other finalizer writers"
        yield f"{where}: prefer a domain-qualified finalizer name{path} {rest}"


def _is_loaded(schema: LazySchema) -> bool:
    """Whether the event loop can use it, now and later, without creating large defaults."""
    return schema.is_loaded and not schema.has_large_defaults


def _deprecation(spec: Object, version: Object) -> str:
    """Return the warning of a deprecated version; by default it names the newest version that is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if "deprecationWarning" in version:
        text: str = version["deprecationWarning"]
        return text
    group, kind = spec["group"], spec["names"]["kind"]
    newer = [
        one["name"]
        for one in spec["versions"]
        if one["served"]
        and not one.get("deprecated")
        and preference(one["name"]) < preference(version["name"])
    ]
    text = f"{group}/{version['name']} {kind} is deprecated"
    return f"{text}; use {group}/{min(newer, key=preference)} {kind}" if newer else text


def parsed(body: bytes) -> Object:
    """Parse a stored CustomResourceDefinition."""
    found: Object = orjson.loads(body)
    return found
