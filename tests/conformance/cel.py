"""Checks definitions and objects with CEL rules as recorded from v1.25; fails when an outcome differs.

    python -m tests.conformance.cel ../shared/reference/cel           # all in this process, some over HTTP
    python -m tests.conformance.cel ../shared/reference/cel --http    # all over HTTP: minutes

The folder has `cases.json`: each case is a schema that a definition is created with, or an object that is created or
updated under a definition with that schema, and the status, message and causes of the response. The cases are not part
of this project; `make conformance` needs them. In this process run the checks of a definition, and decoder and
validation of its objects; over HTTP (`cel_over_http`) everything that a client uses.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from rewound.actors.errors import Invalid
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.structural.compile import Compiled, compile_schema
from rewound.actors.kinds.structural.definition_checks import check_schema
from rewound.actors.kinds.validation import FieldError, collect
from rewound.actors.names import NAMES, Names
from rewound.actors.runtime.time_limit import run_limited
from tests.conformance import cel_over_http
from tests.conformance.cel_cases import GROUP, KIND, PLURAL, Case, Outcome, load, written

SHOWN = 10  # differences
MOST_SECONDS = 60  # for one object; a server ends such work earlier, but this machine may be busy
SCHEMA_PATH = "spec.validation.openAPIV3Schema"
SAMPLE = 10  # one of so many cases runs over HTTP


def differences(cases: list[Case], names: Names) -> Iterator[str]:
    """One text for each case that has another outcome than recorded."""
    compiled: dict[str, Compiled] = {}
    for case in cases:
        if needs_http(case):
            continue
        if case.kind == "definition":
            found = _create_definition(case, names)
        else:
            if case.schema not in compiled:
                compiled[case.schema] = compile_schema(
                    json.loads(case.schema), api_version=f"{GROUP}/v1", kind=KIND, names=names
                )
            found = _write_object(compiled[case.schema], case)
        different = case.difference(found)
        if different:
            yield different


def needs_http(case: Case) -> bool:
    """Whether the decoder of definitions refuses it, and not the checks of their schemas."""
    return case.kind == "definition" and case.expected.status == 400


def sample(cases: list[Case]) -> list[Case]:
    return [case for number, case in enumerate(cases) if number % SAMPLE == 0 or needs_http(case)]


def _create_definition(case: Case, names: Names) -> Outcome:
    schema = json.loads(case.schema, object_pairs_hook=_in_1_25)
    errors = run_limited(
        lambda: collect(check_schema, SCHEMA_PATH, schema, names=names), seconds=MOST_SECONDS
    )
    group = names.group("apiextensions")
    return _outcome(201, group, "CustomResourceDefinition", f"{PLURAL}.{GROUP}", errors)


def _in_1_25(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """A part of a definition without the members of rules that decoding drops in 1.25."""
    found = dict(members)
    return {name: found[name] for name in ("rule", "message") if name in found} if "rule" in found else found


def _write_object(compiled: Compiled, case: Case) -> Outcome:
    old = None
    if case.kind == "update":
        old = compiled.schema.decode_json(written(case.old).encode()).object
        compiled.canonicalize(old)
    try:
        new = compiled.schema.decode_json(written(case.object).encode()).object
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with cases.json")
    parser.add_argument("--only", default="", help="the beginning of the ids of the cases to run")
    parser.add_argument("--show", type=int, default=SHOWN, help="how many differences to print")
    parser.add_argument("--http", action="store_true", help="run all cases over HTTP")
    parser.add_argument("--dialect", choices=list(NAMES), default="cluster")
    arguments = parser.parse_args()
    names = NAMES[arguments.dialect]
    cases = [case for case in load(arguments.folder, names) if case.id.startswith(arguments.only)]
    over_http = cases if arguments.http else sample(cases)
    found = [] if arguments.http else list(differences(cases, names))
    found += cel_over_http.differences(over_http, names)
    if found:
        sys.exit("\n".join([*found[: arguments.show], f"{len(found)} of {len(cases)} cases differ"]))
    print(f"CEL: {len(cases)} passed, {len(over_http)} of them over HTTP, 0 failed")


if __name__ == "__main__":
    main()
