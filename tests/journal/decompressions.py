"""Counts which reads decompress the contents of events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rewound.journal import records
from rewound.journal.keys import Buffer


@contextmanager
def decompressions() -> Iterator[list[Buffer]]:
    """What is decompressed meanwhile."""
    found: list[Buffer] = []

    def counted(contents: Buffer) -> tuple[bytes, bytes]:
        found.append(contents)
        return decompressed(contents)

    decompressed = records.decompressed
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(records, "decompressed", counted)
        yield found
