"""Every flag of kube-apiserver v1.25 is known: used, accepted with a note, or refused with a hint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rewound.server.flags.parser import make_parser
from rewound.testing.envtest.api_server import same_initial_objects, serve_flags, template_flags
from rewound.testing.envtest.flags import FLAGS, FlagError, TranslatedFlags, Use, api_server_help, translate
from rewound.testing.envtest.programs import EtcdFlags, UsageError, decoded, encoded, etcd_help
from tests.cases import cases

# Flags of v1.25, including the hidden and deprecated ones.
OF_V1_25 = """
    add-dir-header admission-control admission-control-config-file advertise-address
    aggregator-reject-forwarding-redirect allow-metric-labels allow-privileged alsologtostderr anonymous-auth
    api-audiences apiserver-count audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-max-wait
    audit-log-batch-throttle-burst audit-log-batch-throttle-enable audit-log-batch-throttle-qps
    audit-log-compress audit-log-format audit-log-maxage audit-log-maxbackup audit-log-maxsize audit-log-mode
    audit-log-path audit-log-truncate-enabled audit-log-truncate-max-batch-size
    audit-log-truncate-max-event-size audit-log-version audit-policy-file audit-webhook-batch-buffer-size
    audit-webhook-batch-max-size audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst
    audit-webhook-batch-throttle-enable audit-webhook-batch-throttle-qps audit-webhook-config-file
    audit-webhook-initial-backoff audit-webhook-mode audit-webhook-truncate-enabled
    audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version
    authentication-token-webhook-cache-ttl authentication-token-webhook-config-file
    authentication-token-webhook-version authorization-mode authorization-policy-file
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
    authorization-webhook-config-file authorization-webhook-version bind-address cert-dir client-ca-file
    cloud-config cloud-provider contention-profiling cors-allowed-origins default-not-ready-toleration-seconds
    default-unreachable-toleration-seconds delete-collection-workers disable-admission-plugins disabled-metrics
    egress-selector-config-file enable-admission-plugins enable-aggregator-routing enable-bootstrap-token-auth
    enable-garbage-collector enable-logs-handler enable-priority-and-fairness encryption-provider-config
    endpoint-reconciler-type etcd-cafile etcd-certfile etcd-compaction-interval etcd-count-metric-poll-period
    etcd-db-metric-poll-interval etcd-healthcheck-timeout etcd-keyfile etcd-prefix etcd-readycheck-timeout
    etcd-servers etcd-servers-overrides event-ttl external-hostname feature-gates goaway-chance help
    http2-max-streams-per-connection identity-lease-duration-seconds identity-lease-renew-interval-seconds
    kubelet-certificate-authority kubelet-client-certificate kubelet-client-key kubelet-port
    kubelet-preferred-address-types kubelet-read-only-port kubelet-timeout kubernetes-service-node-port
    lease-reuse-duration-seconds livez-grace-period log-backtrace-at log-dir log-file log-file-max-size
    log-flush-frequency log-json-info-buffer-size log-json-split-stream logging-format logtostderr
    master-service-namespace max-connection-bytes-per-sec max-mutating-requests-inflight max-requests-inflight
    min-request-timeout oidc-ca-file oidc-client-id oidc-groups-claim oidc-groups-prefix oidc-issuer-url
    oidc-required-claim oidc-signing-algs oidc-username-claim oidc-username-prefix one-output
    permit-address-sharing permit-port-sharing profiling proxy-client-cert-file proxy-client-key-file
    request-timeout requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix
    requestheader-group-headers requestheader-username-headers runtime-config secure-port
    service-account-extend-token-expiration service-account-issuer service-account-jwks-uri
    service-account-key-file service-account-lookup service-account-max-token-expiration
    service-account-signing-key-file service-cluster-ip-range service-node-port-range
    show-hidden-metrics-for-version shutdown-delay-duration shutdown-send-retry-after skip-headers
    skip-log-headers stderrthreshold storage-backend storage-media-type strict-transport-security-directives
    tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file tls-sni-cert-key token-auth-file
    tracing-config-file v version vmodule watch-cache watch-cache-sizes
