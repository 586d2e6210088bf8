"""Labels of its own Node that a node may not change: schedulers and operators choose nodes by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.names import Names

Labels = Mapping[str, str] | None


class NodeLabels:
    def __init__(self, names: Names) -> None:
        self._domains = tuple(dict.fromkeys((names.key_domain, names.group_domain)))
        self._restricted = f"node-restriction.{names.key_domain}"
        self._open_domains = (f"kubelet.{names.key_domain}", f"node.{names.key_domain}")
        self._open = frozenset(
            names.key(name, prefix)
            for prefix, keys in (
                ("", ("hostname", "os", "arch")),
                ("beta", ("os", "arch", "instance-type")),
                ("node", ("instance-type",)),
                ("topology", ("zone", "region")),
                ("failure-domain.beta", ("zone", "region")),
            )
            for name in keys
        )

    def forbidden(self, new: Labels, old: Labels) -> str:
        """The changed labels that a node may not change, sorted, as errors list them."""
        now, before = new or {}, old or {}
        changed = {key for key in {*now, *before} if now.get(key) != before.get(key)}
        return ", ".join(sorted(key for key in changed if self._is_forbidden(key)))

    def _is_forbidden(self, key: str) -> bool:
        domain, slash, _ = key.partition("/")
        if not slash:
            return False
        if _within(domain, (self._restricted,)):
            return True
        return _within(domain, self._domains) and not (
            key in self._open or _within(domain, self._open_domains)
        )


def _within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
