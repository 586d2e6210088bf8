"""Python's regular expressions backtrack, so their patterns are constants: those of users are for RE2.

A pattern may be composed of constants of its module. The modules below compose one otherwise; each says of what.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import rewound

ROOT: Final = Path(rewound.__file__).parent
FUNCTIONS: Final = frozenset(
    ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
)
WRAPPER: Final = "actors/cel/go_regexp.py"
COMPOSED: Final = {
    "actors/cel/declarations.py": "names of type parameters",
    "actors/cel/lexer.py": "quotes and escapes of CEL",
    "actors/golang/json.py": "a random mark",
    "actors/kinds/coordination.py": "the expression of semantic versions",
    "actors/kinds/core/volume_sources.py": "the three formats of iSCSI names",
    "actors/kinds/policy.py": "the expression of sysctls",
    "actors/kinds/resource/rules.py": "identifiers of semantic versions",
    "actors/kinds/schema/internal.py": "initials of Go's names",
    "actors/kinds/structural/formats.py": "formats of strings",
    "cli/journal/commands.py": "names of commands",
    "gateway/describe/openapi/custom.py": "marks of extensions",
    "gateway/proxy/rewriting.py": "some names of HTML elements",
    "recording/query/comparing.py": "a namespace between constants, escaped",
    "recording/record/audit_exports.py": "fields of audit files",
    "recording/replay/comparison.py": "literals around wildcards that do not backtrack, of a flag",
    "rewind/suspects/weighing.py": "words of topics",
    "testing/explore/chosen.py": "literals of the server's own names",
}


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Those that use regular expressions."""
    texts = ((path, path.read_text()) for path in sorted(ROOT.rglob("*.py")))
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(text))
        for path, text in texts
        if re.search(r"^\s*(import|from) re2?\b", text, re.MULTILINE)
    )


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


def test_module_is_imported_by_its_own_name() -> None:
    """So that the test above sees all uses. And one module imports RE2, which knows what compiling costs."""
    importing = set()
    for name, module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in ("re", "re2"), f"{name}:{node.lineno}: write `import {node.module}`"
            elif isinstance(node, ast.Import):
                for one in node.names:
                    assert one.name != "re" or not one.asname, f"{name}:{node.lineno}: write `import re`"
                    if one.name == "re2":
                        importing.add(name)
    assert importing == {WRAPPER}
