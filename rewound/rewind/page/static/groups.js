// The rows of the picture: counts of each kind, or of each namespace, with the objects below them.

import { countIn } from "./scale.js";

export const UNCHANGED = "…";  // the key of a group, which no kind and no namespace has

// The busiest first. `items` are objects with their dependents below them; a kind all of whose objects are below others
// has those of `flat`, by key, or null until somebody asks for them. `isComplete`: the server has sent all objects.
export function grouped(data, view, by, items, isComplete, flat) {
  const keyOf = (one) => (by === "namespace" ? one.namespace : one.type);
  const trees = new Map(), shown = new Map();  // by key: items, and how many objects of it are among all
  let key = "";
  for (const item of items) {
    if (item.depth === 0) key = keyOf(item);
    shown.set(keyOf(item), (shown.get(keyOf(item)) ?? 0) + 1);
    if (!trees.has(key)) trees.set(key, []);
    trees.get(key).push(item);
  }
  const made = data.rows.map((row) => {
    const of = keyOf(row), own = trees.get(of) ?? flat.get(of)?.items ?? (by === "namespace" ? [] : null);
    // Without a filter, the server says how many objects there are.
    const more = trees.has(of) ? !isComplete && (row.objects === undefined || shown.get(of) < row.objects) : Boolean(flat.get(of)?.token);
    return { key: of, label: labelOf(of, by, data.rows), row, total: countIn(row, data, view), items: own, more, isFlat: !trees.has(of) };
  });
  made.sort((one, other) => other.total - one.total);
  // What exists without a change is one row: it is often all that a server creates for itself.
  const changed = new Set(made.map((group) => group.key)), unchanged = [...trees].filter(([of]) => !changed.has(of)).flatMap(([, own]) => own);
  if (unchanged.length) {
    made.push({ key: UNCHANGED, label: "without changes", row: null, total: 0, items: unchanged, more: !isComplete && !made.length, isFlat: false });
  }
  return made;
}

// A kind by its plural, if no other kind of the picture has the same.
function labelOf(key, by, rows) {
  if (by === "namespace") return key || "cluster";
  const plural = key.split(".")[0];
  return rows.filter((row) => row.type.split(".")[0] === plural).length > 1 ? key : plural;
}