"""
GATES_OF_V1_25 = """
    APIListChunking APIPriorityAndFairness APIResponseCompression APIServerIdentity APIServerTracing AllAlpha
    AllBeta AnyVolumeDataSource AppArmor CPUManager CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions
    CPUManagerPolicyOptions CSIMigrationAzureFile CSIMigrationPortworx CSIMigrationRBD CSIMigrationvSphere
    CSINodeExpandSecret CSIVolumeHealth ContainerCheckpoint ContextualLogging CronJobTimeZone
    CustomCPUCFSQuotaPeriod CustomResourceValidationExpressions DelegateFSGroupToCSIDriver DevicePlugins
    DisableCloudProviders DisableKubeletCloudCredentialProviders DownwardAPIHugePages
    EndpointSliceTerminatingCondition ExpandedDNSConfig ExperimentalHostUserNamespaceDefaulting
    GRPCContainerProbe GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAContainerMetrics
    HPAScaleToZero HonorPVReclaimPolicy IPTablesOwnershipCleanup InTreePluginAWSUnregister
    InTreePluginAzureDiskUnregister InTreePluginAzureFileUnregister InTreePluginGCEUnregister
    InTreePluginOpenStackUnregister InTreePluginPortworxUnregister InTreePluginRBDUnregister
    InTreePluginvSphereUnregister JobMutableNodeSchedulingDirectives JobPodFailurePolicy JobReadyPods
    JobTrackingWithFinalizers KMSv2 KubeletCredentialProviders KubeletInUserNamespace KubeletPodResources
    KubeletPodResourcesGetAllocatable KubeletTracing LegacyServiceAccountTokenNoAutoGeneration
    LocalStorageCapacityIsolationFSQuotaMonitoring LogarithmicScaleDown LoggingAlphaOptions LoggingBetaOptions
    MatchLabelKeysInPodTopologySpread MaxUnavailableStatefulSet MemoryManager MemoryQoS
    MinDomainsInPodTopologySpread MixedProtocolLBService MultiCIDRRangeAllocator NetworkPolicyStatus
    NodeInclusionPolicyInPodTopologySpread NodeOutOfServiceVolumeDetach NodeSwap OpenAPIEnums OpenAPIV3
    PodAndContainerStatsFromCRI PodDeletionCost PodDisruptionConditions PodHasNetworkCondition
    ProbeTerminationGracePeriod ProcMountType ProxyTerminatingEndpoints QOSReserved ReadWriteOncePod
    RecoverVolumeExpansionFailure RemainingItemCount RetroactiveDefaultStorageClass
    RotateKubeletServerCertificate SELinuxMountReadWriteOncePod SeccompDefault ServerSideFieldValidation
    ServiceIPStaticSubrange ServiceInternalTrafficPolicy SizeMemoryBackedVolumes StatefulSetAutoDeletePVC
    StorageVersionAPI StorageVersionHash TopologyAwareHints TopologyManager UnauthenticatedHTTP2DOSMitigation
    UserNamespacesStatelessPodsSupport VolumeCapacityPriority WinDSR WinOverlay WindowsHostProcessContainers
