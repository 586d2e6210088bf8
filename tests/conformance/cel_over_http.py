"""Runs the recorded CEL cases against a server: definitions and objects are created, updated and deleted over HTTP."""

from __future__ import annotations

import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rewound.actors.names import Names
from tests.conformance.cel_cases import GROUP, KIND, PLURAL, Case, Outcome, cause, written
from tests.ports import reserve_port

TOKEN = "cel-token"
OBJECTS = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
MOST_SECONDS = 30.0  # until a definition is served or gone
PAUSE = 0.005
READY = "Stop with Ctrl-C."  # in the last line that a server prints before it serves


class Client:
    def __init__(self, port: int, names: Names) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._api_version = f"{names.group('apiextensions')}/v1"
        self.definitions = f"/apis/{self._api_version}/customresourcedefinitions"
        self.definition = f"{self.definitions}/{PLURAL}.{GROUP}"

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        self._connection.request(method, path, None if body is None else body.encode(), headers)
        response = self._connection.getresponse()
        content = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(content) if is_json else content

    def outcome(self, method: str, path: str, body: str) -> tuple[Outcome, Any]:
        """The outcome as a case has it, and what was responded."""
        status, found = self.ask(method, path, body)
        if status < 400:
            return Outcome(status, "", []), found
        causes = [cause(**one) for one in found.get("details", {}).get("causes", [])]
        return Outcome(status, found["message"], causes), found

    def create_definition(self, schema: str) -> Outcome:
        return self.outcome("POST", self.definitions, self._definition(schema))[0]

    def _definition(self, schema: str) -> str:
        version = (
            f'{{"name": "v1", "served": true, "storage": true, "schema": {{"openAPIV3Schema": {schema}}}}}'
        )
        names = {"plural": PLURAL, "singular": "thing", "kind": KIND, "listKind": f"{KIND}List"}
        head = {
            "apiVersion": self._api_version,
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{PLURAL}.{GROUP}"},
        }
        spec = {"group": GROUP, "scope": "Namespaced", "names": names}
        return f'{json.dumps(head)[:-1]}, "spec": {json.dumps(spec)[:-1]}, "versions": [{version}]}}}}'

    def wait_until_served(self) -> None:
        self._wait(lambda: self._is_established() and self.ask("GET", OBJECTS)[0] == 200)

    def _is_established(self) -> bool:
        conditions = self.ask("GET", self.definition)[1]["status"]["conditions"] or []
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    def delete_definition(self) -> None:
        self.ask("DELETE", self.definition)
        self._wait(lambda: self.ask("GET", self.definition)[0] == 404 and self.ask("GET", OBJECTS)[0] == 404)

    @staticmethod
    def _wait(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + MOST_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError("the definition is neither served nor gone")
            time.sleep(PAUSE)

    def write_object(self, case: Case) -> Outcome:
        if case.kind == "create":
            found, _ = self.outcome("POST", OBJECTS, written(case.object))
        else:
            found, stored = self.outcome("POST", OBJECTS, written(case.old))
            if found.status == 201:
                metadata = {
                    **case.object["metadata"],
                    "resourceVersion": stored["metadata"]["resourceVersion"],
                }
                found, _ = self.outcome("PUT", f"{OBJECTS}/a", written({**case.object, "metadata": metadata}))
        self.ask("DELETE", f"{OBJECTS}/a")
        return found


def differences(cases: list[Case], names: Names) -> Iterator[str]:
    """One text for each case that has another outcome than recorded. Cases with the same schema share a definition."""
    by_schema: dict[str, list[Case]] = {}
    for case in cases:
        by_schema.setdefault(case.schema, []).append(case)
    with _server(names) as client:
        for schema, group in by_schema.items():
            yield from _of_schema(client, schema, group)


def _of_schema(client: Client, schema: str, cases: list[Case]) -> Iterator[str]:
    created = client.create_definition(schema)
    if any(case.kind != "definition" for case in cases) and created.status == 201:
        client.wait_until_served()
    for case in cases:
        found = created if case.kind == "definition" or created.status != 201 else client.write_object(case)
        different = case.difference(found)
        if different:
            yield different
    if created.status == 201:
        client.delete_definition()


@contextmanager
def _server(names: Names) -> Iterator[Client]:
    port = reserve_port()
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "tokens.csv"
        tokens.write_text(f"{TOKEN},cel,cel,system:masters\n")
        command = [sys.executable, "-m", "rewound.cli.main", "serve", f"--data-dir={folder}/data"]
        flags = ["--secure-port=0", f"--insecure-port={port}", f"--token-auth-file={tokens}"]
        with subprocess.Popen(
            [*command, *flags, f"--dialect={names.dialect}"], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                _wait_until_ready(server)
                yield Client(port, names)
            finally:
                server.terminate()


def _wait_until_ready(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    for line in server.stdout:
        if READY in line:
            return
    raise RuntimeError("the server ended before it was ready")
