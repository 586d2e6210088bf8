"""A server in a container for tests in Python, with Testcontainers (docs/deploying.md).

    with RewoundContainer() as rewound:
        config.load_kube_config_from_dict(yaml.safe_load(rewound.kubeconfig()))

Where the test's own Python can run the server, the fixture `rewound` starts faster and does more (docs/testing.md).
"""

from __future__ import annotations

from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs

PORT = 6443


class RewoundContainer(DockerContainer):
    def __init__(self, image: str = "rewound", kubernetes: str = "1.36") -> None:
        super().__init__(image)
        self.with_exposed_ports(PORT)
        self.with_command(
            "serve --data-dir=/data --bind-address=0.0.0.0 --dialect=kubernetes "
            f"--kubernetes-version={kubernetes}"
        )

    def start(self) -> RewoundContainer:
        super().start()
        wait_for_logs(self, "is ready", timeout=60)
        return self

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.get_exposed_port(PORT)}"

    def kubeconfig(self, user: str = "admin", group: str = "system:masters") -> str:
        """The text of a kubeconfig file of this user."""
        command = ["rewound", "kubeconfig", "user", user, "--group", group, "--data-dir", "/data"]
        command += ["--server", self.url, "--certificate-authority", "/data/pki/ca.crt", "--output", "-"]
        code, output = self.exec(command)
        if code:
            raise RuntimeError(output.decode())
        return output.decode()
