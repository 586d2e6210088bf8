"""envtest finds Rewound in the folder of `rewound envtest`: starts, users, certificates, state, stops and kills."""

from __future__ import annotations

import os
import select
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rewound.actors.versions.version import FIRST
from rewound.cli.envtest import envtest, make_assets
from rewound.testing.envtest import programs
from tests.testing.envtest.environment import SECONDS, Environment, hanging, started, with_etcd

MASTERS = ("ann", "system:masters")


@pytest.fixture(scope="module")
def assets() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rewound-assets-") as folder:
        yield make_assets(Path(folder), FIRST)


async def create(environment: Environment, name: str) -> None:
    async with environment.client(environment.user(*MASTERS)) as client:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        created = await client.post("/api/v1/namespaces/default/configmaps", json=body)
        assert created.status_code == 201, created.text


async def names(environment: Environment, path: str = "/api/v1/namespaces/default/configmaps") -> list[str]:
    async with environment.client(environment.user(*MASTERS)) as client:
        found = await client.get(path)
        assert found.status_code == 200, found.text
        return [item["metadata"]["name"] for item in found.json()["items"]]


async def test_api_server_finds_state_again_and_both_stop(assets: Path) -> None:
    async with started(assets) as environment:
        await create(environment, "kept")
        assert await environment.stop_api_server() == 0
        await environment.start_api_server()
        assert await names(environment) == ["kept"]
        assert await environment.stop_api_server() == 0
        await environment.start_api_server("--etcd-prefix=/another")
        assert await names(environment) == []
        assert await environment.stop_api_server() == 0
        assert await environment.stop_etcd() == 0


async def test_environments_have_nothing_in_common(assets: Path) -> None:
    async with started(assets) as one, started(assets) as other:
        await create(one, "of-one")
        assert (await names(one), await names(other)) == (["of-one"], [])


async def test_users_are_those_of_the_client_authority(assets: Path) -> None:
    async with started(assets) as environment:
        async with environment.client(environment.user("bob", "people")) as client:
            refused = await client.get("/api/v1/secrets")
            assert (refused.status_code, "bob" in refused.json()["message"]) == (403, True)
        async with environment.client(environment.user(*MASTERS)) as client:
            version = (await client.get("/version")).json()
            assert version["gitVersion"].startswith("v1.25.")
            assert (await client.get("/readyz")).text == "ok"
            # No controller of kube-controller-manager runs, as with v1.25: nothing creates service accounts.
            accounts = await client.get("/api/v1/serviceaccounts")
            assert accounts.json()["items"] == []
            endpoints = await client.get("/api/v1/namespaces/default/endpoints/kubernetes")
            subset = endpoints.json()["subsets"][0]
            assert subset["addresses"] == [{"ip": "127.0.0.1"}]
            assert subset["ports"][0]["port"] == environment.port


async def test_tokens_are_signed_with_the_given_key(assets: Path) -> None:
    async with started(assets, "--controllers=serviceaccount") as environment:
        client = environment.client(environment.user(*MASTERS))
        async with client:
            url = "/api/v1/namespaces/default/serviceaccounts/default"
            with trio.fail_after(SECONDS):
                while (
                    await client.get(url)
                ).status_code == 404:  # the controller that the test enabled creates it
                    await trio.sleep(0.02)
            token = await client.post(f"{url}/token", json={"spec": {}})
            review = {"spec": {"token": token.json()["status"]["token"]}}
            reviewed = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", json=review)
            status = reviewed.json()["status"]
            assert status["user"]["username"] == "system:serviceaccount:default:default"
            assert status["audiences"] == [f"https://127.0.0.1:{environment.port}/"]


async def test_template_has_what_a_new_server_creates(assets: Path) -> None:
    paths = [
        "/api/v1/namespaces",
        "/api/v1/services",
        "/api/v1/configmaps",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/flowcontrol.apiserver.k8s.io/v1beta2/flowschemas",
        "/apis/apiregistration.k8s.io/v1/apiservices",
    ]
    async with started(assets) as copied, started(assets, "--service-node-port-range=30000-32767") as new:
        namespaces = []
        for environment in (copied, new):
            async with environment.client(environment.user(*MASTERS)) as client:
                found = await client.get("/api/v1/namespaces/default")
                namespaces.append(found.json()["metadata"]["uid"])
        assert namespaces[0] != namespaces[1], "both are copies"
        for path in paths:
            assert sorted(await names(copied, path)) == sorted(await names(new, path)), path


async def test_missing_serving_certificate_is_created_and_etcd_limits_sizes(assets: Path) -> None:
    async with with_etcd(assets, "--max-request-bytes=200000") as environment:
        folder = environment.certificates / "new"
        own = [
            f"--cert-dir={folder}",
            f"--client-ca-file={environment.certificates / 'client-cert-auth-ca.crt'}",
        ]
        await environment.start_api_server(*own)
        async with environment.client(environment.user(*MASTERS), folder / "apiserver.crt") as client:
            body = {"metadata": {"name": "large"}, "data": {"text": "x" * 300_000}}
            refused = await client.post("/api/v1/namespaces/default/configmaps", json=body)
            assert "request is too large" in refused.text
        assert stat.S_IMODE((folder / "apiserver.key").stat().st_mode) == 0o600
        made = (folder / "apiserver.crt").read_bytes()
        await environment.stop_api_server()
        await environment.start_api_server(*own)
        assert (folder / "apiserver.crt").read_bytes() == made


