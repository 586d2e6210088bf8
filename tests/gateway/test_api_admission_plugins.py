"""`--disable-admission-plugins` and `--enable-admission-plugins` on a running server."""

from __future__ import annotations

from typing import Any

from tests.gateway.api import Api, served

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def created(api: Api) -> dict[str, Any]:
    return dict((await api.create("pods", POD))["spec"])


async def test_every_available_plugin_runs_by_default() -> None:
    async with served() as api:
        spec = await created(api)
        assert spec["serviceAccountName"] == "default"
        assert spec["priority"] == 0
        assert len(spec["tolerations"]) == 2


async def test_disabled_plugins_do_not_run_and_the_others_do() -> None:
    async with served(disable_admission_plugins="ServiceAccount,DefaultTolerationSeconds") as api:
        spec = await created(api)
        assert "serviceAccountName" not in spec and "volumes" not in spec
        assert "tolerations" not in spec
        assert spec["priority"] == 0


async def test_enabling_a_plugin_that_is_on_changes_nothing() -> None:
    async with served(enable_admission_plugins="Priority") as api:
        spec = await created(api)
        assert spec["priority"] == 0
        assert len(spec["tolerations"]) == 2
