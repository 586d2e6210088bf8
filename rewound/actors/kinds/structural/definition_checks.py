"""What v1.25 refuses about the schema of a CustomResourceDefinition when the definition is written.

`check_schema` follows the order of v1.25: the rules of structural schemas (types are declared outside of allOf,
anyOf, oneOf and not, and everywhere), sorted by their text, and only if there are none, defaults: each must be valid
in its place, and have no unknown fields; those inside the metadata of embedded objects are checked as part of an
object that has nothing else. Then every keyword, children before parents; then the CEL rules, if the schema around
them has no errors: types, cost, and what oldSelf can be compared with.

`RuleContext` follows the walk over the schema. It finds the type of a node in the type of the nearest enclosing node
that has rules, because a rule sees the fields below it by that type; without such a node the type is made from the
node.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rewound.actors.cel.cost_estimate import (
    MOST_OF_A_DEFINITION,
    MOST_OF_A_RULE,
    TotalCost,
    cardinality_below,
    exceeds_budget,
    rule_cost,
)
from rewound.actors.cel.data import escape
from rewound.actors.cel.go_regexp import InvalidExpression, may_take_long
from rewound.actors.golang.format import Formatted, Repeated, show
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.structural.coercion import TYPE_META, DefaultSizes, compile_coercion
from rewound.actors.kinds.structural.embedded import NotAnObject, compile_validation
from rewound.actors.kinds.structural.embedded import compile_coercion as compile_embedded
from rewound.actors.kinds.structural.formats import MOST_PATTERNS, compile_pattern, weight_of
from rewound.actors.kinds.structural.rules import (
    BUDGET,
    Declared,
    Languages,
    compile_rules,
    compile_tree,
    declare,
    field_path,
)
from rewound.actors.kinds.structural.schema_node import NO_NODES, Node, Rule, has_rules, parse_schema
from rewound.actors.kinds.structural.validation import report, validate
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    collect,
    collect_with,
    forbidden,
    invalid,
    not_supported,
    required,
    reworded,
    undecided,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.time_limit import check_time, need_thread
from rewound.actors.versions.features import (
    CEL_NAMED_GROUPS,
    JSON_IN_TEXTS,
    RATCHETING,
    RULE_MESSAGES,
    RULE_OLD_SELF,
    RULE_REASONS,
)

_AT_ROOT_WITH_STATUS: Final = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations]"
)


def check_schema(
    errors: FieldErrors,
    path: str,
    schema: Object,
    *,
    names: Names,
    stored: Callable[[], Sequence[Rule]] = tuple,
    has_status: bool = False,
) -> None:
    """Check a schema. `path` is that of the openAPIV3Schema; `has_status`: the version has a status subresource.

    `stored` returns the rules of the definition as it is stored.
    """
    root = parse_schema(schema, names)
    if has_rules(root):
        need_thread()  # each takes a millisecond to check, and a long one a second
    languages = Languages(names, errors.features, stored() if has_rules(root) else ())
    found = collect_with(errors.features, _check, path, root, names, languages, has_status)
    errors.add_all(found)


def _check(
    errors: FieldErrors, path: str, root: Node, names: Names, languages: Languages, has_status: bool
) -> None:
    prefix = names.extension_prefix
    if has_status:
        _check_root_with_status(errors, path, root)
    if root.nullable:
        errors.add(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    not_convertible = next(_not_convertible(root, prefix), "")
    sound = False
    if not not_convertible:
        sound = not errors.added_by(check_structure, path, root, prefix) and not errors.added_by(
            check_defaults, path, root, names
        )
    KeywordChecks(names, languages, with_rules=sound).check(errors, path, root)
    if not errors.found and not_convertible:
        errors.add(invalid(path, "", not_convertible))


def _check_root_with_status(errors: FieldErrors, path: str, root: Node) -> None:
    """The schema of the status must be at properties.status, and nowhere else."""
    if root.type and root.type != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        errors.add(invalid(f"{path}.type", root.type, text))
    elif _has_more_than_allowed(root):
        text = (
            f"only {_AT_ROOT_WITH_STATUS} fields are allowed at the root of the schema if the status subresource "
            "is enabled"
        )
        errors.add(invalid(path, Formatted("apiextensions.JSONSchemaProps{...}"), text))


def _has_more_than_allowed(root: Node) -> bool:
    return any(
        (
            root.default is not None,
            root.nullable,
            root.enum,
            root.max_properties is not None,
            root.min_properties is not None,
            root.all_of,
            root.any_of,
            root.one_of,
            root.not_,
            root.additional is not None,
            root.unsupported,
            root.embedded,
            root.int_or_string,
            root.list_keys,
            root.list_type is not None,
            root.map_type is not None,
        )
    )


_UNSUPPORTED_NAMES: Final = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)


def _not_convertible(node: Node, prefix: str) -> Iterator[str]:
    """Return why a schema cannot be structural at all; the first reason counts."""
    for keyword, name in _UNSUPPORTED_NAMES:
        if keyword in node.unsupported:
            yield f"OpenAPIV3Schema '{name}' is not supported"
    if node.preserve is False:
        yield f"internal error: '{prefix}preserve-unknown-fields' must be true or undefined"
    if node.item_list:
        yield "OpenAPIV3Schema 'items' must be a schema, but is an array"
    for inner in (node.not_, node.items, node.values):
        if inner is not None:
            yield from _not_convertible(inner, prefix)
    for inner in (*node.all_of, *node.any_of, *node.one_of, *node.properties.values()):
        yield from _not_convertible(inner, prefix)


ROOT, ITEM, FIELD = "root", "items", "field"

_EMPTY_TYPE = {
    ROOT: "must not be empty at the root",
    ITEM: "must not be empty for specified array items",
    FIELD: "must not be empty for specified object fields",
}


def check_structure(errors: FieldErrors, path: str, root: Node, prefix: str) -> None:
    """Check the rules of structural schemas. `prefix` is that of extensions."""
    found = collect_with(errors.features, _Checks(prefix).all, path, root)
    errors.add_all(sorted(found, key=_text))


def is_plain_metadata(node: Node) -> bool:
    """Whether the schema of an object's metadata restricts only its name and generateName."""
    known = {"name", "generateName"}
    names = set(node.properties)
    return (not names or (names <= known and len(names) == len(node.properties))) and not any(
        (
            node.title,
            node.description,
            node.nullable,
            node.additional is not None,
            node.items,
            node.preserve,
            node.embedded,
            node.int_or_string,
            node.list_type is not None,
            node.list_keys,
            node.map_type is not None,
            node.rules,
            *_value_rules(node),
        )
    )


