"""Certificates that all tests of a process share, because generating them takes a separate process."""

from __future__ import annotations

import tempfile
import time
from functools import cache
from pathlib import Path

from rewound.actors.certificates.names import serving_names
from rewound.actors.certificates.pki import Certificates, prepare
from rewound.actors.names import NAMES

_folder = tempfile.TemporaryDirectory(prefix="rewound-pki-")


@cache
def own_certificates(dialect: str) -> Certificates:
    """The certificates of a server on 127.0.0.1. Tests copy the folder and change nothing in it."""
    folder = Path(_folder.name) / dialect
    return prepare(folder, serving_names(NAMES[dialect], ("127.0.0.1",), "10.0.0.1"), time.time())
