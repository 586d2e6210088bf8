"""The devices of simulated nodes: the ResourceSlices that drivers on real nodes publish, from a file.

The file of `--node-devices` is a stream of YAML documents: DeviceClasses, which are created at the start if they do not
exist, and ResourceSlices, of which every simulated node gets its own. `{{node}}` in them is the name of the node; what
a slice leaves out of its name, node and pool is filled in:

    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata:
      annotations: {sim/nodes: "gpu=a100"}   # a label selector; without it all nodes have these devices
    spec:
      driver: gpu.example.com
      devices:
      - name: gpu-0

Slices of one driver on a node are one pool. A change of a pool (another file, or somebody who edits a slice) raises its
generation in all its slices, as the library of drivers does. A node owns its slices, so they go with it; a stopped node
keeps them. An annotation marks the slices of this file: those that it no longer has are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rewound.actors.access.remote.yaml_file import load_documents
from rewound.actors.errors import AlreadyExists, BadRequest, NotFound
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.core.simulated_node import is_simulated
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.validation import collect_with
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.nodes.node_status import is_stopped
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.store.document import decode
from rewound.actors.workloads.cache import Key
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import copied, is_terminating, owner_reference

NAME: Final = "node-devices"
NODES: Final = "sim/nodes"  # an annotation of slices in the file: which nodes have them
PUBLISHED: Final = "sim/devices"  # an annotation of published slices: the driver of the file
_NODE: Final = "{{node}}"
_KEPT: Final = (
    "name",
    "labels",
    "annotations",
)  # of the metadata in the file: all else is of another cluster
_CLASSES: Final = ("", "classes")  # takes the place of a node's key; no node can have this name
_LARGEST: Final = 8 << 20  # bytes of a file
_EXAMPLE: Final = "node-0"  # the node with which slices are validated


class SliceTemplate(NamedTuple):
    document: Object  # as stored, with {{node}}
    nodes: LabelSelector


class NodeDeviceFile(NamedTuple):
    classes: tuple[Object, ...] = ()
    slices: tuple[SliceTemplate, ...] = ()


def read_devices(path: Path, names: Names, catalog: Catalog, features: frozenset[str]) -> NodeDeviceFile:
    """Read and validate a file; raises ValueError, which names the document and the field."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > _LARGEST:
        raise ValueError(f"{path} has more than {_LARGEST >> 20} MiB")
    try:
        documents = [one for one in load_documents(raw) if one is not None]
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None
    reader = _Reader(names, catalog, features)
    for number, document in enumerate(documents, 1):
        try:
            reader.take(document)
        except ValueError as error:
            raise ValueError(f"{path}: document {number}: {error}") from None
    found = NodeDeviceFile(tuple(reader.classes), tuple(reader.slices))
    if not found.slices:
        raise ValueError(f"{path} has no ResourceSlice")
    try:
        slices_of_node(found.slices, {"metadata": {"name": _EXAMPLE}}, everywhere=True)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return found


