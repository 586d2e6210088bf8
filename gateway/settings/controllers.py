"""The settings of controllers and bootstrap tokens: which controllers run, and whether bootstrap tokens authenticate.

The names of controllers are those of v1.25. Only names here, so that reading the flags loads no controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.settings.checks import SettingsError

# Controllers that run only with bootstrap tokens, unless they are named.
WITH_BOOTSTRAP_TOKENS: Final = ("bootstrapsigner", "tokencleaner")
# Controllers that run only in one dialect, unless they are named: the conversations recorded in the cluster dialect are
# those of a server without them, whose clients remove the finalizers of claims and volumes themselves.
OF_DIALECT: Final = {
    "pv-protection": "kubernetes",
    "pvc-protection": "kubernetes",
    "root-ca-cert-publisher": "kubernetes",
}
CONTROLLERS: Final = (
    "bootstrapsigner",
    "clusterrole-aggregation",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "endpoint",
    "ephemeral-volume",
    "garbagecollector",
    "namespace",
    "podgc",
    "pv-protection",
    "pvc-protection",
    "resourcequota",
    "root-ca-cert-publisher",
    "serviceaccount",
    "serviceaccount-token",
    "tokencleaner",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    controllers: tuple[str, ...] = ("*",)
    enable_bootstrap_token_auth: bool = False
    event_ttl: float = 3600.0  # 0: Events stay

    def __post_init__(self) -> None:
        unknown = [one for one in self._patterns() if one != "*" and one.removeprefix("-") not in CONTROLLERS]
        if unknown:
            raise SettingsError(
                "--controllers",
                f"there is no controller {', '.join(map(repr, unknown))}; give * for all, a name, or -name for "
                f"all but that one: {', '.join(CONTROLLERS)}",
            )

    def enabled_controllers(self, dialect: str) -> frozenset[str]:
        return frozenset(name for name in CONTROLLERS if self._enabled(name, dialect))

    def _enabled(self, name: str, dialect: str) -> bool:
        """The first item that names the controller decides, otherwise `*`."""
        patterns = self._patterns()
        for one in patterns:
            if one in (name, f"-{name}"):
                return one == name
        if name in WITH_BOOTSTRAP_TOKENS and not self.enable_bootstrap_token_auth:
            return False
        return "*" in patterns and OF_DIALECT.get(name, dialect) == dialect

    def _patterns(self) -> list[str]:
        return [one.strip() for text in self.controllers for one in text.split(",") if one.strip()]
