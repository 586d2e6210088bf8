"""YAML bodies in and out, meaning the same as in the Go programs that clients wrote them for.

    load(raw) -> Loaded(value, problems)      dump(value) -> bytes

`reader` has `text` check the bytes and `builder` make plain JSON-able values of parser events; `writer`
prints them. `scalars` knows when a bare word is a number, a truth value or null, for both directions, so
that what is printed reads back as it was.
"""

from gateway.wire.yaml.failure import YamlError
from gateway.wire.yaml.reader import Loaded, in_one, load, load_off_loop
from gateway.wire.yaml.writer import dump, from_json, from_json_off_loop

__all__ = [
    "Loaded",
    "YamlError",
    "dump",
    "from_json",
    "from_json_off_loop",
    "in_one",
    "load",
    "load_off_loop",
]
