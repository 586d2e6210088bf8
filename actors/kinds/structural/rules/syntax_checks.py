"""Rules in CEL as texts: each has one, and messages are single lines."""

from __future__ import annotations

from collections.abc import Sequence

from actors.kinds.structural.node import Rule
from actors.kinds.validation import FieldErrors, invalid, required


def check_rule_syntax(errors: FieldErrors, path: str, rules: Sequence[Rule]) -> None:
    for index, one in enumerate(rules):
        where = f"{path}[{index}]"
        rule, message = one.rule.strip(), one.message.strip()
        if not rule:
            errors.add(required(f"{where}.rule", "rule is not specified"))
        elif one.message and not message:
            errors.add(invalid(f"{where}.message", one.message, "message must be non-empty if specified"))
        elif _has_breaks(message):
            errors.add(invalid(f"{where}.message", one.message, "message must not contain line breaks"))
        elif _has_breaks(rule) and not message:
            errors.add(required(f"{where}.message", "message must be specified if rule contains line breaks"))


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text
