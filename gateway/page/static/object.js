// One object: its versions side by side, blame, owners, and the Events about it.

import { button, element, find, managerText, table } from "./dom.js";
import { collapsed, lines, sideBySide } from "./diff.js";
import { isMasked, masked } from "./secrets.js";

const PARTS = [["versions", "Versions"], ["blame", "Blame"], ["owners", "Owners"], ["about", "Events about it"]];
const MOST_OWNED = 500, DEEPEST = 5;

export class ObjectPane {
  #session;
  #actions;
  #target = null;
  #versions = [];
  #part = "versions";
  #chosen = { left: "", right: "" };

  // `actions` has open(target), choose(left, right) and jump(version).
  constructor(session, actions) {
    this.#session = session;
    this.#actions = actions;
  }

  async show(target, left = "", right = "") {
    this.#target = target;
    this.#chosen = { left, right };
    const pane = find("object");
    if (!target) {
      pane.replaceChildren(element("p", { class: "hint", text: "Choose an event or an object." }));
      return;
    }
    const where = target.namespace ? `${target.namespace}/${target.name}` : target.name;
    const tabs = PARTS.map(([part, text]) =>
      button(text, () => this.#choosePart(part), { "aria-pressed": String(part === this.#part), "data-part": part }));
    pane.replaceChildren(
      element("h2", { text: `${target.type} ${where}` }),
      element("div", { class: "parts", role: "group", "aria-label": "What to show" }, ...tabs),
      element("div", { id: "part", "aria-live": "polite" }),
    );
    await this.#load();
  }

  #choosePart(part) {
    this.#part = part;
    for (const one of find("object").querySelectorAll("[data-part]")) {
      one.setAttribute("aria-pressed", String(one.dataset.part === part));
    }
    return this.#load();
  }

  async #load() {
    const target = this.#target, part = find("part");
    part.setAttribute("aria-busy", "true");
    let shown;
    try {
      shown = await this[`_${this.#part}`](target);
    } catch (error) {
      shown = [element("p", { class: "problem", text: error.message })];
    }
    if (this.#target !== target || find("part") !== part) return;  // another object was opened meanwhile
    part.replaceChildren(...shown);
    part.setAttribute("aria-busy", "false");
  }

  // Versions and differences.

  async _versions(target) {
    const page = await this.#session.past(target, "history", new URLSearchParams({ limit: "100", managedFields: "false" }));
    this.#versions = page.items;
    const known = this.#versions.map((one) => one.version);
    const at = Math.max(0, known.indexOf(this.#chosen.right));
    const right = known[at], left = known.includes(this.#chosen.left) ? this.#chosen.left : known[at + 1] ?? "";
    this.#chosen = { left, right };
    const rows = this.#versions.map((one) => [
      this.#choice("left", one.version), this.#choice("right", one.version),
      button(one.version, () => this.#actions.jump(one.version), { class: "link", title: "Move the cursor here" }),
      one.time.replace("T", " ").slice(0, 23), one.verb, one.user, managerText(one), summary(one),
    ]);
    const difference = element("div", { id: "difference" });
    this.#compare(target, difference);
    const versions = table(["old", "new", "version", "time", "verb", "user", "manager", "changes"], rows);
    return [element("div", { class: "versions" }, versions), difference];
  }

  #choice(side, version) {
    const label = `${side === "left" ? "old" : "new"} side: version ${version}`;
    const input = element("input", { type: "radio", name: side, value: version, "aria-label": label });
    input.checked = this.#chosen[side] === version;
    input.addEventListener("change", () => {
      this.#chosen[side] = version;
      this.#actions.choose(this.#chosen.left, this.#chosen.right);
      this.#compare(this.#target, find("difference"));
    });
    return input;
  }

  async #compare(target, place) {
    const { left, right } = this.#chosen;
    const texts = await Promise.all([left, right].map((version) => this.#text(target, version)));
    if (this.#chosen.left !== left || this.#chosen.right !== right) return;
    const rows = collapsed(sideBySide(...texts.map((one) => one.lines)));
    const body = element("tbody");
    for (const row of rows) body.append(...comparedRows(row));
    const head = element("tr", {},
      element("th", { scope: "col", text: left ? `${left} ${texts[0].note}` : "nothing before" }),
      element("th", { scope: "col", text: `${right} ${texts[1].note}` }));
    const compared = element("table", { class: "compared" }, element("thead", {}, head), body);
    place.replaceChildren(element("div", { class: "scrolls", tabindex: "0" }, compared));
    place.dataset.shown = `${left}..${right}`;
  }

  async #text(target, version) {
    if (!version) return { lines: [], note: "" };
    try {
      const found = await this.#session.objects(target.type, target.namespace, target.name, { parameters: new URLSearchParams({ at: version }) });
      return { lines: lines(masked(target.type, found)), note: "" };
    } catch (error) {
      return { lines: [], note: error.status === 404 ? "(deleted)" : `(${error.message})` };
    }
  }

  // Blame.

  async _blame(target) {
    const found = await this.#session.past(target, "blame");
    const rows = found.fields.map((one) => [
      one.field, isMasked(target.type, one.field) ? "***" : JSON.stringify(one.value), one.user, managerText(one),
      button(one.version, () => this.#actions.jump(one.version), { class: "link" }), one.time.replace("T", " ").slice(0, 19),
    ]);
    return [table(["field", "value", "user", "manager", "version", "time"], rows)];
  }

  // Owners: up along ownerReferences, down among the objects of the namespace.

  async _owners(target) {
    const list = element("ul", { class: "tree" });
    const metadata = await this.#metadata(target);
    if (!metadata) return [element("p", { class: "hint", text: "The object does not exist any more." })];
    const branch = element("li", {}, element("strong", { text: label(target) }), await this.#owned(target, metadata, 0));
    let top = branch, owners = metadata.ownerReferences ?? [];
    for (let depth = 0; owners.length && depth < DEEPEST; depth++) {
      const owner = owners.find((one) => one.controller) ?? owners[0];
      const one = this.#session.typeOf(owner.apiVersion, owner.kind);
      const place = { type: one?.type ?? owner.kind, namespace: one?.namespaced === false ? "" : target.namespace, name: owner.name };
      top = element("li", {}, this.#link(place, one), element("ul", {}, top));
      owners = one ? (await this.#metadata(place))?.ownerReferences ?? [] : [];
    }
    list.append(top);
    return [list];
  }

  #link(target, known) {
    return known ? button(label(target), () => this.#actions.open(target), { class: "link" }) : element("span", { text: label(target) });
  }

  async #metadata(target) {
    try {
      return (await this.#session.objects(target.type, target.namespace, target.name, { metadata: true })).metadata;
    } catch {
      return null;
    }
  }

  async #owned(target, metadata, depth) {
    const list = element("ul");
    if (depth >= DEEPEST) return list;
    const parameters = new URLSearchParams({ limit: String(MOST_OWNED) });
    const lists = [...this.#session.types.values()].filter((one) => one.namespaced || !target.namespace).map(async (one) => {
      const found = await this.#session.objects(one.type, target.namespace, "", { parameters, metadata: true }).catch(() => ({ items: [] }));
      return found.items.filter((item) => item.metadata.ownerReferences?.some((owner) => owner.uid === metadata.uid))
        .map((item) => [one, item.metadata]);
    });
    for (const [one, child] of (await Promise.all(lists)).flat()) {
      const place = { type: one.type, namespace: child.namespace ?? "", name: child.name };
      list.append(element("li", {}, this.#link(place, one), await this.#owned(place, child, depth + 1)));
    }
    return list;
  }

  // Events about the object.

  async _about(target) {
    const parameters = new URLSearchParams({ fieldSelector: `involvedObject.name=${target.name}`, limit: "200" });
    const found = await this.#session.objects("events", target.namespace, "", { parameters });
    const kind = this.#session.types.get(target.type)?.kind;
    const rows = found.items.filter((one) => one.involvedObject.kind === kind)
      .map((one) => [one.lastTimestamp ?? one.eventTime ?? one.metadata.creationTimestamp, one.type, one.reason, one.message, one.count]);
    if (!rows.length) return [element("p", { class: "hint", text: "There are no Events about it." })];
    return [table(["time", "type", "reason", "message", "count"], rows)];
  }
}

const label = ({ type, namespace, name }) => `${type} ${namespace ? `${namespace}/` : ""}${name}`;

function summary(version) {
  if (version.deleted) return "deleted";
  if (version.compacted) return "the version before is no longer in the journal";
  const paths = version.patch.map((one) => `${{ add: "+", remove: "−" }[one.op] ?? "~"} ${one.path || "the object"}`);
  return paths.length > 3 ? `${paths.slice(0, 3).join("  ")}  and ${paths.length - 3} more` : paths.join("  ");
}

function comparedRows(row) {
  if (row.kind !== "gap") {
    const cell = (text) => element("td", { text: text ?? "", class: text === null ? "none" : null });
    return [element("tr", { class: row.kind }, cell(row.left), cell(row.right))];
  }
  const made = element("tr", { class: "gap" });
  const expand = button(`${row.count} lines without a change`, () => made.replaceWith(...row.rows.flatMap(comparedRows)), { class: "link" });
  made.append(element("td", { colspan: "2" }, expand));
  return [made];
}

