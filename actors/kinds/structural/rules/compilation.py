"""Compiles the rules of one schema node: parsed, checked against the node's type, and made programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.cel.checker import check
from actors.cel.cost.estimate import estimate
from actors.cel.parser import parse
from actors.cel.program import Program, compile_program
from actors.cel.source import Problems
from actors.cel.types import BOOL, Environment, MessageType
from actors.cel.values import CannotCompile
from actors.kinds.structural.node import Rule
from actors.kinds.structural.rules.declared import Declared, named
from actors.names import Names

VARIABLES: Final = ("self", "oldSelf")


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """`program` is None for an empty rule and for one with an `error`."""

    rule: Rule
    program: Program | None = None
    error: str = ""
    is_transition: bool = False  # it uses oldSelf
    cost: int = 0  # estimated, of one evaluation


def compile_rules(
    rules: tuple[Rule, ...], declared: Declared, names: Names, number: int = 0
) -> tuple[CompiledRule, ...]:
    """`number` is part of the name of the node's type, on which no rule may depend."""
    messages: dict[str, MessageType] = {}
    root = named(declared, f"selfType{number}", messages)
    variables = dict.fromkeys((*VARIABLES, "rule"), root.type)
    environment = Environment(variables, messages, names.url_type)
    return tuple(_compile(rule, root, environment) for rule in rules)


def _compile(rule: Rule, root: Declared, environment: Environment) -> CompiledRule:
    if not rule.rule.strip():
        return CompiledRule(rule)
    expression = parse(rule.rule)
    checked = expression if isinstance(expression, Problems) else check(expression, environment)
    if isinstance(checked, Problems):
        return CompiledRule(rule, error=f"compilation failed: {checked}")
    if checked.result != BOOL:
        return CompiledRule(rule, error="cel expression must evaluate to a bool")
    is_transition = checked.names("oldSelf")
    try:
        program = compile_program(checked.expression, checked, VARIABLES)
    except CannotCompile as error:
        text = f"program instantiation failed: {error}"
        return CompiledRule(rule, error=text, is_transition=is_transition)
    cost = estimate(checked, root).most
    return CompiledRule(rule, program, is_transition=is_transition, cost=cost)
