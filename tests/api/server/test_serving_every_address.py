"""A server on every address of its machine: certificate, Endpoints and banner name the machine's own address."""

from __future__ import annotations

import signal
import ssl
from pathlib import Path

import httpx
import pytest

from rewound.actors.certificates.names import address_of, reachable_addresses
from tests.gateway.processes import Server, process
from tests.ports import reserve_port


async def endpoint(server: Server) -> tuple[str, int]:
    found = (await server.client.get("/api/v1/namespaces/default/endpoints/kubernetes")).json()
    (subset,) = found["subsets"]
    return subset["addresses"][0]["ip"], subset["ports"][0]["port"]


async def version(folder: Path, host: str, port: int) -> int:
    """The status of a request over TLS with the folder's CA; fails where the certificate lacks the host."""
    context = ssl.create_default_context(cafile=str(folder / "data" / "pki" / "ca.crt"))
    host = f"[{host}]" if ":" in host else host
    async with httpx.AsyncClient(verify=context, timeout=30, trust_env=False) as client:
        return (await client.get(f"https://{host}:{port}/version")).status_code


def has_ipv6() -> bool:
    return Path("/proc/net/if_inet6").exists() and bool(Path("/proc/net/if_inet6").read_text())


async def clients_reach_the_address_in_the_endpoints(
    server: Server, folder: Path, bind: str, port: int
) -> None:
    host, found_port = await endpoint(server)
    assert (host, found_port) == (reachable_addresses(bind)[0], port)
    address = address_of(host)
    assert address is not None and not address.is_unspecified
    for one in reachable_addresses(bind):
        assert await version(folder, one, port) == 200
    addresses = (await server.client.get("/api")).json()["serverAddressByClientCIDRs"]
    named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    assert addresses == [{"clientCIDR": "0.0.0.0/0", "serverAddress": named}]
    if not address.is_loopback:
        assert f":{port} (from other machines)" in server.banner and host in server.banner


async def test_clients_reach_the_address_in_the_endpoints_over_ipv6(tmp_path: Path) -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    port = reserve_port()
    async with process(tmp_path, "--bind-address", "::", "--secure-port", str(port)) as server:
        await clients_reach_the_address_in_the_endpoints(server, tmp_path, "::", port)


async def test_moving_to_every_address_renews_the_certificate_and_the_endpoints(tmp_path: Path) -> None:
    port = reserve_port()
    async with process(tmp_path, "--secure-port", str(port)) as server:
        assert await endpoint(server) == ("127.0.0.1", port)
        assert await version(tmp_path, "127.0.0.1", port) == 200
        server.signal(signal.SIGTERM)
        assert await server.ended() == 0
    authority = (tmp_path / "data" / "pki" / "ca.crt").read_bytes()
    moved = reserve_port()
    async with process(tmp_path, "--bind-address", "0.0.0.0", "--secure-port", str(moved)) as server:
        await clients_reach_the_address_in_the_endpoints(server, tmp_path, "0.0.0.0", moved)
    assert (tmp_path / "data" / "pki" / "ca.crt").read_bytes() == authority


def test_one_address_is_reached_there_alone() -> None:
    assert reachable_addresses("192.0.2.1") == ("192.0.2.1",)
    assert reachable_addresses("2001:DB8::1") == ("2001:db8::1",)
    assert reachable_addresses("localhost") == ("localhost",)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::"])
def test_addresses_of_the_machine_are_specific_and_listed_once(bind: str) -> None:
    found = reachable_addresses(bind)
    assert found and len(set(found)) == len(found)
    for one in found:
        address = address_of(one)
        assert address is not None and not address.is_unspecified and not address.is_link_local
