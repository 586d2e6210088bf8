from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.admission.built_in import plugins
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.selection import AVAILABLE, plugins_off
from rewound.actors.names import CLUSTER
from rewound.actors.profile import default_rules
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import release_of
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import ControllerSettings, Settings
from rewound.journal.log import Journal
from rewound.server.flags.parser import make_parser, parse_flags
from tests.actors.certificates.shared_folder import own_certificates
from tests.actors.object_store import memory_folder
from tests.cases import cases


def settings(*arguments: str) -> Settings:
    return parse_flags(arguments)[0]


def refusal(*arguments: str) -> str:
    with pytest.raises(SettingsError) as refused:
        parse_flags(arguments)
    return str(refused.value)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "file"
    path.write_text("")
    return str(path)


def test_without_flags_settings_have_defaults() -> None:
    assert parse_flags([]) == (Settings(), [])
    assert settings().secure == ("127.0.0.1", 6443)
    assert settings().insecure is None


def test_each_flag_sets_its_setting(file: str) -> None:
    path, own = Path(file), own_certificates("cluster")
    assert settings(
        "--data-dir=somewhere",
        "--dialect=kubernetes",
        "--bind-address=0.0.0.0",
        "--advertise-address=192.0.2.7",
        "--secure-port=7443",
        "--insecure-port=8080",
        "--http2-max-streams-per-connection=1000",
        "--max-connections=500",
        "--memory-limit=512Mi",
        "--max-object-size=3Mi",
        f"--token-auth-file={file}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        f"--tls-cert-file={own.authority}",
        f"--tls-private-key-file={own.key('ca')}",
        f"--client-ca-file={own.authority}",
        "--watch-history=10m",
        "--journal-retention=1h30m",
        "--livez-grace-period=30s",
        "--shutdown-delay-duration=500ms",
        "--unsafe-no-fsync",
    ) == Settings(
        data_dir=Path("somewhere"),
        dialect="kubernetes",
        bind_address="0.0.0.0",
        advertise_address="192.0.2.7",
        secure_port=7443,
        insecure_port=8080,
        http2_max_streams_per_connection=1000,
        max_connections=500,
        memory_limit=512 << 20,
        max_object_size=3 << 20,
        token_auth_file=path,
        anonymous_auth=False,
        authorization_mode="Node,RBAC",
        tls_cert_file=own.authority,
        tls_private_key_file=own.key("ca"),
        client_ca_file=own.authority,
        watch_history=600.0,
        journal_retention=5400.0,
        livez_grace_period=30.0,
        shutdown_delay_duration=0.5,
        unsafe_no_fsync=True,
    )


def test_advertised_address_is_an_ip_address() -> None:
    assert refusal("--advertise-address=host").startswith("--advertise-address: 'host' is not an IP address")


def test_nothing_but_the_server_decides_what_is_durable(file: str) -> None:
    follow = ("--follow=https://127.0.0.1:1", f"--follow-token-file={file}")
    assert "does not go with --follow" in refusal("--unsafe-no-fsync", *follow)
    assert "does not go with --journal" in refusal("--unsafe-no-fsync", "--journal=etcd://127.0.0.1:1")


def test_value_may_be_a_separate_argument() -> None:
    assert settings("--secure-port", "0", "--insecure-port", "8080").insecure == ("127.0.0.1", 8080)


def test_last_of_repeated_flags_wins() -> None:
    assert settings("--secure-port=1", "--secure-port=2").secure_port == 2


def test_insecure_port_binds_loopback() -> None:
    assert settings("--bind-address=0.0.0.0", "--insecure-port=8080").insecure == ("127.0.0.1", 8080)


@cases(
    ("written", "on"),
    [(["--anonymous-auth"], True), (["--anonymous-auth=true"], True), (["--anonymous-auth", "false"], False)],
)
def test_boolean_flag_needs_no_value(written: list[str], on: bool) -> None:
    assert settings(*written).anonymous_auth is on


def test_always_allow_disables_anonymous_by_default() -> None:
    assert settings("--authorization-mode=AlwaysAllow").anonymous_auth is False
    assert "would give everything to everyone" in refusal(
        "--authorization-mode=AlwaysAllow", "--anonymous-auth=true"
    )


