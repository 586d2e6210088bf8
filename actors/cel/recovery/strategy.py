"""Reports syntax errors and continues behind them, as ANTLR's default error strategy does within cel-go's limits.

A token that does not fit is deleted if the one behind it fits, else the expected one is inserted if the token can stand
behind it, else the rule is given up: tokens are skipped up to one that can follow a rule that is still open. Between an
error and the next token that fits no further error is reported.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from actors.cel.lexer import END, Token, tokenize
from actors.cel.limits import MOST_RECOVERIES, MOST_SKIPPED_TOKENS
from actors.cel.recovery.grammar import RULE_END, Kinds, Place, first_listed, listed
from actors.cel.source import NOWHERE, Problems

_DIRECTIVE: Final = re.compile(r"%[#0+\- ]*(\*|[0-9]*)(\.(?:\*|[0-9]*))?(.?)", re.DOTALL)


class Abandoned(Exception):
    """A limit of cel-go ends the parse; the problem is reported."""


class Mismatch(Exception):
    """The next token does not fit at `place`, and no single token makes it fit."""

    def __init__(self, place: Place) -> None:
        self.place = place


class NoAlternative(Exception):
    """No alternative of a rule begins with the tokens from the next one to `last`."""

    def __init__(self, place: Place, last: Token) -> None:
        self.place = place
        self.last = last


class Strategy:
    """The tokens of an expression, and how far the parser is with them."""

    def __init__(self, text: str, problems: Problems) -> None:
        self._text = text
        self._problems = problems
        self._tokens, self._unrecognized = tokenize(text)
        self._index = 0
        self._reported = 0  # how many of self._unrecognized are reported
        self._recovering = False
        self._error_index = -1
        self._error_places: set[int] = set()
        self._recoveries = 0
        self.open_rules: list[Kinds] = []  # what follows each rule that the parser is in, the innermost last

    def look(self, ahead: int = 0) -> Token:
        """The token `ahead` of the next. Text that is no token is reported when the parser first looks behind it."""
        token = self._tokens[min(self._index + ahead, len(self._tokens) - 1)]
        while (
            self._reported < len(self._unrecognized)
            and self._unrecognized[self._reported].offset < token.offset
        ):
            wrong = self._unrecognized[self._reported]
            self._reported += 1
            self._report(wrong.offset, f"token recognition error at: '{wrong.text}'")
        return token

    @property
    def kind(self) -> str:
        return self.look().kind

    def match(self, kind: str, place: Place) -> Token:
        token = self.look()
        if token.kind == kind:
            self._matched()
            self._consume()
            return token
        return self._recover_inline(place)

    def sync(self, place: Place) -> None:
        """Check that the next token fits before an optional part or a loop. Delete it if the one behind it does."""
        if self._recovering or self.kind in place.here:
            return
        if place.loop:
            self._report_unwanted(place)
            self._skip_to(self._expected(place.here) | self._recovery_set(), None)
        elif not self._delete(place):
            raise Mismatch(place)

    def give_up(self, error: Mismatch | NoAlternative) -> None:
        """Report `error` and skip the tokens that cannot follow the open rules."""
        if not self._recovering:
            self._recovering = True
            if isinstance(error, Mismatch):
                token = self.look()
                self._report(
                    token.offset, f"mismatched input {_shown(token)} expecting {self._listed(error.place)}"
                )
            else:
                input_text = self._text_to(error.last)
                self._report(error.last.offset, f"no viable alternative at input '{_escaped(input_text)}'")
        self._count_recovery()
        skipped = 0
        if self._error_index == self._index and id(error.place) in self._error_places:
            self._consume()
            skipped = 1
        self._error_index = self._index
        self._error_places.add(id(error.place))
        self._skip_to(self._recovery_set(), MOST_SKIPPED_TOKENS - skipped)

    def abandon(self, message: str) -> NoReturn:
        self._problems.report(NOWHERE, message)
        raise Abandoned

    def _recover_inline(self, place: Place) -> Token:
        self._count_recovery()
        if self._delete(place):
            token = self.look()
            self._consume()
            return token
        if self.kind in self._expected(place.behind):
            return self._insert(place)
        raise Mismatch(place)

    def _delete(self, place: Place) -> bool:
        if self.look(1).kind not in self._expected(place.here):
            return False
        self._report_unwanted(place)
        self._consume()
        self._matched()
        return True

    def _insert(self, place: Place) -> Token:
        token = self.look()
        if not self._recovering:
            self._recovering = True
            self._report(token.offset, f"missing {self._listed(place)} at {_shown(token)}")
        if token.kind == END and self._index:
            token = self._tokens[self._index - 1]
        return Token(first_listed(self._expected(place.here)), "<missing>", token.offset)

    def _report_unwanted(self, place: Place) -> None:
        if self._recovering:
            return
        self._recovering = True
        token = self.look()
        self._report(token.offset, f"extraneous input {_shown(token)} expecting {self._listed(place)}")

    def _matched(self) -> None:
        self._recovering = False
        self._error_index = -1
        self._error_places.clear()

    def _consume(self) -> None:
        if self.kind != END:
            self._index += 1
            self.look()

    def _skip_to(self, kinds: Kinds, most: int | None) -> None:
        skipped = 0
        while self.kind != END and self.kind not in kinds:
            if skipped == most:
                self.abandon(f"error recovery token lookahead limit exceeded: {MOST_SKIPPED_TOKENS}")
            self._consume()
            skipped += 1

    def _count_recovery(self) -> None:
        if self._recoveries == MOST_RECOVERIES:
            self._report(self.look().offset, f"error recovery attempt limit exceeded: {MOST_RECOVERIES}")
            raise Abandoned
        self._recoveries += 1

    def _expected(self, kinds: Kinds) -> Kinds:
        """kinds, and what follows the open rules as far as `kinds` may end them."""
        following, expected = kinds, kinds - {RULE_END}
        for outer in reversed(self.open_rules):
            if RULE_END not in following:
                return expected
            following = outer
            expected |= outer - {RULE_END}
        return expected | {END} if RULE_END in following else expected

    def _recovery_set(self) -> Kinds:
        return frozenset().union(*self.open_rules) - {RULE_END}

    def _listed(self, place: Place) -> str:
        return listed(self._expected(place.here))

    def _text_to(self, last: Token) -> str:
        """The source from the next token to the end of `last`, without what is no token."""
        first = self.look()
        if first.kind == END:
            return END
        end = last.offset if last.kind == END else last.offset + len(last.text)
        parts, start = [], first.offset
        for wrong in self._unrecognized:
            if first.offset <= wrong.offset < end:
                parts.append(self._text[start : wrong.offset])
                start = wrong.offset + len(wrong.text)
        return "".join(parts) + self._text[start:end]

    def _report(self, offset: int, message: str) -> None:
        self._problems.report_at(offset, formatted(f"Syntax error: {message}"))


def formatted(message: str) -> str:
    """message as Go prints it when it is taken for a format without arguments, which is what cel-go does with it."""
    return _DIRECTIVE.sub(_missing, message) if "%" in message else message


def _missing(found: re.Match[str]) -> str:
    width, precision, verb = found.groups()
    stars = ("%!(BADWIDTH)" if width == "*" else "") + ("%!(BADPREC)" if precision == ".*" else "")
    if not verb:
        return f"{stars}%!(NOVERB)"
    return stars + ("%" if verb == "%" else f"%!{verb}(MISSING)")


def _shown(token: Token) -> str:
    return f"'{_escaped(token.text)}'"


def _escaped(text: str) -> str:
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
