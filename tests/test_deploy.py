"""The examples in deploy/ and the Containerfile: admitted, verified, compiled and run as far as this machine can."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from rewound import RequestFailed, Rewound
from rewound.cli.access.flags import Parser
from rewound.cli.flight import add_flags
from rewound.release import RELEASE
from rewound.server.flags.parser import parse_flags

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
CONTAINERFILE = ROOT / "Containerfile"


def instructions(name: str) -> list[list[str]]:
    """The JSON lists after a word: `CMD` is that of the health check, and then that of the image."""
    return [
        json.loads(one) for one in re.findall(rf"\b{name} (\[.*\])$", CONTAINERFILE.read_text(), re.MULTILINE)
    ]


def manifest(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / name).read_text())
    return document


@pytest.mark.rewound(kubernetes="1.30")
def test_manifests_are_admitted_under_pod_security_restricted(rewound: Rewound) -> None:
    paths = {
        "Namespace": "/api/v1/namespaces",
        "Service": "/api/v1/namespaces/rewound/services",
        "StatefulSet": "/apis/apps/v1/namespaces/rewound/statefulsets",
        "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/rewound/networkpolicies",
    }
    kustomization = manifest("kustomization.yaml")
    assert kustomization["images"][0]["newTag"] == RELEASE
    listed = kustomization["resources"]
    assert sorted(listed) == sorted(
        one.name for one in (DEPLOY / "kubernetes").iterdir() if one.stem != "kustomization"
    )
    for name in listed:
        document = manifest(name)
        rewound.request("POST", f"{paths[document['kind']]}?fieldValidation=Strict", document)
    rewound.advance(1)  # until the controllers have created the service account
    template = manifest("statefulset.yaml")["spec"]["template"]
    template["spec"]["volumes"].append({"name": "data", "emptyDir": {}})
    pod = {**template, "metadata": {**template["metadata"], "name": "rewound-0"}}
    rewound.request("POST", "/api/v1/namespaces/rewound/pods", pod)
    del pod["spec"]["securityContext"]
    with pytest.raises(RequestFailed, match="violates PodSecurity"):
        rewound.request("POST", "/api/v1/namespaces/rewound/pods", pod | {"metadata": {"name": "another"}})


@pytest.mark.rewound(kubernetes="1.30")
def test_the_flight_recorder_is_admitted_under_pod_security_restricted(rewound: Rewound) -> None:
    def read(name: str) -> dict[str, Any]:
        document: dict[str, Any] = yaml.safe_load((DEPLOY / "flight" / name).read_text())
        return document

    kustomization = read("kustomization.yaml")
    assert kustomization["images"][0]["newTag"] == RELEASE
    assert sorted(kustomization["resources"]) == sorted(
        one.name for one in (DEPLOY / "flight").iterdir() if one.stem != "kustomization"
    )
    rewound.request("POST", "/api/v1/namespaces?fieldValidation=Strict", read("namespace.yaml"))
    core = "/api/v1/namespaces/rewound-flight"
    others = {
        "service.yaml": f"{core}/services",
        "volume.yaml": f"{core}/persistentvolumeclaims",
        "deployment.yaml": "/apis/apps/v1/namespaces/rewound-flight/deployments",
        "networkpolicy.yaml": "/apis/networking.k8s.io/v1/namespaces/rewound-flight/networkpolicies",
    }
    for name, path in others.items():
        rewound.request("POST", f"{path}?fieldValidation=Strict", read(name))
    account = {"metadata": {"name": "rewound-flight"}}
    rewound.request("POST", f"{core}/serviceaccounts", account)
    template = read("deployment.yaml")["spec"]["template"]
    pod = {**template, "metadata": {**template["metadata"], "name": "rewound-flight-0"}}
    rewound.request("POST", f"{core}/pods", pod)
    (container,) = template["spec"]["containers"]
    parser = Parser("rewound flight", None)
    add_flags(parser)
    command, *flags = container["args"]
    assert command == "flight"
    options = parser.parse_args(flags)
    assert str(options.folder) == "/data/cluster" and options.lease == "rewound-flight/rewound-flight"


def test_container_and_manifests_use_the_same_flags_which_exist() -> None:
    _, command = instructions("CMD")
    (container,) = manifest("statefulset.yaml")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == command
    assert instructions("ENTRYPOINT") == [["rewound"]]
    settings, _ = parse_flags(command[1:])
    assert str(settings.pki) == "/data/pki"
    unit = (DEPLOY / "systemd" / "rewound.service").read_text()
    parse_flags(re.search(r"ExecStart=\S+ serve (.*)", unit)[1].split())  # type: ignore[index]


def test_ci_workflow_is_yaml_and_uses_settings_that_exist(pytestconfig: pytest.Config) -> None:
    workflow = yaml.safe_load((DEPLOY / "github-actions.yaml").read_text())
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    used = [name for command in commands for name in re.findall(r"-o (\w+)=", command)]
    assert used == ["rewound_kubernetes"]
    assert pytestconfig.getini("rewound_kubernetes") == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "rewound.service").read_text()
    unit = tmp_path / "rewound.service"
    unit.write_text(text.replace("/opt/rewound/bin/rewound", "/bin/true"))
    verify = ["systemd-analyze", "verify", "--man=no", unit]
    verified = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
    assert "rewound.service" not in verified.stderr
    security = ["systemd-analyze", "security", "--offline=true", "--threshold=15", unit]  # 1.5 of 10
    rated = subprocess.run(security, capture_output=True, text=True, timeout=60, check=False)
    assert rated.returncode == 0, rated.stdout[-200:]


# Testcontainers without containers: the command of the image runs here, with its folder and port elsewhere.
FAKE_CONTAINER = """
import os, subprocess, sys, tempfile

