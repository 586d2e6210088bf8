"""docs/decisions/0010-json-patch.md: JSON patches applied by our own code and by the jsonpatch package."""

from __future__ import annotations

import jsonpatch
import orjson

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from benchmarks.decisions.samples import pod
from rewound.actors.patch.json_patch import apply_json_patch, parse_json_patch

SMALL = [{"op": "replace", "path": "/spec/containers/3/image", "value": "registry.example/app:1.2.4"}]
# What a webhook that injects a sidecar sends.
LARGE = [
    {"op": "test", "path": "/spec/containers/0/name", "value": "c0"},
    {"op": "add", "path": "/metadata/annotations", "value": {"injected": "true"}},
    *({"op": "add", "path": f"/spec/containers/{at}/env/-", "value": {"name": "I"}} for at in range(20)),
    {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "proxy:1"}},
    {"op": "add", "path": "/spec/volumes/0", "value": {"name": "certificates", "emptyDir": {}}},
    {"op": "remove", "path": "/spec/containers/1/args"},
]


def main(effort: Effort) -> None:
    raw = orjson.dumps(pod(20))
    for title, patch in (("one operation", SMALL), (f"{len(LARGE)} operations", LARGE)):
        compiled = jsonpatch.JsonPatch(patch)
        assert apply_json_patch(orjson.loads(raw), patch) == compiled.apply(orjson.loads(raw))
        compare(
            f"patch a pod with 20 containers by {title}, with parsing it",
            {
                "ours": lambda: apply_json_patch(orjson.loads(raw), parse_json_patch(patch)),  # noqa: B023
                "jsonpatch, in place": lambda: jsonpatch.JsonPatch(patch).apply(  # noqa: B023
                    orjson.loads(raw), in_place=True
                ),
                "jsonpatch, on a copy": lambda: jsonpatch.JsonPatch(patch).apply(orjson.loads(raw)),  # noqa: B023
            },
            effort,
        )


if __name__ == "__main__":
    main(effort_of_command_line())
