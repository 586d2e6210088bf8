// Authors of events and their colours, the same in the list of changes and in the timeline.

import { visible } from "./diff.js";

const COLORS = 8, MOST = 10_000;

const numbers = new Map();
let colors = [];

// A user and a field manager: two controllers often share a user, and two people a tool.
export function authorOf(event) {
  return [event.user, event.fieldManager].filter(Boolean).join(" with ");
}

// Short names of the authors of some events, by author: the user, the tool where all have one user, both where neither
// alone tells two of them apart.
export function shortNames(events) {
  const authors = new Map(events.map((event) => [authorOf(event), event]));
  authors.delete("");
  const users = new Set([...authors.values()].map((event) => event.user));
  const short = ({ user, fieldManager }) => (users.size < 2 && fieldManager) || shortUser(user ?? "") || fieldManager || user;
  const names = [...authors.values()].map(short);
  return new Map([...authors].map(([author, event]) => {
    const name = short(event), alone = names.filter((one) => one === name).length < 2;
    return [author, visible(alone || !event.fieldManager ? name : `${name} with ${event.fieldManager}`)];
  }));
}

// system:serviceaccount:NAMESPACE:NAME is known by its name.
const shortUser = (user) => (user.startsWith("system:serviceaccount:") ? user.split(":").at(-1) : user.replace(/^system:/, ""));

// Authors of these events in the order in which they get colours: people and controllers of one's own before the
// components of the cluster, so that no two of them share one.
export function byImportance(events) {
  const isSystem = (user) => (user ?? "").startsWith("system:");
  return [...events].sort((one, other) => isSystem(one.user) - isSystem(other.user));
}

// Numbers are given in the order of appearance: as long as there are few authors, no two have one colour.
export function authorNumber(name) {
  if (!numbers.has(name)) {
    if (numbers.size >= MOST) numbers.clear();
    numbers.set(name, numbers.size % COLORS);
  }
  return numbers.get(name);
}

// A colour for a canvas; elements have the class `author-N`. Both come from the style sheet.
export function authorColor(name) {
  if (!colors.length) readColors();
  return colors[authorNumber(name)];
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  colors = Array.from({ length: COLORS }, (_, at) => style.getPropertyValue(`--author-${at}`).trim());
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colors = []; });
