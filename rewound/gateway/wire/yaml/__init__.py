"""Reads and writes YAML bodies with the same meaning as Go's YAML library, which clients test their manifests with.

    load(raw) -> Loaded(value, problems)      dump(value) -> bytes

`scalars` decides for `reader` and `writer` when a plain scalar is a number, a boolean or null, so that what `writer`
writes reads back as the same value. The functions import these modules, with the YAML library, on first use: a start
does not wait for them (`server.background_imports` imports them afterwards, in a thread).
"""

from __future__ import annotations

from typing import Any

from rewound.gateway.wire.yaml.loaded import Loaded, YamlError, merge_problems

__all__ = [
    "Loaded",
    "YamlError",
    "dump",
    "from_json",
    "from_json_in_thread",
    "merge_problems",
    "load",
]


def load(raw: bytes, most_values: int | None = None) -> Loaded:
    """Parse a body. Raises YamlError if it is refused, TooLarge as soon as it has more than `most_values` values.

    None: as many as a stored object may have.
    """
    from rewound.gateway.wire.yaml import reader

    return reader.load(raw, most_values)


def dump(value: Any) -> bytes:
    from rewound.gateway.wire.yaml import writer

    return writer.dump(value)


def from_json(body: bytes) -> bytes:
    from rewound.gateway.wire.yaml import writer

    return writer.from_json(body)


async def from_json_in_thread(body: bytes) -> bytes:
    from rewound.gateway.wire.yaml import writer

    return await writer.from_json_in_thread(body)
