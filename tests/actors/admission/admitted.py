"""Runs one plugin through a compiled chain and returns the changed object; asserts that the original is unchanged."""

from __future__ import annotations

import copy
from typing import Any

from rewound.actors.admission.chain import Admission, admit_ephemeral
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import WriteContext
from rewound.actors.runtime.coroutines import without_waiting

CONTEXT = WriteContext(0, "user", "m", "u", "")


def admitted(
    plugin: Plugin,
    definition: Definition,
    operation: str,
    new: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    subresource: str = "",
    context: WriteContext = CONTEXT,
    namespace: str = "ns",
) -> Any:
    before = copy.deepcopy((new, old))
    request = AdmissionRequest(
        operation, definition, namespace, "a", subresource, new, old, context.user, False, context
    )
    chain = Admission([plugin]).chain(definition, operation, subresource)
    without_waiting(admit_ephemeral(chain, request))
    assert (new, old) == before
    return request.object
