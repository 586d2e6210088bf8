"""`rewound compare`: what differs between two recordings, with names mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gateway.journal_commands import Step, delete, put, run_journal, write_history


def service(namespace: str, address: str) -> Step:
    metadata = {"uid": f"uid-{address}", "creationTimestamp": "2024-05-01T12:00:00Z"}
    spec = {"selector": {"app": "web"}, "clusterIP": address, "ports": [{"port": 80, "nodePort": 30000}]}
    return Step("web", {"spec": spec}, namespace, "services", metadata=metadata)


def recording(folder: Path, namespace: str, image: str, address: str, *more: Step) -> Path:
    owner = {"kind": "Deployment", "name": "web", "uid": address, "controller": True}
    labels = {"app": "web", "pod-template-hash": address}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    written: list[Step] = [
        put("settings", {"host": f"db.{namespace}.svc", "color": "blue"}, namespace=namespace),
        service(namespace, address),
        Step("web", {"spec": {"template": template}}, namespace, "deployments.apps"),
        Step(
            f"web-{address}",
            {"spec": {"replicas": 1}},
            namespace,
            "replicasets.apps",
            metadata={"ownerReferences": [owner]},
        ),
        Step("job-x1", {"data": {"a": address}}, namespace, metadata={"generateName": "job-"}),
        Step("key", {"data": {"password": image}}, namespace, "secrets"),
        Step("started", {"reason": address}, namespace, "events"),
        *more,
    ]
    write_history(folder, written)
    return folder


def signs(result: Any) -> list[str]:
    assert result.code == 0, result.err
    return [line.rstrip() for line in result.lines if line[0] in "+-~"]


def test_two_recordings_with_mapped_names(tmp_path: Path) -> None:
    staging = recording(
        tmp_path / "a", "shop-staging", "reg.staging/web:2", "10.0.0.1", put("only-a", namespace="x")
    )
    production = recording(tmp_path / "b", "shop", "reg/web:1", "10.0.0.2", put("only-b", namespace="x"))
    maps = ("--map", "namespace", "shop-staging=shop", "--map", "text", "reg.staging=reg")
    result = run_journal("compare", staging, production, *maps)
    assert signs(result) == [
        "~ ConfigMap shop/job-* (shop-staging/job-* in A)",
        f"- ConfigMap x/only-a  only in {staging}",
        f"+ ConfigMap x/only-b  only in {production}",
        "~ Deployment shop/web (shop-staging/web in A)",
        "~ Secret shop/key (shop-staging/key in A)",
    ]
    assert 'image: "reg/web:2" -> "reg/web:1"' in result.out
    assert "*** (before)" in result.out and "reg.staging" not in result.out
    assert result.lines[-1] == "1 only in A, 1 only in B, 3 different"
    document = run_journal("compare", staging, production, "deploy", "-o", "json", *maps).document
    (one,) = document["items"]
    assert (one["difference"], one["namespace"], one["a"]["namespace"]) == (
        "different",
        "shop",
        "shop-staging",
    )
    # Without a map, nothing has a counterpart.
    assert "~" not in {line[0] for line in signs(run_journal("compare", staging, production))}
    names = run_journal("compare", staging, production, *maps, "--map", "name", "only-a=only-b", "-n", "x")
    assert signs(names) == []


def test_two_moments_of_one_recording(tmp_path: Path) -> None:
    steps = [put("web", {"color": "blue"}), put("gone"), put("web", {"color": "red"}), delete("gone")]
    write_history(tmp_path, steps)
    result = run_journal("compare", f"{tmp_path}@2", f"{tmp_path}@4")
    assert signs(result) == [f"- ConfigMap default/gone  only in {tmp_path}@2", "~ ConfigMap default/web"]
    assert run_journal("compare", tmp_path, f"{tmp_path}@4").lines == ["no difference"]


def test_errors(tmp_path: Path) -> None:
    write_history(tmp_path, [put("web")])
    for arguments, text in (
        (("nowhere", tmp_path), "nowhere: there is no such folder or file"),
        ((f"{tmp_path}@soon", tmp_path), "is not a moment"),
        ((tmp_path, tmp_path, "--map", "colour", "a=b"), "'colour' is not one of namespace, name, text"),
        ((tmp_path, tmp_path, "--map", "name", "a"), "'a' is no pair A=B"),
        ((tmp_path, tmp_path, "--map", "name", "a=b", "--map", "name", "a=c"), "mapped to b and to c"),
        ((tmp_path, tmp_path, "starships"), "is not a kind"),
    ):
        result = run_journal("compare", *arguments)
        assert (result.code, text in result.err) == (2, True), result.err
