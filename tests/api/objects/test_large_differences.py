"""A refused update of a large pod is compared in a worker thread, and says what differs."""

from __future__ import annotations

from tests.gateway.api import served


async def test_refused_update_of_a_large_pod_shows_the_difference() -> None:
    variables = [{"name": f"v{number}", "value": str(number % 7)} for number in range(600)]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "env": variables}]}}
    async with served(dialect="kubernetes") as api:
        made = await api.create("pods", pod)
        made["spec"]["containers"][0]["env"][300]["value"] = "other"
        refused = await api.ask("PUT", "/api/v1/namespaces/default/pods/p", made)
        message = refused.expect(422)["message"]
        assert "pod updates may not change fields other than" in message
        assert '"other"' in message
