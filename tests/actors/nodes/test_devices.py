"""Simulated nodes publish the ResourceSlices of a file, and keep them."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.nodes.devices import NodeDevices, read_devices
from rewound.actors.nodes.simulator import NAME, SimulatedNodes
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench
from tests.cases import cases

SLICES, CLASSES = "resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io"
NEWEST = choose_release("1.36")
FILE = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel: {expression: device.driver == "gpu.example.com"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
spec:
  driver: gpu.example.com
  devices:
  - name: gpu-0
    attributes: {model: {string: "on-{{node}}"}}
    capacity: {memory: {value: 40Gi}}
    taints: [{key: old, effect: NoSchedule}]
  - name: gpu-1
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  annotations: {sim/nodes: disk=fast}
spec:
  driver: gpu.example.com
  devices: [{name: gpu-2}]
"""


def opened(path: Path, content: str = FILE, nodes: int = 2) -> AbstractAsyncContextManager[Bench]:
    file = path / "devices.yaml"
    file.write_text(content)
    more = [(NAME, partial(SimulatedNodes, count=nodes)), (NodeDevices.name, partial(NodeDevices, path=file))]
    return open_bench(path, "garbagecollector", more=more, pods_run=False, release=NEWEST)


def pools(bench: Bench) -> dict[str, tuple[int, int, list[str]]]:
    """Generation, number of slices and devices, by the name of the slice."""
    found = {}
    for one in bench.all(SLICES, None):
        pool = one["spec"]["pool"]
        devices = [device["name"] for device in one["spec"].get("devices") or ()]
        found[one["metadata"]["name"]] = (pool["generation"], pool["resourceSliceCount"], devices)
    return found


