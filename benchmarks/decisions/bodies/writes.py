"""docs/decisions/0015-order.md: the resourceVersion put into a body that is encoded already, and whole writes."""

from __future__ import annotations

import orjson
import trio

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from benchmarks.decisions.samples import config_map, definition, pod
from benchmarks.decisions.store import stored
from rewound.actors.store.document import at_version, encode, encode_unversioned

OFFSET = 123456


def main(effort: Effort) -> None:
    for title, plural, document in (
        ("a ConfigMap of 1 kB", "configmaps", config_map()),
        ("a pod with 20 containers", "pods", pod(20)),
    ):
        decoded = definition(plural).schema.decode_json(orjson.dumps(document)).object
        decoded["metadata"] |= {"uid": "0" * 36, "creationTimestamp": "2020-01-01T00:00:00Z"}
        assert at_version(encode_unversioned(decoded), OFFSET) == encode(decoded, OFFSET)
        compare(
            f"encode {title}",
            {
                "before the order, and splice": lambda: at_version(encode_unversioned(decoded), OFFSET),  # noqa: B023
                "once, with the offset known": lambda: encode(decoded, OFFSET),  # noqa: B023
                "before the order, and again after it": lambda: (
                    encode_unversioned(decoded),  # noqa: B023
                    encode(decoded, OFFSET),  # noqa: B023
                ),
            },
            effort,
        )
    trio.run(_writes, effort)


async def _writes(effort: Effort) -> None:
    async with stored() as store:
        create = store.create("configmaps", config_map())
        await store.compare("a ConfigMap of 1 kB", "configmaps", create, {"create": lambda: None}, effort)
        patch = store.patch("configmaps", "o0")
        await store.compare("a value of it", "configmaps", patch, {"merge patch": lambda: None}, effort)


if __name__ == "__main__":
    main(effort_of_command_line())
