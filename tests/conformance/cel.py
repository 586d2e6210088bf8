"""Checks definitions and objects with CEL rules as recorded from v1.25; fails when an outcome differs.

    python -m tests.conformance.cel ../shared/reference/cel

The folder has `cases.json`: each case is a schema that a definition is created with, or an object that is created or
updated under a definition with that schema, and the status, message and causes of the response. The cases are not part
of this project; `make conformance` needs them. Everything runs in this process: the checks of a definition, and decoder
and validation of its objects, but no store and no HTTP.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from actors.errors import Invalid
from actors.kinds.schema.decoder import NotDecodable
from actors.kinds.structural.checks import check_schema
from actors.kinds.structural.compile import Compiled, compile_schema
from actors.kinds.validation.field_errors import FieldError, collect
from actors.names import CLUSTER
from actors.time_limit import run_limited

SHOWN = 10  # differences
MOST_SECONDS = 60  # for one object; a server ends such work earlier, but this machine may be busy
GROUP, KIND, PLURAL = "cel.example.com", "Thing", "things"
SCHEMA_PATH = "spec.validation.openAPIV3Schema"
_MARK = "\x00"  # before numbers, which are sent as they are written: 1.0 and 1 differ
_NUMBER = re.compile(r'"\\u0000([^"]*)"')


class Outcome(NamedTuple):
    status: int
    message: str
    causes: list[tuple[str, str, str]]  # field, reason, message


def differences(cases: list[dict[str, Any]]) -> Iterator[str]:
    """One text for each case that has another outcome than recorded."""
    compiled: dict[str, Compiled] = {}
    for case in cases:
        expected = Outcome(case["status"], case["message"], [_cause(**cause) for cause in case["causes"]])
        schema = _written(case["schema"])
        if case["kind"] == "definition":
            found = _create_definition(json.loads(schema), expected)
        else:
            if schema not in compiled:
                compiled[schema] = compile_schema(
                    json.loads(schema), api_version=f"{GROUP}/v1", kind=KIND, names=CLUSTER
                )
            found = _write_object(compiled[schema], case)
        if not _agree(found, expected, case.get("unordered", False)):
            yield f"{case['id']}\n  expected {_shown(expected, found)}\n  found    {_shown(found, expected)}"


def _cause(field: str = "", reason: str = "", message: str = "") -> tuple[str, str, str]:
    return field, reason, message


def _create_definition(schema: Any, expected: Outcome) -> Outcome:
    if expected.status == 400:
        return expected  # the decoder of definitions refuses it, and not the checks of their schemas
    errors = run_limited(
        lambda: collect(check_schema, SCHEMA_PATH, schema, names=CLUSTER), seconds=MOST_SECONDS
    )
    group = CLUSTER.group("apiextensions")
    return _outcome(201, group, "CustomResourceDefinition", f"{PLURAL}.{GROUP}", errors)


def _write_object(compiled: Compiled, case: dict[str, Any]) -> Outcome:
    old = None
    if case["kind"] == "update":
        old = compiled.schema.decode_json(_written(case["old"]).encode()).object
        compiled.canonicalize(old)
    try:
        new = compiled.schema.decode_json(_written(case["object"]).encode()).object
    except NotDecodable as refused:
        return Outcome(400, str(refused), [])
    errors = run_limited(collect, compiled.validate, new, old, seconds=MOST_SECONDS)
    return _outcome(201 if old is None else 200, GROUP, KIND, "a", errors)


def _outcome(accepted: int, group: str, kind: str, name: str, errors: list[FieldError]) -> Outcome:
    if not errors:
        return Outcome(accepted, "", [])
    refused = Invalid(group, kind, name, [error.cause() for error in errors])
    causes = [(cause.field, cause.reason, cause.message) for cause in refused.causes]
    return Outcome(422, refused.message, causes)


def _agree(found: Outcome, expected: Outcome, unordered: bool) -> bool:
    if unordered:
        same = collections.Counter(_plain(found).causes) == collections.Counter(_plain(expected).causes)
        return same and found.status == expected.status
    return _plain(found) == _plain(expected)


def _plain(outcome: Outcome) -> Outcome:
    """Without the number in the name of an object's type, which changes each time."""
    causes = [(field, reason, _without_number(text)) for field, reason, text in outcome.causes]
    return Outcome(outcome.status, _without_number(outcome.message), causes)


def _without_number(text: str) -> str:
    return re.sub("selfType[0-9]+", "selfTypeN", text)


def _shown(outcome: Outcome, other: Outcome) -> str:
    """The status, and the causes that the other one has not."""
    causes = [cause for cause in outcome.causes if cause not in other.causes]
    return f"{outcome.status} {outcome.message if not causes else ''} {causes}"


def _written(value: Any) -> str:
    """JSON with the numbers as they are in the file."""
    return _NUMBER.sub(r"\1", json.dumps(value))


def load(folder: pathlib.Path) -> list[dict[str, Any]]:
    text = (folder / "cases.json").read_text()
    marked = json.loads(text, parse_int=_marked, parse_float=_marked)
    return [{**case, "status": int(case["status"][1:])} for case in marked]


def _marked(number: str) -> str:
    return _MARK + number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with cases.json")
    parser.add_argument("--only", default="", help="the beginning of the ids of the cases to run")
    parser.add_argument("--show", type=int, default=SHOWN, help="how many differences to print")
    arguments = parser.parse_args()
    cases = [case for case in load(arguments.folder) if case["id"].startswith(arguments.only)]
    found = list(differences(cases))
    if found:
        sys.exit("\n".join([*found[: arguments.show], f"{len(found)} of {len(cases)} cases differ"]))
    print(f"CEL: {len(cases)} passed, 0 failed")


if __name__ == "__main__":
    main()