class _Reader:
    def __init__(self, names: Names, catalog: Catalog, features: frozenset[str]) -> None:
        self._group, self._catalog, self._features = names.group("resource"), catalog, features
        self.classes: list[Object] = []
        self.slices: list[SliceTemplate] = []

    def take(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise ValueError("is not an object")
        api_version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        if kind == "List":  # of `kubectl get -o yaml`
            for one in document.get("items") or ():
                self.take(one)
            return
        metadata = document.get("metadata")
        if isinstance(metadata, dict):
            document = {**document, "metadata": {one: metadata[one] for one in _KEPT if one in metadata}}
        if kind not in ("DeviceClass", "ResourceSlice"):
            raise ValueError(f"kind: must be DeviceClass or ResourceSlice, not {kind!r}")
        definition = self._catalog.of_kind(api_version, kind)
        if definition is None or definition.group != self._group:
            raise ValueError(f"apiVersion: this server has no {kind} in {api_version!r}")
        if kind == "DeviceClass":
            self.classes.append(self._decoded(definition, document))
            return
        template = self._decoded(definition, _completed(document))
        if _NODE not in template["metadata"]["name"]:
            raise ValueError(f"metadata.name: must contain {_NODE}, because every node has such a slice")
        if template["spec"].get("nodeName", _NODE) != _NODE:
            raise ValueError(f"spec.nodeName: must be {_NODE}")
        text = (template["metadata"].get("annotations") or {}).pop(NODES, "")
        try:
            selector = LabelSelector.parse(text)
        except BadRequest as error:
            raise ValueError(f"metadata.annotations[{NODES}]: {error}") from None
        self.slices.append(SliceTemplate(template, selector))

    def _decoded(self, definition: Definition, document: Object) -> Object:
        """The document in its stored form. Raises ValueError if it is invalid."""
        try:
            example = definition.schema.decode_object(_for_node(document, _EXAMPLE))
            decoded = definition.schema.decode_object(document).object
        except NotDecodable as error:
            raise ValueError(str(error)) from None
        if example.problems:
            raise ValueError(example.problems[0])
        conversion = definition.storage.conversion
        stored = example.object if conversion is None else conversion.to_storage(example.object)
        name = stored["metadata"].get("name", "")
        if not name:
            raise ValueError("metadata.name: Required value")
        for problem in definition.check_name(name, False):
            raise ValueError(f"metadata.name: {problem}")
        for wrong in collect_with(self._features, definition.strategy.validate_create, stored):
            cause = wrong.cause()
            raise ValueError(f"{cause.field}: {cause.message}")
        return decoded if conversion is None else conversion.to_storage(decoded)


def _completed(document: Object) -> Object:
    """Fill in what a slice leaves out. The number of slices of the pool is counted later."""
    given = document.get("spec")
    spec = dict(given) if isinstance(given, dict) else {}
    if not any(one in spec for one in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")):
        spec["nodeName"] = _NODE
    if spec.get("pool") is None:
        spec["pool"] = {"name": _NODE, "generation": 1, "resourceSliceCount": 1}
    metadata = dict(document.get("metadata") or {})
    metadata.setdefault("name", f"{_NODE}-{spec.get('driver', '')}")
    return {**document, "metadata": metadata, "spec": spec if isinstance(given, dict) else given}


def _for_node(value: Any, node: str) -> Any:
    if isinstance(value, dict):
        return {_for_node(name, node): _for_node(one, node) for name, one in value.items()}
    if isinstance(value, list):
        return [_for_node(one, node) for one in value]
    return value.replace(_NODE, node) if isinstance(value, str) else value


def slices_of_node(
    templates: Iterable[SliceTemplate], node: Object, *, everywhere: bool = False
) -> dict[str, Object]:
    """The slices of a node by name. `everywhere`: whatever the labels of the node are."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    found: dict[str, Object] = {}
    pools: dict[tuple[str, str], list[Object]] = {}
    for template in templates:
        if not everywhere and not template.nodes.matches(labels):
            continue
        made: Object = _for_node(template.document, name)
        key, number = made["metadata"]["name"], 1
        while made["metadata"]["name"] in found:
            number += 1
            made["metadata"]["name"] = f"{key}-{number}"
        found[made["metadata"]["name"]] = made
        pools.setdefault((made["spec"]["driver"], made["spec"]["pool"]["name"]), []).append(made)
    for (driver, pool), slices in pools.items():
        devices: set[str] = set()
        for one in slices:
            one["spec"]["pool"]["resourceSliceCount"] = len(slices)
            for device in one["spec"].get("devices") or ():
                if device["name"] in devices:
                    where = f"of driver {driver} in pool {pool}"
                    raise ValueError(f"spec.devices: there are two devices {device['name']!r} {where}")
                devices.add(device["name"])
    return found


class NodeDevices(WorkloadController):
    name, account = NAME, NAME

    def __init__(self, parts: Parts, path: Path | None = None) -> None:
        """`path`: the file; None: no node has devices. Raises ValueError if it is invalid."""
        super().__init__(parts)
        context, group = parts.context, self.names.group("resource")
        self._file = NodeDeviceFile()
        if path is not None:
            self._file = read_devices(path, self.names, context.registry.current, context.features)
        self._nodes = self.keyed_by("nodes")
        self._classes = self.cache.collection(f"deviceclasses.{group}")
        self._slices = self.cache.collection(f"resourceslices.{group}")
        self._of_node = self._slices.index(_publishing_node)
        # The spec of each slice as it was wanted, and as it was then stored.
        self._written: dict[str, tuple[Object, Object]] = {}
        self._slices.listen(self._slice_changed)

    async def catch_up(self) -> None:
        self._written.clear()
        await super().catch_up()
        self.queue.add(_CLASSES)

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            if one is not None:
                for node in _publishing_node(one):
                    self.queue.add(("", node))

    async def reconcile(self, key: Key) -> None:
        if key == _CLASSES:
            for one in self._file.classes:
                await self._create_class(one)
            return
        node = self._nodes.get(*key)
        if node is None:
            for published in tuple(self._of_node.get(key[1])):
                await self._delete(published)  # garbage collection does so too, where it runs
        elif is_simulated(node) and not is_stopped(node) and not is_terminating(node):
            await self._publish(node)

    async def _create_class(self, made: Object) -> None:
        try:
            await self.client.create(self._classes.definition, "", copied(made))
        except AlreadyExists:
            return

    async def _publish(self, node: Object) -> None:
        wanted = slices_of_node(self._file.slices, node)
        published = {one["metadata"]["name"]: one for one in self._of_node.get(node["metadata"]["name"])}
        pools: dict[tuple[str, str], dict[str, Object]] = {}
        for name, made in wanted.items():
            pools.setdefault((made["spec"]["driver"], made["spec"]["pool"]["name"]), {})[name] = made
        for name, one in published.items():
            if name not in wanted:
                await self._delete(one)
        for slices in pools.values():
            await self._publish_pool(node, slices, published)

    async def _publish_pool(
        self, node: Object, wanted: Mapping[str, Object], published: Mapping[str, Object]
    ) -> None:
        stored = {name: published[name] for name in wanted if name in published}
        generations = [one["spec"]["pool"]["generation"] for one in stored.values()]
        same = all(self._is_current(one, wanted[name]) for name, one in stored.items())
        generation = max(generations, default=1)
        if not same or len(set(generations)) > 1:
            generation += 1
        for name, made in wanted.items():
            before = stored.get(name)
            if before is not None and before["spec"]["pool"]["generation"] == generation:
                self._written.setdefault(name, (_compared(made, made), before["spec"]))
                continue
            made["spec"]["pool"]["generation"] = generation
            await self._write(node, made, before)

    def _is_current(self, stored: Object, wanted: Object) -> bool:
        """Whether a slice is as it was published; one of an earlier start of the server is compared with the file."""
        written = self._written.get(stored["metadata"]["name"])
        if written is not None:
            return written == (_compared(wanted, wanted), stored["spec"])
        return _compared(stored, wanted) == _compared(wanted, wanted)

    async def _write(self, node: Object, made: Object, before: Object | None) -> None:
        metadata = {
            **made["metadata"],
            "annotations": {
                **(made["metadata"].get("annotations") or {}),
                PUBLISHED: made["spec"]["driver"],
            },
            "ownerReferences": [_owner(self._nodes.definition, node)],
        }
        definition, name = self._slices.definition, made["metadata"]["name"]
        if before is None:
            body = await self.client.create(definition, "", {**made, "metadata": metadata})
        else:
            changed = {**before, "metadata": {**before["metadata"], **metadata}, "spec": made["spec"]}
            body = await self.client.replace(definition, changed)
        self._written[name] = _compared(made, made), decode(body)["spec"]

    async def _delete(self, published: Object) -> None:
        metadata = published["metadata"]
        self._written.pop(metadata["name"], None)
        if is_terminating(published):
            return
        try:
            await self.client.delete(
                self._slices.definition, "", metadata["name"], DeleteOptions(uid=metadata["uid"])
            )
        except NotFound:
            return


def _publishing_node(one: Object) -> tuple[str, ...]:
    """The node that a slice was published for, for an index."""
    metadata = one["metadata"]
    if PUBLISHED not in (metadata.get("annotations") or {}):
        return ()
    owners = metadata.get("ownerReferences") or ()
    return tuple({owner["name"] for owner in owners if owner["kind"] == "Node"})


def _owner(definition: Definition, node: Object) -> Object:
    reference = owner_reference(definition, node)
    del reference["blockOwnerDeletion"]
    return reference


def _compared(one: Object, wanted: Object) -> Object:
    """The spec without what the server adds: generations, and the times of taints that the file does not have."""
    spec: Object = copied(one["spec"])
    del spec["pool"]["generation"]
    has_times = any(
        "timeAdded" in taint
        for device in wanted["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
    )
    if not has_times:
        for device in spec.get("devices") or ():
            for taint in device.get("taints") or ():
                taint.pop("timeAdded", None)
    return spec
