"""Compilation of the expressions of admission policies and of match conditions of webhooks.

    compiler = Compiler(names, features, has_params=False)
    compiler.problem("object.metadata.name == 1", ("bool",))      "" if it compiles to a boolean

Expressions that an object has already had may use more than new ones. Nothing is evaluated here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from rewound.actors.cel.authorizer import Authorizer, ResourceCheck
from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.language import language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import compile_program
from rewound.actors.cel.syntax import (
    Problems,
)
from rewound.actors.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Environment,
    MessageType,
    Type,
    list_of,
    map_of,
)
from rewound.actors.cel.values import CannotCompile
from rewound.actors.kinds.structural.rules import Declared, named
from rewound.actors.names import Names
from rewound.actors.runtime.time_limit import need_thread
from rewound.actors.versions.features import (
    CEL_AUTHORIZER,
    CEL_JSON_PATCH,
    POLICY_VARIABLE_TYPES,
    RESULT_TYPE_IN_TEXTS,
)

LARGE: Final = 500  # characters of an expression that takes milliseconds to compile

ANYTHING: Final = ()
COMPILATION_FAILED: Final = "compilation failed: "
INSTANTIATION_FAILED: Final = "program instantiation failed: "  # an error of the server, not of the text
MUTATIONS: Final = frozenset(("Object", "list(JSONPatch)"))  # types of mutations, which construct such values


class Compiler:
    """Compiles the expressions of one object. With `variables`, they may use those declared before."""

    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        *,
        has_params: bool,
        variables: bool = False,
        stored: bool = False,
        request_resource: bool = True,
        library_costs: bool = True,
    ) -> None:
        """`stored`: the expressions are those of a stored object, which may use more than new ones.

        `request_resource`: they may use `authorizer.requestResource`. `library_costs`: as in `Language`.
        """
        self._stored = language_of(names, features, stored=True, library_costs=library_costs)
        self._new = self._stored if stored else language_of(names, features)
        self._names_result = RESULT_TYPE_IN_TEXTS in features
        self._types_variables = POLICY_VARIABLE_TYPES in features
        self._variables: dict[str, Type] = {"object": DYN, "oldObject": DYN}
        self._messages = dict(messages_of_requests())
        self._variables |= {
            "request": Type("kubernetes.AdmissionRequest"),
            "namespaceObject": Type("kubernetes.Namespace"),
        }
        if has_params:
            self._variables["params"] = DYN
        self._authorizer: dict[str, Type] = {}
        if CEL_AUTHORIZER in self._stored.features:
            self._authorizer["authorizer"] = Type(Authorizer.type_name)
            if request_resource:
                self._authorizer["authorizer.requestResource"] = Type(ResourceCheck.type_name)
        self._composed: dict[str, Type] = {}
        if variables:
            self._messages[_VARIABLES] = MessageType(_VARIABLES, self._composed)
            self._variables["variables"] = Type(_VARIABLES)

    def set_type(self, declared: Declared, name: str, *variables: str) -> None:
        """Let variables have a type instead of any. `name` is that of the type."""
        self._variables |= dict.fromkeys(variables, named(declared, name, self._messages).type)

    def problem(
        self, text: str, results: tuple[str, ...], *, stored: bool = False, authorizer: bool = True
    ) -> str:
        """Return what is wrong with an expression that must have one of these types; empty if nothing is.

        `stored`: the object already had it. `authorizer`: it may use the authorizer.
        """
        return _problem_of(self.check(text, results, stored=stored, authorizer=authorizer))

    def declare(self, name: str, text: str, *, stored: bool = False) -> str:
        """Compile the expression of a variable, which later ones may use. Returns what is wrong with it."""
        checked = self.check(text, ANYTHING, stored=stored)
        problem = _problem_of(checked)
        self.add_variable(name, problem or checked)
        return problem

    def add_variable(self, name: str, checked: Checked | str) -> None:
        """Let later expressions use a variable, of a checked expression."""
        if self._types_variables and isinstance(checked, Checked):
            self._composed[name] = _type_of_variable(checked.result)
        else:
            self._composed[name] = DYN

    def check(
        self, text: str, results: tuple[str, ...], *, stored: bool = False, authorizer: bool = True
    ) -> Checked | str:
        """Return a checked expression, or what is wrong with it. See `problem`."""
        if len(text) > LARGE:
            need_thread()
        mutates = not MUTATIONS.isdisjoint(results)
        language = self._stored if stored else self._new
        if mutates:
            language = replace(language, features=language.features | {CEL_JSON_PATCH})
        parsed = parse(text, language)
        if isinstance(parsed, Problems):
            return f"{COMPILATION_FAILED}{parsed}"
        variables = {**self._variables, **self._authorizer} if authorizer else self._variables
        checked = check(parsed, Environment(variables, self._messages, language, mutates))
        if isinstance(checked, Problems):
            return f"{COMPILATION_FAILED}{checked}"
        found = _shown(checked.result)
        if not results or found in results:
            return checked
        wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
        got = f" but got {found}" if self._names_result else ""
        return f"must evaluate to {wanted}{got}"


_SHOWN: Final = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}


def _shown(of: Type) -> str:
    """Return a type as texts about results show it."""
    inner = ", ".join(map(_shown, of.parameters))
    name = _SHOWN.get(of.name, of.name)
    return f"{name}({inner})" if inner else name


def _problem_of(checked: Checked | str) -> str:
    if isinstance(checked, str):
        return checked
    try:
        compile_program(checked.expression, checked, ())
    except CannotCompile as error:
        return f"{INSTANTIATION_FAILED}{error}"
    return ""


_SIMPLE: Final = frozenset(
    ("any", "bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "uint")
)


def _type_of_variable(found: Type) -> Type:
    """Return the type that a variable has for expressions that use it: objects and optional values become dyn."""
    if found.name in _SIMPLE:
        return found
    if found.name in ("list", "map"):
        return Type(found.name, tuple(_type_of_variable(one) for one in found.parameters))
    return DYN


_VARIABLES: Final = "kubernetes.variables"


@cache
def messages_of_requests() -> dict[str, MessageType]:
    """The types of the variables `request` and `namespaceObject`."""
    kind = {"group": STRING, "version": STRING, "kind": STRING}
    resource = {"group": STRING, "version": STRING, "resource": STRING}
    texts = list_of(STRING)
    declared: dict[str, dict[str, Type]] = {
        "GroupVersionKind": kind,
        "GroupVersionResource": resource,
        "UserInfo": {"username": STRING, "uid": STRING, "groups": texts, "extra": map_of(STRING, texts)},
        "AdmissionRequest": {
            "kind": Type("kubernetes.GroupVersionKind"),
            "resource": Type("kubernetes.GroupVersionResource"),
            "subResource": STRING,
            "requestKind": Type("kubernetes.GroupVersionKind"),
            "requestResource": Type("kubernetes.GroupVersionResource"),
            "requestSubResource": STRING,
            "name": STRING,
            "namespace": STRING,
            "operation": STRING,
            "userInfo": Type("kubernetes.UserInfo"),
            "dryRun": BOOL,
            "options": DYN,
        },
        "NamespaceSpec": {"finalizers": texts},
        "NamespaceCondition": {
            **dict.fromkeys(("status", "type", "message", "reason"), STRING),
            "lastTransitionTime": TIMESTAMP,
        },
        "NamespaceStatus": {
            "conditions": list_of(Type("kubernetes.NamespaceCondition")),
            "phase": STRING,
        },
        "NamespaceMetadata": {
            **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), STRING),
            **dict.fromkeys(("labels", "annotations"), map_of(STRING, STRING)),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
            **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
            "finalizers": texts,
        },
        "Namespace": {
            "metadata": Type("kubernetes.NamespaceMetadata"),
            "spec": Type("kubernetes.NamespaceSpec"),
            "status": Type("kubernetes.NamespaceStatus"),
        },
    }
    return {f"kubernetes.{name}": MessageType(f"kubernetes.{name}", of) for name, of in declared.items()}
