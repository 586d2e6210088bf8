"""The settings of admission plugins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.settings.checks import check_file, check_parsed

if TYPE_CHECKING:
    from actors.admission.configuration import AdmissionConfiguration
    from actors.names import Names

CONFIGURATION_FLAG: Final = "--admission-control-config-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    admission_control_config_file: Path | None = None

    def __post_init__(self) -> None:
        check_file(CONFIGURATION_FLAG, self.admission_control_config_file)

    def configuration(self, names: Names) -> AdmissionConfiguration:
        """Reads the file. SettingsError if it cannot be used."""
        # Here, because it loads a YAML parser, which reading other flags does not need.
        from actors.admission.configuration import NO_CONFIGURATION, read_admission_configuration

        path = self.admission_control_config_file
        if path is None:
            return NO_CONFIGURATION
        return check_parsed(CONFIGURATION_FLAG, lambda: read_admission_configuration(path, names))