def test_zero_streams_per_connection_means_the_default() -> None:
    assert settings().http2_streams == 250
    assert settings("--http2-max-streams-per-connection=0").http2_streams == 250
    assert settings("--http2-max-streams-per-connection=7").http2_streams == 7


@pytest.mark.parametrize("value", ["-1", "2147483648"])
def test_streams_per_connection_out_of_range_are_refused(value: str) -> None:
    assert refusal(f"--http2-max-streams-per-connection={value}") == (
        f"--http2-max-streams-per-connection: {value} is not a number of streams; "
        "give a number from 1 to 2147483647, or 0 for the default of 250"
    )


def test_streams_per_connection_must_be_a_number() -> None:
    assert settings("--goaway-chance=0.001").goaway_chance == 0.001
    assert refusal("--goaway-chance=0.5") == (
        "--goaway-chance: 0.5 is not a chance; give a number from 0 to 0.02, such as 0.001"
    )
    assert refusal("--http2-max-streams-per-connection=many") == (
        "--http2-max-streams-per-connection: 'many' is not a number"
    )


def test_limits_that_cannot_be_served_are_refused() -> None:
    assert refusal("--memory-limit=255Mi").startswith(
        "--memory-limit: 267386880 bytes are too little to serve; give at least 256Mi"
    )
    assert refusal("--memory-limit=447Mi", "--workers=2").startswith(
        "--memory-limit: 468713472 bytes are too little to serve with --workers 2; give at least 448Mi"
    )
    assert refusal("--memory-limit=much") == (
        "--memory-limit: 'much' is not an amount of memory; write it like 512Mi, 1Gi or 2G"
    )
    assert refusal("--max-object-size=1Ki").startswith(
        "--max-object-size: 1024 bytes are too little for the objects of the server itself; give at least 64Ki"
    )
    assert refusal("--max-connections=-1").startswith("--max-connections: -1 is not a number of connections")


def test_retention_of_zero_keeps_events_forever() -> None:
    assert settings("--journal-retention=0").journal_retention is None
    assert settings("--journal-retention=0").thinning == {}


@pytest.mark.parametrize(
    ("given", "whole", "thinning"),
    [
        ("24h", 86400.0, {"leases": 3600.0}),
        ("30m", 1800.0, {}),
        ("nodes=2h", 86400.0, {"leases": 3600.0, "nodes": 7200.0}),
        ("2h,leases.coordination.k8s.io=20m", 7200.0, {"leases.coordination.k8s.io": 1200.0}),
        ("0,leases=1h", None, {"leases": 3600.0}),
        ("24h,leases=0", 86400.0, {}),
    ],
)
def test_retention_by_kind(given: str, whole: float | None, thinning: dict[str, float]) -> None:
    found = settings(f"--journal-retention={given}")
    assert (found.journal_retention, found.thinning) == (whole, thinning)


def test_renewals_of_leases_stay_as_long_as_watches_may_ask_for_them() -> None:
    assert settings("--watch-history=3h").thinning == {"leases": 10800.0}


@pytest.mark.parametrize("flag", ["--enable-bootstrap-token-auth", "--enable-bootstrap-token-auth=true"])
def test_bootstrap_tokens_are_enabled_by_a_switch(flag: str) -> None:
    assert parse_flags([flag]) == (
        Settings(controllers=ControllerSettings(enable_bootstrap_token_auth=True)),
        [],
    )


def test_lists_of_plugins_are_joined() -> None:
    flags = ["--enable-admission-plugins=Priority", "--enable-admission-plugins=PodSecurityPolicy"]
    given, warnings = parse_flags(flags)
    assert given.enable_admission_plugins == "Priority,PodSecurityPolicy"
    assert warnings == []


@cases(
    ("config", "allowed"),
    [
        ("", False),
        ("imagepolicy.cluster.io/v1alpha1=true", True),
        ("imagepolicy.cluster.io/v1alpha1", True),
        ("api/alpha=true", True),
        ("api/all=true", True),
        ("api/all=true,imagepolicy.cluster.io/v1alpha1=false", False),
        ("api/beta=true", False),
    ],
)
def test_image_policy_webhook_needs_its_version_in_runtime_config(config: str, allowed: bool) -> None:
    flags = ["--enable-admission-plugins=ImagePolicyWebhook", f"--runtime-config={config}"]
    if allowed:
        assert "ImagePolicyWebhook" not in settings(*flags).plugins_off
    else:
        assert refusal(*flags).startswith("--runtime-config: ImagePolicyWebhook needs imagepolicy.cluster.io")


