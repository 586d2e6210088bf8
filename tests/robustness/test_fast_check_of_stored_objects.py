"""The fast check of objects that controllers read finds the same misfits as the exact one."""

from __future__ import annotations

from contextlib import suppress

import orjson

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS, misfit, misfit_read
from rewound.actors.names import KUBERNETES
from rewound.actors.store.document import EMPTY_VERSION
from tests.robustness.poison import poisons


def test_fast_check_agrees_with_the_exact_one() -> None:
    catalog = built_in(KUBERNETES)
    compared = fitting = 0
    for poison in poisons(catalog, KUBERNETES, 60, 3):
        definition = catalog.storage(poison.type_name)
        body = poison.body.replace(EMPTY_VERSION, b'"resourceVersion":"7"', 1)
        exact = misfit(definition, poison.namespace, poison.name, body)
        with suppress(*OF_MISFITS):  # its callers ask the exact check then
            fast = misfit_read(definition, poison.namespace, poison.name, body, orjson.loads(body))
            assert bool(fast) == bool(exact), f"{poison.case}: {fast!r}, {exact!r}"
            compared, fitting = compared + 1, fitting + (not exact)
    assert compared > 1000 and fitting > 100