"""
ETCD = "--etcd-servers=http://127.0.0.1:2379"


def given(*arguments: str) -> TranslatedFlags:
    return translate([ETCD, *arguments])


def refusal(*arguments: str) -> str:
    with pytest.raises(FlagError) as refused:
        translate([ETCD, *arguments])
    return str(refused.value)


def test_every_flag_of_v1_25_is_known() -> None:
    own = {flag.name for flag in FLAGS.values() if flag.use is Use.OWN}
    assert sorted(FLAGS.keys() - own) == sorted(OF_V1_25.split())


def test_flags_that_are_passed_on_are_flags_of_rewound_serve() -> None:
    ours = make_parser().help_texts()
    passed = {flag.name for flag in FLAGS.values() if flag.use in (Use.SAME, Use.OWN)}
    assert passed - ours.keys() == set()


def test_every_gate_of_v1_25_is_known() -> None:
    """A flag with its v1.25 default, or of another component, is never an error."""
    for name in GATES_OF_V1_25.split():
        refused = []
        for value in ("true", "false"):
            try:
                translate([ETCD, f"--feature-gates={name}={value}"])
            except FlagError as error:
                refused.append(str(error))
        assert len(refused) < 2, name
        assert not [text for text in refused if "unrecognized" in text], name


@cases(
    "flag, passed",
    [
        ("--client-ca-file=a", "--client-ca-file=a"),
        ("--anonymous-auth", "--anonymous-auth=true"),
        ("--anonymous-auth=false", "--anonymous-auth=false"),
        ("--controllers=*", "--controllers=*"),
        ("--etcd-compaction-interval=10m0s", "--watch-history=10m0s"),
        ("--etcd-compaction-interval=0", "--watch-history=24h"),
        ("--feature-gates=WatchList=true", "--feature-gates=WatchList=true"),  # of later releases
        ("--feature-gates=HPAScaleToZero=true,SeccompDefault=false", "--feature-gates=HPAScaleToZero=true"),
    ],
)
def test_what_means_the_same_is_passed_on(flag: str, passed: str) -> None:
    assert passed in given(flag).serve


def test_value_may_be_the_next_argument() -> None:
    assert "--secure-port=7" in given("--secure-port", "7").serve
    assert given("-v", "5", "-v6", "-v=7").unused == ("--v",)


def test_values_of_lists_add_up() -> None:
    serve = given("--api-audiences=a", "--api-audiences=b,c").serve
    assert [flag for flag in serve if "audiences" in flag] == ["--api-audiences=a", "--api-audiences=b,c"]


def test_authorization_is_that_of_v1_25_by_default() -> None:
    assert given().serve == ("--authorization-mode=AlwaysAllow",)
    assert given("--authorization-mode=RBAC").serve == ("--authorization-mode=RBAC",)


def test_what_means_nothing_is_named() -> None:
    unused = given(
        "--profiling=false", "--watch-cache-sizes=a#1", "--v=4", "--feature-gates=CPUManager=true"
    ).unused
    assert unused == ("--profiling", "--watch-cache-sizes", "--v", "--feature-gates=CPUManager")


@cases(
    "flag, text",
    [
        ("--nonsense", "unknown flag: --nonsense"),
        ("--insecure-port=0", "unknown flag: --insecure-port"),
        ("--data-dir=x", "unknown flag: --data-dir"),
        ("-x", "unknown shorthand flag: 'x' in -x"),
        ("word", '"kube-apiserver" does not take any arguments, got ["word"]'),
        ("--secure-port", "flag needs an argument: --secure-port"),
        ("--secure-port=x", 'invalid argument "x" for "--secure-port" flag: not a value of type int'),
        ("--profiling=maybe", 'invalid argument "maybe" for "--profiling" flag: not a value of type bool'),
        (
            "--feature-gates=Nonsense=true",
            'invalid argument "Nonsense=true" for "--feature-gates" flag: unrecognized feature gate: Nonsense',
        ),
        (
            "--feature-gates=HPAScaleToZero",
            'invalid argument "HPAScaleToZero" for "--feature-gates" flag: missing bool value for HPAScaleToZero',
        ),
        (
            "--feature-gates=OpenAPIV3=false",
            "--feature-gates=OpenAPIV3=false is refused by rewound envtest: it is always on; leave it out",
        ),
        (
            "--allow-privileged=false",
            "--allow-privileged=false is refused by rewound envtest: privileged pods are always allowed: leave it out",
        ),
    ],
)
def test_wrong_flags_are_named(flag: str, text: str) -> None:
    assert refusal(flag) == text


def test_every_refused_flag_accepts_the_value_that_the_server_has() -> None:
    for flag in FLAGS.values():
        if flag.use is Use.REFUSED:
            for value in flag.accepted:
                given(f"--{flag.name}={value}")
            other = {"bool": "false", "int": "7", "duration": "7s"}.get(flag.kind, "other")
            assert refusal(f"--{flag.name}={other}").endswith(flag.text), flag.name
    assert given("--request-timeout=60s").serve == given().serve


def test_state_is_that_of_an_etcd() -> None:
    found = given("--etcd-servers=http://127.0.0.1:1,http://127.0.0.1:2", "--etcd-prefix=/a/b")
    assert found.etcd_servers == ("http://127.0.0.1:2379", "http://127.0.0.1:1", "http://127.0.0.1:2")
    assert found.prefix == "a/b"
    with pytest.raises(FlagError, match="--etcd-servers must be specified"):
        translate([])


def test_help_lists_every_flag_at_the_beginning_of_a_line() -> None:
    listed = re.findall(r"(?m)^\s*--([a-z0-9-]+)", api_server_help())
    assert sorted(listed) == sorted(FLAGS)
    assert "insecure-port" not in listed


def test_template_is_for_the_flags_that_lead_to_its_objects() -> None:
    usual = "--service-cluster-ip-range=10.0.0.0/24"
    assert same_initial_objects([usual, "--client-ca-file=a"])
    assert same_initial_objects(template_flags())
    assert not same_initial_objects(["--client-ca-file=a"])
    assert not same_initial_objects(["--service-cluster-ip-range=10.1.0.0/24"])
    assert not same_initial_objects([usual, "--runtime-config=api/all=true"])


def test_controllers_run_only_if_a_flag_says_so(tmp_path: Path) -> None:
    assert "--controllers=" in serve_flags(given(), tmp_path)
    some = serve_flags(given("--controllers=namespace"), tmp_path)
    assert [flag for flag in some if flag.startswith("--controllers")] == ["--controllers=namespace"]


def test_flags_of_etcd() -> None:
    found = EtcdFlags(
        [
            "--data-dir=d",
            "-listen-client-urls",
            "http://127.0.0.1:1,http://[::1]:2",
            "--unsafe-no-fsync",
            "--name=x",
        ]
    )
    assert (found.folder, found.listen) == ("d", [("127.0.0.1", 1), ("::1", 2)])
    assert (found.unsafe_no_fsync, found.unused) == (True, ["--name"])
    assert EtcdFlags(["--max-request-bytes=5000000"]).max_request_bytes == 5_000_000
    assert EtcdFlags(["--unsafe-no-fsync=false"]).unsafe_no_fsync is False
    assert re.search(r"(?m)^\s*--unsafe-no-fsync\b", etcd_help())


@cases(
    "flag, text",
    [
        ("--nonsense=1", "flag provided but not defined: -nonsense"),
        ("--data-dir", "flag needs an argument: -data-dir"),
        ("word", "'word' is not a valid flag"),
        ("--listen-client-urls=https://a:1", "has no TLS"),
        ("--quota-backend-bytes=1", "--quota-backend-bytes=1 is refused by rewound envtest: "),
    ],
)
def test_wrong_flags_of_etcd_are_named(flag: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        EtcdFlags([flag])
    assert text in str(refused.value)


def test_requests_for_servers_are_read_as_they_were_sent() -> None:
    lists = [["/assets", "/"], ["--flag=", "", "\udcff\n"], ["A=1", "B="]]
    sent = encoded(*lists)
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    assert decoded(sent[4:]) == lists
    assert decoded(encoded(["a"], [], ["b"])[4:]) == [["a"], [], ["b"]]
