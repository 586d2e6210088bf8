"""How large the events of a data folder are, compressed in several ways, and what that costs.

    python -m benchmarks.decisions.compression FOLDER... [--train FILE]

`--train` makes a dictionary from the events of the folders, as `rewound/journal/contents.zdict` was made: from two
clusters, one of each dialect, with six simulated nodes, all workload kinds and the objects that people write most. That
file never changes; a new dictionary would be a new layout of events.
"""

from __future__ import annotations

import argparse
import random
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import zstandard

from rewound.journal import contents
from rewound.journal.log import Journal
from rewound.journal.records import Event

DICTIONARY = 32 << 10  # bytes


def events_of(folder: Path) -> list[Event]:
    journal = Journal.open(folder / "journal", readonly=True)
    try:
        with journal.read() as view:
            return list(view.events(0))
    finally:
        journal.close()


def text_of(event: Event) -> bytes:
    """What is compressed."""
    return struct.pack(">I", len(event.facts)) + event.facts + event.body


def train(file: Path, folders: Sequence[Path]) -> None:
    texts = [text_of(event) for folder in folders for event in events_of(folder)]
    random.Random(1).shuffle(texts)
    file.write_bytes(zstandard.train_dictionary(DICTIONARY, texts, dict_id=1).as_bytes())


def compare(folder: Path) -> None:
    events = events_of(folder)
    bodies = {event.offset: event.body for event in events}
    texts = [text_of(event) for event in events]
    print(f"{len(events):,} events, {sum(map(len, texts)) / len(texts):,.0f} bytes of facts and body each\n")
    print("| | bytes | us to write | us to read |\n|---|---|---|---|")
    show("zlib, level 1", texts, lambda text: zlib.compress(text, 1), zlib.decompress)
    before = [bodies.get(event.previous, b"") for event in events]
    show_pairs("zlib, level 1, with the version before as dictionary", texts, before)
    plain = zstandard.ZstdCompressor(level=contents.LEVEL, write_checksum=False)
    show("zstd, level 3", texts, plain.compress, zstandard.ZstdDecompressor().decompress)
    pairs = [(event.facts, event.body) for event in events]
    begin = time.process_time()
    written = [contents.compressed(*pair) for pair in pairs]
    middle = time.process_time()
    assert [contents.decompressed(one) for one in written] == pairs
    line("zstd, level 3, with the dictionary", written, middle - begin, time.process_time() - middle)


def show(
    title: str, texts: list[bytes], write: Callable[[bytes], bytes], read: Callable[[bytes], bytes]
) -> None:
    begin = time.process_time()
    written = [write(text) for text in texts]
    middle = time.process_time()
    assert [read(one) for one in written] == texts
    line(title, written, middle - begin, time.process_time() - middle)


def show_pairs(title: str, texts: list[bytes], before: list[bytes]) -> None:
    """Each text with a dictionary of its own."""

    def write(text: bytes, known: bytes) -> bytes:
        one = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, known)
        return one.compress(text) + one.flush()

    begin = time.process_time()
    written = [write(text, known) for text, known in zip(texts, before, strict=True)]
    middle = time.process_time()
    read = [
        zlib.decompressobj(-15, known).decompress(one) for one, known in zip(written, before, strict=True)
    ]
    line(title, written, middle - begin, time.process_time() - middle)
    assert read == texts


def line(title: str, written: list[bytes], write: float, read: float) -> None:
    count = len(written)
    size = sum(map(len, written)) / count
    print(f"| {title} | {size:,.0f} | {write / count * 1e6:.1f} | {read / count * 1e6:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, nargs="+", help="a data folder with events, which nothing serves"
    )
    parser.add_argument("--train", type=Path, help="write a dictionary made of them instead")
    given = parser.parse_args()
    if given.train:
        train(given.train, given.folder)
    else:
        compare(given.folder[0])


if __name__ == "__main__":
    main()