def test_plugins_that_are_off_by_default_can_be_disabled_without_a_warning() -> None:
    given, warnings = parse_flags(["--disable-admission-plugins=PodSecurityPolicy,ServiceAccount"])
    assert given.disabled_plugins == {"PodSecurityPolicy", "ServiceAccount"}
    assert warnings == []


@pytest.mark.parametrize("flag", ["--enable-admission-plugins", "--disable-admission-plugins"])
def test_unknown_plugins_are_refused_with_the_known_ones(flag: str) -> None:
    text = refusal(f"{flag}=Priority,Nonsense,priority")
    assert text.startswith(f"{flag}: there is no plugin 'Nonsense', 'priority'; there are AlwaysAdmit")
    assert all(name in text for name in AVAILABLE)


def test_plugins_that_are_off_by_default_run_when_they_are_enabled() -> None:
    assert "NodeRestriction" in settings().plugins_off
    assert "NodeRestriction" not in settings("--enable-admission-plugins=NodeRestriction").plugins_off
    assert "Priority" not in settings().plugins_off
    assert "Priority" in settings("--disable-admission-plugins=Priority").plugins_off


def test_a_plugin_is_not_both_enabled_and_disabled() -> None:
    text = refusal("--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority")
    assert text.startswith("--disable-admission-plugins: Priority is in --enable-admission-plugins too")


def test_the_flags_know_every_plugin_that_the_server_runs() -> None:
    with memory_folder() as folder, closing(Journal.open(folder / "journal")) as journal:
        feed = Feed(0, journal)
        rbac = Rbac(stored_policy(CLUSTER, journal, feed))
        features = release_of("1.36").features
        available = plugins(PluginContext(CLUSTER, journal, feed, AlwaysAllow(), rbac, features=features))
        run = {one.name for one in available if not one.completes}
    # These belong to the server itself; no flag disables them.
    assert run - {"CertificateLibrary", "DeviceAccess", "PodCertificateSigning", "SchemaLibrary"} == set(
        AVAILABLE
    )


def test_plain_port_without_a_token_file_gives_a_warning(file: str) -> None:
    _, (warning,) = parse_flags(["--insecure-port=8080"])
    said = "--insecure-port: only service account tokens sign in there without --token-auth-file: "
    assert warning == said + "client certificates work on the secure port only"
    _, (warning,) = parse_flags(["--insecure-port=8080", "--secure-port=0"])
    assert warning == said + "and without a secure port nobody can request the first one"
    _, (warning,) = parse_flags(["--insecure-port=8080", "--enable-bootstrap-token-auth"])
    assert "service account tokens and bootstrap tokens sign in" in warning
    assert parse_flags(["--insecure-port=8080", f"--token-auth-file={file}"])[1] == []


def test_disabled_boolean_flag_has_no_warning() -> None:
    assert parse_flags(["--enable-bootstrap-token-auth=false"]) == (Settings(), [])


