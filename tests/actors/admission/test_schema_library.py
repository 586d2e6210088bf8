"""The modules that validate schemas are imported outside the event loop before a definition is validated."""

from __future__ import annotations

import pytest

from rewound.actors.admission.chain import Admission
from rewound.actors.admission.completions import SchemaLibrary
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.kinds.apiextensions import PLURAL, SCHEMA_MODULES
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.background_import import _imported

DEFINITIONS = built_in(CLUSTER).find(CLUSTER.group("apiextensions"), "v1", PLURAL)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_library_is_imported_before_a_definition_is_validated(operation: str) -> None:
    assert DEFINITIONS is not None
    plugin = SchemaLibrary(CLUSTER)
    chain = Admission([plugin]).chain(DEFINITIONS, operation, "")
    assert [step.plugin for step in chain.changes] == [plugin] and not chain.checks
    await plugin.admit(AdmissionRequest(operation, DEFINITIONS, "", "a", "", {}, None, "user", False))
    assert set(SCHEMA_MODULES) <= set(_imported)
