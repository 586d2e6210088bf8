// What existed at the cursor: how many objects of each kind, and which.

import { button, element, find } from "./dom.js";
import { rfc3339 } from "./scale.js";

const AT_ONCE = 4, LISTED = 200;

export class StatePane {
  #session;
  #open;
  #loading = null;
  #expanded = new Set();

  constructor(session, open) {
    this.#session = session;
    this.#open = open;
  }

  // `cursor` is a time or a version; null for the present.
  async show(cursor, namespaces) {
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    const pane = find("state");
    const at = cursor === null ? "" : cursor.version || rfc3339(cursor.time);
    const heading = at ? `At ${cursor.version ? `version ${cursor.version}` : at}` : "Now: set the cursor to see the past";
    const list = element("ul", { class: "kinds" });
    const types = [...this.#session.types.values()];
    const counts = new Map();
    pane.setAttribute("aria-busy", "true");
    const next = types.values();
    const problems = new Set();
    const work = async () => {
      for (const one of next) {
        try {
          counts.set(one.type, await this.#count(one, namespaces, at, signal));
        } catch (error) {
          if (signal.aborted) return;
          problems.add(error.message);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (signal.aborted) return;
    for (const one of types) {
      if (counts.get(one.type)) list.append(this.#kind(one, counts.get(one.type), namespaces, at));
    }
    const said = [...problems].slice(0, 3).map((text) => element("p", { class: "problem", text }));
    pane.replaceChildren(element("p", { class: "hint", text: heading }), ...said, list);
    pane.setAttribute("aria-busy", "false");
  }

  async #count(one, namespaces, at, signal) {
    let count = 0;
    for (const namespace of one.namespaced && namespaces.length ? namespaces : [""]) {
      const parameters = new URLSearchParams({ limit: "1" });
      if (at) parameters.set("at", at);
      const found = await this.#session.objects(one.type, namespace, "", { parameters, metadata: true, signal });
      count += found.items.length + (found.metadata.remainingItemCount ?? 0);
    }
    return count;
  }

  #kind(one, count, namespaces, at) {
    const rows = element("ul", { class: "names" });
    const details = element("details", {}, element("summary", { text: `${one.type} ${count}` }), rows);
    const load = async () => {
      rows.replaceChildren();
      for (const namespace of one.namespaced && namespaces.length ? namespaces : [""]) {
        await this.#list(one, namespace, at, rows, "").catch((error) => rows.append(element("li", { text: error.message })));
      }
    };
    details.addEventListener("toggle", () => {
      if (details.open) this.#expanded.add(one.type);
      else this.#expanded.delete(one.type);
      if (details.open) load();
    });
    if (this.#expanded.has(one.type)) details.open = true;
    return element("li", {}, details);
  }

  async #list(one, namespace, at, rows, token) {
    const parameters = new URLSearchParams({ limit: String(LISTED) });
    if (at) parameters.set("at", at);
    if (token) parameters.set("continue", token);
    const found = await this.#session.objects(one.type, namespace, "", { parameters, metadata: true });
    for (const { metadata } of found.items) {
      const target = { type: one.type, namespace: metadata.namespace ?? "", name: metadata.name };
      const text = metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name;
      rows.append(element("li", {}, button(text, () => this.#open(target), { class: "link" })));
    }
    if (found.metadata.continue) {
      const more = button("More", async () => {
        more.parentElement.remove();
        await this.#list(one, namespace, at, rows, found.metadata.continue);
      });
      rows.append(element("li", {}, more));
    }
  }
}
