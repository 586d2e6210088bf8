"""An embedded server without test controls refuses settings that need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.gateway.settings.checks import SettingsError
from rewound.server.application import Application
from rewound.testing.controlled import WITH_CONTROLS
from tests.gateway.api import settings


async def test_server_without_test_controls_refuses_settings_that_ask_for_them(tmp_path: Path) -> None:
    (tmp_path / "faults.yaml").write_text("rules: []\n")
    for changed in ({"enable_test_controls": True}, {"faults": tmp_path / "faults.yaml"}):
        chosen = settings(tmp_path, **changed)
        with pytest.raises(BaseExceptionGroup) as failed:
            async with Application(chosen).running():
                pass
        assert failed.group_contains(SettingsError, match="WITH_CONTROLS")
        async with Application(chosen, extensions=WITH_CONTROLS).running():
            pass