class DockerContainer:
    def __init__(self, image):
        self.folder, self.port = tempfile.mkdtemp(dir=os.environ["FOLDER"]), int(os.environ["PORT"])
    def with_exposed_ports(self, port):
        assert port == 6443
    def with_command(self, command):
        self.command = command.replace("/data", self.folder).replace("0.0.0.0", "127.0.0.1").split()
    def start(self):
        command = [sys.executable, "-m", "rewound", *self.command, f"--secure-port={self.port}"]
        self.log = open(self.folder + "/log", "w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
    def get_exposed_port(self, port):
        return self.port
    def exec(self, command):
        words = [word.replace("/data", self.folder) for word in command[1:]]
        run = subprocess.run([sys.executable, "-m", *command[:1], *words], capture_output=True, timeout=120)
        return run.returncode, run.stdout + run.stderr
    def __enter__(self):
        return self.start()
    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()
"""
FAKE_WAITING = """
import time

def wait_for_logs(container, text, timeout):
    while text not in open(container.log.name).read():
        assert container.process.poll() is None
        time.sleep(0.05)
"""
PROGRAM = """
import pathlib
from rewound_container import RewoundContainer
with RewoundContainer() as container:
    text = container.kubeconfig()
    pathlib.Path("kubeconfig").write_text(text)
    from rewound.cli.main import main
    raise SystemExit(main(["can-i", "delete", "nodes", "--kubeconfig", "kubeconfig"]))
"""


def test_testcontainers_for_python(tmp_path: Path) -> None:
    from tests.ports import reserve_port

    fake = tmp_path / "testcontainers" / "core"
    fake.mkdir(parents=True)
    (fake / "container.py").write_text(FAKE_CONTAINER)
    (fake / "waiting_utils.py").write_text(FAKE_WAITING)
    environment = os.environ | {
        "PYTHONPATH": f"{tmp_path}:{DEPLOY / 'testcontainers'}",
        "FOLDER": str(tmp_path),
        "PORT": str(reserve_port()),
    }
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert run.returncode == 0 and run.stdout.startswith("yes"), run.stdout + run.stderr


# The names of Testcontainers for Java that the example uses.
JAVA_STUBS = {
    "org/testcontainers/containers/Container.java": """
        package org.testcontainers.containers;
        public interface Container {
            class ExecResult {
                public int getExitCode() { return 0; }
                public String getStdout() { return ""; }
                public String getStderr() { return ""; }
            }
        }""",
    "org/testcontainers/containers/GenericContainer.java": """
        package org.testcontainers.containers;
        public class GenericContainer<SELF extends GenericContainer<SELF>> implements Container {
            public GenericContainer(org.testcontainers.utility.DockerImageName name) {}
            public SELF withExposedPorts(Integer... ports) { return null; }
            public SELF withCommand(String... words) { return null; }
            public SELF waitingFor(org.testcontainers.containers.wait.strategy.WaitStrategy how) { return null; }
            public Integer getMappedPort(int port) { return port; }
            public ExecResult execInContainer(String... words)
                throws java.io.IOException, InterruptedException { return null; }
        }""",
    "org/testcontainers/containers/wait/strategy/WaitStrategy.java": """
        package org.testcontainers.containers.wait.strategy;
        public interface WaitStrategy {}""",
    "org/testcontainers/containers/wait/strategy/Wait.java": """
        package org.testcontainers.containers.wait.strategy;
        public class Wait {
            public static WaitStrategy forLogMessage(String pattern, int times) { return null; }
        }""",
    "org/testcontainers/utility/DockerImageName.java": """
        package org.testcontainers.utility;
        public class DockerImageName { public static DockerImageName parse(String name) { return null; } }""",
}


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
def test_testcontainers_for_java_compiles(tmp_path: Path) -> None:
    for name, text in JAVA_STUBS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    example = DEPLOY / "testcontainers" / "RewoundContainer.java"
    command = ["javac", "-Werror", "-sourcepath", tmp_path, "-d", tmp_path / "out", example]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.skipif(shutil.which("gofmt") is None, reason="needs gofmt")
def test_testcontainers_for_go_is_formatted() -> None:
    command = ["gofmt", "-l", "-e", DEPLOY / "testcontainers"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout + run.stderr == ""


TOOLS = ("buildah", "mmdebstrap", "apt-get")
MOST_BYTES = 120_000_000


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(
    os.getuid() != 0 or not all(map(shutil.which, TOOLS)),
    reason=f"needs root, {', '.join(TOOLS)} and Debian's packages",
)
def test_image_is_built_small_and_serves_on_a_read_only_root(tmp_path: Path) -> None:
    """Without a registry: the base is a Debian of this machine's release. The image runs in a chroot of its own."""
    release = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    base = tmp_path / "base.tar"
    packages = "--include=ca-certificates,python3,python3-pip"
    run = ["mmdebstrap", "--variant=minbase", packages, release[1] if release else "stable", base]
    _run(*run)
    context = tmp_path / "context"
    context.mkdir()
    _run(sys.executable, ROOT / ".ci" / "release.py", "--uncommitted", "--output", context / "dist")
    (wheel,) = (context / "dist").glob("*.whl")
    _run("python3", "-m", "pip", "download", "--quiet", "--dest", context / "dist", wheel)
    shutil.copy(CONTAINERFILE, context)
    storage = ("--root", tmp_path / "storage", "--runroot", tmp_path / "run", "--storage-driver", "vfs")
    buildah = ("buildah", *storage)
    started = _run(*buildah, "from", "scratch").strip()
    _run(*buildah, "add", "--quiet", started, base, "/")
    _run(*buildah, "commit", "--quiet", started, "localhost/base")
    arguments = (
        "--build-arg",
        "BASE=localhost/base",
        "--build-arg",
        "PIP_NO_INDEX=1",
        "--isolation",
        "chroot",
    )
    _run(*buildah, "bud", "--format", "docker", *arguments, "--tag", "rewound", context)
    (image,) = json.loads(_run(*buildah, "inspect", "--type", "image", "rewound").join("[]"))
    configured = image["Docker"]["config"]
    assert (configured["User"], configured["Cmd"]) == ("65532:65532", instructions("CMD")[-1])
    container = _run(*buildah, "from", "rewound").strip()
    root = Path(_run(*buildah, "mount", container).strip())
    size = sum(one.lstat().st_size for one in root.rglob("*") if not one.is_symlink() and one.is_file())
    print(f"the image has {size / 1e6:.0f} MB")
    assert size < MOST_BYTES
    check_serves(root, tmp_path / "data")


def check_serves(root: Path, data: Path) -> None:
    """Run the image's command as its user in a namespace whose root is read-only, and its health check."""
    data.mkdir()
    os.chown(data, 65532, 65532)
    mounts = (
        f"mount --bind {root} {root} && mount --bind {data} {root}/data && mount -t tmpfs tmpfs {root}/tmp && "
        f'mount -o remount,bind,ro {root} && exec chroot --userspec 65532:65532 {root} "$@"'
    )
    health_check, command = instructions("CMD")
    inside = ["unshare", "--mount", "sh", "-c", mounts, "sh"]
    with (data.parent / "log").open("w+") as log:
        began = time.monotonic()
        server = subprocess.Popen([*inside, "/usr/local/bin/rewound", *command], stdout=log, stderr=log)
        try:
            deadline = began + 120
            while "is ready" not in Path(log.name).read_text():
                assert server.poll() is None and time.monotonic() < deadline, Path(log.name).read_text()
                time.sleep(0.02)
            took = time.monotonic() - began
            used = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            cpu = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
            print(f"ready {took:.2f} s after its first start, with {cpu:.2f} s of CPU")
            check = [*inside, f"/usr/bin/{health_check[0]}", *health_check[1:]]
            assert subprocess.run(check, timeout=60, check=False).returncode == 0
        finally:
            server.terminate()
            server.wait(timeout=60)
    assert server.returncode == 0, Path(log.name).read_text()


def _run(*command: object) -> str:
    run = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, timeout=900, check=False
    )
    assert run.returncode == 0, f"{command}: {run.stdout[-2000:]}{run.stderr[-2000:]}"
    return run.stdout
