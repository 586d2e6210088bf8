"""Whatever evaluates a text that a user wrote takes a Budget as a required parameter, and these modules make one.

The type checker finds a call without it; this test finds what the type checker allows: a default, a parameter that may
be None, a public function of an evaluator without it, and a place that starts evaluations and that nobody has listed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import rewound
from tests.cases import cases

ROOT: Final = Path(rewound.__file__).parent
BASE: Final = "actors/runtime/budget.py"
Function = ast.FunctionDef | ast.AsyncFunctionDef

# Public functions and methods of the modules that evaluate. Those of PARSING do not: they bound their texts by length.
EVALUATING: Final = {
    "actors/cel/kwok.py": ("compile_expression.evaluate",),
    "actors/cel/program.py": ("Program.evaluate",),
    "actors/kinds/json_path.py": ("JsonPath.__init__", "JsonPath.first", "Search.__init__"),
    "actors/stages/jq.py": ("compile_query.query",),
    "actors/stages/templates.py": ("Template.render", "Template.steps"),
}
PARSING: Final = {
    "actors/cel/kwok.py": ("compile_expression", "language_of_stages"),
    "actors/cel/program.py": ("Program.__init__", "compile_program"),
    "actors/kinds/json_path.py": (
        "NoResult.__init__",
        "PathBudget.__init__",
        "PathBudget.pause",
        "Search.visit",
    ),
    "actors/stages/jq.py": ("compile_query", "query_budget"),
    "actors/stages/templates.py": ("Template.__init__", "template_budget"),
}
# Where evaluations start, and how long they may take at most.
STARTS: Final = {
    "actors/access/authentication/claim_expressions.py": "the time limit of a worker thread",
    "actors/access/authorization/match_conditions.py": "the time limit of a worker thread",
    "actors/admission/policies/expressions.py": "the time limit of a worker thread",
    "actors/admission/policies/patches.py": "the time limit of a worker thread",
    "actors/kinds/custom.py": "the paths of a table",
    "actors/kinds/declaration/columns.py": "the paths of a row",
    "actors/kinds/structural/rules.py": "the time limit of a worker thread",
    "actors/nodes/static_pods.py": "the size of a manifest",
    "actors/scheduler/device_selectors.py": "steps of a device selector",
    "actors/stages/jq.py": "counted cost of a query",
    "actors/stages/player.py": "the size of a document",
    "actors/stages/stage.py": "steps of an expression of a Stage",
    "actors/stages/templates.py": "counted cost of a template",
    "actors/workloads/usage_rules.py": "steps of an expression of a ResourceUsage",
    "cli/cel.py": "steps of an expression of the command",
    "recording/replay/until.py": "steps of an expression of the command",
    "recording/rules/expressions.py": "steps of an expression of a rule",
    "testing/explore/invariants.py": "steps of an invariant",
}
# A method that evaluates, and a part of the name of what has it.
CALLS: Final = (
    ("evaluate", "program"),
    ("first", "path"),
    ("steps", "template"),
    ("render", "template"),
    ("search", "column"),
)


@cache
def modules() -> dict[str, ast.Module]:
    """Those that know of a Budget or evaluate something."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if "Budget" in text or any(f".{method}(" in text for method, _ in CALLS):
            found[path.relative_to(ROOT).as_posix()] = ast.parse(text)
    return found


def file_of(module: str) -> str:
    return module.removeprefix("rewound.").replace(".", "/") + ".py"


@cache
def budgets() -> dict[str, frozenset[str]]:
    """By module, the names in it that are a Budget: defined there, or imported."""
    defined = {(BASE, "Budget")}
    names: dict[str, frozenset[str]] = {}
    before = 0
    while before != len(defined):
        before = len(defined)
        for file, module in modules().items():
            known = {name for place, name in defined if place == file}
            known |= {
                one.asname or one.name
                for node in ast.walk(module)
                if isinstance(node, ast.ImportFrom) and node.module
                for one in node.names
                if (file_of(node.module), one.name) in defined
            }
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef) and any(
                    isinstance(base, ast.Name) and base.id in known for base in node.bases
                ):
                    defined.add((file, node.name))
                    known.add(node.name)
            names[file] = frozenset(known)
    return names


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for one in ast.iter_child_nodes(node):
        name = f"{prefix}{getattr(one, 'name', '')}"
        if isinstance(one, Function):
            yield name, one
        is_named = isinstance(one, (*Function.__args__, ast.ClassDef))
        yield from functions(one, f"{name}." if is_named else prefix)


def parameters(function: Function) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Each with its default."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    yield from zip(plain, [*([None] * (len(plain) - len(given.defaults))), *given.defaults], strict=True)
    yield from zip(given.kwonlyargs, given.kw_defaults, strict=True)


def is_budget(annotation: ast.expr | None, names: frozenset[str]) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id in names for one in ast.walk(annotation or ast.Constant(None))
    )


def test_there_are_several_kinds_of_budgets() -> None:
    assert len(frozenset.union(*budgets().values())) >= 4


def test_budget_has_no_default_and_cannot_be_none() -> None:
    for file, module in modules().items():
        for name, function in functions(module):
            for parameter, default in parameters(function):
                if is_budget(parameter.annotation, budgets()[file]):
                    may_be_none = isinstance(parameter.annotation, ast.BinOp)
                    assert not may_be_none, f"{file}: {name}: {parameter.arg} may be None"
                    assert default is None, f"{file}: {name}: {parameter.arg} has a default"


@cases("file", EVALUATING)
def test_public_function_of_an_evaluator_takes_a_budget(file: str) -> None:
    taking = {
        name
        for name, function in functions(modules()[file])
        if any(is_budget(parameter.annotation, budgets()[file]) for parameter, _ in parameters(function))
    }
    assert set(EVALUATING[file]) <= taking
    public = {name for name, _ in functions(modules()[file]) if is_public(name)}
    unknown = public - taking - set(PARSING[file])
    assert not unknown, f"{file}: give {unknown} a budget, or say in PARSING that they only parse"


def is_public(name: str) -> bool:
    first, *rest = name.split(".")
    methods = all(not one.startswith("_") or one == "__init__" for one in rest)
    return not first.startswith("_") and methods and len(rest) < 2


def test_evaluations_start_in_these_modules() -> None:
    made = {
        file
        for file, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in budgets()[file]
    }
    assert made == STARTS.keys()


@cases(("method", "receiver"), CALLS)
def test_call_of_an_evaluator_passes_a_budget(method: str, receiver: str) -> None:
    calls = 0
    for file, module in modules().items():
        for node in ast.walk(module):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr != method or receiver not in last_name(node.func.value).lower():
                continue
            calls += 1
            given = [*node.args, *(one.value for one in node.keywords)]
            assert any(map(names_a_budget, given)), f"{file}:{node.lineno}: {method} without a budget"
    assert calls


def last_name(value: ast.expr) -> str:
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return last_name(function)
        case ast.Subscript(value=of):
            return last_name(of)
    return ""


def names_a_budget(value: ast.expr) -> bool:
    names = (getattr(one, "id", "") or getattr(one, "attr", "") for one in ast.walk(value))
    return any("budget" in name.lower() for name in names)
