"""Python's regular expressions backtrack, so their patterns are constants: those of users are for RE2.

A pattern may be composed of constants of its module. The modules below compose one otherwise; each says of what.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import rewound
from tests.cases import cases

ROOT: Final = Path(rewound.__file__).parent
FUNCTIONS: Final = frozenset(
    ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
)
ENGINES: Final = {"re2": ("actors/cel/go_regexp.py",)}  # which module alone imports an engine
COMPOSED: Final[dict[str, str]] = {}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def constants_of(module: ast.Module) -> set[str]:
    """The names that a module or a class in it assigns once, from constants."""
    names: set[str] = set()
    for statement in ast.walk(module):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if name.isupper() and is_constant(value, names):
            names.add(name)
    return names


def is_constant(pattern: ast.expr, names: set[str]) -> bool:
    match pattern:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.BinOp(left=left, right=right):
            return is_constant(left, names) and is_constant(right, names)
        case ast.JoinedStr(values=values):
            return all(is_constant(one, names) for one in values)
        case ast.FormattedValue(value=value):
            return is_constant(value, names)
        case ast.Call(func=ast.Attribute(value=text, attr="join" | "encode" | "replace"), args=arguments):
            return is_constant(text, names) and all(is_constant(one, names) for one in arguments)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="escape")):
            return True
    return False


def composed(source: ast.Module) -> list[int]:
    """The lines of regular expressions whose patterns are not constants."""
    names = constants_of(source)
    return [
        call.lineno
        for call in ast.walk(source)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "re"
        and call.func.attr in FUNCTIONS
        and not is_constant(call.args[0], names)
    ]


def test_patterns_are_constants() -> None:
    lines = {name: found for name, module in modules() if (found := composed(module))}
    unknown = {name: found for name, found in lines.items() if name not in COMPOSED}
    assert not unknown, f"compile the patterns of users with actors/cel/go_regexp.py: {unknown}"
    assert lines.keys() == COMPOSED.keys(), "COMPOSED lists modules that compose no pattern any more"
