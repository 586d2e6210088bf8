// One object: its versions and what each changed, YAML, blame, and what it is linked to.

import { authorNumber, authorOf } from "./authors.js";
import { lines, visible } from "./diff.js";
import { differenceOf } from "./differences.js";
import { button, element, find, table } from "./dom.js";
import { download } from "./export.js";
import { SECOND, parseTime, readable, rfc3339 } from "./scale.js";
import { isMasked, masked } from "./secrets.js";
import { objectText, sentence, valueText, whoText } from "./summary.js";
import { suspectsOf } from "./suspects.js";

const PARTS = [["versions", "Versions"], ["yaml", "YAML"], ["blame", "Blame"], ["links", "Links"], ["suspects", "Suspects"]];
const PAGE = 100;                // versions
const AROUND = 30 * SECOND, LISTED = 50;   // what else the author did
const DEEPEST = 10, MOST_RELATED = 1000;

export class ObjectPane {
  #session;
  #actions;
  #target = null;
  #versions = [];
  #older = "";          // the token of the next page of versions
  #isPart = false;      // newer versions are not in the list
  #note = "";           // why another version is shown than the one that was asked for
  #part = "versions";
  #chosen = { left: "", right: "" };
  #withManaged = false;

  // `actions` has open(target), choose(left, right), jump(version), show(change), and cursor(), the present one or null.
  constructor(session, actions) {
    this.#session = session;
    this.#actions = actions;
  }

