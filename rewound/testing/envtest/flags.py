"""Every flag of kube-apiserver v1.25, those that came and went since, and how each is handled here: one table.

A flag that means the same is passed on to `rewound serve`. One that cannot change what a test sees is accepted and
logged. One that would change what a test proves if it were ignored is refused, unless its value is what this server
does anyway. Flags of `rewound serve` that help with tests are accepted as well. All others are unknown, as they are to
v1.25, including `--insecure-port`, which envtest looks for in the output of --help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from rewound.actors.versions.features import ALL_ALPHA, ALL_BETA, GATES
from rewound.actors.versions.gates import Gate, gates_of
from rewound.actors.versions.version import FIRST, exists_in
from rewound.server.flags.values import parse_duration


class Use(Enum):
    SAME = "the same as of rewound serve"
    OWN = "a flag of rewound serve that v1.25 does not have"
    HERE = "read by the programs of rewound envtest"
    NOTHING = "accepted without effect"
    REFUSED = "refused, but for the values that this server has"


class Flag(NamedTuple):
    name: str
    kind: str  # type of the value in v1.25's --help; for bool, the value may be left out
    use: Use
    text: str = ""  # in --help, and of a refused flag what to do instead
    accepted: tuple[str, ...] = ()  # values of a refused flag that are not refused

    def accepts(self, value: str) -> bool:
        return any(self._same(value, one) for one in self.accepted)

    def _same(self, value: str, other: str) -> bool:
        return value == other or (
            value != "" != other and _check(self.kind, value) == _check(self.kind, other)
        )


class FlagError(Exception):
    """A flag that is unknown, incomplete or refused, in the words of v1.25 where it has some."""


class TranslatedFlags(NamedTuple):
    """The flags of one command line, sorted by use."""

    serve: tuple[str, ...]  # flags for `rewound serve`
    etcd_servers: tuple[str, ...]
    prefix: str  # of keys in etcd: API servers with different prefixes have separate state
    certificates: str  # --cert-dir
    unused: tuple[str, ...]  # without effect here


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows(use: Use, kinds: str, text: str = "") -> Iterator[Flag]:
    """Parse lines of a type and the names of its flags."""
    for line in kinds.strip().splitlines():
        kind, *names = line.split()
        for name in names:
            yield Flag(name, kind, use, text)


def _refused(name: str, kind: str, accepted: Sequence[str], text: str) -> Flag:
    return Flag(name, kind, Use.REFUSED, text, tuple(accepted))


FLAGS: Final = {
    flag.name: flag
    for flag in (
        *_rows(
            Use.SAME,
            """
            bool anonymous-auth audit-log-batch-throttle-enable audit-log-compress audit-log-truncate-enabled
            bool audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled enable-bootstrap-token-auth
            bool enable-priority-and-fairness service-account-extend-token-expiration service-account-lookup
            duration audit-log-batch-max-wait audit-webhook-batch-max-wait audit-webhook-initial-backoff event-ttl
            duration authentication-token-webhook-cache-ttl authorization-webhook-cache-authorized-ttl
            duration authorization-webhook-cache-unauthorized-ttl kubelet-timeout livez-grace-period
            duration service-account-max-token-expiration shutdown-delay-duration
            float audit-log-batch-throttle-qps audit-webhook-batch-throttle-qps goaway-chance
            int audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-throttle-burst audit-log-maxage
            int audit-log-maxbackup audit-log-maxsize audit-log-truncate-max-batch-size
            int audit-log-truncate-max-event-size audit-webhook-batch-buffer-size audit-webhook-batch-max-size
            int audit-webhook-batch-throttle-burst audit-webhook-truncate-max-batch-size
            int audit-webhook-truncate-max-event-size http2-max-streams-per-connection max-mutating-requests-inflight
            int max-requests-inflight secure-port
            ip advertise-address bind-address
            mapStringString oidc-required-claim runtime-config
            portRange service-node-port-range
            string admission-control-config-file audit-log-format audit-log-mode audit-log-path audit-log-version
            string audit-policy-file audit-webhook-config-file audit-webhook-mode audit-webhook-version
            string authentication-token-webhook-config-file authentication-token-webhook-version
            string authorization-policy-file authorization-webhook-config-file authorization-webhook-version
            string client-ca-file kubelet-certificate-authority kubelet-client-certificate kubelet-client-key
            string oidc-ca-file oidc-client-id oidc-groups-claim oidc-groups-prefix oidc-issuer-url
            string oidc-username-claim oidc-username-prefix proxy-client-cert-file proxy-client-key-file
            string requestheader-client-ca-file service-account-jwks-uri service-account-signing-key-file
            string service-cluster-ip-range tls-cert-file tls-private-key-file token-auth-file
            stringArray service-account-issuer service-account-key-file
            strings api-audiences authorization-mode disable-admission-plugins enable-admission-plugins
            strings kubelet-preferred-address-types oidc-signing-algs requestheader-allowed-names
            strings requestheader-extra-headers-prefix requestheader-group-headers requestheader-username-headers
            """,
        ),
        *_rows(
            Use.OWN,
            """
            bool allow-local-proxy-targets enable-journal-page enable-test-controls
            duration cluster-signing-duration watch-history
            quantity max-object-size memory-limit
            string cluster-signing-cert-file cluster-signing-key-file faults journal-retention profile
            strings controllers rule
            """,
        ),
        Flag("etcd-servers", "strings", Use.HERE, "URL of the etcd of rewound envtest, which owns the state"),
        Flag("etcd-prefix", "string", Use.HERE, "API servers with different prefixes have different states"),
        Flag(
            "cert-dir",
            "string",
            Use.HERE,
            "serve with apiserver.crt and apiserver.key there; created if missing",
        ),
        Flag("feature-gates", "mapStringBool", Use.HERE, "switch features on or off"),
        Flag(
            "etcd-compaction-interval",
            "duration",
            Use.HERE,
            "how old a resourceVersion clients may request; 0 is any of the last day",
        ),
        Flag("help", "bool", Use.HERE, "print this"),
        Flag("version", "bool", Use.HERE, "print the version"),
        *_rows(
            Use.NOTHING,
            """
            bool add-dir-header alsologtostderr contention-profiling enable-aggregator-routing enable-logs-handler
            bool log-json-split-stream logtostderr one-output permit-address-sharing permit-port-sharing profiling
            bool shutdown-send-retry-after skip-headers skip-log-headers watch-cache
            duration etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout
            duration etcd-readycheck-timeout log-flush-frequency
            int apiserver-count delete-collection-workers identity-lease-duration-seconds
            int identity-lease-renew-interval-seconds kubelet-port kubelet-read-only-port lease-reuse-duration-seconds
            int max-connection-bytes-per-sec v
            map allow-metric-labels
            pattern vmodule
            quantity log-json-info-buffer-size
            severity stderrthreshold
            string cloud-config cloud-provider etcd-cafile etcd-certfile etcd-keyfile external-hostname log-dir log-file
            string logging-format master-service-namespace show-hidden-metrics-for-version storage-media-type
            string tracing-config-file
            strings disabled-metrics etcd-servers-overrides strict-transport-security-directives watch-cache-sizes
            traceLocation log-backtrace-at
            uint log-file-max-size
            """,
            "has no effect here",
        ),
        _refused(
            "admission-control",
            "strings",
            [""],
            "give --enable-admission-plugins and --disable-admission-plugins instead",
        ),
        _refused(
            "aggregator-reject-forwarding-redirect",
            "bool",
            ["true"],
            "redirects of aggregated servers are never passed on: leave it out",
        ),
        _refused("allow-privileged", "bool", ["true"], "privileged pods are always allowed: leave it out"),
        _refused("cors-allowed-origins", "strings", [""], "responses have no CORS headers: leave it out"),
        *(
            _refused(
                f"default-{one}-toleration-seconds",
                "int",
                ["300"],
                "pods tolerate it for 300 s: leave it out, or set tolerations in the pods",
            )
            for one in ("not-ready", "unreachable")
        ),
        _refused(
            "egress-selector-config-file",
            "string",
            [""],
            "connections to webhooks and nodes are direct: leave it out",
        ),
        _refused(
            "enable-garbage-collector",
            "bool",
            ["true"],
            "deletions always follow owner references as requests ask: leave it out",
        ),
        _refused("encryption-provider-config", "string", [""], "nothing is stored encrypted: leave it out"),
        _refused(
            "endpoint-reconciler-type",
            "string",
            ["", "lease", "master-count"],
            "the Endpoints of the Service kubernetes are always written: leave it out",
        ),
        _refused(
            "kubernetes-service-node-port",
            "int",
            ["0"],
            "the Service kubernetes has no node port: leave it out",
        ),
        _refused(
            "min-request-timeout",
            "int",
            ["1800"],
            "watches last for 30 to 60 minutes: leave it out, and end watches early with timeoutSeconds or --faults",
        ),
        _refused(
            "request-timeout",
            "duration",
            ["1m0s"],
            "requests may take 60 s: leave it out, and make requests fail with --faults",
        ),
        _refused("storage-backend", "string", ["", "etcd3"], "there is etcd3 only: leave it out"),
        _refused("tls-cipher-suites", "strings", [""], "TLS has the cipher suites of Python: leave it out"),
        _refused(
            "tls-min-version",
            "string",
            ["", "VersionTLS12"],
            "clients need TLS 1.2 or 1.3: leave it out, or give VersionTLS12",
        ),
        _refused("tls-sni-cert-key", "namedCertKey", [""], "there is one serving certificate: leave it out"),
    )
}
# The last version that has a flag of v1.25.
_UNTIL: Final = {
    name: version
    for version, names in (
        (
            "1.25",
            "add-dir-header alsologtostderr identity-lease-duration-seconds identity-lease-renew-interval-seconds "
            "log-backtrace-at log-dir log-file log-file-max-size logtostderr one-output skip-headers skip-log-headers "
            "stderrthreshold",
        ),
        ("1.26", "master-service-namespace"),
        ("1.32", "cloud-config cloud-provider"),
    )
    for name in names.split()
}
_PASSED_OVER: Final = "has no effect here"
# Flags that v1.25 does not have, with the first version that has them.
_NEWER: Final = (
    ("1.26", Flag("encryption-provider-config-automatic-reload", "bool", Use.NOTHING, _PASSED_OVER)),
    ("1.27", Flag("debug-socket-path", "string", Use.NOTHING, _PASSED_OVER)),
    ("1.27", Flag("shutdown-watch-termination-grace-period", "duration", Use.NOTHING, _PASSED_OVER)),
    ("1.28", Flag("peer-advertise-ip", "string", Use.NOTHING, _PASSED_OVER)),
    ("1.28", Flag("peer-advertise-port", "string", Use.NOTHING, _PASSED_OVER)),
    ("1.28", Flag("peer-ca-file", "string", Use.NOTHING, _PASSED_OVER)),
    ("1.29", Flag("allow-metric-labels-manifest", "string", Use.NOTHING, _PASSED_OVER)),
    ("1.29", Flag("authentication-config", "string", Use.SAME)),
    ("1.29", Flag("authorization-config", "string", Use.SAME)),
    ("1.30", Flag("log-text-info-buffer-size", "quantity", Use.NOTHING, _PASSED_OVER)),
    ("1.30", Flag("log-text-split-stream", "bool", Use.NOTHING, _PASSED_OVER)),
    ("1.31", Flag("disable-http2-serving", "bool", Use.NOTHING, _PASSED_OVER)),
    (
        "1.31",
        _refused(
            "emulated-version",
            "strings",
            [""],
            "choose the version with `rewound envtest --kubernetes-version`",
        ),
    ),
    ("1.31", Flag("storage-initialization-timeout", "duration", Use.NOTHING, _PASSED_OVER)),
    (
        "1.32",
        _refused("requestheader-uid-headers", "strings", [""], "users of proxies have no uid: leave it out"),
    ),
    (
        "1.32",
        _refused(
            "service-account-signing-endpoint",
            "string",
            [""],
            "give --service-account-signing-key-file instead",
        ),
    ),
    ("1.33", Flag("emulation-forward-compatible", "bool", Use.NOTHING, _PASSED_OVER)),
    ("1.33", Flag("runtime-config-emulation-forward-compatible", "bool", Use.NOTHING, _PASSED_OVER)),
    ("1.34", Flag("coordinated-leadership-lease-duration", "duration", Use.NOTHING, _PASSED_OVER)),
    ("1.34", Flag("coordinated-leadership-renew-deadline", "duration", Use.NOTHING, _PASSED_OVER)),
    ("1.34", Flag("coordinated-leadership-retry-period", "duration", Use.NOTHING, _PASSED_OVER)),
    ("1.35", Flag("min-compatibility-version", "strings", Use.NOTHING, _PASSED_OVER)),
    ("1.36", Flag("tls-curve-preferences", "strings", Use.NOTHING, _PASSED_OVER)),
)


@cache
def flags_of(version: str) -> dict[str, Flag]:
    """The flags that kube-apiserver of a version has, and our own, by name."""
    old = {name: flag for name, flag in FLAGS.items() if exists_in(version, "", _UNTIL.get(name, ""))}
    return old | {flag.name: flag for since, flag in _NEWER if exists_in(version, since, "")}


_SHORT: Final = {"h": "help", "v": "v"}

# Gates that change an API server, and that this one cannot switch. Those that are not here, and have no effect in this
# server, concern nodes, proxies, the scheduler and controllers.
_FIXED: Final = _words(
    """
    APIPriorityAndFairness APIServerIdentity AdvancedAuditing AnyVolumeDataSource CSIInlineVolume CSIStorageCapacity
    CSRDuration CronJobTimeZone CustomResourceValidationExpressions DaemonSetUpdateSurge DownwardAPIHugePages DryRun
    EphemeralContainers ExpandCSIVolumes ExpandInUsePersistentVolumes ExpandPersistentVolumes GRPCContainerProbe
    GenericEphemeralVolume IdentifyPodOS IndexedJob JobMutableNodeSchedulingDirectives JobTrackingWithFinalizers
    LocalStorageCapacityIsolation MixedProtocolLBService MultiCIDRRangeAllocator NetworkPolicyEndPort
    NonPreemptingPriority OpenAPIEnums OpenAPIV3 PodAffinityNamespaceSelector PodDisruptionConditions PodOverhead
    PodSecurity ProbeTerminationGracePeriod RemainingItemCount RemoveSelfLink RunAsGroup ServerSideApply
    ServerSideFieldValidation ServiceIPStaticSubrange ServiceInternalTrafficPolicy ServiceLBNodePortControl
    ServiceLoadBalancerClass StatefulSetMinReadySeconds StorageVersionAPI StorageVersionHash SuspendJob
    TTLAfterFinished WatchBookmark WindowsHostProcessContainers
    """
)


_OF_LOGS: Final = _words("ContextualLogging LoggingAlphaOptions LoggingBetaOptions")  # in all versions


def parse(arguments: Sequence[str], version: str = FIRST) -> list[tuple[Flag, str]]:
    """Parse a command line as kube-apiserver of a version does. Raises FlagError."""
    rest, found = list(arguments), []
    while rest:
        given = rest.pop(0)
        if given == "--":
            break
        if not given.startswith("-") or given == "-":
            raise FlagError(f'"kube-apiserver" does not take any arguments, got {_listed([given, *rest])}')
        flag, value = _named(given, flags_of(version))
        if value is None:
            if flag.kind == "bool":
                value = "true"
            elif not rest:
                raise FlagError(f"flag needs an argument: {given}")
            else:
                value = rest.pop(0)
        try:
            _check(flag.kind, value)
        except ValueError:
            raise FlagError(
                f'invalid argument "{value}" for "--{flag.name}" flag: not a value of type {flag.kind}'
            ) from None
        found.append((flag, value))
    return found


def _listed(words: Sequence[str]) -> str:
    return "[" + " ".join(f'"{word}"' for word in words) + "]"


def _named(given: str, flags: Mapping[str, Flag]) -> tuple[Flag, str | None]:
    """The flag that an argument names, and the value in it, if there is one."""
    if given.startswith("--"):
        name, equals, value = given[2:].partition("=")
        if name not in flags:
            raise FlagError(f"unknown flag: --{name}")
        return flags[name], value if equals else None
    letter, value = given[1], given[2:]
    if letter not in _SHORT:
        raise FlagError(f"unknown shorthand flag: '{letter}' in {given}")
    return flags[_SHORT[letter]], value.removeprefix("=") if value else None


_BOOLS: Final = {
    word: on
    for on, words in ((True, "1 t T TRUE true True"), (False, "0 f F FALSE false False"))
    for word in words.split()
}


def _check(kind: str, value: str) -> object:
    """Normalize a value for comparison. Raises ValueError if it is not of this type."""
    if kind == "bool":
        if value not in _BOOLS:
            raise ValueError(value)
        return _BOOLS[value]
    if kind in ("int", "uint"):
        return int(value, 0)
    if kind == "float":
        return float(value)
    if kind == "duration":
        return parse_duration(value)
    return value


def translate(arguments: Sequence[str], version: str = FIRST) -> TranslatedFlags:
    """Translate the flags of kube-apiserver. Raises FlagError that names the flag and says what to do."""
    serve: list[str] = []
    unused: list[str] = []
    here: dict[str, list[str]] = {}
    for flag, value in parse(arguments, version):
        if flag.use is Use.REFUSED and not flag.accepts(value):
            raise FlagError(f"--{flag.name}={value} is refused by rewound envtest: {flag.text}")
        if flag.use is Use.HERE:
            here.setdefault(flag.name, []).append(value)
        elif flag.use is Use.NOTHING:
            unused.append(f"--{flag.name}")
        elif flag.use is not Use.REFUSED:
            serve.append(f"--{flag.name}={value}")
    if not here.get("etcd-servers"):
        raise FlagError("--etcd-servers must be specified: the URL of the etcd of rewound envtest")
    if not any(one.startswith(("--authorization-mode=", "--authorization-config=")) for one in serve):
        serve.append("--authorization-mode=AlwaysAllow")  # the default of v1.25
    serve += _gates(here.get("feature-gates", []), gates_of(version), unused)
    serve += _history(here.get("etcd-compaction-interval", []))
    return TranslatedFlags(
        tuple(serve),
        tuple(url.strip() for text in here["etcd-servers"] for url in text.split(",") if url.strip()),
        here.get("etcd-prefix", ["/registry"])[-1].strip("/"),
        here.get("cert-dir", [""])[-1],
        tuple(dict.fromkeys(unused)),
    )


def _gates(given: Sequence[str], gates: Mapping[str, Gate], unused: list[str]) -> list[str]:
    """The flag for the gates that have an effect here; the others of the version go to `unused`."""
    passed: list[str] = []
    for entry in (one.strip() for text in given for one in text.split(",") if one.strip()):
        name, equals, value = entry.partition("=")
        if not equals or value not in _BOOLS:
            raise FlagError(
                f'invalid argument "{entry}" for "--feature-gates" flag: missing bool value for {name}'
            )
        if name in GATES | {ALL_ALPHA, ALL_BETA}:
            passed.append(f"{name}={str(_BOOLS[value]).lower()}")
        elif name in _OF_LOGS:
            unused.append(f"--feature-gates={name}")
        elif name not in gates:
            raise FlagError(
                f'invalid argument "{entry}" for "--feature-gates" flag: unrecognized feature gate: {name}'
            )
        elif name in _FIXED and _BOOLS[value] != gates[name].on:
            state = "always on" if gates[name].on else "not implemented"
            raise FlagError(
                f"--feature-gates={entry} is refused by rewound envtest: it is {state}; leave it out"
            )
        else:
            unused.append(f"--feature-gates={name}")
    return [f"--feature-gates={','.join(passed)}"] if passed else []


def _history(intervals: Sequence[str]) -> list[str]:
    """The watch history for a compaction interval: v1.25 compacts etcd so often, and older versions get 410."""
    if not intervals:
        return []
    seconds = parse_duration(intervals[-1])
    return [f"--watch-history={intervals[-1] if seconds else '24h'}"]


def api_server_help(version: str = FIRST) -> str:
    """What `kube-apiserver --help` prints; envtest looks for a flag by a line that begins with it."""
    from rewound.server.flags.parser import make_parser

    texts = make_parser().help_texts()
    lines = [
        f"The kube-apiserver of `rewound envtest`: Rewound, which takes the flags of Kubernetes v{version}.",
        "",
    ]
    lines += ["Usage:", "  kube-apiserver [flags]", ""]
    sections = (
        ("Flags", (Use.SAME, Use.HERE)),
        ("Flags of Rewound alone", (Use.OWN,)),
        ("Refused, but for the value that this server has", (Use.REFUSED,)),
        ("Without effect here", (Use.NOTHING,)),
    )
    for title, uses in sections:
        flags = sorted(flag for flag in flags_of(version).values() if flag.use in uses)
        lines += [f"{title}:", "", *(_line(flag, texts.get(flag.name, "")) for flag in flags), ""]
    return "\n".join(lines)


def _line(flag: Flag, text: str) -> str:
    name = f"--{flag.name}" + ("" if flag.kind == "bool" else f" {flag.kind}")
    return f"      {name:<58} {flag.text or text}".rstrip()
