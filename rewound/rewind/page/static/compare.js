// Two moments compared: which objects were added, removed and changed, by kind, and how each differs.

import { visible } from "./diff.js";
import { differenceOf } from "./differences.js";
import { button, element, find } from "./dom.js";
import { indexingText, skeleton } from "./changes.js";
import { SECOND, duration, readable, rfc3339 } from "./scale.js";
import { objectText, sentence } from "./summary.js";

const PAGE = 200, FEW = 10;
const SIGNS = { added: "+", removed: "−", changed: "~" };
const CHANGES = { added: "created", removed: "deleted", changed: "updated" };  // as events have them

export class ComparePane {
  #session;
  #actions;
  #loading = null;
  #query = null;

  // `actions` has open(target, left, right), compare(), which sets the second moment, and clear(), which clears the filter.
  constructor(session, actions) {
    this.#session = session;
    this.#actions = actions;
  }

  // `first` is a cursor or null, `second` a time or null; `query` the parameters of the filter; `newest` the newest event.
  async show(first, second, query = new URLSearchParams(), newest = null) {
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    const pane = find("comparison");
    pane.removeAttribute("data-shown");
    if (second === null || !first) {
      pane.replaceChildren(this.#invitation(first));
      pane.setAttribute("aria-busy", "false");
      return;
    }
    const moments = inOrder(first, second, newest);
    this.#query = new URLSearchParams(query);
    for (const [name, moment] of Object.entries(moments)) this.#query.set(name, moment.version || rfc3339(moment.time));
    this.#query.set("limit", String(PAGE));
    pane.setAttribute("aria-busy", "true");
    if (!pane.querySelector("details")) {
      const rows = skeleton(5);
      rows.hidden = false;
      pane.replaceChildren(rows);
    }
    let shown;
    try {
      shown = this.#comparison(await this.#session.comparison(this.#query, signal), `${query}` !== "");
    } catch (error) {
      if (signal.aborted) return;
      shown = [element("p", { class: "problem", text: error.message })];
    }
    if (signal.aborted) return;
    pane.replaceChildren(...shown);
    pane.setAttribute("aria-busy", "false");
    pane.dataset.shown = `${this.#query.get("from")}..${this.#query.get("to")}`;
  }

  #invitation(first) {
    const text = first ? "Press Compare, or Shift-click the timeline, to set the second moment."
      : "Click the timeline to set the first moment, then press Compare, or Shift-click, to set the second one.";
    return element("div", { class: "empty" }, element("p", { text }), first ? button("Compare", () => this.#actions.compare()) : null);
  }

  #comparison(found, filtered) {
    const { from, to, counts } = found;
    // Without a kind that the caller may list there are no versions either.
    if (!from || !to) return [element("div", { class: "empty" }, element("p", { text: "You may not list anything in all namespaces: name one in the filter." }))];
    const later = from.time && to.time ? element("small", { text: ` ${duration(to.time - from.time)} later` }) : null;
    const heading = element("p", { class: "moments" }, moment(from), " → ", moment(to), later);
    const text = partText(found), note = text ? element("p", { class: "hint", role: "status", text }) : "";
    if (!found.items.length) return [heading, note, this.#nothing(filtered)];
    const total = element("p", { class: "counts" }, ...Object.keys(SIGNS).map((change) =>
      element("span", { class: `count ${CHANGES[change]}`, text: `${counts[change].toLocaleString("en")} ${change}` })));
    const groups = element("div", { class: "kinds" }), rest = element("div");
    this.#add(groups, rest, found);
    // Long lists of new objects are folded.
    for (const group of groups.children) group.open = "changed" in group.dataset || group.querySelector("ul").children.length <= FEW;
    return [heading, note, total, groups, rest];
  }

  #nothing(filtered) {
    const text = filtered ? "No object that matches the filter differs between these moments." : "No object differs between these moments.";
    return element("div", { class: "empty" }, element("p", { text }), filtered ? button("Clear the filter", () => this.#actions.clear()) : null);
  }

  // A page of objects; those of kinds that have a group already join it.
  #add(groups, rest, { items, metadata }) {
    for (const item of items) this.#group(groups, item).append(this.#item(item));
    // Kinds with objects that changed come first: these are what one looks for.
    groups.append(...[...groups.children].sort((one, other) => Number("changed" in other.dataset) - Number("changed" in one.dataset)));
    for (const group of groups.children) {
      group.querySelector("small").textContent = ` ${group.querySelector("ul").children.length}`;
    }
    rest.replaceChildren();
    if (!metadata.continue) return;
    const more = button("More", async () => {
      more.disabled = true;
      const { signal } = this.#loading, query = new URLSearchParams(this.#query);
      query.set("continue", metadata.continue);
      try {
        const page = await this.#session.comparison(query, signal);
        this.#add(groups, rest, page);
      } catch (error) {
        if (!signal.aborted) more.replaceWith(element("p", { class: "problem", text: error.message }));
      }
    });
    rest.append(more);
  }

  #group(groups, { type, change }) {
    let group = [...groups.children].find((one) => one.dataset.type === type);
    if (!group) {
      group = element("details", { "data-type": type, open: true },
        element("summary", {}, type, element("small")), element("ul", { class: "compared-objects" }));
      groups.append(group);
    }
    if (change === "changed") group.dataset.changed = "";
    return group.querySelector("ul");
  }

  #item(item) {
    const { what, more } = sentence({ change: CHANGES[item.change], summary: item.summary ?? {} });
    const name = item.namespace ? `${item.namespace}/${item.name}` : item.name;
    const place = element("div", { class: "unfolded" });
    const details = element("details", {},
      element("summary", { title: objectText(item) },
        element("span", { class: `sign ${CHANGES[item.change]}`, text: SIGNS[item.change], title: item.change }), " ",
        element("span", { class: "what", text: visible(name) }), " ",
        element("span", { class: "said", text: more ? `${what} and ${more} more` : what })),
      place);
    details.addEventListener("toggle", () => {
      if (details.open && !place.children.length) this.#unfold(item, place);
    });
    return element("li", { "data-change": item.change }, details);
  }

