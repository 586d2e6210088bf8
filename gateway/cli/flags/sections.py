"""The flags of each part of the server, in the order in which `rewound serve --help` shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, add_list, add_switch, duration, folder, number, port, size


def add_serving(group: Any) -> None:
    add(group, "--data-dir", folder, "FOLDER", "journal, certificates and admin.kubeconfig")
    add(
        group,
        "--dialect",
        str,
        "NAME",
        "names in the API: cluster or kubernetes; a folder keeps the one it was created with (default cluster)",
    )
    add(group, "--bind-address", str, "ADDRESS", "address to listen on; 0.0.0.0 or :: for all addresses")
    add(group, "--secure-port", port, "PORT", "HTTPS; 0 is off")
    add(group, "--insecure-port", port, "PORT", "plain HTTP on loopback; callers still sign in (default off)")
    add(
        group,
        "--http2-max-streams-per-connection",
        number,
        "N",
        "requests that a client may have in progress on one HTTP/2 connection; 0 means 250 (default 250)",
    )
    add(
        group,
        "--server-config",
        Path,
        "FILE",
        "Hypercorn's configuration (TOML or Python) for what has no flag: Unix sockets, backlog, timeouts, log",
    )
    add(
        group,
        "--transport",
        str,
        "NAME",
        "native: HTTP/1.1 and HTTP/2 of this server; asgi: those of Hypercorn, slower, to compare or for HTTP/3",
    )
    add(
        group,
        "--quic-bind",
        str,
        "HOST:PORT",
        "HTTP/3 there too, with --transport asgi and pip install 'rewound[http3]'; clients sign in with tokens only",
    )


def add_certificates(group: Any) -> None:
    add(group, "--tls-cert-file", Path, "FILE", "serving certificate (PEM) instead of a generated one")
    add(group, "--tls-private-key-file", Path, "FILE", "its key (PEM)")
    add(group, "--client-ca-file", Path, "FILE", "trust client certificates of these CAs too (PEM)")


def add_access(group: Any) -> None:
    add(group, "--token-auth-file", Path, "FILE", 'CSV lines of token,user,uid[,"group1,group2"]')
    add_switch(
        group,
        "--anonymous-auth",
        "authenticate callers without credentials as system:anonymous (default true; false under AlwaysAllow)",
    )
    add_list(group, "--enable-admission-plugins", "NAME,...", "run these too, besides the default ones")
    add_list(group, "--disable-admission-plugins", "NAME,...", "do not run these, although on by default")
    add(
        group,
        "--admission-control-config-file",
        Path,
        "FILE",
        "AdmissionConfiguration (YAML or JSON) with the configuration of single plugins",
    )


def add_kinds(group: Any) -> None:
    add_list(
        group,
        "--runtime-config",
        "KEY[=BOOL],...",
        "switch <group>/<version>[/<resource>], v1, api/all, api/ga, api/beta or api/alpha on or off",
    )
    add_list(group, "--feature-gates", "NAME=BOOL,...", "switch features that are off by default")


def add_services(group: Any) -> None:
    add(
        group,
        "--service-cluster-ip-range",
        str,
        "CIDR[,CIDR]",
        "addresses of services; with a second network of the other IP family, services get two",
    )
    add(group, "--service-node-port-range", str, "FIRST-LAST", "node ports of services")


def add_history(group: Any) -> None:
    add(
        group,
        "--watch-history",
        duration,
        "TIME",
        "how old a resourceVersion clients may request (default 5m)",
    )
    add(
        group,
        "--journal-retention",
        duration,
        "TIME",
        "how long the journal keeps events; 0 is forever (default 24h)",
    )


def add_operation(group: Any) -> None:
    add(
        group,
        "--memory-limit",
        size,
        "SIZE",
        "memory that the server may use, like 512Mi or 2G; beyond it requests get 429 "
        "(default half of what the machine or the control group has)",
    )
    add(
        group,
        "--max-object-size",
        size,
        "SIZE",
        "how large an object may be, counted as etcd counts the request that stores it; 0 is no limit "
        "(default 1536Ki, the limit of etcd)",
    )
    add(
        group,
        "--max-connections",
        number,
        "N",
        "connections at once; further clients wait (default what the limits of memory and file descriptors allow)",
    )
    add(
        group,
        "--max-requests-inflight",
        number,
        "N",
        "reading requests at once; with priority and fairness, its levels share the sum of this and the next one",
    )
    add(group, "--max-mutating-requests-inflight", number, "N", "changing requests at once")
    add_switch(
        group,
        "--enable-priority-and-fairness",
        "queue requests by FlowSchemas and PriorityLevelConfigurations, so that one user's flood does not delay "
        "others; without, requests beyond the two limits get 429 (default true)",
    )
    add_switch(
        group,
        "--enable-journal-page",
        "serve the web page about the journal at /debug/journal/, which shows its user what he may list",
    )
    add(
        group,
        "--livez-grace-period",
        duration,
        "TIME",
        "/livez succeeds for this long while the server starts (default 0)",
    )
    add(
        group,
        "--shutdown-delay-duration",
        duration,
        "TIME",
        "serve for this long after /readyz begins to fail (default 0)",
    )
    add_switch(
        group,
        "--enable-test-controls",
        "serve /debug/rewound/, by which tests move the clock, inject faults and restore snapshots; not for production",
    )
    add(
        group,
        "--faults",
        Path,
        "FILE",
        "inject faults by the rules in this file (JSON or YAML), for controllers under test; not for production",
    )
