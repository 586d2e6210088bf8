"""`rewound cel EXPRESSION`: evaluate a CEL expression on an object, as a server does.

Prints the result, its type and its cost, with the CEL of a version of Kubernetes: the functions that a new
policy or rule may use there. An expression that does not compile is shown with the place of each mistake.

rewound cel 'object.spec.replicas <= 5' --object deployment.yaml
rewound cel 'self.min <= self.max' --object widget.yaml                        as in rules of custom resources
rewound cel 'object.spec == oldObject.spec' --object new.yaml --old old.yaml
rewound cel 'object.spec.replicas <= params.data.max' --object a.yaml --params limits.yaml
kubectl get deployment a -o yaml | rewound cel 'object.metadata.labels' --object -
rewound cel "'1.2.3.4'.matches('^1')" --kubernetes-version 1.30                no object at all

Objects have no schema here, so that every field has any type; what a typed field would refuse fails when it is
evaluated. `request`, `namespaceObject` and `authorizer` need a request: `rewound policy test` has those of the past.

The exit code is 0 if the expression has a value, also false; 1 if it does not compile or fails, 2 after wrong use.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser
from rewound.cli.command import run_command
from rewound.cli.journal.flags import add_output
from rewound.cli.journal.printing import Output
from rewound.client.errors import Failure, UsageError
from rewound.server.flags.values import argument_type

if TYPE_CHECKING:
    from rewound.actors.runtime.budget import Budget

_MOST_PAUSES: Final = 10_000  # about two seconds
_VALUE: Final = 100  # bytes of a value in the result

# Who gives an object gives it to policies and to rules of custom resources: both names have it.
_NAMES = {"object": ("object", "self"), "old": ("oldObject", "oldSelf"), "params": ("params",)}
_MOST_VALUES = 1_000_000


def cel(arguments: Sequence[str]) -> int:
    return run_command(lambda: _run(arguments), ((UsageError, 2), ((Failure, OSError), 1)))


def _parser() -> Parser:
    from rewound.actors.versions.version import NEWEST, parse_version

    parser = Parser("rewound cel", __doc__)
    parser.add_argument("expression", metavar="EXPRESSION")
    parser.add_argument(
        "--object",
        type=Path,
        metavar="FILE",
        help="the variables object and self: YAML or JSON; - reads standard input",
    )
    parser.add_argument("--old", type=Path, metavar="FILE", help="oldObject and oldSelf")
    parser.add_argument("--params", type=Path, metavar="FILE", help="params")
    parser.add_argument(
        "--kubernetes-version",
        type=argument_type(parse_version),
        default=NEWEST,
        metavar="VERSION",
        help=f"whose CEL (default {NEWEST})",
    )
    add_output(parser, "json")
    return parser


def _run(arguments: Sequence[str]) -> int:
    from rewound.actors.cel.checker import check
    from rewound.actors.cel.language import language_of
    from rewound.actors.cel.parser import parse
    from rewound.actors.cel.program import compile_program
    from rewound.actors.cel.syntax import Problems
    from rewound.actors.cel.types import DYN, Environment
    from rewound.actors.cel.values import CannotCompile, EvaluationError, EvaluationStopped, type_name
    from rewound.actors.names import KUBERNETES
    from rewound.actors.runtime.budget import OverBudget, StepBudget
    from rewound.actors.versions.features import choose_release

    options = _parser().parse_args(arguments)
    values = _values(options)
    language = language_of(KUBERNETES, choose_release(options.kubernetes_version).features)
    parsed = parse(options.expression, language)
    environment = Environment(dict.fromkeys(values, DYN), {}, language)
    checked = parsed if isinstance(parsed, Problems) else check(parsed, environment)
    if isinstance(checked, Problems):
        return _report(options, {"error": str(checked)})
    try:
        program = compile_program(checked.expression, checked, tuple(values))
    except CannotCompile as error:
        return _report(options, {"error": str(error)})
    budget = StepBudget(_MOST_PAUSES)
    result, cost = program.evaluate(list(values.values()), budget)
    if isinstance(result, EvaluationError | EvaluationStopped):
        return _report(options, {"error": result.message, "cost": cost})
    found = type_name(result) if checked.result == DYN else str(checked.result)
    try:
        plain = _plain(result, budget)
    except OverBudget as error:
        return _report(options, {"error": f"the result cannot be printed: {error}", "cost": cost})
    return _report(options, {"result": plain, "type": found, "cost": cost})


def _values(options: Options) -> dict[str, Any]:
    """The variables that an expression may name: those whose files are given."""
    from rewound.actors.cel.json_data import from_json

    found: dict[str, Any] = {}
    for flag, variables in _NAMES.items():
        path = getattr(options, flag)
        if path is not None:
            found |= dict.fromkeys(variables, from_json(_read(path)))
    return found


def _read(path: Path) -> Any:
    from rewound.actors.errors import TooLarge
    from rewound.gateway.wire import yaml

    raw = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    try:
        return yaml.load(raw, _MOST_VALUES).value
    except (yaml.YamlError, TooLarge) as error:
        raise Failure(f"{path}: {error}; give one object in YAML or JSON") from None


def _plain(value: Any, budget: Budget) -> Any:
    """A CEL value as JSON has it; one that JSON does not have as a text. Raises OverBudget."""
    from rewound.actors.cel.addresses import CIDR, IP
    from rewound.actors.cel.times import print_duration, print_timestamp
    from rewound.actors.cel.values import (
        Duration,
        MapLike,
        Optional,
        Timestamp,
        TypeValue,
        is_list,
        list_size,
        printed,
        type_name,
        walked,
    )

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Duration):
        return print_duration(value)
    if isinstance(value, Timestamp):
        return print_timestamp(value)
    if is_list(value):
        budget.take(_VALUE * list_size(value))
        return [_plain(one, budget) for one in walked(value, budget)]
    if isinstance(value, MapLike):
        budget.visit(value.size())
        budget.take(_VALUE * value.size())
        return {printed(key): _plain(value.get(key), budget) for key in value.keys()}  # noqa: SIM118
    if isinstance(value, Optional):
        return {"optional": _plain(value.value, budget)} if value.has_value else "optional.none()"
    if isinstance(value, TypeValue):
        return value.name
    return str(value) if isinstance(value, IP | CIDR) else f"a value of type {type_name(value)}"


def _report(options: Options, found: dict[str, Any]) -> int:
    from rewound.actors.golang.json import dumps

    output = Output.of(sys.stdout, options.color)
    if options.output == "json":
        output.json(found)
    else:
        for name, value in found.items():
            text = value if name in ("error", "type") else dumps(value).decode()
            lines = [escaped(line) for line in str(text).split("\n")]
            output.line(f"{name:8}{lines[0]}")
            for line in lines[1:]:
                output.line(f"        {line}")
    output.flush()
    return 1 if "error" in found else 0
