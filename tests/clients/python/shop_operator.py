"""A kopf operator that writes a status for every shop, and prints its calls.

kopf run shop_operator.py
"""

import json
from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False


@kopf.on.create("example.com", "v1", "shops")
def open_shop(name: str, spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    patch.status["phase"] = f"Open in {spec['colour']}"
    report("created", name)


@kopf.on.field("example.com", "v1", "shops", field="spec.colour", old=kopf.PRESENT)
def paint(name: str, old: str, new: str, patch: kopf.Patch, **_: Any) -> None:
    patch.status["phase"] = f"Open in {new}"
    report("painted", name, old, new)


@kopf.on.delete("example.com", "v1", "shops")
def close_shop(name: str, **_: Any) -> None:
    report("deleted", name)


def report(*found: str) -> None:
    print(json.dumps(found), flush=True)
