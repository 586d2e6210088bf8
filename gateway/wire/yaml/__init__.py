"""Reads and writes YAML bodies with the same meaning as Go's YAML library, which clients test their manifests with.

    load(raw) -> Loaded(value, problems)      dump(value) -> bytes

`reader` has `text` check the bytes and `builder` make JSON values from parser events; `writer` writes them. `scalars`
decides for both when a plain scalar is a number, a boolean or null, so that what `writer` writes reads back as the
same value.
"""

from gateway.wire.yaml.failure import YamlError
from gateway.wire.yaml.reader import Loaded, load, merge_problems
from gateway.wire.yaml.writer import dump, from_json, from_json_in_thread

__all__ = [
    "Loaded",
    "YamlError",
    "dump",
    "from_json",
    "from_json_in_thread",
    "merge_problems",
    "load",
]
