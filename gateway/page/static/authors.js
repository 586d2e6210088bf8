// Authors of events and their colours, the same in the list of changes and in the timeline.

const COLORS = 8, MOST = 10_000;

const numbers = new Map();
let colors = [];

// A user and a field manager: two controllers often share a user, and two people a tool.
export function authorOf(event) {
  return [event.user, event.fieldManager].filter(Boolean).join(" with ");
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