async def test_without_a_zygote_the_server_is_a_process_of_its_own(
    assets: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("long" * 30)))
    assert programs.zygote_socket(os.getpid()) == ""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with started(assets) as environment:
        await create(environment, "one")
        assert await environment.stop_api_server() == 0


async def test_api_server_says_why_it_does_not_start(assets: Path) -> None:
    async with with_etcd(assets) as environment:
        assert await environment.refusal("--insecure-port=0") == (1, "Error: unknown flag: --insecure-port\n")
        code, text = await environment.refusal("--min-request-timeout=5")
        assert code == 1
        assert text.startswith("Error: --min-request-timeout=5 is refused by rewound envtest: ")
        code, text = await environment.refusal("--client-ca-file=/nowhere/ca.crt")
        assert code == 1
        assert text.startswith("Error: --client-ca-file: ")
        code, text = await environment.refusal("--service-cluster-ip-range=10.0.0.0/33")
        assert (code, text.startswith("Error: --service-cluster-ip-range: ")) == (1, True)


async def test_api_server_needs_the_etcd_for_itself(assets: Path) -> None:
    async with started(assets) as environment:
        code, text = await environment.refusal()
        assert (code, "is already being written by process" in text) == (1, True)
        # The process that listens there is not our etcd: it is the secure port of an API server.
        own = (f"--etcd-servers=http://127.0.0.1:{environment.port}",)
        code, text = await environment.refusal(*own, without=["--etcd-servers"])
        assert (code, "is not the etcd of rewound envtest" in text) == (1, True), text
        code, text = await environment.refusal(
            "--etcd-servers=https://127.0.0.1:1", without=["--etcd-servers"]
        )
        assert (code, "is not http://HOST:PORT" in text) == (1, True), text


def test_nothing_survives_a_killed_test(assets: Path) -> None:
    with hanging(assets) as process:
        assert process.stdout is not None
        try:
            etcd, api_server, *folders = process.stdout.readline().split()
            zygote = zygote_of(process.pid)
            ends = [os.pidfd_open(pid) for pid in (int(etcd), int(api_server), zygote, *children(zygote))]
            assert len(ends) == 4
            os.kill(process.pid, signal.SIGKILL)
            for descriptor in ends:
                ended, _, _ = select.select([descriptor], [], [], SECONDS)
                os.close(descriptor)
                assert ended, "it still runs"
        finally:
            process.kill()
    assert [folder for folder in folders if Path(folder).exists()] == []
    assert not os.path.lexists(programs.zygote_socket(process.pid))


@pytest.mark.parametrize("forked", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_killed_server_says_by_which_signal(
    assets: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    forked: bool,
) -> None:
    if not forked:  # a folder that others may read is no place for the zygote's socket
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        (tmp_path / f"rewound-envtest-{os.getuid()}").mkdir(mode=0o755)
    async with started(assets) as environment:
        deputy = environment.api_server
        assert deputy is not None
        (lock,) = [file for folder in environment.folders for file in folder.rglob("writer.lock")]
        os.kill(int(lock.read_text()), signal.SIGKILL)
        with trio.fail_after(SECONDS):
            assert await deputy.wait() == 128 + signal.SIGKILL
        environment.api_server = None
    said = capfd.readouterr().err
    assert "rewound envtest: kube-apiserver: the server was killed by SIGKILL: out of memory?" in said


def zygote_of(parent: int) -> int:
    """The process that holds the lock beside the socket."""
    lock = os.stat(f"{programs.zygote_socket(parent)}.lock")
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(lock.st_ino):
            return int(fields[4])
    raise AssertionError("there is no zygote")


def children(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_command_prints_the_folder(
    assets: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = (assets / "template").stat().st_mtime
    assert envtest(["--folder", str(assets), "--kubernetes-version", FIRST]) == 0
    assert capsys.readouterr().out == f"{assets}\n"
    assert (assets / "template").stat().st_mtime == before, "it was made again"
    assert {"etcd", "kube-apiserver"} <= {path.name for path in assets.iterdir()}
    assert stat.S_IMODE(assets.stat().st_mode) == 0o700


def test_command_links_the_kubectl_that_is_installed(
    assets: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\n")
    kubectl.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    make_assets(assets, FIRST)
    assert (assets / "kubectl").readlink() == kubectl
    monkeypatch.setenv("PATH", "/nowhere")
    make_assets(assets, FIRST)
    assert not (assets / "kubectl").is_symlink()


def test_command_names_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert envtest(["--fodler=x"]) == 2
    assert "--fodler=x: is not a flag of it" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert envtest(["--folder", str(tmp_path / "file")]) == 1
    assert "give another folder with --folder" in capsys.readouterr().err