def _value_rules(node: Node) -> tuple[object, ...]:
    return (
        node.format,
        node.required,
        node.enum,
        node.maximum is not None,
        node.minimum is not None,
        node.exclusive_maximum,
        node.exclusive_minimum,
        node.multiple_of is not None,
        node.max_length is not None,
        node.min_length is not None,
        node.pattern,
        node.max_items is not None,
        node.min_items is not None,
        node.unique_items,
        node.max_properties is not None,
        node.min_properties is not None,
        node.all_of,
        node.any_of,
        node.one_of,
        node.not_,
    )


def declares_int_or_string(branches: tuple[Node, ...]) -> bool:
    """Whether these are the two types of an int-or-string, and nothing else."""
    return tuple(one.type for one in branches) == ("integer", "string") and all(map(_has_only_type, branches))


def _has_only_type(node: Node) -> bool:
    return (
        is_plain_metadata(node)
        and node.default is None
        and node.properties is NO_NODES
        and not node.unsupported
    )


def _text(error: FieldError) -> str:
    return f"{error.field}: {error.message}"


class _Checks:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._patterns: dict[str, int] = {}  # with their weights
        self._weight = 0

    def all(self, errors: FieldErrors, path: str, root: Node) -> None:
        self._invariants(errors, root, ROOT, path)
        self._junctors_complete(errors, root, root, path, path)

    def _invariants(self, errors: FieldErrors, node: Node, level: str, path: str) -> None:
        check_time()
        if node.type == "array" and node.items is None:
            errors.add(required(f"{path}.items", "must be specified"))
        if node.items is not None:
            self._invariants(errors, node.items, ITEM, f"{path}.items")
        for name, inner in node.properties.items():
            self._invariants(errors, inner, FIELD, f"{path}.properties[{name}]")
        if node.additional is not None:
            if level == ROOT:
                errors.add(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
            if node.values is not None:
                self._invariants(errors, node.values, FIELD, f"{path}.additionalProperties")
        self._extension_pairs(errors, node, path)
        skip_any = declares_int_or_string(node.any_of)
        skip_first = bool(node.all_of) and declares_int_or_string(node.all_of[0].any_of)
        self._value_rules(errors, node, skip_any, skip_first, path)
        self._type(errors, node, level, path)
        self._metadata(errors, node, level, path)
        if node.embedded and not node.preserve and not node.properties:
            text = (
                f"must not be empty if {self._prefix}embedded-resource is true without "
                f"{self._prefix}preserve-unknown-fields"
            )
            errors.add(required(f"{path}.properties", text))

    def _extension_pairs(self, errors: FieldErrors, node: Node, path: str) -> None:
        text = f"must be false if {self._prefix}int-or-string is true"
        if node.int_or_string and node.preserve:
            errors.add(invalid(f"{path}.{self._prefix}preserve-unknown-fields", True, text))
        if node.int_or_string and node.embedded:
            errors.add(invalid(f"{path}.{self._prefix}embedded-resource", True, text))

    def _type(self, errors: FieldErrors, node: Node, level: str, path: str) -> None:
        if node.embedded and node.type != "object":
            text = f"must be object if {self._prefix}embedded-resource is true"
            where = f"{path}.type"
            errors.add(invalid(where, node.type, text) if node.type else required(where, text))
        elif not node.type and not node.int_or_string and not node.preserve:
            errors.add(required(f"{path}.type", _EMPTY_TYPE[level]))
        if node.embedded and node.additional is not None:
            text = f"must not be used if {self._prefix}embedded-resource is set"
            errors.add(forbidden(f"{path}.additionalProperties", text))
        if level == ROOT and node.type and node.type != "object":
            errors.add(invalid(f"{path}.type", node.type, "must be object at the root"))

    def _metadata(self, errors: FieldErrors, node: Node, level: str, path: str) -> None:
        is_object = level == ROOT or node.embedded
        for name in ("kind", "apiVersion"):
            declared = node.properties.get(name)
            if is_object and declared is not None and declared.type != "string":
                errors.add(invalid(f"{path}.properties[{name}].type", declared.type, "must be string"))
        metadata = node.properties.get("metadata")
        if metadata is None:
            return
        where = f"{path}.properties[metadata]"
        if is_object and metadata.type != "object":
            errors.add(invalid(f"{where}.type", metadata.type, "must be object"))
        if level == ROOT and not is_plain_metadata(metadata):
            text = (
                "must not specify anything other than name and generateName, but metadata is implicitly "
                "specified"
            )
            errors.add(forbidden(where, text))

    def _value_rules(
        self, errors: FieldErrors, node: Node, skip_any: bool, skip_first: bool, path: str
    ) -> None:
        if not skip_any:
            for index, branch in enumerate(node.any_of):
                self._branch(errors, branch, False, f"{path}.anyOf[{index}]")
        for index, branch in enumerate(node.all_of):
            self._branch(errors, branch, skip_first and not index, f"{path}.allOf[{index}]")
        for index, branch in enumerate(node.one_of):
            self._branch(errors, branch, False, f"{path}.oneOf[{index}]")
        if node.not_ is not None:
            self._branch(errors, node.not_, False, f"{path}.not")
        if node.pattern:
            self._pattern(errors, node.pattern, f"{path}.pattern")

    def _pattern(self, errors: FieldErrors, pattern: str, path: str) -> None:
        if pattern in self._patterns or self._weight > MOST_PATTERNS:
            return
        if may_take_long(pattern):
            need_thread()
        check_time()
        try:
            compiled = compile_pattern(pattern, named=CEL_NAMED_GROUPS in errors.features)
            self._patterns[pattern] = weight_of(compiled)
        except InvalidExpression as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            errors.add(invalid(path, pattern, text))
            return
        self._weight += self._patterns[pattern]
        if self._weight > MOST_PATTERNS:
            text = f"the schema may have at most {MOST_PATTERNS} different patterns, and fewer that are large"
            errors.add(forbidden(path, text))

    def _branch(self, errors: FieldErrors, node: Node, skip_any: bool, path: str) -> None:
        """Check a branch of allOf, anyOf, oneOf or not."""
        self._value_rules(errors, node, skip_any, False, path)
        if node.items is not None:
            self._branch(errors, node.items, False, f"{path}.items")
        for name, inner in node.properties.items():
            self._branch(errors, inner, False, f"{path}.properties[{name}]")
        for is_set, keyword, must in self._not_in_branches(node):
            if is_set:
                errors.add(forbidden(f"{path}.{keyword}", f"must be {must} to be structural"))
        if "metadata" in node.properties:
            errors.add(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))

    def _not_in_branches(self, node: Node) -> tuple[tuple[bool, str, str], ...]:
        prefix = self._prefix
        return (
            (bool(node.type), "type", "empty"),
            (node.additional is not None, "additionalProperties", "undefined"),
            (node.default is not None, "default", "undefined"),
            (bool(node.title), "title", "empty"),
            (bool(node.description), "description", "empty"),
            (node.nullable, "nullable", "false"),
            (bool(node.preserve), f"{prefix}preserve-unknown-fields", "false"),
            (node.embedded, f"{prefix}embedded-resource", "false"),
            (node.int_or_string, f"{prefix}int-or-string", "false"),
            (bool(node.list_keys), f"{prefix}list-map-keys", "empty"),
            (node.list_type is not None, f"{prefix}list-type", "undefined"),
            (node.map_type is not None, f"{prefix}map-type", "undefined"),
            (bool(node.rules), f"{prefix}validations", "empty"),
        )

    def _junctors_complete(
        self, errors: FieldErrors, branch: Node, node: Node, path: str, branch_path: str
    ) -> None:
        """Every field and list in a junctor must be declared outside of it too."""
        if branch.not_ is not None:
            self._complete(errors, branch.not_, node, path, f"{branch_path}.not")
        for keyword, branches in (
            ("allOf", branch.all_of),
            ("anyOf", branch.any_of),
            ("oneOf", branch.one_of),
        ):
            for index, one in enumerate(branches):
                self._complete(errors, one, node, path, f"{branch_path}.{keyword}[{index}]")

    def _complete(
        self, errors: FieldErrors, branch: Node, node: Node | None, path: str, branch_path: str
    ) -> None:
        if node is None:
            errors.add(required(path, f"because it is defined in {branch_path}"))
            return
        self._junctors_complete(errors, branch, node, path, branch_path)
        if branch.items is not None:
            self._complete(errors, branch.items, node.items, f"{path}.items", f"{branch_path}.items")
        for name, inner in branch.properties.items():
            at = f"properties[{name}]"
            self._complete(errors, inner, node.properties.get(name), f"{path}.{at}", f"{branch_path}.{at}")


