// What the page shows, in the fragment of its URL: a link to it shows the same. Never a token.

import { HOUR, parseTime, rfc3339 } from "./scale.js";

export const TEXTS = ["q", "type", "namespace", "name", "verb", "user"];
const GROUPINGS = ["type", "namespace"];
export const TABS = ["object", "state", "comparison"];
const NOISE = ["leases", "events"];  // plurals
const SECRETS = ["token", "access_token", "id_token", "bearer", "authorization", "password"];
const MOST = 512;

// `noise`: whether it is shown if the address does not say so.
export function initial(now, noise = false) {
  return {
    view: { from: now - HOUR, to: now }, cursor: null, second: null, by: "type", live: false, noise,
    object: null, left: "", right: "", tab: "",
    ...Object.fromEntries(TEXTS.map((name) => [name, ""])),
  };
}

// `fragment` with or without its number sign. Whatever is not valid is ignored.
export function parse(fragment, now, noise = false) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = initial(now, noise);
  for (const name of TEXTS) state[name] = (given.get(name) ?? "").slice(0, MOST);
  const from = parseTime(given.get("from")), to = parseTime(given.get("to"));
  if (from !== null && to !== null && from < to) state.view = { from, to };
  if (GROUPINGS.includes(given.get("by"))) state.by = given.get("by");
  state.live = given.get("live") === "1";
  if (["0", "1"].includes(given.get("noise"))) state.noise = given.get("noise") === "1";
  state.cursor = parseCursor(given.get("at"));
  state.second = parseTime(given.get("second"));
  state.object = parseObject(given.get("object"));
  state.left = versionOf(given.get("left"));
  state.right = versionOf(given.get("right"));
  if (TABS.includes(given.get("tab"))) state.tab = given.get("tab");
  return state;
}

export function format(state) {
  const given = new URLSearchParams();
  given.set("from", rfc3339(state.view.from));
  given.set("to", rfc3339(state.view.to));
  for (const name of TEXTS) if (state[name]) given.set(name, state[name]);
  if (state.by !== "type") given.set("by", state.by);
  if (state.live) given.set("live", "1");
  given.set("noise", state.noise ? "1" : "0");
  if (state.cursor) given.set("at", state.cursor.version || rfc3339(state.cursor.time));
  if (state.second !== null) given.set("second", rfc3339(state.second));
  if (state.object) given.set("object", [state.object.type, state.object.namespace, state.object.name].join("/"));
  if (state.object && state.left) given.set("left", state.left);
  if (state.object && state.right) given.set("right", state.right);
  if (state.tab) given.set("tab", state.tab);
  return `#${given}`;
}

// A cursor is a time, or the version of an event, whose time is found later.
function parseCursor(text) {
  const version = versionOf(text);
  if (version) return { time: null, version };
  const time = parseTime(text);
  return time === null ? null : { time, version: "" };
}

const versionOf = (text) => (/^\d{1,20}$/.test(text ?? "") ? text : "");

function parseObject(text) {
  const parts = (text ?? "").split("/");
  if (parts.length !== 3 || !parts[0] || !parts[2]) return null;
  return { type: parts[0], namespace: parts[1], name: parts[2] };
}

// The parameters of requests for the timeline and its events. A value that begins with ! excludes. `types` are those
// that the user sees, by name: only what is there can be left out. Without an index, updates of status are not known.
export function query(state, types = new Map(), hasIndex = true) {
  const given = new URLSearchParams();
  for (const name of ["type", "namespace", "name", "user"]) {
    for (const value of state[name].split(",").map((one) => one.trim()).filter(Boolean)) given.append(name, value);
  }
  for (const name of ["q", "verb"]) if (state[name].trim()) given.set(name, state[name].trim());
  if (!state.noise) {
    const wanted = given.getAll("type").filter((one) => !one.startsWith("!"));
    for (const one of types.values()) {
      if (NOISE.includes(one.resource) && !wanted.length) given.append("type", `!${one.type}`);
    }
    if (hasIndex) given.set("status", "false");
  }
  return given;
}

export const isFiltered = (state) => TEXTS.some((name) => state[name]);

// Whether a URL has what must not be in one.
export function hasSecret(url) {
  const { search, hash } = new URL(url);
  return [search, hash.replace(/^#/, "?")].some((part) => {
    const names = [...new URLSearchParams(part).keys()].map((name) => name.toLowerCase());
    return names.some((name) => SECRETS.includes(name));
  });
}
