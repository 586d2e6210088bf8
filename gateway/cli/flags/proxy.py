"""The flags of forwarded requests: connections to kubelets and aggregated servers, and the targets that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_list, add_switch, duration


def add_flags(group: Any) -> None:
    add(
        group,
        "--kubelet-certificate-authority",
        Path,
        "FILE",
        "CAs (PEM) that verify the certificates of kubelets; without it they are not verified",
    )
    add(
        group,
        "--kubelet-client-certificate",
        Path,
        "FILE",
        "certificate (PEM) by which kubelets know the server",
    )
    add(group, "--kubelet-client-key", Path, "FILE", "its key (PEM)")
    add_list(
        group,
        "--kubelet-preferred-address-types",
        "TYPE,...",
        "which address of a node to connect to, the first that it has "
        "(default Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP)",
    )
    add(
        group, "--kubelet-timeout", duration, "TIME", "how long connecting to a kubelet may take (default 5s)"
    )
    add_switch(
        group,
        "--allow-local-proxy-targets",
        "forward requests also to loopback, link-local and multicast addresses of pods and nodes (default false)",
    )
    add(
        group,
        "--proxy-client-cert-file",
        Path,
        "FILE",
        "certificate (PEM) by which aggregated servers know this one (default one of the data folder)",
    )
    add(group, "--proxy-client-key-file", Path, "FILE", "its key (PEM)")
