// Authors of events and their colours, the same in the list of changes and in the timeline.

import { visible } from "./diff.js";

const COLORS = 16, OTHERS = COLORS;  // the last one is grey, for all authors for whom no colour is left
const STORED = "journal-authors";

const numbers = new Map(stored());  // {number, seen} by author, the same after the page is loaded again
let colors = [], load = 0;

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

// Before the authors of another range are shown: those that were not seen since may lose their colour to new ones.
export function beginAuthors() {
  load++;
}

// An author keeps its colour, and no two that are visible share one.
export function authorNumber(name) {
  const known = numbers.get(name);
  if (known) {
    known.seen = load;
    return known.number;
  }
  const number = freeNumber();
  if (number === OTHERS) return OTHERS;
  numbers.set(name, { number, seen: load });
  store();
  return number;
}

// One that nobody has, or that of the author who was seen longest ago, unless that one is visible.
function freeNumber() {
  const taken = new Set([...numbers.values()].map((one) => one.number));
  for (let number = 0; number < COLORS; number++) if (!taken.has(number)) return number;
  const [oldest, { number, seen }] = [...numbers].reduce((one, other) => (other[1].seen < one[1].seen ? other : one));
  if (seen === load) return OTHERS;
  numbers.delete(oldest);
  return number;
}

// For this tab, until its user signs out. A browser may refuse to store anything.
function stored() {
  try {
    const found = Object.entries(JSON.parse(sessionStorage.getItem(STORED) ?? "{}"));
    const taken = new Set();
    return found.filter(([, number]) => Number.isInteger(number) && number >= 0 && number < COLORS && !taken.has(number) && taken.add(number))
      .map(([name, number]) => [name, { number, seen: -1 }]);
  } catch {
    return [];
  }
}

function store() {
  try {
    sessionStorage.setItem(STORED, JSON.stringify(Object.fromEntries([...numbers].map(([name, { number }]) => [name, number]))));
  } catch {
    // They keep their colours until the page is closed.
  }
}

// A colour for a canvas; elements have the class `author-N`. Both come from the style sheet.
export function authorColor(name) {
  if (!colors.length) readColors();
  return colors[authorNumber(name)];
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  colors = Array.from({ length: COLORS + 1 }, (_, at) => style.getPropertyValue(`--author-${at}`).trim());
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colors = []; });
