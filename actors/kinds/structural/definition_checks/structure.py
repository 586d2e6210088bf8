"""The rules of structural schemas: types are declared outside of allOf, anyOf, oneOf and not, and everywhere.

`check_structure` adds its errors sorted by their text, because v1.25 does.
"""

from __future__ import annotations

from actors.cel.library.go_regexp import InvalidExpression, may_take_long
from actors.kinds.structural.node import NO_NODES, Node
from actors.kinds.structural.patterns import MOST_PATTERNS, compile_pattern, weight_of
from actors.kinds.validation import FieldError, FieldErrors, collect, forbidden, invalid, required
from actors.time_limit import check_time, need_thread

ROOT, ITEM, FIELD = "root", "items", "field"

_EMPTY_TYPE = {
    ROOT: "must not be empty at the root",
    ITEM: "must not be empty for specified array items",
    FIELD: "must not be empty for specified object fields",
}


def check_structure(errors: FieldErrors, path: str, root: Node, prefix: str) -> None:
    """`prefix` is that of extensions."""
    checks = _Checks(prefix)
    found = collect(lambda errors: checks.all(errors, path, root))
    errors.add_all(sorted(found, key=_text))


def is_plain_metadata(node: Node) -> bool:
    """Whether the schema of the metadata of an object restricts its name and generateName only."""
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
        if pattern in self._patterns:
            return
        if may_take_long(pattern):
            need_thread()
        check_time()
        try:
            self._patterns[pattern] = weight_of(compile_pattern(pattern))
        except InvalidExpression as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            errors.add(invalid(path, pattern, text))
            return
        self._weight += self._patterns[pattern]
        if self._weight > MOST_PATTERNS:
            text = f"the schema may have at most {MOST_PATTERNS} different patterns, and fewer that are large"
            errors.add(forbidden(path, text))

    def _branch(self, errors: FieldErrors, node: Node, skip_any: bool, path: str) -> None:
        """What stands inside allOf, anyOf, oneOf or not."""
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
