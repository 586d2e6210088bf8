"""What is wrong with an expression that the parser does not understand, in the words of cel-go's generated parser.

cel-go parses with ANTLR, which continues behind a syntax error (it deletes or inserts a token, or skips tokens up to
one that can follow), reports further errors that way, and then still walks over what it could build, which finds wrong
literals, reserved names and wrong arguments of macros. This package does the same: `grammar` has the token sets of
every place of the grammar, `strategy` reports and recovers, `descent` builds the parse tree, `walk` walks over it.

It is slower than the parser and runs only for wrong expressions. No step is recursive in Python: rules are generators
that a loop runs, so that nesting is bounded by cel-go's limits alone.
"""

from __future__ import annotations

from actors.cel.recovery.descent import Descent
from actors.cel.recovery.strategy import Abandoned
from actors.cel.recovery.walk import Walk
from actors.cel.source import Problems, Source


def explain(text: str) -> Problems:
    """The problems of an expression that the parser did not accept."""
    problems = Problems(Source(text))
    try:
        tree = Descent(text, problems).start()
        Walk(problems).start(tree)
    except Abandoned:
        pass
    return problems
