"""Groups, namespaces, labels and media types have the names of the data folder's dialect."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rewound.actors.names import NAMES
from tests.gateway.api import config_map, names, served
from tests.gateway.https import Kubeconfig, secure_client, served_securely
from tests.gateway.processes import process, refused

OTHER = {"cluster": "kubernetes", "kubernetes": "cluster"}
dialects = pytest.mark.parametrize("dialect", sorted(NAMES))


@dialects
async def test_group_names_follow_the_dialect(dialect: str) -> None:
    async with served(dialect=dialect) as api:
        groups = {group["name"] for group in (await api.ask("GET", "/apis")).document["groups"]}
        spelled = {
            NAMES[dialect].group(prefix) for prefix in ("coordination", "events", "scheduling", "storage")
        }
        assert spelled <= groups
        other = NAMES[OTHER[dialect]].group("coordination")
        assert (await api.ask("GET", f"/apis/{other}/v1")).status == 404
        assert (await api.ask("GET", f"/apis/{other}/v1/namespaces/default/leases")).status == 404


@dialects
async def test_namespaces_and_their_name_label_follow_the_dialect(dialect: str) -> None:
    async with served(dialect=dialect) as api:
        spelled = NAMES[dialect]
        listed = await api.list("namespaces", None)
        assert set(names(listed)) == {
            "default",
            spelled.system_namespace,
            spelled.public_namespace,
            spelled.node_lease_namespace,
        }
        for one in listed["items"]:
            assert one["metadata"]["labels"][spelled.key("metadata.name")] == one["metadata"]["name"]
        label = f"{spelled.key('metadata.name')}=default"
        assert names(await api.list("namespaces", None, labelSelector=label)) == ["default"]


@dialects
async def test_api_version_of_objects_follows_the_dialect(dialect: str) -> None:
    async with served(dialect=dialect) as api:
        group = NAMES[dialect].group("coordination")
        made = await api.create("leases", {"metadata": {"name": "a"}})
        assert made["apiVersion"] == f"{group}/v1"
        assert (await api.list("leases"))["apiVersion"] == f"{group}/v1"
        missing = (await api.ask("GET", api.path("leases", name="missing"))).expect(404)
        assert missing["details"]["group"] == group
        assert missing["message"] == f'leases.{group} "missing" not found'
        wrong = {"apiVersion": f"{NAMES[OTHER[dialect]].group('coordination')}/v1", "metadata": {"name": "b"}}
        assert (await api.ask("POST", api.path("leases"), wrong)).status == 400


@dialects
async def test_errors_and_media_types_follow_the_dialect(dialect: str) -> None:
    async with served(dialect=dialect) as api:
        spelled = NAMES[dialect]
        options = (await api.ask("POST", api.path("configmaps"), config_map("a"), dryRun="x")).expect(422)
        assert options["details"]["group"] == spelled.group("meta")
        answer = await api.ask("POST", api.path("configmaps"), b"x", headers={"content-type": "text/plain"})
        assert spelled.media_type in answer.expect(415)["message"]


async def test_folder_keeps_its_dialect_when_the_flag_is_left_out(tmp_path: Path) -> None:
    async with served(tmp_path, dialect="kubernetes"):
        pass
    async with process(tmp_path) as server:
        assert "(dialect kubernetes, Kubernetes 1.36)" in server.banner
        listed = (await server.client.get("/api/v1/namespaces")).json()
        assert "kube-system" in names(listed) and "cluster-system" not in names(listed)
        server.signal(signal.SIGTERM)
        assert await server.ended() == 0
    code, error = await refused(tmp_path, "--dialect", "cluster")
    assert code == 1
    assert "was created with the dialect 'kubernetes' and cannot serve 'cluster'" in error
    assert "Traceback" not in error


@dialects
async def test_objects_survive_a_restart_in_either_dialect(dialect: str, tmp_path) -> None:
    async with served_securely(dialect=dialect) as api:
        await api.create("leases", {"metadata": {"name": "a"}})
        await api.restart()
        assert names(await api.list("leases")) == ["a"]
        async with secure_client(api, Kubeconfig(api.settings.kubeconfig).context(tmp_path)) as client:
            assert (await client.get(api.path("leases", name="a"))).status_code == 200


async def test_no_name_of_the_other_dialect_appears() -> None:
    for dialect, foreign in (("kubernetes", "cluster.io"), ("cluster", "k8s.io")):
        async with served(dialect=dialect) as api:
            for path in ("/", "/apis", "/api/v1", "/api/v1/namespaces", "/api/v1/serviceaccounts"):
                text = (await api.ask("GET", path)).text.replace("rewound.cluster.io", "")  # in both dialects
                assert foreign not in text, path
