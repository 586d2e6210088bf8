// What the page shows, in the fragment of its URL: a link to it shows the same. Never a token.

import { HOUR, parseTime, rfc3339 } from "./scale.js";

export const TEXTS = ["type", "namespace", "name", "verb", "user"];
const GROUPINGS = ["type", "namespace", "both"];
const SECRETS = ["token", "access_token", "id_token", "bearer", "authorization", "password"];
const MOST = 512;

export function initial(now) {
  return {
    view: { from: now - HOUR, to: now }, cursor: null, by: "type", live: false, object: null, left: "", right: "",
    ...Object.fromEntries(TEXTS.map((name) => [name, ""])),
  };
}

// `fragment` with or without its number sign. Whatever is not valid is ignored.
export function parse(fragment, now) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = initial(now);
  for (const name of TEXTS) state[name] = (given.get(name) ?? "").slice(0, MOST);
  const from = parseTime(given.get("from")), to = parseTime(given.get("to"));
  if (from !== null && to !== null && from < to) state.view = { from, to };
  if (GROUPINGS.includes(given.get("by"))) state.by = given.get("by");
  state.live = given.get("live") === "1";
  state.cursor = parseCursor(given.get("at"));
  state.object = parseObject(given.get("object"));
  state.left = versionOf(given.get("left"));
  state.right = versionOf(given.get("right"));
  return state;
}

export function format(state) {
  const given = new URLSearchParams();
  given.set("from", rfc3339(state.view.from));
  given.set("to", rfc3339(state.view.to));
  for (const name of TEXTS) if (state[name]) given.set(name, state[name]);
  if (state.by !== "type") given.set("by", state.by);
  if (state.live) given.set("live", "1");
  if (state.cursor) given.set("at", state.cursor.version || rfc3339(state.cursor.time));
  if (state.object) given.set("object", [state.object.type, state.object.namespace, state.object.name].join("/"));
  if (state.object && state.left) given.set("left", state.left);
  if (state.object && state.right) given.set("right", state.right);
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

// The parameters of requests for the timeline and its events.
export function query(state) {
  const given = new URLSearchParams();
  for (const name of ["type", "namespace"]) {
    for (const value of state[name].split(",").map((one) => one.trim()).filter(Boolean)) given.append(name, value);
  }
  for (const name of ["name", "verb", "user"]) if (state[name].trim()) given.set(name, state[name].trim());
  return given;
}

// Whether a URL has what must not be in one.
export function hasSecret(url) {
  const { search, hash } = new URL(url);
  return [search, hash.replace(/^#/, "?")].some((part) => {
    const names = [...new URLSearchParams(part).keys()].map((name) => name.toLowerCase());
    return names.some((name) => SECRETS.includes(name));
  });
}