_TYPE = {"apiVersion": "validation/v1", "kind": "Validation"}


@dataclass(slots=True)
class _Budget:
    """What the rules of all defaults of a schema may still cost together; -1 if they cost more."""

    left: int


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a node in the nearest enclosing object: names, and None for an item of a list."""

    root: Node
    names: Names
    budget: _Budget
    steps: tuple[str | None, ...] = ()
    inside_meta: bool = False

    def child(self, name: str | None, *, inside_meta: bool) -> _Place:
        return _Place(self.root, self.names, self.budget, (*self.steps, name), inside_meta)

    def surround(self, value: Any) -> dict[str, Any]:
        for step in reversed(self.steps):
            value = [value] if step is None else {step: value}
        return {**_TYPE, **value}


# Bytes of JSON, with the defaults inside it. v1.25 has no such limit, but no larger object could be stored.
LARGEST_DEFAULT: Final = 1 << 20


def check_defaults(errors: FieldErrors, path: str, root: Node, names: Names) -> None:
    """Check defaults. The root is like an embedded object: with a kind, an apiVersion and metadata."""
    if _check_sizes(errors, path, root, DefaultSizes()):
        root = root.replaced(embedded=True, extensions=None)
        _check_defaults_of(errors, path, root, _Place(root, names, _Budget(BUDGET)))


def _check_sizes(errors: FieldErrors, path: str, node: Node, sizes: DefaultSizes) -> bool:
    """Whether each default is small, and those that an empty object gets are together. Errors name the innermost."""
    inner = [(f"{path}.properties[{name}]", one) for name, one in node.properties.items()]
    for name, one in (("items", node.items), ("additionalProperties", node.values)):
        if one is not None:
            inner.append((f"{path}.{name}", one))
    if not all(_check_sizes(errors, below, one, sizes) for below, one in inner):
        return False
    for place, size, what in (
        (path, sizes.missing(node), "the defaults of an empty object together"),
        (f"{path}.default", sizes.default(node), "with the defaults inside it"),
    ):
        if size > LARGEST_DEFAULT:
            errors.add(forbidden(place, f"{what}: must have at most {LARGEST_DEFAULT} bytes, and has {size}"))
            return False
    return True


def _check_defaults_of(errors: FieldErrors, path: str, node: Node, place: _Place) -> None:
    if place.budget.left < 0:
        return
    if node.embedded:
        place = _Place(node, place.names, place.budget)
    if node.default is not None:
        _check_default(errors, f"{path}.default", node, place)
    if node.items is not None:
        _check_defaults_of(
            errors, f"{path}.items", node.items, place.child(None, inside_meta=place.inside_meta)
        )
    for name, inner in node.properties.items():
        inside = place.inside_meta or (node.embedded and name in TYPE_META)
        _check_defaults_of(errors, f"{path}.properties[{name}]", inner, place.child(name, inside_meta=inside))


def _check_default(errors: FieldErrors, path: str, node: Node, place: _Place) -> None:
    if place.inside_meta:
        wrong = _metadata_problem(node, place)
        if wrong:
            text = f"must result in valid metadata: {wrong}"
            errors.add(invalid(path, show(node.default), text))
            return
    else:
        dropped: list[str] = []
        compile_coercion_of(node)(node.default, dropped)
        if dropped:
            errors.add(invalid(path, show(node.default), "must not have unknown fields"))
        if _embedded_errors(errors, path, node):
            return
    found = validate(node, node.default).by_text
    report(errors, path, found.values())
    before = len(errors.found)
    if not found:
        tree = compile_tree(node, place.names, errors.features - {RATCHETING}, is_object=node is place.root)
        if tree is not None:
            budget = place.budget.left
            place.budget.left = tree.validate(errors, node.default, node.default, path, budget)
            if RATCHETING in errors.features and len(errors.found) == before:
                left = tree.validate(errors, node.default, None, path, budget)
                place.budget.left = min(place.budget.left, left)


def compile_coercion_of(node: Node) -> Any:
    """Return a function that prunes a value at the node, whatever its type."""
    around = Node(properties={"value": node})
    prune = compile_coercion(around, defaults=False)
    return lambda value, dropped: prune({"value": value}, dropped)["value"]


def _metadata_problem(node: Node, place: _Place) -> str:
    obj = place.surround(node.default)
    root = Node(properties=place.root.properties, embedded=True)
    coerce, rules = compile_embedded(root, drop_invalid=False), compile_validation(root)
    assert coerce is not None and rules is not None
    try:
        coerced = coerce(obj, "", [])
    except NotAnObject as error:
        return str(error)
    found = [
        f"{one.field}: {one.message}" for one in collect(lambda errors: rules(coerced, "", errors) and None)
    ]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


def _embedded_errors(errors: FieldErrors, path: str, node: Node) -> bool:
    coerce, rules = compile_embedded(node, drop_invalid=False), compile_validation(node)
    if coerce is None or rules is None:
        return False
    try:
        coerced = coerce(node.default, path, [])
    except NotAnObject as error:
        errors.add(error.error)
        return True
    before = len(errors.found)
    rules(coerced, path, errors)
    return len(errors.found) > before


_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_CORRELATABLE_MAPS: Final = (None, "granular", "atomic")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the enclosing nodes determine about a node."""

    no_defaults: str | None = None  # why there may be none
    inside_meta: bool = False
    uncorrelated: str = ""  # path of the first enclosing node whose parts have no old values
    context: RuleContext | None = None  # for the rules of the node; None where rules are not checked

    def without_old_values(self, path: str) -> Scope:
        return self if self.uncorrelated else Scope(self.no_defaults, self.inside_meta, path, self.context)

    def inside(self, node: Node, name: str | None = None) -> Scope:
        """Return the scope of a property with its name, of the items, or of additionalProperties."""
        if self.context is None:
            return self
        return Scope(self.no_defaults, self.inside_meta, self.uncorrelated, self.context.child(node, name))

    def without_rules(self) -> Scope:
        return self if self.context is None else replace(self, context=None)


