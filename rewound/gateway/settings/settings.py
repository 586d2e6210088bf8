"""The settings of a server: one frozen value, created from the command line, read by `server`.

Every rule about settings is here, or in `access` and `server`, so that every `Settings` can be served: files exist,
certificates have keys, at least one port is open. An error names the flag and says what to do next. Times are in
seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rewound.actors.access.authorization.modes import parse_modes
from rewound.actors.admission.selection import NODE_RESTRICTION, parse_plugins, plugins_off, refuse_both
from rewound.actors.allocation.node_networks import node_networks
from rewound.actors.allocation.ranges import (
    DEFAULT_NETWORKS,
    DEFAULT_PORTS,
    ServiceRanges,
    parse_networks,
    parse_ports,
)
from rewound.actors.certificates.names import address_of, certificate_name
from rewound.actors.controllers.options import WorkloadOptions
from rewound.actors.kinds.enablement import Enablement, parse_enablement
from rewound.actors.kinds.validation import dns_subdomain
from rewound.actors.names import NAMES, REWIND_GROUP
from rewound.actors.profile import DOCUMENTED, PROFILES, Rules, choose_rules, parse_assignments
from rewound.actors.versions.features import AUTHORIZATION_CONFIG, Release, choose_release, features_of_files
from rewound.actors.versions.version import check_version
from rewound.gateway.settings.access import (
    AuthenticationSettings,
    AuthorizationSettings,
    OidcSettings,
    RequestHeaderSettings,
    ServiceAccountSettings,
    SigningSettings,
    TokenWebhookSettings,
)
from rewound.gateway.settings.checks import (
    SettingsError,
    check_authorities,
    check_certificate_and_key,
    check_choice,
    check_file,
    check_parsed,
    refuse_without,
    split_list,
)
from rewound.gateway.settings.cluster import ClusterSettings
from rewound.gateway.settings.server_config import Address, ServerSettings, bound_address, host_and_port

if TYPE_CHECKING:
    from rewound.actors.admission.configuration import AdmissionConfiguration
    from rewound.actors.names import Names

CONFIGURATION_FLAG: Final = "--admission-control-config-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    admission_control_config_file: Path | None = None

    def __post_init__(self) -> None:
        check_file(CONFIGURATION_FLAG, self.admission_control_config_file)

    def configuration(self, names: Names) -> AdmissionConfiguration:
        """Read the file. Raises SettingsError if it cannot be used."""
        # Imported here, because it loads a YAML parser that no other flag needs.
        from rewound.actors.admission.configuration import NO_CONFIGURATION, read_admission_configuration

        path = self.admission_control_config_file
        if path is None:
            return NO_CONFIGURATION
        return check_parsed(CONFIGURATION_FLAG, lambda: read_admission_configuration(path, names))


# Controllers that run only with bootstrap tokens, unless they are named.
WITH_BOOTSTRAP_TOKENS: Final = ("bootstrapsigner", "tokencleaner")
PUBLISHER: Final = "root-ca-cert-publisher"  # enabled by the rule root-certificate, unless it is named
ENDPOINT: Final = "endpoint"
# Deletes Endpoints with their Service if the endpoint controller does not run.
ENDPOINT_CLEANUP: Final = "endpoint-cleanup"
CONTROLLERS: Final = (
    "bootstrapsigner",
    "clusterrole-aggregation",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    ENDPOINT_CLEANUP,
    "ephemeral-volume",
    "garbagecollector",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace",
    "podcertificaterequest-cleaner-controller",
    "podgc",
    "podgroup-protection-controller",
    "pv-protection",
    "pvc-protection",
    "resourcequota",
    PUBLISHER,
    "service-cidr-controller",
    "serviceaccount",
    "serviceaccount-token",
    "storage-version-migrator-controller",
    "tokencleaner",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
)
# Controllers that turn stored objects into a running cluster. They run only if chosen: an API server alone has none
# of them.
WORKLOAD_CONTROLLERS: Final[tuple[str, ...]] = (
    "attachdetach",
    "chaos",
    "cronjob",
    "daemonset",
    "deployment",
    "device-taint-eviction-controller",
    "disruption",
    ENDPOINT,
    "endpointslice",
    "endpointslicemirroring",
    "horizontalpodautoscaling",
    "job",
    "node-devices",
    "nodeipam",
    "nodelifecycle",
    "persistentvolume-binder",
    "persistentvolume-expander",
    "replicaset",
    "replicationcontroller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "scheduler",
    "simulated-nodes",
    "stages",
    "statefulset",
    "taint-eviction-controller",
    "ttl",
    "ttl-after-finished",
)
# Names that kube-controller-manager has since 1.28, where they are more than the name above and `-controller`.
_LATER_NAMES: Final = {
    "bootstrap-signer": "bootstrapsigner",
    "certificatesigningrequest-approving": "csrapproving",
    "certificatesigningrequest-cleaner": "csrcleaner",
    "certificatesigningrequest-signing": "csrsigning",
    "endpoints": ENDPOINT,
    "endpointslice-mirroring": "endpointslicemirroring",
    "garbage-collector": "garbagecollector",
    "horizontal-pod-autoscaler": "horizontalpodautoscaling",
    "node-ipam": "nodeipam",
    "node-lifecycle": "nodelifecycle",
    "persistentvolume-attach-detach": "attachdetach",
    "persistentvolume-protection": "pv-protection",
    "persistentvolumeclaim-protection": "pvc-protection",
    "pod-garbage-collector": "podgc",
    "root-ca-certificate-publisher": PUBLISHER,
    "token-cleaner": "tokencleaner",
}
_NODES: Final = "simulated-nodes"
_STAGES: Final = "stages"
_DEVICES: Final = "node-devices"
_OF_NODES: Final = ("chaos", _DEVICES, _STAGES)  # run with simulated nodes
_SCHEDULER: Final = "scheduler"
MAX_NODES: Final = 50_000  # their addresses share one range of 65,534
_DEFAULT: Final = "default"  # in --controllers: those that run without the flag
_GROUPS: Final = ("*", _DEFAULT)


def _first_name(pattern: str) -> str:
    """An item of --controllers with the name that its controller had first."""
    known = CONTROLLERS + WORKLOAD_CONTROLLERS
    sign, name = ("-", pattern[1:]) if pattern.startswith("-") else ("", pattern)
    short = name.removesuffix("-controller")
    if name in known or short == name:
        return pattern
    first = _LATER_NAMES.get(short, short)
    return sign + first if first in known else pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Settings of controllers and bootstrap tokens: which controllers run, and whether bootstrap tokens authenticate.

    The names of controllers are those of v1.25; those of later versions are accepted too. Only names are used here, so
    that reading flags imports no controller.
    """

    controllers: tuple[str, ...] = ()  # empty if --controllers was not given
    enable_bootstrap_token_auth: bool = False
    event_ttl: float = 3600.0  # 0: Events never expire
    scheduler_config: Path | None = None  # a KubeSchedulerConfiguration
    nodes: int | None = None  # number of simulated nodes at the start; None if --nodes was not given
    node_devices: Path | None = None  # DeviceClasses and ResourceSlices of simulated nodes
    static_pods: Path | None = None  # a folder of manifests

    def __post_init__(self) -> None:
        self._check_nodes()
        if self.node_devices is not None and not self._enabled(_DEVICES, self._patterns(), DOCUMENTED):
            raise SettingsError(
                "--node-devices", "has no effect without simulated nodes; add --nodes, or leave this out"
            )
        if self.static_pods is not None and not self._enabled(_NODES, self._patterns(), DOCUMENTED):
            raise SettingsError(
                "--static-pods", "has no effect without simulated nodes; add --nodes, or leave this out"
            )
        if self.scheduler_config is not None and not self._enabled(_SCHEDULER, self._patterns(), DOCUMENTED):
            raise SettingsError(
                "--scheduler-config",
                f"has no effect, because --controllers leaves out {_SCHEDULER}; add it there, or leave this out",
            )
        known = CONTROLLERS + WORKLOAD_CONTROLLERS
        unknown = [
            one for one in self._patterns() if one not in _GROUPS and one.removeprefix("-") not in known
        ]
        if unknown:
            raise SettingsError(
                "--controllers",
                f"there is no controller {', '.join(map(repr, unknown))}; give * for all, default for those that "
                f"run without this flag, a name, or -name for all but that one: {', '.join(sorted(known))}",
            )

    def _check_nodes(self) -> None:
        if self.nodes is None:
            return
        if not 0 <= self.nodes <= MAX_NODES:
            raise SettingsError("--nodes", f"must be 0 to {MAX_NODES}, not {self.nodes}")
        if not self._enabled(_NODES, self._patterns(), DOCUMENTED):
            raise SettingsError(
                "--nodes",
                f"has no effect, because --controllers leaves out {_NODES}; add it there, or leave --nodes out",
            )

    def enabled_controllers(self, rules: Rules) -> frozenset[str]:
        patterns = self._patterns()
        known = CONTROLLERS + WORKLOAD_CONTROLLERS
        return frozenset(name for name in known if self._enabled(name, patterns, rules))

    def runs(self, name: str, rules: Rules) -> bool:
        return self._enabled(name, self._patterns(), rules)

    @property
    def is_whole_cluster(self) -> bool:
        """Whether all controllers were chosen, apart from exceptions."""
        return "*" in self._patterns()

    def simulates_nodes(self, rules: Rules) -> bool:
        return self.runs(_NODES, rules)

    @property
    def plays_stages(self) -> bool:
        return self.runs(_STAGES, DOCUMENTED)

    def runs_workloads(self, rules: Rules) -> bool:
        return not self.enabled_controllers(rules).isdisjoint(WORKLOAD_CONTROLLERS)

    def _enabled(self, name: str, patterns: list[str], rules: Rules) -> bool:
        """Whether a controller is enabled, by the first item that names it, otherwise by `*`, or `default`."""
        for one in patterns:
            if one in (name, f"-{name}"):
                return one == name
        if name in _OF_NODES and self._enabled(_NODES, patterns, rules):
            return True
        if name in WITH_BOOTSTRAP_TOKENS and not self.enable_bootstrap_token_auth:
            return False
        if name == PUBLISHER and rules.root_certificate == "absent":
            return False
        if name == ENDPOINT_CLEANUP and (
            f"-{ENDPOINT}" in patterns or self._enabled(ENDPOINT, patterns, rules)
        ):
            return False
        return "*" in patterns or (_DEFAULT in patterns and name in CONTROLLERS)

    def _patterns(self) -> list[str]:
        """The items of the list. A list of exceptions means all others; without a list all run if there are nodes."""
        if not self.controllers:
            return [_DEFAULT if self.nodes is None else "*"]
        given = (one.strip() for text in self.controllers for one in text.split(","))
        patterns = [_first_name(one) for one in given if one]
        if patterns and all(one.startswith("-") for one in patterns):
            patterns.append("*")
        return patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings(WorkloadOptions):
    """Settings of workload controllers: how often they sync, how long they wait, and how fast they act."""

    def __post_init__(self) -> None:
        if self.default_storage_class and dns_subdomain(self.default_storage_class):
            why = f"{self.default_storage_class!r} cannot be the name of a StorageClass; choose a name such as standard"
            raise SettingsError("--default-storage-class", why)
        if self.node_events not in ("", "none", "failures", "all"):
            raise SettingsError("--node-events", f"{self.node_events!r} is not none, failures or all")
        for one in fields(self):
            flag, value = f"--{one.name.replace('_', '-')}", getattr(self, one.name)
            if isinstance(value, str):
                continue
            if one.name.endswith("_period") and value <= 0:
                raise SettingsError(flag, f"{value:g}s is not a positive duration; give one")
            if value < 0:
                raise SettingsError(flag, f"{value:g} is negative; give 0 or more")
        if self.allocate_node_cidrs:
            sizes = (
                self.node_cidr_mask_size,
                self.node_cidr_mask_size_ipv4,
                self.node_cidr_mask_size_ipv6,
            )
            check_parsed("--cluster-cidr", lambda: node_networks(self.cluster_cidr, *sizes))
        if self.unhealthy_zone_threshold > 1:
            raise SettingsError(
                "--unhealthy-zone-threshold", "is a part of a zone's nodes; give a number from 0 to 1"
            )


ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_TYPES_FLAG = "--kubelet-preferred-address-types"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Settings of forwarded requests: how to connect to kubelets and aggregated servers, and what is refused."""

    kubelet_certificate_authority: Path | None = None  # None: kubelet certificates are not verified
    kubelet_client_certificate: Path | None = None
    kubelet_client_key: Path | None = None
    kubelet_preferred_address_types: tuple[str, ...] = ADDRESS_TYPES
    kubelet_timeout: float = 5.0  # timeout for connecting, in seconds
    allow_local_proxy_targets: bool = False
    # The client certificate for aggregated servers; None: one of the data folder.
    proxy_client_cert_file: Path | None = None
    proxy_client_key_file: Path | None = None

    def __post_init__(self) -> None:
        check_authorities("--kubelet-certificate-authority", self.kubelet_certificate_authority)
        check_file("--kubelet-client-certificate", self.kubelet_client_certificate)
        check_file("--kubelet-client-key", self.kubelet_client_key)
        _check_pair(
            ["--kubelet-client-certificate", "--kubelet-client-key"],
            self.kubelet_client_certificate,
            self.kubelet_client_key,
        )
        check_file("--proxy-client-cert-file", self.proxy_client_cert_file)
        check_file("--proxy-client-key-file", self.proxy_client_key_file)
        _check_pair(
            ["--proxy-client-cert-file", "--proxy-client-key-file"],
            self.proxy_client_cert_file,
            self.proxy_client_key_file,
        )
        for one in self.address_types:
            check_choice(_TYPES_FLAG, one, ADDRESS_TYPES)
        if self.kubelet_timeout <= 0:
            raise SettingsError("--kubelet-timeout", "must be greater than 0; the usual value is 5s")

    @property
    def address_types(self) -> list[str]:
        return split_list(_TYPES_FLAG, self.kubelet_preferred_address_types)


def _check_pair(flags: list[str], certificate: Path | None, key: Path | None) -> None:
    if (certificate is None) != (key is None):
        given, missing = flags if key is None else flags[::-1]
        raise SettingsError(given, f"has no effect without {missing}; add it or leave this out")
    if certificate is not None and key is not None:
        check_certificate_and_key(flags, certificate, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbySettings:
    """The server that this standby follows, and the credentials for it."""

    follow: str = ""  # a URL; empty: this server is not a standby
    follow_kubeconfig: Path | None = None
    follow_token_file: Path | None = None
    # None: the CA of the kubeconfig file, or the CAs of this machine.
    follow_certificate_authority: Path | None = None
    follow_max_lag: float = 30.0

    def __post_init__(self) -> None:
        if not self.follow:
            refuse_without(self, "--follow")
            return
        check_file("--follow-kubeconfig", self.follow_kubeconfig)
        check_file("--follow-token-file", self.follow_token_file)
        check_authorities("--follow-certificate-authority", self.follow_certificate_authority)
        if (self.follow_kubeconfig is None) == (self.follow_token_file is None):
            raise SettingsError(
                "--follow",
                "needs either --follow-kubeconfig or --follow-token-file, to sign in at the leader",
            )
        if self.follow_max_lag <= 0:
            raise SettingsError("--follow-max-lag", "must be greater than 0; the usual value is 30s")


LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    log_format: str = "text"
    log_level: str = ""  # empty: that of --server-config, or info

    def __post_init__(self) -> None:
        check_choice("--log-format", self.log_format, LOG_FORMATS)
        if self.log_level:
            check_choice("--log-level", self.log_level, LOG_LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    tracing_config_file: Path | None = None  # None: the environment decides

    def __post_init__(self) -> None:
        check_file("--tracing-config-file", self.tracing_config_file)


MODES = ("batch", "blocking", "blocking-strict")
FORMATS = ("json", "legacy")
STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class BackendSettings:
    version: str
    mode: str
    batch_buffer_size: int
    batch_max_size: int
    batch_max_wait: float
    batch_throttle_enable: bool
    batch_throttle_qps: float
    batch_throttle_burst: int
    truncate_enabled: bool
    truncate_max_batch_size: int
    truncate_max_event_size: int

    @property
    def blocking(self) -> bool:
        """Whether requests wait for their events."""
        return self.mode != "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    audit_policy_file: Path | None = None
    audit_log_path: str = ""  # empty: no log; "-": standard output
    audit_log_maxage: int = 0  # days; 0: no limit
    audit_log_maxbackup: int = 0  # files; 0: no limit
    audit_log_maxsize: int = 100  # MiB
    audit_log_compress: bool = False  # rotated files, with gzip
    audit_log_format: str = "json"
    audit_log_version: str = ""  # empty: v1 of the dialect, the only supported version
    audit_log_mode: str = "batch"
    audit_log_batch_buffer_size: int = 10000
    audit_log_batch_max_size: int = 64
    audit_log_batch_max_wait: float = 0.1
    audit_log_batch_throttle_enable: bool = False
    audit_log_batch_throttle_qps: float = 10.0
    audit_log_batch_throttle_burst: int = 15
    audit_log_truncate_enabled: bool = False
    audit_log_truncate_max_batch_size: int = 10 << 20
    audit_log_truncate_max_event_size: int = 100 << 10
    audit_webhook_config_file: Path | None = None  # in kubeconfig format; None: no webhook
    audit_webhook_initial_backoff: float = 10.0
    audit_webhook_version: str = ""
    audit_webhook_mode: str = "batch"
    audit_webhook_batch_buffer_size: int = 10000
    audit_webhook_batch_max_size: int = 400
    audit_webhook_batch_max_wait: float = 30.0
    audit_webhook_batch_throttle_enable: bool = True
    audit_webhook_batch_throttle_qps: float = 10.0
    audit_webhook_batch_throttle_burst: int = 15
    audit_webhook_truncate_enabled: bool = False
    audit_webhook_truncate_max_batch_size: int = 10 << 20
    audit_webhook_truncate_max_event_size: int = 100 << 10

    @property
    def given(self) -> bool:
        """Whether any of these flags is given. If not, no module of the audit log is imported."""
        return self != AuditSettings()

    @property
    def has_backend(self) -> bool:
        return bool(self.audit_log_path) or self.audit_webhook_config_file is not None

    def __post_init__(self) -> None:
        check_file("--audit-policy-file", self.audit_policy_file)
        check_choice("--audit-log-format", self.audit_log_format, FORMATS)
        for name in ("maxage", "maxbackup", "maxsize"):
            if getattr(self, f"audit_log_{name}") < 0:
                raise SettingsError(f"--audit-log-{name}", "must not be negative; 0 is the default")
        if (
            self.audit_log_path != STANDARD_OUTPUT
            and self.audit_log_path
            and Path(self.audit_log_path).is_dir()
        ):
            raise SettingsError(
                "--audit-log-path",
                f"{self.audit_log_path} is a folder; name a file, or - for standard output",
            )
        self._check_backend("log")
        check_file("--audit-webhook-config-file", self.audit_webhook_config_file)
        if self.audit_webhook_initial_backoff <= 0:
            raise SettingsError("--audit-webhook-initial-backoff", "must be greater than 0")
        self._check_backend("webhook")
        if not self.audit_log_path:
            refuse_without(self, "--audit-log-path", "audit_log_")
        if self.audit_webhook_config_file is None:
            refuse_without(self, "--audit-webhook-config-file", "audit_webhook_")

    def backend(self, name: str) -> BackendSettings:
        """The settings that `log` and `webhook` have in common."""
        start = f"audit_{name}_"
        return BackendSettings(*[getattr(self, start + one.name) for one in fields(BackendSettings)])

    def _check_backend(self, name: str) -> None:
        flag, backend = f"--audit-{name}-", self.backend(name)
        check_choice(f"{flag}mode", backend.mode, MODES)
        for one in (
            "batch_buffer_size",
            "batch_max_size",
            "batch_throttle_burst",
            "batch_throttle_qps",
            "truncate_max_event_size",
        ):
            if getattr(backend, one) <= 0:
                raise SettingsError(flag + one.replace("_", "-"), "must be greater than 0")
        if backend.batch_max_wait < 0:
            raise SettingsError(f"{flag}batch-max-wait", "must not be negative")
        if backend.truncate_max_event_size > backend.truncate_max_batch_size:
            raise SettingsError(
                f"{flag}truncate-max-event-size",
                f"must not exceed {flag}truncate-max-batch-size ({backend.truncate_max_batch_size})",
            )


LOOPBACK = "127.0.0.1"
TRANSPORTS = ("native", "asgi")
_DEFAULT_STREAMS = 250
LEASES: Final = "leases"
LEASE_RENEWALS: Final = 3600.0  # seconds that renewals of leases stay unless --journal-retention names leases
_HISTORIES: Final = {"5m": 300.0, "10m": 600.0}  # seconds; the default of the rule watch-history
_MAX_STREAMS = 2**31 - 1
_MAX_GOAWAY_CHANCE = 0.02  # the limit of Kubernetes: each costs a connection
MAX_WORKERS = 64
# For one process.
LEAST_MEMORY = 256 << 20
# What each further process needs before it serves, with some for its connections; the parent needs about half of it.
_PROCESS_MEMORY = 96 << 20


def least_memory(workers: int) -> int:
    """The least memory with which so many workers can serve."""
    return LEAST_MEMORY if workers == 1 else LEAST_MEMORY + workers * _PROCESS_MEMORY


ETCD_LIMIT = 1536 << 10  # --max-request-bytes of etcd
LEAST_OBJECT_SIZE = 64 << 10


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a running server listens on, and the hosts at which clients reach its secure port, preferred first."""

    secure: Address | None  # the first if there are several; None without a TCP socket
    insecure: Address | None
    hosts: tuple[str, ...] = ()
    others: tuple[
        str, ...
    ] = ()  # URLs of further listeners; a Unix socket is https+unix:/path or http+unix:/path
    quic: Address | None = None  # for HTTP/3


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data_dir: Path = Path("rewound-data")
    dialect: str = "cluster"
    profile: str = ""  # empty: that of the dialect
    rule: str = ""  # rules that differ from the profile: name=value,...
    bind_address: str = LOOPBACK
    advertise_address: str = ""  # empty: that of the listener, or of the default route
    secure_port: int = 6443  # 0: off
    insecure_port: int = 0  # 0: off; always on loopback, whatever the bind address
    http2_max_streams_per_connection: int = _DEFAULT_STREAMS  # 0: the default
    goaway_chance: float = 0.0  # chance that a request over HTTP/2 makes its connection end gracefully
    workers: int = 1  # processes that serve requests; 1: a single process does everything
    transport: str = "native"  # native, or asgi for Hypercorn's protocols
    quic_bind: str = ""  # host:port for HTTP/3, with --transport asgi
    max_connections: int = 0  # 0: what the limits of memory and file descriptors allow
    max_requests_inflight: int = 400  # 0: no limit if priority and fairness is off
    max_mutating_requests_inflight: int = 200
    enable_priority_and_fairness: bool = True
    max_object_size: int = ETCD_LIMIT  # bytes, as etcd counts them; 0: no limit
    memory_limit: int = 0  # bytes; 0: half of the memory of the machine or the control group
    token_auth_file: Path | None = None
    anonymous_auth: bool | None = None  # None: yes, or what the file of --authentication-config says
    public_health: bool = False  # /livez, /readyz and /healthz need no credentials, whatever the others need
    authorization_mode: str = ""  # empty: RBAC, and with --nodes Node before it, like kubeadm
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    client_ca_file: Path | None = None
    tls_san: str = ""  # more names of the generated serving certificate
    service_cluster_ip_range: str = DEFAULT_NETWORKS
    service_node_port_range: str = DEFAULT_PORTS
    enable_admission_plugins: str = ""
    disable_admission_plugins: str = ""
    runtime_config: str = ""
    kubernetes_version: str = ""  # empty: that of the dialect
    feature_gates: str = ""
    watch_history: float | None = None  # None: that of the rules
    secret_history: float | None = None  # that of Secrets, if it is another one
    journal_retention: float | None = 86400.0  # None: forever
    retention_by_kind: tuple[tuple[str, float], ...] = ()  # of events that only change times; see `thinning`
    enable_journal_page: bool = True
    livez_grace_period: float = 0.0
    shutdown_delay_duration: float = 0.0
    unsafe_no_fsync: bool = False
    enable_test_controls: bool = False
    faults: Path | None = None  # fault rules for controllers under test
    # Groups of settings; their fields are named like their flags.
    server: ServerSettings = field(default_factory=ServerSettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    token_webhook: TokenWebhookSettings = field(default_factory=TokenWebhookSettings)
    request_headers: RequestHeaderSettings = field(default_factory=RequestHeaderSettings)
    service_accounts: ServiceAccountSettings = field(default_factory=ServiceAccountSettings)
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)
    signing: SigningSettings = field(default_factory=SigningSettings)
    controllers: ControllerSettings = field(default_factory=ControllerSettings)
    workloads: WorkloadSettings = field(default_factory=WorkloadSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    standby: StandbySettings = field(default_factory=StandbySettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    log: LogSettings = field(default_factory=LogSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)

    def __post_init__(self) -> None:
        self._check_names()
        self._check_ports()
        self._check_quic()
        self._check_streams()
        self._check_goaway_chance()
        self._check_inflight()
        self._check_resources()
        self._check_workers()
        self._check_cluster()
        self._check_files()
        self._check_access()
        self._check_history()
        self._check_ranges()
        self._check_plugins()
        self._check_kinds()
        if self.log.log_level and "loglevel" in self.server.keys:
            raise self.server.refuse(
                "loglevel", "says the level, and so does --log-level; leave one of them out"
            )

    @property
    def secure(self) -> Address | None:
        return (self.bind_address, self.secure_port) if self.secure_port else None

    @property
    def insecure(self) -> Address | None:
        return (LOOPBACK, self.insecure_port) if self.insecure_port else None

    @property
    def secure_binds(self) -> tuple[str, ...]:
        """The binds with TLS; `bind` of --server-config replaces the two flags."""
        return self._binds("bind", self.secure)

    @property
    def insecure_binds(self) -> tuple[str, ...]:
        return self._binds("insecure_bind", self.insecure)

    def _binds(self, key: str, address: Address | None) -> tuple[str, ...]:
        given = self.server.binds(key)
        if given is not None:
            return given
        return () if address is None else (host_and_port(address[0].strip("[]"), address[1]),)

    @property
    def secure_hosts(self) -> tuple[str, ...]:
        """The hosts of the secure listeners; none if all are Unix sockets."""
        given = self.server.binds("bind")
        if given is None:
            return (self.bind_address,)
        return tuple(address[0] for address in map(bound_address, given) if address is not None)

    @property
    def fixed_port(self) -> int:
        """The port of the API given by flags; 0 if its listener comes from --server-config."""
        key, port = ("bind", self.secure_port) if self.secure_binds else ("insecure_bind", self.insecure_port)
        return port if self.server.binds(key) is None else 0

    def _check_quic(self) -> None:
        if not self.quic_bind:
            return
        host, _, port = self.quic_bind.rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise SettingsError(
                "--quic-bind", f"{self.quic_bind!r} is not HOST:PORT; give one, such as {LOOPBACK}:6443"
            )
        if self.transport != "asgi":
            raise SettingsError("--quic-bind", "needs --transport asgi, whose protocols include HTTP/3")
        if not self.secure_binds:
            raise SettingsError(
                "--quic-bind", "needs the secure port, whose certificate it uses; give --secure-port"
            )
        if find_spec("aioquic") is None:
            raise SettingsError("--quic-bind", "needs aioquic; install it with pip install aioquic")

    @property
    def journal(self) -> Path:
        return self.data_dir / "journal"

    @property
    def tls_names(self) -> tuple[str, ...]:
        return tuple(self.tls_san.split(",")) if self.tls_san else ()

    @property
    def node_id(self) -> Path:
        """The file with the id of a node whose journal is ordered by etcd."""
        return self.data_dir / "node-id"

    @property
    def unsynced(self) -> Path:
        """The file of such a node that exists while its journal is open and not durable."""
        return self.data_dir / "unsynced"

    @property
    def quarantine(self) -> Path:
        """The file of such a node with a copy of what is quarantined in etcd; exists if anything is."""
        return self.data_dir / "quarantine.json"

    @property
    def pki(self) -> Path:
        return self.data_dir / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "admin.kubeconfig"

    @property
    def rules(self) -> Rules:
        """What this server does where the documents and Kubernetes v1.25 differ."""
        return choose_rules(self.dialect, self.profile, self.rule)

    def _check_names(self) -> None:
        check_choice("--dialect", self.dialect, tuple(NAMES))
        if self.profile:
            check_choice("--profile", self.profile, PROFILES)
        check_parsed("--rule", lambda: parse_assignments(self.rule))
        check_choice("--transport", self.transport, TRANSPORTS)
        if self.transport != "asgi":
            self.server.refuse_for_native()
        if not self.bind_address:
            raise SettingsError(
                "--bind-address", "is empty; give an address of this machine, or 0.0.0.0 for all"
            )
        if self.advertise_address and address_of(self.advertise_address) is None:
            raise SettingsError(
                "--advertise-address",
                f"{self.advertise_address!r} is not an IP address; give one, like 192.0.2.7",
            )
        for name in self.tls_names:
            if not certificate_name(name):
                raise SettingsError(
                    "--tls-san",
                    f"{name!r} is neither a host name nor an IP address; give one, like api.example.com",
                )
        if self.tls_san and self.tls_cert_file is not None:
            raise SettingsError(
                "--tls-san",
                "has no effect with --tls-cert-file, whose names are in the file; leave one of them out",
            )
        if self.data_dir.exists() and not self.data_dir.is_dir():
            raise SettingsError(
                "--data-dir", f"{self.data_dir} is not a folder; name one, or a path at which to create one"
            )

    def _check_ports(self) -> None:
        for flag, port in (("--secure-port", self.secure_port), ("--insecure-port", self.insecure_port)):
            if not 0 <= port <= 65535:
                raise SettingsError(
                    flag, f"{port} is not a port; give a number from 1 to 65535, or 0 for off"
                )
        if not self.secure_binds and not self.insecure_binds:
            raise SettingsError("--secure-port", "is off and so is --insecure-port; give one of them a port")
        if self.secure_port == self.insecure_port != 0 and self.server.binds("bind") is None:
            raise SettingsError(
                "--insecure-port", f"{self.insecure_port} is the secure port too; give another"
            )

    @property
    def http2_streams(self) -> int:
        return self.http2_max_streams_per_connection or _DEFAULT_STREAMS

    def _check_streams(self) -> None:
        if not 0 <= self.http2_max_streams_per_connection <= _MAX_STREAMS:
            raise SettingsError(
                "--http2-max-streams-per-connection",
                f"{self.http2_max_streams_per_connection} is not a number of streams; "
                f"give a number from 1 to {_MAX_STREAMS}, or 0 for the default of {_DEFAULT_STREAMS}",
            )

    def _check_goaway_chance(self) -> None:
        if not 0 <= self.goaway_chance <= _MAX_GOAWAY_CHANCE:
            raise SettingsError(
                "--goaway-chance",
                f"{self.goaway_chance:g} is not a chance; give a number from 0 to {_MAX_GOAWAY_CHANCE}, such as 0.001",
            )
        if self.goaway_chance and self.transport != "native":
            raise SettingsError(
                "--goaway-chance", f"has no effect with --transport {self.transport}; leave it out"
            )

    def _check_inflight(self) -> None:
        for flag, number in (
            ("--max-requests-inflight", self.max_requests_inflight),
            ("--max-mutating-requests-inflight", self.max_mutating_requests_inflight),
        ):
            if number < 0:
                raise SettingsError(flag, f"{number} is not a number of requests; give a number from 0")
        if self.enable_priority_and_fairness and not self.total_inflight:
            raise SettingsError(
                "--max-requests-inflight",
                "and --max-mutating-requests-inflight are both 0, so that priority and fairness has no seats; "
                "give one of them a number, or --enable-priority-and-fairness=false for no limits",
            )

    @property
    def total_inflight(self) -> int:
        return self.max_requests_inflight + self.max_mutating_requests_inflight

    def _check_workers(self) -> None:
        if not 1 <= self.workers <= MAX_WORKERS:
            raise SettingsError(
                "--workers",
                f"{self.workers} is not a number of processes; give a number from 1 to {MAX_WORKERS}",
            )
        if self.workers == 1:
            return
        for flag, given, why in (
            (
                "--enable-test-controls",
                self.enable_test_controls,
                "its clock and its marks are in one process",
            ),
            ("--faults", self.faults is not None, "its rules count the requests of one process"),
            ("--follow", bool(self.standby.follow), "a standby is one process; start several"),
            ("--quic-bind", bool(self.quic_bind), "the packets of one client would reach several processes"),
        ):
            if given:
                raise SettingsError("--workers", f"does not go with {flag}: {why}; leave one of them out")

    def _check_cluster(self) -> None:
        if not self.cluster.journal:
            return
        for flag, given, why in (
            ("--enable-test-controls", self.enable_test_controls, "they set the whole state of one journal"),
            ("--workers", self.workers > 1, "a node is one process; start more nodes"),
            ("--unsafe-no-fsync", self.unsafe_no_fsync, "etcd decides what is durable"),
            ("--follow", bool(self.standby.follow), "every node has all changes already"),
        ):
            if given:
                raise SettingsError(flag, f"does not go with --journal: {why}; leave one of them out")

    def _check_resources(self) -> None:
        if self.unsafe_no_fsync and self.standby.follow:
            raise SettingsError("--unsafe-no-fsync", "does not go with --follow; leave one of them out")
        if self.max_connections < 0:
            raise SettingsError(
                "--max-connections",
                f"{self.max_connections} is not a number of connections; give a number from 1, "
                "or 0 for what the limits of memory and file descriptors allow",
            )
        if self.memory_limit and self.memory_limit < (least := least_memory(self.workers)):
            with_workers = "" if self.workers == 1 else f" with --workers {self.workers}"
            raise SettingsError(
                "--memory-limit",
                f"{self.memory_limit} bytes are too little to serve{with_workers}; give at least "
                f"{least >> 20}Mi, or 0 for half of what the machine has",
            )

        if 0 < self.max_object_size < LEAST_OBJECT_SIZE:
            raise SettingsError(
                "--max-object-size",
                f"{self.max_object_size} bytes are too little for the objects of the server itself; give at "
                f"least {LEAST_OBJECT_SIZE >> 10}Ki, or 0 for no limit",
            )

    def _check_files(self) -> None:
        check_file("--token-auth-file", self.token_auth_file)
        check_file("--tls-cert-file", self.tls_cert_file)
        check_file("--tls-private-key-file", self.tls_private_key_file)
        check_authorities("--client-ca-file", self.client_ca_file)
        check_file("--faults", self.faults)
        if self.tls_cert_file and not self.tls_private_key_file:
            raise SettingsError("--tls-cert-file", "needs its key; give it with --tls-private-key-file")
        if self.tls_private_key_file and not self.tls_cert_file:
            raise SettingsError(
                "--tls-private-key-file", "needs its certificate; give it with --tls-cert-file"
            )
        if self.tls_cert_file and self.tls_private_key_file:
            flags = ["--tls-cert-file", "--tls-private-key-file"]
            check_certificate_and_key(flags, self.tls_cert_file, self.tls_private_key_file)

    @property
    def authorization_modes(self) -> tuple[str, ...]:
        """The modes of the flags; none if a file has them."""
        if self.authorization.authorization_config is not None:
            return ()
        by_default = "RBAC" if self.controllers.nodes is None else "Node,RBAC"
        return parse_modes(self.authorization_mode or by_default)

    @property
    def allows_anonymous(self) -> bool:
        """Whether the flag allows anonymous requests; a configuration file may say more."""
        return self.anonymous_auth is not False

    def _check_access(self) -> None:
        modes = check_parsed("--authorization-mode", lambda: self.authorization_modes)
        if self.authorization.authorization_config is None:
            self.authorization.check_modes(modes)
        else:
            self.authorization.check_config(self.authorization_mode)
        if self.request_headers.requestheader_client_ca_file and not self.secure_binds:
            raise SettingsError(
                "--requestheader-client-ca-file",
                "needs the secure port, because a proxy authenticates by its certificate; give --secure-port",
            )
        if self.client_ca_file and not self.secure_binds:
            raise SettingsError(
                "--client-ca-file",
                "has no effect without the secure port; give --secure-port, or leave this out",
            )
        if self.authentication.authentication_config is not None:
            self.authentication.check_others(features_of_files(self.dialect, self.features), self.oidc)
        if "AlwaysAllow" in modes and self.allows_anonymous and not self.authentication.authentication_config:
            raise SettingsError(
                "--anonymous-auth",
                "would give everything to everyone under --authorization-mode=AlwaysAllow; "
                "leave one of them out",
            )

    def _check_history(self) -> None:
        if self.watch_history is not None and self.watch_history <= 0:
            raise SettingsError("--watch-history", "must be greater than 0; the usual value is 5m")
        if self.journal_retention is not None and self.journal_retention < self.history_seconds:
            raise SettingsError(
                "--journal-retention",
                "is shorter than --watch-history; give at least as much, or 0 for no limit",
            )
        for kind, seconds in self.retention_by_kind:
            if seconds and seconds < self.history_seconds:
                raise SettingsError(
                    "--journal-retention",
                    f"{kind}: is shorter than --watch-history; give at least as much, or 0 for as long as other events",
                )

    @property
    def thinning(self) -> dict[str, float]:
        """By kind, after how many seconds an event that changed nothing but times may go.

        Leases have an hour unless the flag says otherwise: a thousand idle nodes write gigabytes of renewals a day.
        """
        whole = self.journal_retention
        usual = {} if whole is None else {LEASES: max(LEASE_RENEWALS, self.history_seconds)}
        if any(kind.partition(".")[0] == LEASES for kind, _ in self.retention_by_kind):
            usual = {}
        wanted = usual | dict(self.retention_by_kind)
        return {kind: seconds for kind, seconds in wanted.items() if 0 < seconds < (whole or math.inf)}

    @property
    def history_seconds(self) -> float:
        """The maximum age of a version that clients request."""
        return _HISTORIES[self.rules.watch_history] if self.watch_history is None else self.watch_history

    @property
    def service_ranges(self) -> ServiceRanges:
        return ServiceRanges(
            parse_networks(self.service_cluster_ip_range), parse_ports(self.service_node_port_range)
        )

    def _check_ranges(self) -> None:
        check_parsed("--service-cluster-ip-range", lambda: parse_networks(self.service_cluster_ip_range))
        check_parsed("--service-node-port-range", lambda: parse_ports(self.service_node_port_range))

    @property
    def disabled_plugins(self) -> frozenset[str]:
        return parse_plugins(self.disable_admission_plugins)

    @property
    def plugins_off(self) -> frozenset[str]:
        """Plugins that do not run, by default or because of a flag."""
        return plugins_off(self.rules, self.enabled_plugins, self.disabled_plugins)

    @property
    def enabled_plugins(self) -> frozenset[str]:
        """The plugins of --enable-admission-plugins; by default those that restrict nodes, like kubeadm."""
        if not self.enable_admission_plugins and self.controllers.nodes is not None:
            return frozenset({NODE_RESTRICTION})
        return parse_plugins(self.enable_admission_plugins)

    def _check_plugins(self) -> None:
        enabled = check_parsed(
            "--enable-admission-plugins", lambda: parse_plugins(self.enable_admission_plugins)
        )
        disabled = check_parsed("--disable-admission-plugins", lambda: self.disabled_plugins)
        check_parsed("--disable-admission-plugins", lambda: refuse_both(enabled, disabled))
        self._check_image_policy()

    def _check_image_policy(self) -> None:
        """Require an explicit flag for the plugin's alpha API, which no operator should use unknowingly."""
        if "ImagePolicyWebhook" in self.plugins_off:
            return
        group = NAMES[self.dialect].group("imagepolicy")
        enablement = check_parsed("--runtime-config", lambda: self.enablement)
        if not enablement.serves_version(group, "v1alpha1", on_by_default=False):
            raise SettingsError(
                "--runtime-config", f"ImagePolicyWebhook needs {group}/v1alpha1=true, which is off by default"
            )

    @property
    def plain_port_accepts_only_account_tokens(self) -> bool:
        """Whether the plain port is open and accepts only tokens that requests to this server create."""
        webhook = self.token_webhook.authentication_token_webhook_config_file
        issuers = self.oidc.oidc_issuer_url or self.authentication.authentication_config
        signs_in = self.token_auth_file or issuers or webhook
        return bool(self.insecure_binds) and not signs_in

    @property
    def enablement(self) -> Enablement:
        return parse_enablement(self.runtime_config)

    @property
    def serves_page(self) -> bool:
        """Whether the page about the journal is served, which needs the timeline."""
        return self.enable_journal_page and self.serves_history

    @property
    def serves_history(self) -> bool:
        """Whether the group with history, blame, rollback, undelete and the timeline is served."""
        return self.enablement.serves_version(REWIND_GROUP, "v1", on_by_default=True)

    @property
    def release(self) -> Release:
        """The version of Kubernetes that the server is, with its features."""
        version = check_version(self.dialect, self.kubernetes_version)
        return choose_release(version, self.feature_gates)

    @property
    def features(self) -> frozenset[str]:
        return self.release.features

    def _check_kinds(self) -> None:
        check_parsed("--kubernetes-version", lambda: check_version(self.dialect, self.kubernetes_version))
        check_parsed("--feature-gates", lambda: self.release)
        config = self.authorization.authorization_config
        if config and AUTHORIZATION_CONFIG not in features_of_files(self.dialect, self.features):
            raise SettingsError(
                "--authorization-config",
                "cannot be used without enabling StructuredAuthorizationConfiguration feature flag",
            )
        if self.runtime_config:
            # Loads all kinds, which is too slow to do for other flags.
            from rewound.actors.kinds.built_in import built_in

            names = NAMES[self.dialect]
            enablement = check_parsed("--runtime-config", lambda: self.enablement)
            check_parsed(
                "--runtime-config",
                lambda: enablement.refuse_unknown(built_in(names, self.release).declared, names),
            )
