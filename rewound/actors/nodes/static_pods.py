"""Static pods of simulated nodes: manifests in a folder, for which a node creates mirror pods as a kubelet does.

The folder of `--static-pods` has manifests for all nodes, and a folder for each node that has others:

    static/agent.yaml           one Pod, on every node
    static/node-0/etcd.yaml     one Pod, on node-0

Each has the name of its manifest and its node (`etcd-node-0`) and the annotations of a kubelet, and belongs to the
Node. The node creates a mirror pod again that somebody deletes; its containers run on, so it has the status from
before. It ends the pod when the manifest goes, or changes. The folder is read again when a file has changed, and has
been the same for a while; a manifest that is wrong is reported in the log, and counts as missing.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from rewound.actors.access.remote.yaml_file import load_documents
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.values.times import micros_text
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.budget import OverBudget
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.stages.budget import StageBudget, fitting
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.pods import copied, owner_reference

logger = logging.getLogger(__name__)

CHECK_SECONDS: Final = 5.0  # between two looks at the folder
_LARGEST: Final = 1 << 20  # bytes of a manifest: no stored object is larger
_MOST_FILES: Final = 1000  # in all folders; those after them do not count
_MOST_BYTES: Final = 16 << 20  # of all files
_MOST_COST: Final = 100_000_000  # estimated nanoseconds to compute the size of a manifest
_TOLERATION: Final = {"operator": "Exists", "effect": "NoExecute"}
_OWN: Final = ("config.hash", "config.mirror", "config.seen", "config.source")

_Stamp = tuple[str, int, int, int]  # a path, and what changes with its file


class _Manifest(NamedTuple):
    node: str  # "": all
    content: Object
    digest: str


class StaticPods:
    def __init__(self, folder: Path | None, names: Names, definition: Definition) -> None:
        """`folder`: None: there are none. Raises ValueError if it is no folder."""
        if folder is not None and not folder.is_dir():
            raise ValueError(f"{folder} is no folder; create it, also an empty one")
        self.folder = folder
        self._definition = definition
        self._hash, self._mirror, self._seen, self._source = (names.key(one) for one in _OWN)
        self._stamps: tuple[_Stamp, ...] | None = None  # of the files as they were last read
        self._before: tuple[_Stamp, ...] | None = None  # as they were at the last look
        self._manifests: tuple[_Manifest, ...] = ()
        self._refused: dict[Key, str] = {}  # why pods could not be created
        self._statuses: dict[tuple[Key, str], Object] = {}  # of deleted mirror pods, by name and hash

    async def read(self) -> bool:
        """Look at the folder; returns whether manifests have changed, or were read for the first time."""
        if self.folder is None:
            return False
        stamps = await run_in_thread(_stamps, self.folder)
        is_first, is_settled = self._stamps is None, stamps == self._before
        self._before = stamps
        if stamps == self._stamps or not (is_first or is_settled):
            return False
        found = await run_in_thread(lambda: tuple(self._read(stamps)))
        self._stamps = stamps
        changed, self._manifests = found != self._manifests, found
        if changed:
            self._statuses.clear()
            self._refused.clear()
        return changed or is_first

    @property
    def is_read(self) -> bool:
        """Whether the manifests are known: until then no mirror pod may end."""
        return self._stamps is not None

    def refused(self, key: Key, why: str) -> None:
        """Report, once, that a mirror pod could not be created."""
        if self._refused.get(key) != why:
            self._refused[key] = why
            logger.warning("static pod %s/%s cannot be created: %s", *key, why)

    def _read(self, stamps: tuple[_Stamp, ...]) -> Iterator[_Manifest]:
        for path, *_ in stamps:
            try:
                yield self._manifest(path)
            except (OSError, ValueError, OverBudget) as error:
                why = error.strerror if isinstance(error, OSError) else error
                logger.warning("static pod %s: %s; mend the manifest, or remove it", path, why)

    def _manifest(self, path: str) -> _Manifest:
        with open(path, "rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise ValueError(f"has more than {_LARGEST >> 20} MiB")
        documents = [one for one in load_documents(raw) if one is not None]
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise ValueError(f"has {len(documents)} documents, but a manifest is one Pod")
        content = documents[0]
        fitting(StageBudget(_MOST_COST, _MOST_COST).size(content))  # with aliases, which may refer to aliases
        if (content.get("apiVersion"), content.get("kind")) != ("v1", "Pod"):
            raise ValueError("is not a Pod of v1")
        try:
            decoded = self._definition.schema.decode_object(content)
        except NotDecodable as error:
            raise ValueError(str(error)) from None
        for problem in decoded.problems:
            logger.warning("static pod %s: %s", path, problem)
        metadata = decoded.object["metadata"]
        name: Any = metadata.get("name", "")
        if not name:
            raise ValueError("metadata.name: Required value")
        folder = os.path.dirname(path)
        node = "" if folder == str(self.folder) else os.path.basename(folder)
        return _Manifest(node, decoded.object, sha256(orjson.dumps(content)).hexdigest())

    def of_node(self, node: Object, definition: Definition, now: int) -> dict[Key, Object]:
        """The mirror pods that a node has to have; of those with the same name the first one counts."""
        found: dict[Key, Object] = {}
        for one in self._manifests:
            if one.node in ("", node["metadata"]["name"]):
                pod = self._mirror_pod(one, node, definition, now)
                found.setdefault(key_of(pod), pod)
        return found

    def _mirror_pod(self, one: _Manifest, node: Object, definition: Definition, now: int) -> Object:
        pod: Object = copied(one.content)
        name, given = node["metadata"]["name"], pod["metadata"]
        digest = sha256(f"{name}/{one.digest}".encode()).hexdigest()[:32]
        owner = owner_reference(definition, node)
        del owner["blockOwnerDeletion"]
        annotations = {
            **(given.get("annotations") or {}),
            self._hash: digest,
            self._mirror: digest,
            self._seen: micros_text(now),
            self._source: "file",
        }
        pod["metadata"] = {
            "name": f"{given['name']}-{name.lower()}",
            "namespace": given.get("namespace") or "default",
            "annotations": annotations,
            "ownerReferences": [owner],
        }
        if given.get("labels"):
            pod["metadata"]["labels"] = given["labels"]
        tolerations = pod["spec"].get("tolerations") or []
        if _TOLERATION not in tolerations:
            tolerations = [*tolerations, dict(_TOLERATION)]
        pod["spec"] |= {"nodeName": name, "tolerations": tolerations}
        pod.pop("status", None)
        return pod

    def is_mirror(self, pod: Object) -> bool:
        """Whether a pod mirrors a manifest of such a folder."""
        annotations = pod["metadata"].get("annotations") or {}
        return self._mirror in annotations and annotations.get(self._source) == "file"

    def is_current(self, pod: Object, wanted: Object | None) -> bool:
        """Whether a mirror pod is of the manifest, and the Node, that it should be of."""
        if wanted is None:
            return False
        hashes = [one["metadata"]["annotations"].get(self._mirror) for one in (pod, wanted)]
        owners = [
            {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()} for one in (pod, wanted)
        ]
        return hashes[0] == hashes[1] and owners[0] == owners[1]

    def remember(self, pod: Object) -> None:
        """Keep the status of a deleted mirror pod whose containers run on."""
        if "startTime" in (pod.get("status") or {}):
            self._statuses[self._place(pod)] = pod["status"]

    def recall(self, pod: Object) -> Object | None:
        """The status of the mirror pod that was there before this one, once."""
        return self._statuses.pop(self._place(pod), None) if self._statuses else None

    def _place(self, pod: Object) -> tuple[Key, str]:
        return key_of(pod), (pod["metadata"].get("annotations") or {}).get(self._mirror, "")


def _stamps(folder: Path) -> tuple[_Stamp, ...]:
    """The manifests of a folder and of the folders in it, in the order of their names."""
    found: list[_Stamp] = []
    size = 0
    for path in (folder, *(one for one in _entries(folder) if one.is_dir())):
        for one in _entries(path):
            try:
                facts = one.stat()
            except OSError:
                continue  # it has just gone
            if not stat.S_ISREG(facts.st_mode) or size + facts.st_size > _MOST_BYTES:
                continue
            size += facts.st_size
            found.append((str(one), facts.st_mtime_ns, facts.st_size, facts.st_ino))
            if len(found) == _MOST_FILES:
                return tuple(found)
    return tuple(found)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    except OSError:
        return []  # it is gone, and its manifests with it