class KeywordChecks:
    def __init__(self, names: Names, languages: Languages, *, with_rules: bool) -> None:
        self._languages, self._prefix = languages, names.extension_prefix
        self._with_rules = with_rules
        self._rule_errors = FieldErrors(languages.features)

    def check(self, errors: FieldErrors, path: str, root: Node) -> None:
        context = RuleContext.root(root) if self._with_rules else None
        self._node(errors, path, root, Scope(context=context), is_root=True)
        errors.add_all(self._rule_errors.found)
        if context is not None:
            check_total(errors, path, context.total, self._prefix)

    def _node(
        self, errors: FieldErrors, path: str, node: Node, scope: Scope, *, is_root: bool = False
    ) -> None:
        check_time()
        before = len(errors.found)
        self._forbidden(errors, path, node, scope)
        if node.unique_items:
            text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            errors.add(forbidden(f"{path}.uniqueItems", text))
        self._additional(errors, path, node, scope)
        self._properties(errors, path, node, scope, is_root)
        self._junctors(errors, path, node, scope)
        for name, inner in node.definitions.items():
            self._node(errors, f"{path}.definitions[{name}]", inner, scope.without_rules())
        self._items(errors, path, node, scope)
        for name, inner in node.dependencies.items():
            self._node(errors, f"{path}.dependencies[{name}]", inner, scope.without_rules())
        self._extensions(errors, path, node)
        self._list_map(errors, path, node)
        self._list_items(errors, path, node)
        if node.rules:
            where = f"{path}.{self._prefix}validations"
            check_rule_syntax(errors, where, node)
            if scope.context is not None and len(errors.found) == before:
                check_rules(self._rule_errors, where, scope.context, scope.uncorrelated, self._languages)

    def _forbidden(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        if node.type and node.type not in _TYPES:
            errors.add(not_supported(f"{path}.type", node.type, _TYPES))
        if node.default is not None and scope.no_defaults is not None:
            errors.add(forbidden(f"{path}.default", f"must not be set {scope.no_defaults}"))
        for keyword in (
            "id",
            "additionalItems",
            "patternProperties",
            "definitions",
            "dependencies",
            "$ref",
        ):
            if keyword in node.unsupported:
                errors.add(forbidden(f"{path}.{keyword}", f"{keyword} is not supported"))
        if node.type == "null":
            text = "type cannot be set to null, use nullable as an alternative"
            errors.add(forbidden(f"{path}.type", text))
        if node.item_list:
            errors.add(forbidden(f"{path}.items", "items must be a schema object and not an array"))
        if scope.inside_meta and node.embedded:
            text = "must not be used inside of resource meta"
            errors.add(forbidden(f"{path}.{self._prefix}embedded-resource", text))

    def _additional(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        where = f"{path}.additionalProperties"
        if node.additional is None:
            return
        if node.properties and node.additional is not True:
            errors.add(forbidden(where, "additionalProperties and properties are mutual exclusive"))
        if node.values is None:
            return
        if scope.inside_meta:
            reason = "inside additionalProperties applying to object metadata"
            scope = replace(scope, no_defaults=reason)
        self._node(errors, where, node.values, scope.inside(node.values))

    def _properties(self, errors: FieldErrors, path: str, node: Node, scope: Scope, is_root: bool) -> None:
        if node.map_type not in _CORRELATABLE_MAPS:
            scope = scope.without_old_values(path)
        for name, inner in node.properties.items():
            inside = scope.inside(inner, name)
            if (is_root or node.embedded) and name in TYPE_META:
                inside = replace(inside, inside_meta=True)
                if is_root:
                    inside = replace(inside, no_defaults=f"in top-level {name}")
            self._node(errors, f"{path}.properties[{name}]", inner, inside)

    def _junctors(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        if not (node.all_of or node.any_of or node.one_of or node.not_):
            return
        scope = scope.without_rules()
        if node.not_ is not None:
            self._node(errors, f"{path}.not", node.not_, scope)
        for keyword, branches in (("allOf", node.all_of), ("oneOf", node.one_of), ("anyOf", node.any_of)):
            for index, branch in enumerate(branches):
                self._node(errors, f"{path}.{keyword}[{index}]", branch, scope)

    def _items(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        if node.items is None and not node.item_list:
            return
        if node.list_type != "map":
            scope = scope.without_old_values(path)
        if node.items is not None:
            self._node(errors, f"{path}.items", node.items, scope.inside(node.items))
        for index, inner in enumerate(node.item_list):
            self._node(errors, f"{path}.items[{index}]", inner, scope.inside(inner))

    def _extensions(self, errors: FieldErrors, path: str, node: Node) -> None:
        prefix = self._prefix
        if node.preserve is False:
            errors.add(invalid(f"{path}.{prefix}preserve-unknown-fields", False, "must be true or undefined"))
        if node.map_type is not None:
            self._needs_type(errors, path, node, "object", "map-type")
            if node.map_type not in ("atomic", "granular"):
                errors.add(not_supported(f"{path}.{prefix}map-type", node.map_type, ("atomic", "granular")))
        if node.list_type is not None and node.type != "array":
            self._needs_type(errors, path, node, "array", "list-type")
        elif node.list_type == "set" and node.items is not None:
            self._set_items(errors, path, node.items)
        if node.list_type not in (None, "atomic", "set", "map"):
            errors.add(
                not_supported(f"{path}.{prefix}list-type", node.list_type or "", ("atomic", "set", "map"))
            )
        if node.list_keys and node.list_type != "map":
            where, text = f"{path}.{prefix}list-type", f"must be map if {prefix}list-map-keys is non-empty"
            missing = node.list_type is None
            errors.add(required(where, text) if missing else invalid(where, node.list_type, text))

    def _needs_type(self, errors: FieldErrors, path: str, node: Node, wanted: str, extension: str) -> None:
        if node.type == wanted:
            return
        where, text = f"{path}.type", f"must be {wanted} if {self._prefix}{extension} is specified"
        errors.add(invalid(where, node.type, text) if node.type else required(where, text))

    def _set_items(self, errors: FieldErrors, path: str, items: Node) -> None:
        text = f"must be atomic as item of a list with {self._prefix}list-type=set"
        shown = Formatted('"null"') if items.list_type is None else items.list_type
        if items.type == "array" and items.list_type not in (None, "atomic"):
            errors.add(invalid(f"{path}.items.{self._prefix}list-type", shown, text))
        if items.type == "object" and items.map_type != "atomic":
            errors.add(invalid(f"{path}.items.{self._prefix}map-type", shown, text))

    def _list_map(self, errors: FieldErrors, path: str, node: Node) -> None:
        if node.list_type != "map":
            return
        prefix, items = self._prefix, node.items
        if not node.list_keys:
            text = f"must not be empty if {prefix}list-type is map"
            errors.add(required(f"{path}.{prefix}list-map-keys", text))
        if items is None and not node.item_list:
            errors.add(required(f"{path}.items", f"must have a schema if {prefix}list-type is map"))
        if node.item_list:
            text = f"must only have a single schema if {prefix}list-type is map"
            errors.add(invalid(f"{path}.items", Formatted("apiextensions.JSONSchemaPropsOrArray{...}"), text))
        if items is None:
            return
        if items.type != "object":
            text = f"must be object if parent array's {prefix}list-type is map"
            errors.add(invalid(f"{path}.items.type", items.type, text))
        else:
            self._list_keys(errors, path, node, items)

    def _list_keys(self, errors: FieldErrors, path: str, node: Node, items: Node) -> None:
        prefix = self._prefix
        where, seen = f"{path}.{prefix}list-map-keys", set()
        all_keys = Repeated(lambda: list(node.list_keys))
        for name in node.list_keys:
            declared = items.properties.get(name)
            if declared is None:
                text = "entries must all be names of item properties"
                errors.add(invalid(where, all_keys, text))
            elif declared.type in ("array", "object"):
                text = f"must be a scalar type if parent array's {prefix}list-type is map"
                errors.add(invalid(f"{path}.items.properties[{name}].type", items.type, text))
            if name in seen:
                errors.add(invalid(where, all_keys, "must not contain duplicate entries"))
            seen.add(name)

    def _list_items(self, errors: FieldErrors, path: str, node: Node) -> None:
        """Items of sets and maps are identified by their value or keys, so these cannot be null or absent."""
        items = node.items
        if items is None or node.list_type not in ("set", "map"):
            return
        if items.nullable:
            text = f"cannot be nullable when {self._prefix}list-type is {node.list_type}"
            errors.add(forbidden(f"{path}.items.nullable", text))
        if node.list_type != "map":
            return
        reason = f"this property is in {self._prefix}list-map-keys, so it"
        for name in node.list_keys:
            declared, where = items.properties.get(name), f"{path}.items.properties[{name}]"
            if declared is None:
                continue
            if name not in items.required and declared.default is None:
                errors.add(
                    required(f"{where}.default", f"{reason} must have a default or be a required property")
                )
            if declared.nullable:
                errors.add(forbidden(f"{where}.nullable", f"{reason} cannot be nullable"))


REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


_NO_MESSAGE: Final = reworded(
    "message must be non-empty if specified", JSON_IN_TEXTS, "must be non-empty if specified"
)
_LINE_BREAKS: Final = reworded(
    "message must not contain line breaks", JSON_IN_TEXTS, "must not contain line breaks"
)


def check_rule_syntax(errors: FieldErrors, path: str, node: Node) -> None:
    for index, one in enumerate(node.rules):
        where = f"{path}[{index}]"
        rule, message = one.rule.strip(), one.message.strip()
        if not rule:
            errors.add(required(f"{where}.rule", "rule is not specified"))
        elif one.message and not message:
            errors.add(invalid(f"{where}.message", one.message, _NO_MESSAGE))
        elif _has_breaks(message):
            errors.add(invalid(f"{where}.message", one.message, _LINE_BREAKS))
        elif _has_breaks(rule) and not message:
            errors.add(required(f"{where}.message", "message must be specified if rule contains line breaks"))
        if one.message_expression and not one.message_expression.strip():
            text = "messageExpression must be non-empty if specified"
            errors.add(required(f"{where}.messageExpression", text))
        if one.reason and one.reason not in REASONS:
            errors.add(not_supported(f"{where}.reason", one.reason, REASONS))
        _check_field_path(errors, f"{where}.fieldPath", node, one.field_path)


def _check_field_path(errors: FieldErrors, where: str, node: Node, text: str) -> None:
    if text and not text.strip():
        errors.add(invalid(where, text, "must be non-empty if specified"))
    if "\n" in text:
        errors.add(invalid(where, text, "must not contain line breaks"))
    if text and field_path(node, text) is None:
        errors.add(invalid(where, text, "must be a valid path"))


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


_NO_TYPE: Final = "unable to convert structural schema to CEL declarations"


@dataclass(slots=True, eq=False)
class RuleContext:
    """For one node: whether it or an enclosing node has rules, how often it can occur, and its type."""

    node: Node
    total: TotalCost
    parent: RuleContext | None = None
    name: str | None = None  # of the property; None for items and values
    cardinality: int | None = 1
    in_scope: bool = False
    _declared: Declared | None = field(default=None, init=False)
    _is_known: bool = field(default=False, init=False)

    @staticmethod
    def root(node: Node) -> RuleContext:
        return RuleContext(node, TotalCost(), in_scope=bool(node.rules))

    def child(self, node: Node, name: str | None = None) -> RuleContext:
        """Return the context of a property with its name, of the items, or of additionalProperties."""
        around = self.node
        is_map = around.additional is not None
        most = around.max_properties if is_map else around.max_items
        cardinality = cardinality_below(self.cardinality, around.type, most, is_map)
        return RuleContext(node, self.total, self, name, cardinality, self.in_scope or bool(node.rules))

    def declared(self) -> Declared | None:
        """The type of the node; None if it has none, or if an enclosing node with rules has none."""
        if not self._is_known:
            self._declared, self._is_known = self._find(), True
        return self._declared

    def _find(self) -> Declared | None:
        if self.parent is not None and self.parent.in_scope:
            around = self.parent.declared()
            if around is None:
                return None
            found = around.element if self.name is None else _field(around, self.name)
            if found is not None:
                return found
        return declare(self.node, is_object=self.parent is None or self.node.embedded)


def _field(around: Declared, name: str) -> Declared | None:
    identifier = escape(name)
    return None if identifier is None else (around.fields or {}).get(identifier)


def check_rules(
    errors: FieldErrors, path: str, context: RuleContext, uncorrelated: str, languages: Languages
) -> None:
    """Check rules. `path` is theirs; `uncorrelated` that of the enclosing node whose parts have no old values, if
    any.
    """
    check_time()
    declared = context.declared()
    if declared is None:
        why = f"failed to construct type information for {path.rpartition('.')[2]} rules: {_NO_TYPE}"
        errors.add(undecided(path, f"internal error: {why}"))
        return
    for index, one in enumerate(compile_rules(context.node, declared, languages, zlib.crc32(path.encode()))):
        check_time()
        where = f"{path}[{index}].rule"
        cost = rule_cost(one.cost, context.cardinality, declared.least)
        if cost > MOST_OF_A_RULE:
            errors.add(forbidden(where, exceeds_budget("estimated rule cost", cost, MOST_OF_A_RULE)))
        context.total.add(where, cost)
        if one.error:
            errors.add(invalid(where, _shown(one.rule, languages.features), one.error))
        if one.message_error:
            shown = _shown(one.rule, languages.features)
            errors.add(invalid(f"{path}[{index}].messageExpression", shown, one.message_error))
        elif one.message is not None:
            _check_message_cost(errors, f"{path}[{index}].messageExpression", one.message_cost, context)
        if one.is_transition and uncorrelated:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            errors.add(invalid(where, one.rule.rule, text))
        elif one.rule.optional_old_self is not None and not one.is_transition:
            text = "may not be set if oldSelf is not used in rule"
            errors.add(invalid(f"{path}[{index}].optionalOldSelf", one.rule.optional_old_self, text))


def _check_message_cost(errors: FieldErrors, where: str, cost: int, context: RuleContext) -> None:
    if cost > MOST_OF_A_RULE:
        what = "estimated messageExpression cost"
        errors.add(forbidden(where, exceeds_budget(what, cost, MOST_OF_A_RULE)))
    context.total.add(where, cost)


def check_total(errors: FieldErrors, path: str, total: TotalCost, prefix: str) -> None:
    if total.total <= MOST_OF_A_DEFINITION:
        return
    text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    for _, where in total.dearest:
        errors.add(forbidden(where, text))
    what = f"{prefix}validations estimated rule cost total for entire OpenAPIv3 schema"
    errors.add(forbidden(path, exceeds_budget(what, total.total, MOST_OF_A_DEFINITION)))


def _shown(rule: Rule, features: Set[str]) -> Formatted:
    parts = [f"Rule:{quoted(rule.rule)}, Message:{quoted(rule.message)}"]
    if RULE_MESSAGES in features:
        parts.append(f"MessageExpression:{quoted(rule.message_expression)}")
    if RULE_REASONS in features:
        parts.append("Reason:(*apiextensions.FieldValueErrorReason)(nil)")
        parts.append(f"FieldPath:{quoted(rule.field_path)}")
    if RULE_OLD_SELF in features:
        parts.append("OptionalOldSelf:(*bool)(nil)")
    internal = {
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason or None,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self,
    }
    return Formatted(f"apiextensions.ValidationRule{{{', '.join(parts)}}}", internal)