  async #unfold(item, place) {
    place.replaceChildren(element("p", { class: "hint", text: "Loading…" }));
    try {
      const [left, right] = await Promise.all([item.from, item.to].map((version) => this.#objectAt(item, version)));
      const titles = [item.from ? `version ${item.from}` : "did not exist", item.to ? `version ${item.to}` : "does not exist any more"];
      const open = () => this.#actions.open({ type: item.type, namespace: item.namespace, name: item.name }, item.from ?? "", item.to ?? "");
      place.replaceChildren(button("Open the object", open, { class: "link" }), differenceOf(item.type, left, right, titles));
    } catch (error) {
      place.replaceChildren(element("p", { class: "problem", text: error.message }));
    }
  }

  #objectAt({ type, namespace, name }, version) {
    if (!version) return null;
    return this.#session.objects(type, namespace, name, { parameters: new URLSearchParams({ at: version }) });
  }
}

// The earlier one first, whichever cursor it is. After the newest event, everything is as that left it.
export function inOrder(first, second, newest) {
  const [one, other] = [first, { time: second, version: "" }].map((moment) => (newest && moment.time > newest.time ? newest : moment));
  return one.time !== null && one.time > other.time ? { from: other, to: one } : { from: one, to: other };
}

// Why objects may be missing, and what to do; empty if none is.
export function partText({ leftOut = 0, searchedFrom = "", indexed = null }) {
  const notes = [indexingText(indexed)];
  if (leftOut) notes.push(`The names of ${leftOut.toLocaleString("en")} objects were not read: choose a kind, or moments closer to each other.`);
  if (searchedFrom) notes.push(`Only the events from version ${searchedFrom} on were searched: choose moments closer to each other.`);
  return notes.filter(Boolean).join(" ");
}

// The time of a version that retention has removed is not known.
const moment = ({ version, time }) => element("span", { text: time ? `${readable(time, 2 * SECOND)} ` : `version ${version}`, title: `version ${version}` });
