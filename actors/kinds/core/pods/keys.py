"""Names in pods that depend on the dialect: annotation keys that the API reads, and the API's own domains."""

from __future__ import annotations

from dataclasses import dataclass

from actors.names import Names


@dataclass(frozen=True, slots=True)
class PodKeys:
    api_domain: str  # the domain of the API's own resources, with a slash
    domains: tuple[str, ...]  # reserved for the API itself
    mirror: str  # of static pods
    tolerations: str
    deletion_cost: str
    pod_seccomp: str
    container_seccomp: str  # a prefix: the container's name follows
    container_apparmor: str  # likewise
    dropped: frozenset[str]  # replaced by fields, and dropped when clients send them

    @classmethod
    def of(cls, names: Names) -> PodKeys:
        return cls(
            api_domain=names.key(""),
            domains=tuple(dict.fromkeys((names.key_domain, names.group_domain))),
            mirror=names.key("config.mirror"),
            tolerations=names.key("tolerations", "scheduler.alpha"),
            deletion_cost=names.key("pod-deletion-cost", "controller"),
            pod_seccomp=names.key("pod", "seccomp.security.alpha"),
            container_seccomp=names.key("", "container.seccomp.security.alpha"),
            container_apparmor=names.key("", "container.apparmor.security.beta"),
            dropped=frozenset(
                names.key(key, prefix)
                for prefix in ("pod.alpha", "pod.beta")
                for key in ("init-containers", "init-container-statuses")
            ),
        )