@cases(
    ("arguments", "text"),
    [
        (["--secure-port=x"], "--secure-port: 'x' is not a port"),
        (["--secure-port=-1"], "--secure-port: '-1' is not a port"),
        (["--secure-port=65536"], "--secure-port: 65536 is not a port; give a number from 1 to 65535"),
        (["--secure-port"], "--secure-port: needs a value"),
        (["--secure-port=0"], "--secure-port: is off and so is --insecure-port"),
        (["--insecure-port=6443"], "--insecure-port: 6443 is the secure port too"),
        (["--anonymous-auth=maybe"], "--anonymous-auth: 'maybe' is neither true nor false"),
        (
            ["--authorization-mode=Abac"],
            "--authorization-mode: 'Abac' is not known; choose among Node, RBAC, ABAC",
        ),
        (
            ["--authorization-mode=Node", "--authorization-mode=Node"],
            "--authorization-mode: Node occurs more",
        ),
        (["--authorization-mode=ABAC"], "--authorization-policy-file: is missing; --authorization-mode=ABAC"),
        (
            [f"--authorization-policy-file={__file__}"],
            "--authorization-policy-file: has no effect without ABAC in --authorization-mode",
        ),
        (["--authorization-mode=Webhook"], "--authorization-webhook-config-file: is missing"),
        (
            [f"--authorization-webhook-config-file={__file__}"],
            "--authorization-webhook-config-file: has no effect without Webhook in --authorization-mode",
        ),
        (
            ["--authorization-webhook-cache-authorized-ttl=1m"],
            "--authorization-webhook-cache-authorized-ttl: has no effect without Webhook in --authorization-mode",
        ),
        (["--authorization-webhook-version=v2"], "--authorization-webhook-version: 'v2' is not known"),
        (
            ["--authentication-token-webhook-cache-ttl=1m"],
            "--authentication-token-webhook-cache-ttl: has no effect without "
            "--authentication-token-webhook-config-file",
        ),
        (
            ["--authentication-token-webhook-version=v1beta2"],
            "--authentication-token-webhook-version: 'v1beta2' is not known; choose one of v1 | v1beta1",
        ),
        (
            ["--authentication-token-webhook-config-file=/no/such/file"],
            "--authentication-token-webhook-config-file: there is no file",
        ),
        (["--profile=v1.26"], "--profile: 'v1.26' is not known; choose one of documents | v1.25"),
        (["--rule=helth=rewound"], "--rule: there is no rule 'helth'; there are service-name, "),
        (
            ["--rule=health=etcd"],
            "--rule: the rule health has no value 'etcd'; give health=rewound or health=kubernetes",
        ),
        (
            ["--rule", "health"],
            "--rule: the rule health needs a value; give health=rewound or health=kubernetes",
        ),
        (["--dialect=klingon"], "--dialect: 'klingon' is not known; choose one of cluster | kubernetes"),
        (["--bind-address="], "--bind-address: is empty"),
        (["--token-auth-file=/no/such/file"], "--token-auth-file: there is no file /no/such/file"),
        (["--client-ca-file=/no/such/file"], "--client-ca-file: there is no file"),
        (["--client-ca-file="], "--client-ca-file: is empty; give the path of a file, or leave the flag out"),
        (["--watch-history=5"], "--watch-history: '5' is not a duration; write it like"),
        (["--watch-history=0"], "--watch-history: must be greater than 0"),
        (["--journal-retention=1m"], "--journal-retention: is shorter than --watch-history"),
        (
            ["--journal-retention=24h,leases=1m"],
            "--journal-retention: leases: is shorter than --watch-history",
        ),
        (["--journal-retention=24h,leases"], "--journal-retention: 'leases' is not KIND=TIME; write it like"),
        (["--journal-retention=24h,leases=x"], "--journal-retention: 'x' is not a duration"),
        (["--etcd-servers=x"], "--etcd-servers: is not a flag of this server"),
        (["--secureport=1"], "--secureport: is not a flag of this server; did you mean --secure-port?"),
        (["--kubernetes-version=1.24"], "--kubernetes-version: there is no Kubernetes version '1.24' here"),
        (
            ["--kubernetes-version=1.33"],
            "--kubernetes-version: the dialect cluster is always Kubernetes 1.25",
        ),
        (
            ["--dialect=kubernetes", "--kubernetes-version=1.33", "--feature-gates=ExpandedDNSConfig=true"],
            "--feature-gates: there is no feature 'ExpandedDNSConfig' in Kubernetes 1.33",
        ),
        (["--secure=1"], "--secure: is not a flag of this server"),
        (["now"], "now: is not a flag"),
    ],
)
def test_wrong_flag_is_named_with_what_to_do(arguments: list[str], text: str) -> None:
    assert refusal(*arguments).startswith(text)


def test_certificate_needs_its_key(file: str) -> None:
    assert refusal(f"--tls-cert-file={file}") == (
        "--tls-cert-file: needs its key; give it with --tls-private-key-file"
    )
    assert refusal(f"--tls-private-key-file={file}") == (
        "--tls-private-key-file: needs its certificate; give it with --tls-cert-file"
    )