  // `part`: which of the parts to show; the same as before without it.
  async show(target, left = "", right = "", part = "") {
    const isOther = objectText(target ?? {}) !== objectText(this.#target ?? {});
    // A search of suspects is for the object that it was asked for.
    this.#part = part || (isOther && this.#part === "suspects" ? "versions" : this.#part);
    this.#target = target;
    this.#chosen = { left, right };
    this.#versions = [];
    this.#note = "";
    const pane = find("object");
    if (!target) {
      pane.replaceChildren(element("div", { class: "empty" },
        element("p", { text: "Choose a change in the list, a bar of the timeline, or an object of the state." })));
      return;
    }
    const tabs = PARTS.map(([part, text]) =>
      button(text, () => this.#choosePart(part), { "aria-pressed": String(part === this.#part), "data-part": part }));
    pane.replaceChildren(
      element("h2", { text: objectText(target) }),
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
    const target = this.#target, part = find("part"), name = this.#part;
    part.setAttribute("aria-busy", "true");
    if (!part.children.length) part.replaceChildren(element("p", { class: "hint", text: "Loading…" }));
    let shown;
    try {
      shown = await this[`_${name}`](target);
    } catch (error) {
      shown = [element("p", { class: "problem", text: error.message })];
    }
    if (this.#target !== target || find("part") !== part || this.#part !== name) return;  // something else was opened meanwhile
    if (this.#note) shown.unshift(element("p", { class: "hint", text: this.#note }));
    part.replaceChildren(...shown);
    part.setAttribute("aria-busy", "false");
    this.#showChosen();
  }

  // Versions and differences.

  async _versions(target) {
    await this.#loadVersions(target);
    if (this.#target !== target) return [];
    const list = element("div", { class: "versions" }), difference = element("div", { id: "difference" });
    this.#listVersions(target, list);
    this.#compare(target, difference);
    return [list, difference];
  }

  // The newest versions, or those up to the wanted one if it is older, and the one before it, with which it is compared.
  async #loadVersions(target) {
    if (this.#versions.length) return;
    const wanted = this.#wanted();
    let page = await this.#versionPage(target), at = positionOf(page.items, wanted), isPart = false;
    if (at < 0 && page.token) {
      const older = await this.#versionPage(target, { to: momentText(wanted) }).catch(orNothing);
      if (older) [page, at, isPart] = [older, 0, true];
    }
    if (at === page.items.length - 1 && page.token) {
      const next = await this.#versionPage(target, { continue: page.token });
      page = { items: [...page.items, ...next.items], token: next.token };
    }
    if (this.#target !== target) return;  // something else was opened meanwhile
    this.#versions = page.items;
    this.#older = page.token;
    this.#isPart = isPart;
    this.#note = at < 0 ? `The journal has no version of it at ${momentText(wanted)} or before: this is the newest one.` : "";
    const right = page.items[Math.max(0, at)]?.version ?? "";
    this.#chosen = { left: this.#chosen.left || (page.items[Math.max(0, at) + 1]?.version ?? ""), right };
  }

  // The version to show: the one that was chosen, or that at the cursor; null for the newest.
  #wanted() {
    return this.#chosen.right ? { version: this.#chosen.right, time: null } : this.#actions.cursor?.() ?? null;
  }

  async #loadOlder(target) {
    const page = await this.#versionPage(target, { continue: this.#older });
    if (this.#target !== target) return;
    this.#versions = [...this.#versions, ...page.items];
    this.#older = page.token;
  }

  // History says who wrote which versions, the timeline in which words.
  async #versionPage(target, more = {}) {
    const parameters = new URLSearchParams({ limit: String(PAGE), managedFields: "false", ...more });
    const { items, metadata } = await this.#session.past(target, "history", parameters);
    const said = await this.#summaries(target, items);
    const texts = items.map((one) => ({ ...one, type: target.type, change: changeOf(one), summary: said.get(one.version) ?? pathSummary(target.type, one) }));
    return { items: texts, token: metadata?.continue ?? "" };
  }

  // Nobody needs them to see the versions: users who may read a history need not be allowed to list.
  async #summaries({ type, namespace, name }, items) {
    if (!items.length || /^!|\*/.test(name)) return new Map();
    const parameters = new URLSearchParams({ type, name, summary: "true", limit: String(PAGE), from: items.at(-1).version, to: items[0].version });
    if (namespace) parameters.set("namespace", namespace);
    const found = await this.#session.events(parameters).catch(() => ({ items: [] }));
    return new Map(found.items.filter((one) => one.summary).map((one) => [one.version, one.summary]));
  }

  #listVersions(target, place) {
    const rows = this.#versions.map((one) => [
      button(one.version, () => this.#actions.jump(one.version), { class: "link", title: "Move the cursor here" }),
      timeOf(one), this.#said(one), author(one), this.#choice("left", one.version), this.#choice("right", one.version),
    ]);
    const top = place.querySelector(".scrolls")?.scrollTop ?? 0, list = table(["version", "time", "what changed", "by", "old", "new"], rows);
    place.replaceChildren(list);
    this.#versions.forEach((one, at) => { place.querySelector("tbody").rows[at].dataset.version = one.version; });
    list.scrollTop = top;
    if (this.#isPart) place.prepend(this.#loading("Newest versions", () => this.#showNewest(target)));
    if (!this.#older) return;
    place.append(this.#loading("Older versions", async () => {
      await this.#loadOlder(target);
      if (this.#target !== target) return;
      this.#listVersions(target, place);
      this.#markChosen();
    }));
  }

  // A button for work that may fail.
  #loading(text, work) {
    return button(text, async ({ target: pressed }) => {
      pressed.disabled = true;
      await work().catch((error) => pressed.replaceWith(element("p", { class: "problem", text: error.message })));
    });
  }

  async #showNewest(target) {
    const { items } = await this.#session.past(target, "history", new URLSearchParams({ limit: "1" }));
    if (this.#target !== target) return;
    this.#versions = [];
    this.#chosen = { left: "", right: items[0].version };
    await this.#load();
    this.#actions.choose(this.#chosen.left, this.#chosen.right);
  }

  // What a version changed; a click compares it with the one before.
  #said(version) {
    const { what, more } = sentence(version);
    const text = more ? `${what} and ${more} more` : what;
    return button(text, async () => {
      const target = this.#target, at = this.#versions.indexOf(version);
      // The version before the last one of the list is on the next page.
      if (at === this.#versions.length - 1 && this.#older) {
        const failed = await this.#loadOlder(target).catch((error) => error);
        const list = find("part")?.querySelector(".versions");
        if (this.#target !== target || !list) return;
        if (failed) {
          find("difference").replaceChildren(element("p", { class: "problem", text: failed.message }));
          return;
        }
        this.#listVersions(target, list);
      }
      this.#choose(this.#versions[at + 1]?.version ?? "", version.version);
    }, { class: "link said", title: "Compare with the version before" });
  }

  #choice(side, version) {
    const label = `${side === "left" ? "old" : "new"} side: version ${version}`;
    const input = element("input", { type: "radio", name: side, value: version, "aria-label": label });
    input.checked = this.#chosen[side] === version;
    input.addEventListener("change", () => {
      const { left, right } = { ...this.#chosen, [side]: version };
      this.#choose(left, right);
    });
    return input;
  }

  // The row of the chosen version is marked, and the list of versions scrolls to it.
  #showChosen() {
    const row = this.#markChosen(), list = row?.closest(".scrolls");
    if (!list) return;
    const top = row.offsetTop, head = row.closest("table").tHead.offsetHeight;
    if (top - head < list.scrollTop || top + row.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - head - row.offsetHeight;
  }

  #markChosen() {
    const rows = [...find("part").querySelectorAll("[data-version]")];
    for (const row of rows) row.toggleAttribute("aria-current", row.dataset.version === this.#chosen.right);
    return rows.find((one) => one.dataset.version === this.#chosen.right);
  }

  #choose(left, right) {
    this.#chosen = { left, right };
    this.#showChosen();
    for (const input of find("part").querySelectorAll("[type=radio]")) input.checked = this.#chosen[input.name] === input.value;
    this.#actions.choose(left, right);
    this.#compare(this.#target, find("difference"));
  }

  async #compare(target, place) {
    const { left, right } = this.#chosen;
    const found = await Promise.all([left, right].map((version) => this.#objectAt(target, version)));
    if (this.#chosen.left !== left || this.#chosen.right !== right) return;
    const titles = [left ? `${left} ${found[0].note}` : "nothing before", `${right} ${found[1].note}`];
    try {
      place.replaceChildren(differenceOf(target.type, found[0].object, found[1].object, titles));
    } catch (error) {  // nested deeper than a script can follow
      place.replaceChildren(element("p", { class: "problem", text: `The versions cannot be compared: ${error.message}` }));
    }
    place.dataset.shown = `${left}..${right}`;
  }

  async #objectAt(target, version) {
    if (!version) return { object: null, note: "" };
    try {
      const parameters = new URLSearchParams({ at: version });
      return { object: await this.#session.objects(target.type, target.namespace, target.name, { parameters }), note: "" };
    } catch (error) {
      return { object: null, note: error.status === 404 ? "(deleted)" : `(${error.message})` };
    }
  }

  // The version that is chosen, or the last before the object was deleted; empty if none is known.
  #existing() {
    const existing = this.#versions.filter((one) => !one.deleted);
    return existing[positionOf(existing, this.#wanted())]?.version ?? "";
  }

  // YAML.

  async _yaml(target) {
    await this.#loadVersions(target);
    const version = this.#existing(), existing = this.#versions.filter((one) => !one.deleted);
    if (!version) return [element("p", { class: "hint", text: "No version of it is in the journal any more." })];
    const choice = element("select", { "aria-label": "Version" },
      ...existing.map((one) => element("option", { value: one.version, text: `${one.version}, ${one.time.replace("T", " ").slice(0, 19)}`, selected: one.version === version })));
    const managed = element("input", { type: "checkbox" });
    managed.checked = this.#withManaged;
    const text = element("pre", { id: "yaml", tabindex: "0" }), said = element("output", { class: "hint" });
    const load = async () => {
      this.#withManaged = managed.checked;
      const shown = choice.value;
      const { object, note } = await this.#objectAt(target, shown);
      if (choice.value !== shown) return;
      const skip = managed.checked ? [] : ["metadata.managedFields"];
      text.textContent = object ? `${lines(masked(target.type, object), skip).join("\n")}\n` : note;
      text.dataset.version = shown;
    };
    choice.addEventListener("change", load);
    managed.addEventListener("change", load);
    await load();
    const save = () => download(new Blob([text.textContent], { type: "application/yaml" }), fileName(target, choice.value));
    return [
      element("div", { class: "tools" }, choice, element("label", { class: "inline" }, managed, "managedFields"),
        button("Copy", () => copy(text, said), { id: "copy" }), button("Download", save, { id: "download" }), said),
      target.type === "secrets" ? element("p", { class: "hint", text: "Values of Secrets are masked." }) : null,
      text,
    ].filter(Boolean);
  }

  // Blame.

  async _blame(target) {
    await this.#loadVersions(target).catch(() => null);  // who may not read the history may still read blame
    const at = this.#existing() || this.#moment();
    const found = await this.#session.past(target, "blame", at ? new URLSearchParams({ at }) : null);
    const rows = found.fields.map((one) => [
      element("code", { text: visible(one.field) }), isMasked(target.type, one.field) ? "***" : valueText(one.value), author(one),
      button(one.version, () => this.#actions.jump(one.version), { class: "link", title: "Move the cursor here" }),
      timeOf(one),
    ]);
    const shown = [element("div", { class: "blame" }, table(["field", "value", "by", "version", "time"], rows))];
    if (found.leftOut) shown.push(element("p", { class: "hint", text: `${found.leftOut.toLocaleString("en")} more fields are left out: their paths are too long.` }));
    return shown;
  }

  // What changed before it broke, as it was known at the cursor.

  async _suspects(target) {
    const at = this.#moment(), parameters = new URLSearchParams({ type: target.type, name: target.name });
    if (target.namespace) parameters.set("namespace", target.namespace);
    if (at) parameters.set("at", at);
    return suspectsOf(await this.#session.suspects(parameters), (change) => this.#actions.show(change));
  }

  // Links: owners above, dependents below, Events about it, and what else its author did.

  async _links(target) {
    const problem = await this.#loadVersions(target).then(() => null, (error) => error);  // the other parts need no history
    const at = this.#moment();
    const parts = [
      ["Owners and dependents", async () => this.#ownersAndDependents(target, await this.#lastObject(target, at))],
      ["Events about it", () => this.#about(target, at)],
      ["What its author did around that time", () => (problem ? Promise.reject(problem) : this.#authored())],
    ];
    const sections = parts.map(async ([title, work]) => {
      const content = await work().catch((error) => element("p", { class: "problem", text: error.message }));
      return element("section", {}, element("h3", { text: title }), content);
    });
    return Promise.all(sections);
  }

  // The version that is chosen, or the cursor; empty for the present, which is all that lies in the future too.
  #moment() {
    const wanted = this.#wanted();
    return wanted && (wanted.version || wanted.time < Date.now() * 1000) ? momentText(wanted) : "";
  }

  // As it was then; if it was deleted, as it was last; null if nothing is known.
  async #lastObject(target, at) {
    const parameters = at ? new URLSearchParams({ at }) : null;
    const found = await this.#session.objects(target.type, target.namespace, target.name, { parameters, metadata: true }).catch(orNothing);
    return found ?? (await this.#objectAt(target, this.#existing())).object;
  }

  async #ownersAndDependents(target, object) {
    if (!object) return element("p", { class: "hint", text: "It is not in the journal any more, so nobody knows its owners." });
    const related = await this.#related(target, object.metadata.uid);
    let top = element("li", {}, element("strong", { text: objectText(target) }), this.#dependents(object.metadata.uid, related));
    let owners = object.metadata.ownerReferences ?? [];
    for (let depth = 0; owners.length && depth < DEEPEST; depth++) {
      const owner = owners.find((one) => one.controller) ?? owners[0];
      const known = this.#session.typeOf(owner.apiVersion, owner.kind);
      const place = { type: known?.type ?? owner.kind, namespace: known?.namespaced === false ? "" : target.namespace, name: owner.name };
      top = element("li", {}, this.#link(place, known), element("ul", {}, top));
      const above = known ? await this.#lastMetadata(place) : null;
      owners = above?.uid === owner.uid ? above.ownerReferences ?? [] : [];
    }
    return element("ul", { class: "tree" }, top);
  }

  async #lastMetadata(place) {
    const at = this.#moment(), parameters = at ? new URLSearchParams({ at }) : null;
    const found = await this.#session.objects(place.type, place.namespace, place.name, { parameters, metadata: true }).catch(orNothing);
    return found?.metadata ?? null;
  }

  // Objects by the uid of their owner, also those that were deleted.
  async #related(target, uid) {
    const parameters = new URLSearchParams({ under: uid, limit: String(MOST_RELATED), from: rfc3339(0) });
    if (target.namespace) parameters.set("namespace", target.namespace);
    const found = await this.#session.lifelines(parameters);
    const byOwner = new Map();
    for (const one of found.items) if (one.owner) byOwner.set(one.owner, [...(byOwner.get(one.owner) ?? []), one]);
    return byOwner;
  }

  #dependents(uid, byOwner, depth = 0) {
    const list = element("ul"), items = depth < DEEPEST ? byOwner.get(uid) ?? [] : [];
    for (const one of items) {
      const gone = one.deleted ? element("small", { text: ` deleted ${readable(one.deleted, 2 * AROUND)}` }) : null;
      list.append(element("li", {}, this.#link(one, true), gone, this.#dependents(one.uid, byOwner, depth + 1)));
    }
    return list;
  }

  #link({ type, namespace, name }, known) {
    const text = objectText({ type, namespace, name });
    return known ? button(text, () => this.#actions.open({ type, namespace, name }), { class: "link" }) : element("span", { text });
  }

  // Those of that moment, which may have expired since, and those of today, which may have come later.
  async #about(target, at) {
    const kind = this.#session.kindOf(target.type);
    const lists = await Promise.all([...new Set([at, ""])].map((moment) => {
      const parameters = new URLSearchParams({ fieldSelector: `involvedObject.name=${target.name}`, limit: "200" });
      if (moment) parameters.set("at", moment);
      return this.#session.objects("events", target.namespace, "", { parameters });
    }));
    const found = new Map(lists.flatMap((list) => list.items).map((one) => [one.metadata.uid, one]));
    const rows = [...found.values()].filter((one) => one.involvedObject.kind === kind).map((one) => [
      one.lastTimestamp ?? one.eventTime ?? one.metadata.creationTimestamp, one.type,
      button(visible(one.reason ?? ""), () => this.#actions.open({ type: "events", namespace: one.metadata.namespace, name: one.metadata.name }), { class: "link" }),
      visible(one.message ?? ""), one.count,
    ]);
    if (!rows.length) return element("p", { class: "hint", text: "There were no Events about it." });
    return table(["time", "type", "reason", "message", "count"], rows);
  }

  async #authored() {
    const version = this.#versions.find((one) => one.version === this.#chosen.right) ?? this.#versions[0];
    if (!version || !whoText(version)) return element("p", { class: "hint", text: "The journal does not say who wrote it." });
    const time = parseTime(version.time);
    const parameters = new URLSearchParams({ from: rfc3339(time - AROUND), to: rfc3339(time + AROUND), summary: "true", limit: String(LISTED) });
    if (version.user) parameters.set("user", version.user);
    else parameters.set("manager", version.fieldManager);
    const found = await this.#session.events(parameters);
    const rows = found.items.map((one) => [
      button(rfc3339(one.micros).slice(11, 23), () => this.#actions.jump(one.version), { class: "link", title: "Move the cursor here" }),
      element("span", { class: "said", text: sentence(one).what }), this.#link(one, true), author(one),
    ]);
    const heading = `${whoText(version)}, 30 s before and after version ${version.version}${found.metadata.continue ? `: the last ${LISTED}` : ""}`;
    return element("div", { class: "authored" }, element("p", { class: "hint", text: heading }), table(["time", "what changed", "object", "by"], rows));
  }
}

// The first of these versions, newest first, that is not after a moment; -1 without one.
export function positionOf(versions, moment) {
  if (moment === null) return versions.length ? 0 : -1;
  return versions.findIndex((one) => (moment.version ? BigInt(one.version) <= BigInt(moment.version) : parseTime(one.time) <= moment.time));
}

const momentText = ({ version, time }) => version || rfc3339(time);

// Nothing that old is in the journal.
function orNothing(error) {
  if (error.status !== 404 && error.status !== 410) throw error;
  return null;
}

function author(event) {
  const who = whoText(event);
  return who ? element("span", { class: `author author-${authorNumber(authorOf(event))}`, text: who, title: who }) : "";
}

// Narrow screens have no room for the day.
function timeOf({ time }) {
  return element("time", { datetime: time, title: time }, element("span", { class: "day", text: `${time.slice(0, 10)} ` }), time.slice(11, 23));
}

const changeOf = (version) => (version.deleted ? "deleted" : version.patch?.[0]?.path === "" ? "created" : "updated");

// If the timeline has no words for a version: what its patch has, without the values before.
function pathSummary(type, version) {
  if (version.compacted) return { compacted: true };
  const operations = (version.patch ?? []).filter((one) => one.path !== "" && one.path !== "/metadata/generation");
  const changes = operations.slice(0, 3).map(({ op, path, value }) => {
    const field = path.slice(1).split("/").map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")).join(".");
    const shown = isMasked(type, field) ? "***" : value;
    return op === "remove" ? { field, old: "" } : op === "add" ? { field, new: shown } : { field, old: "…", new: shown };
  });
  return { changes, more: operations.length - changes.length };
}

function fileName({ type, namespace, name }, version) {
  return `${[type, namespace, name, version].filter(Boolean).join("-").replace(/[^\w.-]+/g, "_").slice(0, 200)}.yaml`;
}

// Browsers give pages the clipboard only on secure addresses; elsewhere the text is selected.
async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text.textContent);
    said.textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(text);
    said.textContent = "Selected: press Ctrl+C.";
  }
}
