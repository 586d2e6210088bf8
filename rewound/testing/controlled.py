"""The extensions of a server that can have test controls and fault rules, if its settings ask for them."""

from __future__ import annotations

from typing import Final

from rewound.server.extensions import Controlled, Extensions, InstalledControls


def install_controls(server: Controlled) -> InstalledControls:
    # Imported here, because most servers have no controls.
    from rewound.testing.controls import install

    return install(server)


WITH_CONTROLS: Final = Extensions(install_controls=install_controls)
