"""Declaring all kinds is cheap: pydantic-core is not imported before the first document."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from actors.kinds.built_in import built_in
from actors.names import CLUSTER
catalog = built_in(CLUSTER)
assert not any(name.startswith("pydantic") for name in sys.modules), "loaded too early"
used, unused = catalog.find("", "v1", "configmaps"), catalog.find("", "v1", "secrets")
used.schema.decode_json(b"{}")
assert "pydantic_core" in sys.modules and "pydantic" not in sys.modules
assert "schema" in vars(used) and "schema" not in vars(unused)
"""


def test_schema_compiles_on_first_use() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
