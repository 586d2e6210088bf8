"""Bounds of an expression's text, and the names that it may not use: cel-go's defaults."""

from __future__ import annotations

from typing import Final

LONGEST_EXPRESSION: Final = 100_000  # code points
MOST_VISITS: Final = 250  # nested steps of the walk over the parse tree
DEEPEST_RULE: Final = 250  # nested applications of one grammar rule
MOST_RECOVERIES: Final = 30  # attempts to continue behind a syntax error
MOST_SKIPPED_TOKENS: Final = 256  # per attempt

RESERVED: Final = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
    )
) | frozenset(("package", "namespace", "null", "return", "true", "var", "void", "while"))
