"""The flags of each part of the server, in the order in which `rewound serve --help` shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rewound.gateway.settings.access import SIGNERS
from rewound.server.flags.adding import add, add_list, add_switch
from rewound.server.flags.values import duration, folder, number, port, rate, retention, size


def add_serving(group: Any) -> None:
    add(
        group,
        "--config",
        Path,
        "FILE",
        "YAML with flags as keys, like `secure-port: 7443`; flags of the command line take precedence",
    )
    add(group, "--data-dir", folder, "FOLDER", "journal, certificates and admin.kubeconfig")
    add(
        group,
        "--dialect",
        str,
        "NAME",
        "names in the API: cluster or kubernetes; a folder keeps the one it was created with (default cluster)",
    )
    add(
        group,
        "--profile",
        str,
        "NAME",
        "rules where they differ: documents or v1.25 (default v1.25 with --dialect kubernetes, else documents)",
    )
    add_list(
        group, "--rule", "NAME=VALUE", "one rule, whatever the profile; docs/profiles.md has all of them"
    )
    add(group, "--bind-address", str, "ADDRESS", "address to listen on; 0.0.0.0 or :: for all addresses")
    add(
        group,
        "--advertise-address",
        str,
        "ADDRESS",
        "IP address at which others reach this server, in its Service and its certificate (default that of the "
        "listener, or of the default route)",
    )
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
        "--goaway-chance",
        rate,
        "CHANCE",
        "that a request over HTTP/2 closes its connection gracefully (GOAWAY), so that its client reconnects, perhaps "
        "to another process of --workers or another server: 0 to 0.02 (default 0)",
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
        "--workers",
        number,
        "N",
        "processes that serve requests, to use more cores; one of them writes the journal (default 1)",
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
        "HTTP/3 there too, with --transport asgi and pip install aioquic; clients sign in with tokens only",
    )


def add_certificates(group: Any) -> None:
    add(group, "--tls-cert-file", Path, "FILE", "serving certificate (PEM) instead of a generated one")
    add(group, "--tls-private-key-file", Path, "FILE", "its key (PEM)")
    add_list(
        group,
        "--tls-san",
        "NAME,...",
        "more host names and addresses of the generated certificate; repeatable",
    )
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
    add(
        group,
        "--kubernetes-version",
        str,
        "VERSION",
        "the Kubernetes that the server is, 1.25 to 1.36 (default 1.36; the dialect cluster is always 1.25)",
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
        "how old a resourceVersion clients may request (default 5m; 10m in the profile v1.25)",
    )
    add(
        group,
        "--journal-retention",
        retention,
        "TIME[,KIND=TIME,...]",
        "how long the journal keeps events; 0 is forever. Of a KIND, such as leases.coordination.k8s.io, events that "
        "changed nothing but times go earlier (default 24h, of leases 1h)",
    )


def add_standby(group: Any) -> None:
    add(
        group,
        "--follow",
        str,
        "URL",
        "be a standby of the server there: a copy of its journal that serves reads, and refuses writes",
    )
    add(group, "--follow-kubeconfig", Path, "FILE", "how to sign in there")
    add(group, "--follow-token-file", Path, "FILE", "or a bearer token in a file, read again when it changes")
    add(
        group,
        "--follow-certificate-authority",
        Path,
        "FILE",
        "CA of that server (PEM), instead of that of the kubeconfig file",
    )
    add(
        group,
        "--follow-max-lag",
        duration,
        "TIME",
        "/readyz fails when the standby has been behind its leader for so long",
    )


def add_cluster(group: Any) -> None:
    add(
        group,
        "--journal",
        str,
        "etcd://HOST:PORT,...[/PREFIX]",
        "etcd orders the changes of several nodes; each keeps a copy in its data folder (default prefix /registry)",
    )
    add(group, "--etcd-cafile", Path, "FILE", "connect to etcd with TLS, and trust these authorities")
    add(group, "--etcd-certfile", Path, "FILE", "the certificate by which etcd knows this node")
    add(group, "--etcd-keyfile", Path, "FILE", "its key")
    add(group, "--etcd-user-file", Path, "FILE", "a line user:password by which this node signs in to etcd")


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
        "serve the web page about the journal at /debug/journal/, which shows what its user may list",
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
    add(group, "--log-format", str, "text|json", "lines of the log: text, or one JSON document each")
    add(group, "--log-level", str, "debug|info|warning|error", "least level of the lines (default info)")
    add(
        group,
        "--tracing-config-file",
        Path,
        "FILE",
        "TracingConfiguration (YAML or JSON): the collector of OpenTelemetry spans and how many requests are sampled; "
        "needs rewound[tracing]",
    )
    add_switch(
        group,
        "--unsafe-no-fsync",
        "do not wait for the disk: after a crash of the machine (not of the server) the data folder may be damaged; "
        "for tests",
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


def add_authorization(group: Any) -> None:
    """The flags of authorization: the modes, and what single modes need."""
    add_list(
        group,
        "--authorization-mode",
        "MODE,...",
        "what decides on requests, in order: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny; system:masters may do "
        "everything in all of them (default RBAC, with --nodes Node,RBAC)",
    )
    add(
        group,
        "--authorization-config",
        Path,
        "FILE",
        "AuthorizationConfiguration, instead of --authorization-mode and the flags of the webhook: several webhooks, "
        "with conditions; read again when it changes",
    )
    add(
        group,
        "--authorization-policy-file",
        Path,
        "FILE",
        "policies of ABAC: a JSON object per line",
    )
    add(
        group,
        "--authorization-webhook-config-file",
        Path,
        "FILE",
        "kubeconfig of the webhook of the mode Webhook",
    )
    add(
        group,
        "--authorization-webhook-cache-authorized-ttl",
        duration,
        "TIME",
        "how long it is not called again for what it allowed (default 5m)",
    )
    add(
        group,
        "--authorization-webhook-cache-unauthorized-ttl",
        duration,
        "TIME",
        "how long it is not called again for what it did not allow (default 30s)",
    )
    add(
        group,
        "--authorization-webhook-version",
        str,
        "VERSION",
        "version of the SubjectAccessReview that it gets: v1 or v1beta1 (default v1beta1)",
    )


def add_token_webhook(group: Any) -> None:
    add(
        group,
        "--authentication-token-webhook-config-file",
        Path,
        "FILE",
        "kubeconfig of the webhook that authenticates tokens which nothing else knows",
    )
    add(
        group,
        "--authentication-token-webhook-cache-ttl",
        duration,
        "TIME",
        "how long its responses are used again (default 2m)",
    )
    add(
        group,
        "--authentication-token-webhook-version",
        str,
        "VERSION",
        "version of the TokenReview that it gets: v1 or v1beta1 (default v1beta1)",
    )


def add_oidc(group: Any) -> None:
    add(
        group,
        "--authentication-config",
        Path,
        "FILE",
        "AuthenticationConfiguration (YAML or JSON): several issuers, expressions over claims, anonymous paths; "
        "instead of the flags below, and read again when it changes",
    )
    add(
        group,
        "--oidc-issuer-url",
        str,
        "URL",
        "issuer whose ID tokens sign in; HTTPS, without /.well-known/...",
    )
    add(group, "--oidc-client-id", str, "ID", "client id that all tokens must be issued for")
    add(group, "--oidc-username-claim", str, "CLAIM", "claim with the user name")
    add(
        group,
        "--oidc-username-prefix",
        str,
        "TEXT",
        "put before user names; - is none (default the issuer and #, none for the claim email)",
    )
    add(group, "--oidc-groups-claim", str, "CLAIM", "claim with the groups, an array of strings")
    add(group, "--oidc-groups-prefix", str, "TEXT", "put before groups")
    add_list(
        group,
        "--oidc-required-claim",
        "CLAIM=VALUE",
        "claim that tokens must have with this value; repeatable",
    )
    add(
        group,
        "--oidc-ca-file",
        Path,
        "FILE",
        "CAs of the issuer's web certificate (default those of the host)",
    )
    add_list(
        group, "--oidc-signing-algs", "NAME,...", "algorithms that tokens may be signed with (default RS256)"
    )


def add_request_headers(group: Any) -> None:
    add(
        group,
        "--requestheader-client-ca-file",
        Path,
        "FILE",
        "CAs of the proxies (PEM); the headers count only on connections with a certificate of theirs",
    )
    add_list(
        group,
        "--requestheader-username-headers",
        "NAME,...",
        "headers with the user name, like X-Remote-User; the first with a value counts",
    )
    add_list(
        group,
        "--requestheader-group-headers",
        "NAME,...",
        "headers with groups, like X-Remote-Group; all values of all of them count",
    )
    add_list(
        group,
        "--requestheader-extra-headers-prefix",
        "PREFIX,...",
        "prefixes of headers with extra values, like X-Remote-Extra-; the rest of the name is the key",
    )
    add_list(
        group,
        "--requestheader-allowed-names",
        "NAME,...",
        "common names that a proxy's certificate may have (default any)",
    )


def add_service_accounts(group: Any) -> None:
    add(
        group,
        "--service-account-signing-key-file",
        Path,
        "FILE",
        "RSA or ECDSA key (PEM) that signs tokens (default a key in the data folder)",
    )
    add_list(
        group,
        "--service-account-key-file",
        "FILE",
        "accept tokens that these RSA or ECDSA keys have signed too (PEM, public or private; repeatable; default "
        "the key of --tls-private-key-file)",
    )
    add_switch(
        group,
        "--service-account-lookup",
        "refuse tokens of Secrets that were deleted or whose account was deleted (default true)",
    )
    add_list(
        group,
        "--service-account-issuer",
        "URL",
        "issuer of tokens; the first one signs, all are accepted (default the DNS name of the API's service)",
    )
    add_list(group, "--api-audiences", "NAME,...", "audiences of this server (default the issuers)")
    add(
        group,
        "--service-account-max-token-expiration",
        duration,
        "TIME",
        "longest life of a requested token; 0 is no limit (default 0)",
    )
    add_switch(
        group,
        "--service-account-extend-token-expiration",
        "accept the hourly tokens of pods for a year, with a warning in the log (default true)",
    )
    add(
        group,
        "--service-account-jwks-uri",
        str,
        "URL",
        "where others find the keys, in the OpenID configuration (default at this server)",
    )


def add_signing(group: Any) -> None:
    add(
        group,
        "--cluster-signing-cert-file",
        Path,
        "FILE",
        "CA certificate that signs certificate signing requests (default the data folder's CA)",
    )
    add(group, "--cluster-signing-key-file", Path, "FILE", "its key")
    add(
        group,
        "--cluster-signing-duration",
        duration,
        "TIME",
        "how long signed certificates are valid at most (default 8760h)",
    )
    for signer in SIGNERS:
        add(
            group,
            f"--cluster-signing-{signer}-cert-file",
            Path,
            "FILE",
            f"CA certificate of the signer {signer}",
        )
        add(group, f"--cluster-signing-{signer}-key-file", Path, "FILE", "its key")


def add_controllers(group: Any) -> None:
    add_list(
        group,
        "--controllers",
        "LIST",
        "controllers to run: * for all, name for one, -name for all but that one, default for those of an API "
        "server alone, without workloads; tokencleaner and bootstrapsigner are in * only with "
        "--enable-bootstrap-token-auth, root-ca-cert-publisher only with the rule "
        "root-certificate=published (default: default)",
    )
    add(
        group,
        "--nodes",
        number,
        "N",
        "simulate N nodes, and every Node object whose conditions nobody reports; runs all controllers, unless "
        "--controllers says which (docs/nodes.md)",
    )
    add(
        group,
        "--node-events",
        str,
        "none|failures|all",
        "the Events that simulated nodes record about containers (default: all with fewer than 500 pods, else "
        "failures)",
    )
    add(
        group,
        "--node-devices",
        Path,
        "FILE",
        "DeviceClasses, and the ResourceSlices that each simulated node publishes, in YAML (docs/devices.md)",
    )
    add(
        group,
        "--static-pods",
        Path,
        "FOLDER",
        "manifests of static pods of simulated nodes: those of one node in a folder with its name, those of all "
        "beside it (docs/nodes.md)",
    )
    add(
        group,
        "--scheduler-config",
        Path,
        "FILE",
        "a KubeSchedulerConfiguration with the profiles of the scheduler (default: one, default-scheduler)",
    )
    add_switch(
        group,
        "--enable-bootstrap-token-auth",
        "bootstrap tokens in Secrets of the system namespace authenticate (default false)",
    )
    add(
        group,
        "--event-ttl",
        duration,
        "DURATION",
        "delete Events when they have not been written for this time, 0 to keep them (default 1h)",
    )


def add_workloads(group: Any) -> None:
    """The flags of workload controllers, as kube-controller-manager has them."""
    add(
        group,
        "--default-storage-class",
        str,
        "NAME",
        "make this StorageClass the default one at the start, with volumes that the server provides (default: none)",
    )
    add(
        group,
        "--pvclaimbinder-sync-period",
        duration,
        "DURATION",
        "check a claim that is not bound again after this time",
    )
    add(
        group,
        "--node-monitor-period",
        duration,
        "DURATION",
        "after a node's health has changed, wait this long for others before its pods are evicted",
    )
    add(
        group,
        "--node-monitor-grace-period",
        duration,
        "DURATION",
        "a node without a heartbeat for this time is unknown",
    )
    add(
        group,
        "--node-startup-grace-period",
        duration,
        "DURATION",
        "likewise for a node that has never reported its status",
    )
    add(
        group,
        "--node-eviction-rate",
        rate,
        "N",
        "nodes per second whose pods are evicted, in each zone",
    )
    add(
        group,
        "--secondary-node-eviction-rate",
        rate,
        "N",
        "likewise in an unhealthy zone that is larger than --large-cluster-size-threshold",
    )
    add(
        group,
        "--large-cluster-size-threshold",
        number,
        "N",
        "no pods are evicted in an unhealthy zone of up to this many nodes",
    )
    add(
        group,
        "--unhealthy-zone-threshold",
        rate,
        "FRACTION",
        "a zone is unhealthy if this fraction of its nodes, and at least 3, are not ready",
    )
    add_switch(
        group,
        "--allocate-node-cidrs",
        "nodes get networks for their pods, parts of --cluster-cidr, as spec.podCIDRs (default false)",
    )
    add(
        group,
        "--cluster-cidr",
        str,
        "NETWORKS",
        "divide these among nodes, such as 10.244.0.0/16 or 10.244.0.0/16,fd00::/48",
    )
    for suffix, text in (
        (
            "",
            "prefix length of a node's network, if the cluster has one address family (default 24, IPv6 64)",
        ),
        ("-ipv4", "likewise of IPv4 networks (default 24)"),
        ("-ipv6", "likewise of IPv6 networks (default 64)"),
    ):
        add(group, f"--node-cidr-mask-size{suffix}", number, "BITS", text)
    add(
        group,
        "--terminated-pod-gc-threshold",
        number,
        "N",
        "with --controllers=*, delete the oldest finished pods when there are more than this, 0 to keep them",
    )
    autoscaler = "--horizontal-pod-autoscaler"
    for name, text in (
        ("sync-period", "check the metrics of autoscalers this often"),
        ("downscale-stabilization", "never scale below the highest recommendation of this period"),
        ("cpu-initialization-period", "CPU usage may be ignored for this long after a pod's start"),
        ("initial-readiness-delay", "readiness changes this soon after a pod's start do not count"),
    ):
        add(group, f"{autoscaler}-{name}", duration, "DURATION", text)
    add(
        group,
        f"{autoscaler}-tolerance",
        rate,
        "RATIO",
        "autoscalers do not scale while a metric differs from its target by less than this",
    )


def add_proxy(group: Any) -> None:
    """The flags of forwarded requests: connections to kubelets and aggregated servers, and the targets that are
    refused.
    """
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


def add_audit(group: Any) -> None:
    add(
        group,
        "--audit-policy-file",
        Path,
        "FILE",
        "the policy: which requests are recorded, and how much of them",
    )
    add(group, "--audit-log-path", str, "FILE", "write events to this file, or to standard output if it is -")
    add(group, "--audit-log-maxage", number, "DAYS", "delete rotated files that are older (default 0: never)")
    add(group, "--audit-log-maxbackup", number, "N", "keep this many rotated files (default 0: all)")
    add(group, "--audit-log-maxsize", number, "MIB", "rotate the file before it is larger")
    add_switch(group, "--audit-log-compress", "compress rotated files with gzip")
    add(group, "--audit-log-format", str, "json|legacy", "one JSON document or one line of text per event")
    _add_backend(group, "log")
    add(
        group,
        "--audit-webhook-config-file",
        Path,
        "FILE",
        "send events to the server in this file, which has kubeconfig format",
    )
    add(
        group,
        "--audit-webhook-initial-backoff",
        duration,
        "TIME",
        "pause after the first failed call; later pauses are longer (default 10s)",
    )
    _add_backend(group, "webhook")


def _add_backend(group: Any, backend: str) -> None:
    flag = f"--audit-{backend}-"
    add(group, f"{flag}version", str, "VERSION", "API version of the events (default v1, the only one)")
    add(
        group,
        f"{flag}mode",
        str,
        "batch|blocking|blocking-strict",
        "batch never delays a request and may lose events; blocking delays it until its events are stored; "
        "blocking-strict also refuses it if the first cannot be stored",
    )
    add(group, f"{flag}batch-buffer-size", number, "N", "events that wait at most; further ones are lost")
    add(group, f"{flag}batch-max-size", number, "N", "events in a batch at most")
    add(
        group, f"{flag}batch-max-wait", duration, "TIME", "how long a batch waits for more events, like 100ms"
    )
    add_switch(group, f"{flag}batch-throttle-enable", "limit the number of batches a second")
    add(group, f"{flag}batch-throttle-qps", rate, "N", "batches a second on average, if throttled")
    add(group, f"{flag}batch-throttle-burst", number, "N", "batches at once after a pause, if throttled")
    add_switch(group, f"{flag}truncate-enabled", "leave objects out of large events, and split large batches")
    add(group, f"{flag}truncate-max-batch-size", number, "BYTES", "size of a batch at most, if truncated")
    add(group, f"{flag}truncate-max-event-size", number, "BYTES", "size of an event at most, if truncated")