def test_data_dir_must_not_be_a_file(file: str) -> None:
    assert refusal(f"--data-dir={file}").startswith("--data-dir: ")


@pytest.mark.parametrize("stored", ["1.33", ""])
def test_folder_has_its_own_version_without_the_flag(tmp_path: Path, stored: str) -> None:
    Journal.open(tmp_path / "journal", dialect="kubernetes", kubernetes=stored).close()

    def version(*flags: str) -> str:
        settings, _ = parse_flags([f"--data-dir={tmp_path}", *flags])
        return settings.release.version

    assert version() == version("--dialect=kubernetes") == (stored or "1.25")
    assert version("--kubernetes-version=v1.36.2") == "1.36"
    assert version("--dialect=cluster") == "1.25"  # opening the journal refuses the dialect


def test_data_dir_must_not_be_empty() -> None:
    assert refusal("--data-dir=") == "--data-dir: is empty; name a folder, or . for the current one"


@pytest.mark.parametrize("text", ["nonsense", "nan", "inf", ""])
def test_rate_must_be_a_number(text: str) -> None:
    flag = "--audit-log-batch-throttle-qps"
    assert refusal("--audit-log-path=-", f"{flag}={text}") == f"{flag}: {text!r} is not a number"


def test_plugins_that_are_on_by_default_are_those_of_kubernetes() -> None:
    on = """NamespaceLifecycle LimitRanger ServiceAccount TaintNodesByCondition PodSecurity Priority
        DefaultTolerationSeconds DefaultStorageClass StorageObjectInUseProtection PersistentVolumeClaimResize
        RuntimeClass CertificateApproval CertificateSigning CertificateSubjectRestriction DefaultIngressClass
        ClusterTrustBundleAttest PodTopologyLabels MutatingAdmissionPolicy MutatingAdmissionWebhook
        NodeDeclaredFeatureValidator PodGroupProtection PodGroupWorkloadExists PodResizeValidator
        ValidatingAdmissionPolicy ValidatingAdmissionWebhook ResourceQuota"""
    off = plugins_off(default_rules("kubernetes"), frozenset(), frozenset())
    assert set(AVAILABLE) - off == set(on.split())
    assert plugins_off(default_rules("cluster"), frozenset(), frozenset()) - off == {
        "CertificateSubjectRestriction"
    }


def test_help_shows_each_flag_and_its_default() -> None:
    text = make_parser().format_help()
    assert "--journal-retention TIME" in text
    assert "(default 6443)" in text
    assert "None" not in text


def test_service_ranges_are_parsed() -> None:
    chosen = settings("--service-cluster-ip-range=10.1.0.0/16,fd00::/108", "--service-node-port-range=1-5")
    assert chosen.service_ranges.networks == ("10.1.0.0/16", "fd00::/108")
    assert chosen.service_ranges.node_ports == (1, 5)
    assert settings().service_ranges.networks == ("10.0.0.0/24",)
    assert settings().service_ranges.node_ports == (30000, 32767)
    assert refusal("--service-cluster-ip-range=10.0.0.1/24").startswith("--service-cluster-ip-range: ")
    assert refusal("--service-node-port-range=5-1").startswith("--service-node-port-range: ")


def test_runtime_config_and_feature_gates_may_be_repeated() -> None:
    given = settings("--runtime-config=api/beta=false", "--runtime-config", "policy/v1beta1,apps/v1=false")
    assert given.runtime_config == "api/beta=false,policy/v1beta1,apps/v1=false"
    assert given.enablement.stages == {"api/beta": False}
    assert given.enablement.keys == {("policy", "v1beta1"): True, ("apps", "v1"): False}
    given = settings("--feature-gates=AllAlpha=true", "--feature-gates=ProcMountType=false")
    assert "HPAScaleToZero" in given.features and "ProcMountType" not in given.features


def test_gate_whose_fields_nobody_follows_gets_a_warning() -> None:
    given, warnings = parse_flags(
        ["--dialect=kubernetes", "--feature-gates=DRAWorkloadResourceClaims=true,DRAResourcePoolStatus=true"]
    )
    assert {"DRAWorkloadResourceClaims", "DRAResourcePoolStatus"} <= given.features
    assert warnings == [
        "--feature-gates: DRAWorkloadResourceClaims only serves its fields: "
        "no controller, scheduler or simulated node follows them"
    ]
    assert parse_flags(["--dialect=kubernetes"])[1] == []


