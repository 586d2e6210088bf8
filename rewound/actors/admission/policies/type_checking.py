"""Type checks of validating policies: what their expressions do wrong with objects of the kinds that they match.

A check knows the kinds that `matchConstraints` names without wildcards, at most ten of a rule, and the kind of the
parameters. Its warnings are part of the policy's status; they change nothing that the policy does. As in Kubernetes,
a resource of the group "" stands for those of all groups of this version and name, and `authorizer.requestResource`
has no type here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rewound.actors.kinds.admission_expressions import COMPILATION_FAILED, Compiler
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.expression_types import declare_kind
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import UNTYPED_PARAMS

MOST_KINDS: Final = 10

Key = tuple[str, str, str]  # group, version and kind


def type_warnings(policy: Object, catalog: Catalog, names: Names, features: frozenset[str]) -> list[Object]:
    """Return the warnings for `status.typeChecking` of a policy. Call it in a worker thread."""
    spec = policy["spec"]
    compilers = list(_compilers(spec, catalog, names, features))
    warnings: list[Object] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for part in ("expression", "messageExpression"):
            text = validation.get(part, "")
            problems = _problems(text, compilers) if text or part == "expression" else ""
            if problems:
                warnings.append({"fieldRef": f"spec.validations[{index}].{part}", "warning": problems})
    return warnings


def _problems(text: str, compilers: list[tuple[Key, Compiler]]) -> str:
    problems = []
    for (group, version, kind), compiler in compilers:
        if problem := compiler.problem(text, ()):
            shown = problem.removeprefix(COMPILATION_FAILED)
            problems.append(f"{group}/{version}, Kind={kind}: {shown}\n")
    return "\n".join(problems)


def _compilers(
    spec: Object, catalog: Catalog, names: Names, features: frozenset[str]
) -> Iterator[tuple[Key, Compiler]]:
    """Yield a compiler for each kind, in which the objects and parameters have their types."""
    params = spec.get("paramKind")
    param_kind = catalog.of_kind(params["apiVersion"], params["kind"]) if params is not None else None
    has_params = param_kind is not None or (params is not None and UNTYPED_PARAMS in features)
    for key, definition in sorted(_kinds_to_check(spec, catalog).items()):
        compiler = Compiler(
            names, features, has_params=has_params, variables=True, stored=True, request_resource=False
        )
        compiler.set_type(declare_kind(definition, catalog), f"{definition.kind}0", "object", "oldObject")
        if param_kind is not None:
            compiler.set_type(declare_kind(param_kind, catalog), f"{param_kind.kind}1", "params")
        for variable in spec.get("variables") or ():
            compiler.declare(variable["name"], variable["expression"])
        yield key, compiler


def _kinds_to_check(spec: Object, catalog: Catalog) -> dict[Key, Definition]:
    found: dict[Key, Definition] = {}
    for rule in spec["matchConstraints"].get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in one for one in (*groups, *versions)):
            continue
        resources = sorted(one for one in rule.get("resources") or () if "*" not in one and "/" not in one)
        count = 0
        for group in sorted(groups):
            for version in sorted(versions):
                for resource in resources:
                    for one in _kinds_of(group, version, resource, catalog):
                        found[one.group, one.version, one.kind] = one
                        count += 1
                        if count == MOST_KINDS:
                            return found
    return found


def _kinds_of(group: str, version: str, resource: str, catalog: Catalog) -> Iterator[Definition]:
    name = resource.lower()
    for one in catalog.definitions:
        singular = one.names.singular or one.kind.lower()
        if one.version == version and group in ("", one.group) and name in (one.plural, singular):
            yield one
