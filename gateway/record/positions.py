"""Where a recording goes on after a restart: one file beside the journal, replaced whole.

    {"version": 1, "server": "https://...", "cluster": "<uid>", "namespace": "", "secrets": false, "exactFrom": 1040,
     "kinds": {"configmaps": "1042", ...}}

Each kind has the version up to which all its changes are in the journal. The file may be behind the journal after a
crash: the journal knows the last change of each kind, and what arrives a second time is left out.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from gateway.client.errors import ClientError
from gateway.client.server_url import without_credentials

FILE = "recording.json"
VERSION = 1


@dataclass(slots=True)
class Positions:
    server: str
    cluster: str = ""  # the uid of the system namespace, if it could be read
    namespace: str = ""
    secrets: bool = False  # whether values of Secrets are recorded
    exact_from: int = 0  # the highest version of the first lists; 0: they are not complete
    kinds: dict[str, str] = field(default_factory=dict)


def load_positions(folder: Path) -> Positions | None:
    """None for a folder without a recording. ClientError for a file that cannot be read."""
    path = folder / FILE
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        found = orjson.loads(raw)
        if found["version"] != VERSION:
            raise ClientError(f"{path} is of another release of rewound; record into a new folder")
        return Positions(
            without_credentials(str(found["server"])),  # releases before had those of the URL
            str(found["cluster"]),
            str(found["namespace"]),
            bool(found["secrets"]),
            int(found["exactFrom"]),
            {str(name): str(version) for name, version in found["kinds"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClientError(f"{path} cannot be read; record into a new folder") from error


def save_positions(folder: Path, positions: Positions) -> None:
    document = {
        "version": VERSION,
        "server": positions.server,
        "cluster": positions.cluster,
        "namespace": positions.namespace,
        "secrets": positions.secrets,
        "exactFrom": positions.exact_from,
        "kinds": positions.kinds,
    }
    path = folder / FILE
    building = path.with_suffix(".json.new")
    with building.open("wb") as stream:
        stream.write(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(building, path)


def remove_recording(folder: Path, *, with_folder: bool) -> None:
    """Remove a recording that has nothing, so that the next one may begin with other flags."""
    shutil.rmtree(folder / "journal")
    (folder / FILE).unlink()
    if with_folder:
        folder.rmdir()
