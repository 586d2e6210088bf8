// What existed at the cursor: a table for each kind, with the columns and the words that `kubectl get` had then.
//
// A list at a moment of the past costs the server some work, so the pane asks only for the kinds that the timeline shows,
// and for others when somebody unfolds them.

import { visible } from "./diff.js";
import { button, debounced, element, find } from "./dom.js";
import { readable, rfc3339 } from "./scale.js";
import { valueText } from "./summary.js";

const AT_ONCE = 4;             // requests
const OPEN = 5, FEW = 10;      // kinds that are unfolded at first, and rows of each
const PAGE = 200;

export class StatePane {
  #session;
  #open;
  #loading = null;
  #folded = new Map();         // by type, if somebody chose
  #othersOpen = false;
  #shown = { at: "", namespaces: [], types: [] };
  #search; #heading; #note; #body;

  // `open(target)` opens an object.
  constructor(session, open) {
    this.#session = session;
    this.#open = open;
    this.#search = element("input", { type: "search", id: "state-search", placeholder: "name, status, …", spellcheck: "false", "aria-label": "Search in the state" });
    this.#search.addEventListener("input", debounced(() => this.#filter(), 100));
    this.#heading = element("p", { class: "hint" });
    this.#note = element("p", { class: "hint", role: "status" });
    this.#body = element("div", { class: "kinds" });
    find("state").replaceChildren(element("div", { class: "tools" }, this.#heading, this.#search), this.#note, this.#body);
  }

  // `cursor` is a time or a version; null for the present. `active`: the types in the timeline, the busiest first; null for all.
  async show(cursor, namespaces, active = null) {
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    const at = cursor === null ? "" : cursor.version || rfc3339(cursor.time);
    const all = [...this.#session.types.keys()].sort();
    const types = (active ?? all).filter((type) => this.#session.types.has(type));
    this.#shown = { at, namespaces, types };
    this.#heading.textContent = heading(cursor);
    find("state").setAttribute("aria-busy", "true");
    const kinds = await this.#kinds(types, signal);
    if (signal.aborted) return;
    const others = all.filter((type) => !types.includes(type));
    const made = kinds.filter(Boolean);
    if (!made.length) made.push(this.#emptyState(types));
    this.#body.replaceChildren(...made, ...(others.length ? [this.#others(others)] : []));
    this.#filter();
    find("state").setAttribute("aria-busy", "false");
  }

  #emptyState(types) {
    const text = !this.#session.types.size ? "You may not list anything in all namespaces: name one in the filter."
      : types.length ? "No object of the kinds in the timeline existed at this moment." : "No kind is in the timeline: choose a longer range, or unfold the others.";
    return element("div", { class: "empty" }, element("p", { text }));
  }

  // An element for each type, null for those of which there was nothing.
  async #kinds(types, signal) {
    const found = new Array(types.length).fill(null), next = types.entries();
    const work = async () => {
      for (const [at, type] of next) {
        if (signal.aborted) return;
        const open = this.#folded.get(type) ?? (at < OPEN && types === this.#shown.types);
        found[at] = await this.#kind(type, open, signal).catch((error) => element("p", { class: "problem", text: `${type}: ${error.message}` }));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return found;
  }

  async #kind(type, open, signal) {
    const pages = await Promise.all(this.#places(type).map((namespace) => this.#page(type, namespace, open ? FEW : 1, "", signal)));
    const count = pages.reduce((sum, page) => sum + countOf(page), 0);
    if (!count) return null;
    const content = element("div");
    const details = element("details", { "data-type": type, open }, element("summary", { text: `${type} ${count.toLocaleString("en")}` }), content);
    if (open) this.#fill(content, type, pages);
    let wasOpen = open;
    details.addEventListener("toggle", async () => {
      // Browsers report the first state too, which nobody chose.
      if (details.open === wasOpen) return;
      wasOpen = details.open;
      this.#folded.set(type, details.open);
      if (!details.open || content.children.length) return;
      content.append(element("p", { class: "hint", text: "Loading…" }));
      try {
        this.#fill(content, type, await Promise.all(this.#places(type).map((namespace) => this.#page(type, namespace, PAGE, ""))));
        this.#filter();
      } catch (error) {
        content.replaceChildren(element("p", { class: "problem", text: error.message }));
      }
    });
    return details;
  }

  // Namespaces to ask for; an empty one means all.
  #places(type) {
    const { namespaces } = this.#shown;
    return this.#session.types.get(type).namespaced && namespaces.length ? namespaces : [""];
  }

  async #page(type, namespace, limit, token, signal = null) {
    const parameters = new URLSearchParams({ limit: String(limit) });
    if (this.#shown.at) parameters.set("at", this.#shown.at);
    if (token) parameters.set("continue", token);
    return { ...(await this.#session.objects(type, namespace, "", { parameters, table: true, signal })), namespace };
  }

  #fill(content, type, pages) {
    const columns = pages[0].columnDefinitions.map((one, at) => ({ ...one, at })).filter((one) => !one.priority);
    const isNamespaced = this.#session.types.get(type).namespaced;
    // Some kinds, such as Events, have no column for the name.
    if (!columns.some(isName)) columns.unshift({ name: "Name", format: "name", at: -1 });
    const titles = [...(isNamespaced ? ["Namespace"] : []), ...columns.map((one) => one.name)];
    const body = element("tbody");
    const head = element("tr", {}, ...titles.map((text) => element("th", { scope: "col", text })));
    content.replaceChildren(element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": type },
      element("table", {}, element("thead", {}, head), body)));
    for (const page of pages) this.#add(content, body, type, columns, isNamespaced, page);
  }

  #add(content, body, type, columns, isNamespaced, page) {
    for (const row of page.rows) body.append(this.#row(type, columns, isNamespaced, row));
    if (!page.metadata.continue) return;
    const left = page.metadata.remainingItemCount;
    const more = button(left ? `${left.toLocaleString("en")} more` : "More", async () => {
      more.disabled = true;
      try {
        const next = await this.#page(type, page.namespace, PAGE, page.metadata.continue);
        more.remove();
        this.#add(content, body, type, columns, isNamespaced, next);
        this.#filter();
      } catch (error) {
        more.replaceWith(element("p", { class: "problem", text: error.message }));
      }
    }, { class: "more" });
    content.append(more);
  }

  #row(type, columns, isNamespaced, { cells, object }) {
    const { namespace = "", name } = object.metadata;
    const made = element("tr");
    if (isNamespaced) made.append(element("td", { text: visible(namespace) }));
    for (const column of columns) {
      const text = cells[column.at] === null || cells[column.at] === undefined ? "" : valueText(cells[column.at]);
      made.append(isName(column) ? element("td", {}, button(visible(name), () => this.#open({ type, namespace, name }), { class: "link" })) : element("td", { text }));
    }
    return made;
  }

  // The other kinds: nobody asks the server for them before somebody wants to see them.
  #others(types) {
    const content = element("div");
    const details = element("details", { class: "others", open: this.#othersOpen },
      element("summary", { text: `Kinds without a change in the timeline (${types.length})` }), content);
    const load = async () => {
      const { signal } = this.#loading;
      content.replaceChildren(element("p", { class: "hint", text: "Loading…" }));
      const kinds = (await this.#kinds(types, signal)).filter(Boolean);
      if (signal.aborted) return;
      content.replaceChildren(...(kinds.length ? kinds : [element("p", { class: "hint", text: "There was no object of any other kind." })]));
      this.#filter();
    };
    details.addEventListener("toggle", () => {
      this.#othersOpen = details.open;
      if (details.open && !content.children.length) load();
    });
    return details;
  }

  // Rows that have the text in one of their cells, or all rows of a kind that has it in its name.
  #filter() {
    const sought = this.#search.value.trim().toLowerCase();
    let unread = 0;
    for (const details of this.#body.querySelectorAll("details[data-type]")) {
      const rows = [...details.querySelectorAll("tbody tr")], isNamed = details.dataset.type.includes(sought);
      for (const row of rows) row.hidden = !isNamed && !row.textContent.toLowerCase().includes(sought);
      if (!isNamed && (!rows.length || details.querySelector(".more"))) unread++;
      details.hidden = !isNamed && rows.every((row) => row.hidden);
    }
    this.#note.textContent = unread ? `Not searched: what is not loaded yet, of ${unread} kind${unread > 1 ? "s" : ""}.` : "";
  }
}

const isName = (column) => column.format === "name" || column.name === "Name";
const countOf = (page) => page.rows.length + (page.metadata.remainingItemCount ?? 0);

function heading(cursor) {
  if (cursor === null) return "Now: set the cursor to see the past";
  return cursor.version ? `At version ${cursor.version}${cursor.time ? `, ${readable(cursor.time)} UTC` : ""}` : `At ${readable(cursor.time)} UTC`;
}
