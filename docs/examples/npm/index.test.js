import assert from "node:assert/strict";
import test from "node:test";

import { RequestFailed, startRewound, withRewound } from "rewound-test";

const MAPS = "/api/v1/namespaces/default/configmaps";
const configMap = (name, color) => ({ metadata: { name }, data: { color } });

test("the server is restored, and its clock moves", (t) =>
  withRewound(t, async (server) => {
    await server.request("POST", MAPS, configMap("web", "blue"));
    await assert.rejects(server.request("POST", MAPS, configMap("web", "red")), { status: 409 });
    await server.restore();
    await server.request("POST", MAPS, configMap("web", "red"));

    const events = "/api/v1/namespaces/default/events";
    const event = { metadata: { name: "e" }, involvedObject: { namespace: "default" }, reason: "Tested" };
    await server.request("POST", events, event);
    await server.advance(7200);
    assert.deepEqual((await server.request("GET", events)).items, []);
  }));

// Fails when it is asked to, to show what a failing test prints.
test("a failing test gets its story", (t) =>
  withRewound(t, async (server) => {
    await server.request("POST", MAPS, configMap("web", "blue"));
    assert.equal(process.env.FAIL, undefined, "as asked");
  }));

test("wrong flags are explained", async () => {
  await assert.rejects(startRewound({ flags: ["--flag=--event-ttl=soon"] }), /--event-ttl/);
  assert.ok(new RequestFailed(404, "not found") instanceof Error);
});
