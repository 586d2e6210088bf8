"""Creates the pods of a recorded matrix in namespaces of every level and version; fails when a response differs.

    python -m tests.conformance.pod_security ../shared/reference/podsecurity

The folder has `cases.json`: `pods` by id, and `cases`, each with a level, a version, the name of a check, the id of a
pod and the refusal, which is the text after "violates PodSecurity" or null. The matrix is not part of this project;
`make conformance` needs it. Everything runs in this process: journal, actors and admission, but no HTTP.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any

import orjson
import trio

from tests.actors.object_store import Refused, Store, open_store

SHOWN = 10  # differences
BEFORE = 'pods "p" is forbidden: violates PodSecurity '


async def differences(matrix: dict[str, Any]) -> list[str]:
    """One text for each case that has another outcome than recorded."""
    found, namespaces = [], set()
    async with open_store() as store:
        for level, version, check, pod, refusal in matrix["cases"]:
            namespace = f"{level}-{version.replace('.', '-')}"
            if namespace not in namespaces:
                await store.create("namespaces", _namespace(namespace, level, version))
                namespaces.add(namespace)
            outcome = await _create(store, matrix["pods"][pod], namespace)
            expected = None if refusal is None else BEFORE + refusal
            if outcome != expected:
                found.append(f"{level} {version} {check} {pod}\n  expected {expected}\n  found    {outcome}")
    return found


def _namespace(name: str, level: str, version: str) -> dict[str, Any]:
    prefix = "pod-security.cluster.io/enforce"
    return {"metadata": {"name": name, "labels": {prefix: level, f"{prefix}-version": version}}}


async def _create(store: Store, pod: dict[str, Any], namespace: str) -> str | None:
    """The message of the refusal; None for a pod that is created."""
    body = {**pod, "metadata": {**pod.get("metadata", {}), "name": "p"}}
    try:
        await store.create("pods", body, namespace, dryRun="All")
    except Refused as refused:
        return refused.message
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with cases.json")
    matrix = orjson.loads((parser.parse_args().folder / "cases.json").read_bytes())
    found = trio.run(differences, matrix)
    if found:
        sys.exit("\n".join([*found[:SHOWN], f"{len(found)} of {len(matrix['cases'])} cases differ"]))
    print(f"PodSecurity: {len(matrix['cases'])} passed, 0 failed")


if __name__ == "__main__":
    main()
