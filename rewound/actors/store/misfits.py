"""Reads stored objects for code that acts on them by itself, and leaves out those that it cannot read.

An older or a foreign writer may have stored objects of any form (`kinds.declaration.stored_form`). One of them must not
stop a start, nor what is done with all the others: it is reported, as if it did not exist for this reader, until a
client replaces or deletes it. A reader that decides about absence, such as a garbage collector, looks at names and
uids, which are in the keys and facts of every object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import orjson

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS, misfit
from rewound.actors.kinds.validation import collect_with
from rewound.journal.records import Row

logger = logging.getLogger(__name__)

Rows = Iterable[tuple[str, str, Row]]  # namespace, name and row
# Lines of the log about the objects of one reading; the last one counts the others.
MOST_REPORTED = 10


def each_usable(
    what: str, rows: Rows, take: Callable[[str, str, bytes], object], definition: Definition | None = None
) -> None:
    """Call `take` with namespace, name and body of every object. One that it cannot read is left out and reported.

    `what` names the resource, and `take` raises before it changes anything. With a `definition`, objects that are not
    valid are left out before, for what reads them later: this is for few objects.
    """
    left_out = 0
    for namespace, name, row in rows:
        try:
            body = bytes(row.body)
            if definition is not None:
                _check(definition, namespace, name, body)
            take(namespace, name, body)
        except OF_MISFITS as error:
            left_out += 1
            if left_out <= MOST_REPORTED:
                report(what, namespace, name, error)
    if left_out > MOST_REPORTED:
        logger.warning("%d more %s are left out for such reasons", left_out - MOST_REPORTED, what)


def _check(definition: Definition, namespace: str, name: str, body: bytes) -> None:
    """Raise ValueError if the kind would not admit the object."""
    if problem := misfit(definition, namespace, name, body):
        raise ValueError(problem)
    errors = collect_with(definition.features, definition.strategy.validate_create, orjson.loads(body))
    if errors:
        raise ValueError(f"{errors[0].field}: {errors[0].message}")


def report(what: str, namespace: str, name: str, why: object) -> None:
    where = f"{namespace}/{name}" if namespace else name
    reason = f"{type(why).__name__}: {why}" if isinstance(why, Exception) else why
    logger.warning(
        "%s %s is left out, because it is stored in a form that its kind does not have: %.300s; "
        "replace or delete it",
        *(what, where, reason),
    )