async def test_every_node_publishes_its_devices(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with opened(tmp_path) as bench:
        assert bench.names(CLASSES, None) == ["gpu"]
        first = (1, 1, ["gpu-0", "gpu-1"])
        assert pools(bench) == {"node-0-gpu.example.com": first, "node-1-gpu.example.com": first}
        slice_ = bench.get(SLICES, "node-1-gpu.example.com")
        assert slice_["spec"]["nodeName"] == slice_["spec"]["pool"]["name"] == "node-1"
        assert slice_["spec"]["devices"][0]["attributes"] == {"model": {"string": "on-node-1"}}
        [owner] = slice_["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", "node-1", True)
        await bench.delete("nodes", "node-1")
        await bench.rest()
        assert list(pools(bench)) == ["node-0-gpu.example.com"]


async def test_labels_of_a_node_choose_its_devices_and_a_change_is_a_new_generation(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(tmp_path, nodes=1) as bench:
        await bench.patch("nodes", "node-0", {"metadata": {"labels": {"disk": "fast"}}})
        await bench.rest()
        assert pools(bench) == {
            "node-0-gpu.example.com": (2, 2, ["gpu-0", "gpu-1"]),
            "node-0-gpu.example.com-2": (2, 2, ["gpu-2"]),
        }
        await bench.patch("nodes", "node-0", {"metadata": {"labels": {"disk": None}}})
        await bench.rest()
        assert pools(bench) == {"node-0-gpu.example.com": (3, 1, ["gpu-0", "gpu-1"])}


async def test_what_others_change_is_published_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with opened(tmp_path, nodes=1) as bench:
        name = "node-0-gpu.example.com"
        await bench.patch(SLICES, name, {"spec": {"devices": [{"name": "mine"}]}})
        await bench.rest()
        assert pools(bench) == {name: (2, 1, ["gpu-0", "gpu-1"])}
        await bench.delete(SLICES, name)
        await bench.rest()
        assert pools(bench) == {name: (1, 1, ["gpu-0", "gpu-1"])}
        foreign = {"driver": "x.example.com", "nodeName": "node-0", "devices": [{"name": "d"}]}
        foreign["pool"] = {"name": "node-0", "generation": 7, "resourceSliceCount": 1}
        await bench.create(SLICES, {"metadata": {"name": "foreign"}, "spec": foreign})
        await bench.rest()
        assert pools(bench)["foreign"] == (7, 1, ["d"])


async def test_a_restart_changes_only_what_the_file_changes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(tmp_path, nodes=1) as bench:
        before = bench.all(SLICES, None)
    async with opened(tmp_path, nodes=1) as bench:
        assert bench.all(SLICES, None) == before
    async with opened(tmp_path, FILE.replace("name: gpu-1", "name: gpu-9"), nodes=1) as bench:
        assert pools(bench) == {"node-0-gpu.example.com": (2, 1, ["gpu-0", "gpu-9"])}
    async with opened(tmp_path, FILE.replace("gpu.example.com", "new.example.com"), nodes=1) as bench:
        assert pools(bench) == {"node-0-new.example.com": (1, 1, ["gpu-0", "gpu-1"])}


SLICE: Object = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}


@cases(
    ("content", "problem"),
    [
        ("", "has no ResourceSlice"),
        ("a: [", "is neither YAML nor JSON at line"),
        ("- 1", "document 1: is not an object"),
        ("kind: Pod", "document 1: kind: must be DeviceClass or ResourceSlice, not 'Pod'"),
        (FILE.replace("k8s.io/v1\nkind: Dev", "k8s.io/v9\nkind: Dev"), "document 1: apiVersion: this server has no"),
        (FILE.replace("{name: gpu}", "{}"), "document 1: metadata.name: Required value"),
        (FILE.replace("  - name: gpu-1\n", "  - nam: gpu-1\n"), 'document 2: unknown field "spec.devices[1].nam"'),
        (FILE.replace("gpu-1", "GPU_1"), "document 2: spec.devices[1].name: Invalid value"),
        (FILE.replace("gpu-1", "gpu-0"), "document 2: spec.devices[1]: Duplicate value"),
        (FILE.replace("gpu-2", "gpu-1"), "spec.devices: there are two devices 'gpu-1' of driver gpu.example.com"),
        (FILE.replace("disk=fast", "disk in"), "document 3: metadata.annotations[sim/nodes]: "),
        (FILE.replace("40Gi", "forty"), "document 2: "),
        (FILE.replace("  annotations:", "  name: s\n  annotations:"), "metadata.name: must contain {{node}}"),
        (FILE.replace("Slice\nspec:\n", "Slice\nspec:\n  nodeName: n1\n"), "spec.nodeName: must be {{node}}"),
        (FILE.replace('device.driver ==', 'device.'), "document 1: spec.selectors[0].cel.expression: Invalid value"),
    ],
)  # fmt: skip
def test_errors_name_the_document_and_the_field(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(content)
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        read_devices(file, KUBERNETES, built_in(KUBERNETES, NEWEST), NEWEST.features)
    assert str(caught.value).startswith(str(file))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_devices(tmp_path / "none", KUBERNETES, built_in(KUBERNETES, NEWEST), NEWEST.features)


def test_older_versions_of_the_api_are_read(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    devices = "[{name: d, basic: {attributes: {a: {string: b}}}}]"
    file.write_text(
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceSlice\n"
        f"spec: {{driver: x.example.com, devices: {devices}}}\n"
    )
    release = choose_release("1.33", "DynamicResourceAllocation=true")
    catalog = built_in(KUBERNETES, release)
    found = read_devices(file, KUBERNETES, catalog, release.features)
    assert found.slices[0].document["spec"]["devices"] == [
        {"name": "d", "attributes": {"a": {"string": "b"}}}
    ]


CLAIMS = "resourceclaims.resource.k8s.io"
CLAIM: Object = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}


async def test_a_pod_waits_until_its_claim_is_reserved_and_allocated(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(tmp_path, nodes=1) as bench:
        wanted = [{"name": "x", "resourceClaimName": "rc"}]
        containers = [{"name": "main", "image": "web:1", "resources": {"claims": [{"name": "x"}]}}]
        spec = {"nodeName": "node-0", "containers": containers, "resourceClaims": wanted}
        pod = await bench.create("pods", {"metadata": {"name": "p"}, "spec": spec})
        await bench.rest(1)
        failed = "Failed to prepare dynamic resources: prepare dynamic resources: "
        missing = 'fetch ResourceClaim rc: resourceclaims.resource.k8s.io "rc" not found'
        assert bench.events("p") == [("FailedPrepareDynamicResources", failed + missing)]
        [status] = bench.get("pods", "p")["status"]["containerStatuses"]
        assert status["state"]["waiting"]["reason"] == "ContainerCreating"
        claim = await bench.create(CLAIMS, {"metadata": {"name": "rc"}, "spec": CLAIM})
        await bench.rest(30)
        uids = pod["metadata"]["uid"], claim["metadata"]["uid"]
        refused = f"pod p ({uids[0]}) is not allowed to use ResourceClaim rc ({uids[1]})"
        assert bench.events("p")[-1] == ("FailedPrepareDynamicResources", failed + refused)
        consumer = {"resource": "pods", "name": "p", "uid": uids[0]}
        status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": [consumer]}
        await bench.patch(CLAIMS, "rc", {"status": status}, "status")
        await bench.rest(1)
        assert bench.get("pods", "p")["status"]["phase"] == "Running"


def test_the_documented_example_is_valid() -> None:
    example = Path(__file__).parents[3] / "docs/examples/devices.yaml"
    found = read_devices(example, KUBERNETES, built_in(KUBERNETES, NEWEST), NEWEST.features)
    assert len(found.classes) == 1 and len(found.slices) == 2
