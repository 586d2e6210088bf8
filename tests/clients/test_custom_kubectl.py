"""kubectl with a custom kind: its description, its columns, and every way of changing its objects.

Texts are those that kubectl 1.20 and 1.32 both print.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from rewound.testing.fixture.rewound import Rewound
from tests.clients.program import TIMEOUT
from tests.clients.shops import DEFINITION, shop


@dataclass(frozen=True)
class Kubectl:
    executable: str
    kubeconfig: Path
    folder: Path

    async def __call__(self, *arguments: str, **environment: str) -> str:
        """What kubectl prints; it must succeed."""
        done = await self._run(arguments, environment)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    async def refused(self, *arguments: str, **environment: str) -> str:
        """What kubectl prints to standard error; it must fail."""
        done = await self._run(arguments, environment)
        assert done.returncode != 0, done.stdout.decode()
        return done.stderr.decode()

    async def _run(
        self, arguments: tuple[str, ...], environment: dict[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        known = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        with trio.fail_after(TIMEOUT):
            return await trio.run_process(
                [self.executable, *arguments],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env={**os.environ, **known, **environment},
            )

    def write(self, name: str, document: dict[str, Any]) -> str:
        """The path of a file with a document."""
        path = self.folder / name
        path.write_text(json.dumps(document))
        return str(path)

    def editor(self, name: str, old: str, new: str) -> str:
        """An editor that replaces a text in the file that kubectl gives it."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\nsed -i "s/{old}/{new}/" "$1"\n')
        path.chmod(0o755)
        return str(path)


async def defined(executable: str, rewound: Rewound, folder: Path) -> Kubectl:
    """kubectl, and a server with the kind Shop."""
    kubectl = Kubectl(executable, rewound.kubeconfig, folder)
    created = await kubectl("create", "-f", kubectl.write("definition.json", DEFINITION))
    assert created == "customresourcedefinition.apiextensions.k8s.io/shops.example.com created\n"
    await kubectl("wait", "--for", "condition=Established", "crd/shops.example.com")
    return kubectl


def words(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


async def test_kubectl_works_with_a_custom_kind(kubectl: str, rewound: Rewound, tmp_path: Path) -> None:
    """One server for all three, because most of the time goes into describing its kinds."""
    run = await defined(kubectl, rewound, tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(show, run, "shown")
        nursery.start_soon(change, run, "changed")
        nursery.start_soon(apply_on_the_server, run, "applied")
    await run("delete", "crd", "shops.example.com")
    assert "shops" in await run.refused("get", "shops")


async def show(run: Kubectl, name: str) -> None:
    explained = await run("explain", "shop.spec")
    assert "What the owner wants." in explained and "Colour of the walls." in explained
    assert ["colour", "<string>", "-required-"] in words(explained)
    resources = words(await run("api-resources", "--api-group", "example.com"))
    assert resources[1][:2] == ["shops", "sh"] and resources[1][-2:] == ["true", "Shop"]
    listed = words(await run("get", "apiservices"))
    assert ["v1.example.com", "Local", "True"] in [row[:3] for row in listed]
    await run("create", "-f", run.write("shown.json", shop(name, "red")))
    assert words(await run("get", "sh", name)) == [["NAME", "COLOUR", "TILLS"], [name, "red", "1"]]
    wide = words(await run("get", "shops", name, "-o", "wide"))
    assert wide[0] == ["NAME", "COLOUR", "TILLS", "PHASE"]
    assert f"shop.example.com/{name}" in (await run("get", "all", "-o", "name")).split()
    assert ["Colour:", "red"] in words(await run("describe", "shop", name))


async def change(run: Kubectl, name: str) -> None:
    red, blue = run.write("red.json", shop(name, "red")), run.write("blue.json", shop(name, "blue"))
    await run("apply", "-f", red)
    assert await run("apply", "-f", blue) == f"shop.example.com/{name} configured\n"
    assert await run("scale", "shop", name, "--replicas", "3") == f"shop.example.com/{name} scaled\n"
    assert await spec(run, name) == {"colour": "blue", "tills": 3}
    edited = await run("edit", "shop", name, KUBE_EDITOR=run.editor("paint", "colour: blue", "colour: red"))
    assert edited == f"shop.example.com/{name} edited\n"
    invalid = run.editor("spoil", "colour: red", "colour: green")
    assert f'"{name}" is invalid' in await run.refused("edit", "shop", name, KUBE_EDITOR=invalid)
    await run("patch", "shop", name, "--type", "merge", "--patch", '{"spec": {"tills": 5}}')
    strategic = await run.refused("patch", "shop", name, "--patch", '{"spec": {}}')
    assert "accepted media types include: application/json-patch+json" in strategic
    assert await spec(run, name) == {"colour": "red", "tills": 5}
    assert await run("delete", "shop", name, "-o", "name") == f"shop.example.com/{name}\n"


async def apply_on_the_server(run: Kubectl, name: str) -> None:
    red, blue = run.write("mine.json", shop(name, "red")), run.write("yours.json", shop(name, "blue"))
    apply = ("apply", "--server-side", "-f")
    assert await run(*apply, red) == f"shop.example.com/{name} serverside-applied\n"
    conflict = await run.refused(*apply, blue, "--field-manager", "painter")
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.colour' in conflict
    await run(*apply, blue, "--field-manager", "painter", "--force-conflicts")
    assert await spec(run, name) == {"colour": "blue", "tills": 1}


async def spec(run: Kubectl, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await run("get", "shop", name, "-o", "json"))["spec"]
    return found
