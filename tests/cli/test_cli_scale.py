"""`rewound scale`: as many objects of a template as are wanted, up and down, however often it is repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.cli.scale import LABEL
from tests.client.command import Ended, runner
from tests.gateway.api import Api
from tests.gateway.https import served_securely

GADGETS = """
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokctlResource
metadata: {name: gadget}
parameters: {size: 1, network: 10.0.0.0/24}
template: |-
  apiVersion: v1
  kind: ConfigMap
  metadata:
    name: {{ Name }}
  data:
    size: {{ .size | Quote }}
    network: {{ AddCIDR .network Index }}
    address: {{ AddIP "192.0.2.1" Index }}
"""


@pytest.fixture
def rewound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Awaitable[Ended]]:
    run = runner(tmp_path, capsys, monkeypatch)

    async def in_thread(*arguments: object) -> Ended:
        return await trio.to_thread.run_sync(run, *arguments)

    return in_thread


async def named(api: Api, path: str) -> list[Any]:
    return (await api.ask("GET", path)).expect(200)["items"]  # type: ignore[no-any-return]


async def test_cluster_has_as_many_objects_as_are_wanted(rewound: Any, tmp_path: Path) -> None:
    template = tmp_path / "gadgets.yaml"
    template.write_text(GADGETS)
    async with served_securely(dialect="kubernetes") as api:
        admin = ("--kubeconfig", api.settings.kubeconfig)
        pods, configmaps = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"

        image = "--param=.containers[0].image=web:1"
        ended = await rewound("scale", "pods", 40, "--nodes", 3, "--name", "web", image, *admin)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out == "nodes node: 3 created, 3 wanted\npods web: 40 created, 40 wanted\n"
        nodes = await named(api, "/api/v1/nodes")
        assert [one["metadata"]["name"] for one in nodes] == ["node-000000", "node-000001", "node-000002"]
        assert [one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in nodes] == ["a", "b", "c"]
        found = await named(api, pods)
        assert {one["spec"]["containers"][0]["image"] for one in found} == {"web:1"}
        assert {one["metadata"]["labels"][LABEL] for one in found} == {"web"}

        await api.ask("DELETE", f"{pods}/web-000003?gracePeriodSeconds=0")
        again = await rewound("scale", "pod", 40, "--nodes", 3, "--name", "web", *admin)
        assert again.out == "nodes node: 3 exist\npods web: 1 created, 40 wanted\n"
        fewer = await rewound("scale", "pods", 2, "--name", "web", *admin)
        assert fewer.out == "pods web: 38 deleted, 2 wanted\n"

        size = ("--param", '.size={"a": 2}')
        made = await rewound("scale", "gadgets", 2, "--template", template, *size, *admin)
        assert made.out == "configmaps gadget: 2 created, 2 wanted\n", made.err
        last = (await named(api, f"{configmaps}?labelSelector={LABEL}=gadget"))[-1]
        assert (last["metadata"]["name"], last["data"]["network"]) == ("gadget-000001", "10.0.1.0/24")
        assert (last["data"]["size"], last["data"]["address"]) == ('{"a":2}', "192.0.2.2")

        unknown = await rewound("scale", "widgets", 2, *admin)
        assert (unknown.code, unknown.err) == (
            2,
            "rewound: there is no template 'widgets'; there are node, pod, and --template adds those of a file\n",
        )
        bad = await rewound("scale", "pods", 2, "--param", "image", *admin)
        assert bad.code == 2 and "is not like .capacity.cpu=8" in bad.err
        invalid = await rewound("scale", "pods", 300, "--name", "bad", "--param", ".containers=[]", *admin)
        assert invalid.code == 1 and "were not created; the first error: " in invalid.err
