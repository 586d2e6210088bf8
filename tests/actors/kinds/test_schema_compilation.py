"""Declaring kinds is cheap: pydantic-core is imported only with the first document, and not while a start postpones
it.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.schema import pydantic_decoder
from rewound.actors.names import CLUSTER
catalog = built_in(CLUSTER)
assert not any(name.startswith("pydantic") for name in sys.modules), "loaded too early"
used, unused = catalog.find("", "v1", "configmaps"), catalog.find("", "v1", "secrets")
with pydantic_decoder.postponed():
    exact = used.schema.decode_json(b'{"data":{"a":"b"}}')
assert "pydantic_core" not in sys.modules and "_pydantic" not in vars(used.schema), "not postponed"
assert used.schema.decode_json(b'{"data":{"a":"b"}}') == exact
assert "pydantic_core" in sys.modules and "pydantic" not in sys.modules
assert "schema" in vars(used) and "schema" not in vars(unused)
"""


def test_schema_compiles_on_first_use() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
