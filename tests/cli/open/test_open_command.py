"""`rewound open`: which server, object and moment it shows, and its errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import trio

from rewound.cli.open.browser import tunnel, why_unseen
from rewound.cli.open.command import run
from rewound.cli.open.view import find_view
from rewound.client.credentials import Credential, FixedCredential, bearer
from rewound.client.errors import Failure
from rewound.client.session import Session
from rewound.client.target import Target
from rewound.recording.query.moments import Moment
from tests.cli.open.process import opened_in_browser
from tests.client.fake_server import fake_server
from tests.gateway.api import ADMIN, ALICE, Api, config_map, served
from tests.ports import reserve_port
from tests.rewind.page.test_replayed_timeline import record

LONG_AGO = 1_000_000


class Views:
    """What the page would show, found by a user of a server in the same event loop."""

    def __init__(self, api: Api, token: str = ADMIN, namespace: str = "default") -> None:
        assert api.addresses.insecure is not None
        url = f"http://127.0.0.1:{api.addresses.insecure[1]}"
        self._target = Target(url, FixedCredential(Credential(bearer(token))), "a test", namespace=namespace)

    async def find(
        self, kind: str = "", name: str = "", *, namespace: str = "", at: Moment | None = None
    ) -> dict[str, str]:
        def find() -> dict[str, str]:
            with Session(self._target) as session:
                parts = urlsplit(find_view(session, kind, name, namespace, at).path)
            assert parts.path == "/debug/journal/"
            return {key: values[0] for key, values in parse_qs(parts.fragment).items()}

        return await trio.to_thread.run_sync(find)


@asynccontextmanager
async def served_story() -> AsyncIterator[tuple[Api, Views]]:
    async with served() as api:
        api.clock.advance(3600)
        await api.create("configmaps", config_map("web", color="blue"))
        api.clock.advance(3600)
        await api.create("configmaps", config_map("other"))
        yield api, Views(api)


async def test_an_object_is_shown_at_its_last_change() -> None:
    async with served_story() as (api, views):
        version = (await api.get("configmaps", "web"))["metadata"]["resourceVersion"]
        for kind in ("configmap", "ConfigMap", "configmaps", "cm"):
            shown = await views.find(kind, "web")
            assert shown["object"] == "configmaps/default/web"
            assert shown["at"] == version
        assert (await views.find("ns", "default"))["object"] == "namespaces//default"
        with pytest.raises(Failure, match=r"no configmaps 'wep' in the namespace default; check -n"):
            await views.find("cm", "wep")
        await api.delete("configmaps", "web")
        assert int((await views.find("cm", "web"))["at"]) > int(version)


async def test_a_moment_is_checked_and_shown_with_what_is_around_it() -> None:
    async with served_story() as (api, views):
        now = api.clock.now()
        shown = await views.find(at=Moment(time=now - 1_800_000_000))
        assert shown["from"] < shown["at"] < shown["to"]
        version = (await api.get("configmaps", "other"))["metadata"]["resourceVersion"]
        shown = await views.find(at=Moment(offset=int(version)))
        assert shown["at"] == version and shown["from"] < shown["to"]
        assert await views.find(at=Moment()) == {}
        with pytest.raises(Failure, match=r"--at: 1970-.* is too early: the first event .* is version 1"):
            await views.find(at=Moment(time=LONG_AGO))
        with pytest.raises(Failure, match=r"--at: .* is too late: the newest event .* is version"):
            await views.find(at=Moment(time=now + 3_600_000_000))
        with pytest.raises(Failure, match=f"no version 99999 yet; the newest event .* is version {version}"):
            await views.find(at=Moment(offset=99999))


async def test_a_namespace_and_a_kind_filter_the_page() -> None:
    async with served_story() as (_, views):
        assert await views.find(namespace="default") == {"namespace": "default"}
        both = {"namespace": "default", "type": "deployments.apps"}
        assert await views.find("Deployment", namespace="default") == both
        with pytest.raises(Failure, match="--namespace: the journal has nothing in 'defalt'"):
            await views.find(namespace="defalt")


async def test_a_user_with_rights_in_a_namespace_sees_it() -> None:
    async with served_story() as (api, _):
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
        await api.create("roles", {"metadata": {"name": "reader"}, "rules": rules})
        subject, role = {"kind": "User", "name": "alice"}, {"kind": "Role", "name": "reader"}
        binding = {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": role}
        await api.create("rolebindings", binding)
        views = Views(api, ALICE)
        assert await views.find(namespace="default") == {"namespace": "default"}
        # Without the right to read its history: the page shows the object, at no moment in particular.
        shown = {"namespace": "default", "object": "configmaps/default/web"}
        assert await views.find("cm", "web") == shown
        with pytest.raises(Failure, match="name a namespace with -n"):
            await views.find(at=Moment(offset=1))


def test_a_server_without_the_page_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_server(plain=True) as server:
        server.answers["GET /apis/rewound.cluster.io/v1/timeline/types"] = (404, {"message": "not found"})
        assert run(["--server", server.url, "--token", "x", "--no-browser"]) == 1
    said = capsys.readouterr().err
    assert "has no page about its journal" in said and "rewound record" in said


def test_a_server_that_has_stopped_leaves_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "journal").mkdir()
    file = tmp_path / "admin.kubeconfig"
    server = {"cluster": {"server": f"http://127.0.0.1:{reserve_port()}"}, "name": "a"}
    context = {"context": {"cluster": "a", "user": ""}, "name": "a"}
    file.write_text(json.dumps({"clusters": [server], "contexts": [context], "current-context": "a"}))
    assert run(["--kubeconfig", str(file)]) == 1
    said = capsys.readouterr().err
    assert "cannot reach http" in said
    assert f"If it has stopped: rewound open --data-dir {tmp_path}\n" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "noon"], "--at: 'noon' is not a moment"),
        (["--data-dir", "a", "--file", "b"], "--data-dir and --file: give one of them"),
        (["--data-dir", ".", "--as", "bob"], "--as: has no effect with --data-dir"),
        (["--data-dir", "missing"], "--data-dir: there is no folder missing"),
        (["--file", "."], "--file: there is no file .; a folder is opened with --data-dir"),
        (["--port", "99999"], "--port: 99999 is not a port"),
    ],
)
def test_wrong_arguments_are_refused_with_a_reason(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_browser_starts_only_where_a_user_sees_it() -> None:
    linux = {"DISPLAY": ":0"}
    assert why_unseen(linux, "linux") == ""
    assert why_unseen({"WAYLAND_DISPLAY": "w"}, "linux") == ""
    assert why_unseen({}, "darwin") == ""
    assert why_unseen({}, "linux") == "there is no display"
    assert "SSH" in why_unseen({**linux, "SSH_CONNECTION": "a 1 b 22"}, "linux")
    # An editor that runs elsewhere opens links where its user is.
    assert why_unseen({"BROWSER": "helper", "SSH_CONNECTION": "a 1 b 22"}, "linux") == ""
    assert tunnel(8123).startswith("ssh -L 8123:127.0.0.1:8123 ")


async def test_a_folder_is_shown_without_a_server(tmp_path: Path) -> None:
    record(tmp_path)
    async with opened_in_browser(tmp_path, "--data-dir", str(tmp_path)) as link:
        base = link.partition("/open/")[0]
        async with httpx.AsyncClient(base_url=base, verify=False, timeout=60) as browser:
            assert (await browser.get(link)).status_code == 200
            types = (await browser.get("/apis/rewound.cluster.io/v1/timeline/types")).json()
            assert types["about"]["replay"] == {"of": tmp_path.name}
            events = (await browser.get("/apis/rewound.cluster.io/v1/timeline/events")).json()
            assert events["newest"]["version"] == "6"
            origin = {"origin": base}
            moved = await browser.post("/debug/rewound/replay", json={"action": "back"}, headers=origin)
            assert moved.json()["version"] == "5"
            assert (await browser.get("/api/v1/namespaces/default/secrets")).status_code == 200
            refused = await browser.post("/api/v1/namespaces", json={}, headers=origin)
            assert refused.status_code == 405
