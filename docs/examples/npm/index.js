// A server for tests in Node.js. It needs Node's own modules only.
//
//     import { startRewound } from "rewound-test";
//
//     const server = await startRewound({ flags: ["--flag=--event-ttl=5m"] });
//     kubeConfig.loadFromFile(server.kubeconfig);
//     ...
//     await server.stop({ failed: false });
//
// or, with node:test, `await withRewound(t, async (server) => { ... })`, which stops it and prints the story of a failure.
// It runs `rewound dev`, which must be on PATH. The server ends with this process, however that ends.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import https from "node:https";
import path from "node:path";

// The shell prints where the server is, then waits: the end of its input is a test that passed, a line one that failed.
const WAIT = 'echo "$KUBECONFIG"; echo "$REWOUND_URL"; read -r failed && exit 1; exit 0';

export class RequestFailed extends Error {
  constructor(status, message) {
    super(`${status}: ${message}`);
    this.status = status;
  }
}

export class Rewound {
  #child;
  #printed;
  #tls;

  constructor(child, printed, [kubeconfig, url], tls) {
    this.#child = child;
    this.#printed = printed;
    this.#tls = tls;
    this.kubeconfig = kubeconfig; // the path of a kubeconfig file of the administrator
    this.url = url; // https://127.0.0.1:port
  }

  // One request with a JSON body; resolves to the document of the response, rejects with RequestFailed.
  request(method, target, body) {
    return new Promise((resolve, reject) => {
      const options = { ...this.#tls, method, agent: false, headers: { "content-type": "application/json" } };
      const sent = https.request(this.url + target, options, async (response) => {
        try {
          const text = (await response.toArray()).join("");
          const json = (response.headers["content-type"] ?? "").startsWith("application/json");
          const document = json ? JSON.parse(text) : text;
          if (response.statusCode < 400) resolve(document);
          else reject(new RequestFailed(response.statusCode, document.message ?? text));
        } catch (error) {
          reject(error);
        }
      });
      sent.on("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  // Move the server's clock; resolves when what is due has happened.
  async advance(seconds) {
    await this.request("POST", "/debug/rewound/clock", { advance: seconds });
  }

  // Bring all objects back to the state in which the server started.
  async restore() {
    await this.request("POST", "/debug/rewound/snapshots/rewound-start/restore", {});
  }

  // Stop it; resolves to what `rewound dev` printed: the story, and where the journal is, of a test that failed.
  async stop({ failed = false } = {}) {
    const closed = once(this.#child, "close");
    this.#child.stdin.end(failed ? "failed\n" : "");
    await closed;
    return this.#printed.join("");
  }
}

// Start a server; flags are those of `rewound dev`.
export async function startRewound({ flags = [] } = {}) {
  const child = spawn("rewound", ["dev", ...flags, "--", "sh", "-c", WAIT]);
  const [printed, lines] = [[], []];
  child.stderr.setEncoding("utf8").on("data", (text) => printed.push(text));
  await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => reject(new Error(`rewound dev did not start a server: ${printed.join("")}`)));
    child.stdout.setEncoding("utf8").on("data", (text) => {
      lines.push(text);
      if (lines.join("").split("\n").length > 2) resolve();
    });
  });
  const found = lines.join("").split("\n");
  const read = (name) => readFile(path.join(path.dirname(found[0]), "pki", name));
  const [ca, cert, key] = await Promise.all(["ca.crt", "admin.crt", "admin.key"].map(read));
  return new Rewound(child, printed, found, { ca, cert, key });
}

// Run a function with a server. When it fails, the story is a diagnostic message of the test `t` of node:test.
export async function withRewound(t, run, options) {
  const server = await startRewound(options);
  let failed = true;
  try {
    await run(server);
    failed = false;
  } finally {
    const story = await server.stop({ failed });
    if (failed) t.diagnostic(story);
  }
}