def test_api_legacy_gets_a_warning() -> None:
    given, warnings = parse_flags(["--runtime-config=api/legacy=true"])
    assert given.enablement.keys == {}
    assert warnings == ["--runtime-config: api/legacy has no effect any more; v1 is the core group"]


@cases(
    ("flag", "why"),
    [
        ("--runtime-config=apps/v1=maybe", "--runtime-config: 'apps/v1=maybe' is neither true nor false"),
        (
            "--runtime-config=apps/v1beta1",
            "--runtime-config: there is no version 'apps/v1beta1'; there are v1",
        ),
        ("--feature-gates=Flying=true", "--feature-gates: there is no feature 'Flying' in Kubernetes 1.25; "),
        ("--feature-gates=DryRun=false", "--feature-gates: DryRun cannot be switched off"),
    ],
)
def test_unknown_kinds_and_features_are_refused(flag: str, why: str) -> None:
    assert refusal(flag).startswith(why)


def test_runtime_config_uses_group_names_of_the_dialect() -> None:
    assert settings("--dialect=kubernetes", "--runtime-config=storage.k8s.io/v1beta1=false")
    assert "no group 'storage.k8s.io'" in refusal("--runtime-config=storage.k8s.io/v1beta1=false")


def test_admission_configuration_file_must_exist() -> None:
    text = refusal("--admission-control-config-file=/nowhere.yaml")
    assert text.startswith("--admission-control-config-file: there is no file /nowhere.yaml")


def test_help_writes_durations_and_switches_as_one_types_them() -> None:
    text = " ".join(make_parser().format_help().split())
    assert "how long a batch waits for more events, like 100ms (default 100ms)" in text
    assert "how long a batch waits for more events, like 100ms (default 30s)" in text
    assert "limit the number of batches a second (default true)" in text


def test_client_ca_needs_the_secure_port() -> None:
    file = own_certificates("cluster").authority
    assert "--client-ca-file: has no effect without the secure port" in refusal(
        "--secure-port=0", "--insecure-port=8080", f"--client-ca-file={file}"
    )


def test_journal_in_etcd_has_endpoints_and_a_prefix(tmp_path: Path) -> None:
    cluster = settings("--journal=etcd://10.0.0.1:2379,[::1]:2379/clusters/one").cluster
    assert (cluster.endpoints, cluster.prefix) == (("10.0.0.1:2379", "[::1]:2379"), "/clusters/one")
    assert settings("--journal=etcd://a:1").cluster.prefix == "/registry"
    user = tmp_path / "user"
    user.write_text("root:a:b\n")
    signed_in = settings("--journal=etcd://a:1", f"--etcd-user-file={user}").cluster
    assert signed_in.credentials() == ("root", "a:b")


def test_wrong_journal_is_refused_with_what_to_do(file: str) -> None:
    for flag, text in (
        ("--journal=file:///x", "--journal: 'file:///x' is not an address of etcd; give etcd://"),
        ("--journal=etcd://a:1,b", "--journal: 'b' is not host:port; give etcd://"),
        ("--etcd-cafile=x", "--etcd-cafile: has no effect without --journal; add it"),
    ):
        assert text in refusal(flag)
    for flag, name, why in (
        ("--enable-test-controls", "--enable-test-controls", "they set the whole state of one journal"),
        ("--workers=2", "--workers", "a node is one process; start more nodes"),
        ("--follow=https://leader:6443", "--follow", "every node has all changes already"),
    ):
        text = f"{name}: does not go with --journal: {why}; leave one of them out"
        more = [f"--follow-token-file={file}"] if name == "--follow" else []
        assert refusal("--journal=etcd://a:1", flag, *more) == text


def test_wrong_credentials_of_etcd_are_refused(file: str) -> None:
    etcd = "--journal=etcd://a:1"
    assert refusal(etcd, f"--etcd-user-file={file}") == (
        "--etcd-user-file: has no line user:password; write one"
    )
    assert refusal(etcd, f"--etcd-certfile={file}") == (
        "--etcd-certfile: has no effect without --etcd-keyfile; add it or leave this out"
    )
