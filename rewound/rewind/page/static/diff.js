// Objects as lines of text, two of them side by side, and what changed from one to the other: pure functions.

export const MANAGED = ["metadata.managedFields", "metadata.resourceVersion"];  // what every write changes

// YAML, as far as objects need it. Every string that could be read as something else is quoted.
export function lines(value, skip = MANAGED) {
  const found = [];
  write(value, 0, "", skip, found);
  return found;
}

const PLAIN = /^[A-Za-z/][\w./ -]*$/;
const WORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/g;
const DEEPEST = 100;  // what is nested deeper is written in one line

// Characters that one does not see, or that turn text around, are escaped.
export const visible = (text) => text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
const quoted = (value) => visible(JSON.stringify(value));

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !WORDS.test(value) && !value.endsWith(" ") ? value : quoted(value);
}

// Text of several lines as a block, if that keeps every character of it; else null.
function block(value) {
  if (typeof value !== "string" || !/^[^\s][^\n]*\n/.test(value) || value.endsWith("\n\n") || value.search(UNSEEN) >= 0) return null;
  const ends = value.endsWith("\n");
  const content = (ends ? value.slice(0, -1) : value).split("\n");
  return content.some((one) => /^\s+$/.test(one)) ? null : { mark: ends ? "|" : "|-", content };
}

const isScalar = (value) => value === null || typeof value !== "object";
const isEmpty = (value) => Object.keys(value).length === 0;
const isNested = (value) => !isScalar(value) && !isEmpty(value);
const keyOf = (name) => `${scalar(name)}:`;
const below = (path, name) => (path ? `${path}.${name}` : name);

function write(value, depth, path, skip, found) {
  for (const [name, one] of Array.isArray(value) ? value.map((item) => ["-", item]) : Object.entries(value)) {
    if (!skip.includes(below(path, name))) writeEntry(Array.isArray(value) ? "-" : keyOf(name), one, depth, below(path, name), skip, found);
  }
}

// `key` has its colon, or is the dash of a list.
function writeEntry(key, value, depth, path, skip, found) {
  const indent = "  ".repeat(depth), text = block(value);
  if (text) {
    found.push(`${indent}${key} ${text.mark}`);
    for (const one of text.content) found.push(one ? `${indent}  ${one}` : "");
  } else if (isScalar(value)) {
    found.push(`${indent}${key} ${scalar(value)}`);
  } else if (isEmpty(value) || depth >= DEEPEST) {
    found.push(`${indent}${key} ${quoted(value)}`);
  } else if (key === "-") {
    const at = found.length;
    write(value, depth + 1, path, skip, found);
    if (found.length > at) found[at] = dashed(found[at], indent);
  } else {
    found.push(`${indent}${key}`);
    write(value, depth + 1, path, skip, found);
  }
}

const dashed = (line, indent) => `${indent}- ${line.slice(indent.length + 2)}`;

// Items of lists are matched by the first of these fields that tells all of them apart, because otherwise an item that
// was inserted would change all later ones.
const KEYS = ["name", "uid", "key", "type", "ip", "containerPort", "port", "mountPath", "devicePath", "topologyKey"];

export function mergeKey(one, other) {
  return KEYS.find((key) => identifies(key, one) && identifies(key, other)) ?? "";
}

function identifies(key, items) {
  const found = new Set();
  for (const item of items) {
    if (isScalar(item) || Array.isArray(item) || !["string", "number"].includes(typeof item[key])) return false;
    found.add(item[key]);
  }
  return found.size === items.length;
}

export function isSame(one, other) {
  if (isScalar(one) || isScalar(other)) return one === other;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]));
}

// Pairs of items that belong together: {name, left, right}, undefined where there is none, in an order that has those of
// both lists as far as possible. By their keys, or else what is the same is a pair, and what was replaced in its place.
function pairs(one, other) {
  const key = mergeKey(one, other);
  if (!key) return pairsInOrder(one, other);
  const lefts = new Map(one.map((item) => [item[key], item])), rights = new Map(other.map((item) => [item[key], item]));
  return mergedNames([...lefts.keys()], [...rights.keys()]).map((name) => ({ name: `[${key}=${name}]`, left: lefts.get(name), right: rights.get(name) }));
}

function pairsInOrder(one, other) {
  const found = [];
  let gone = [], come = [], at = 0;
  const flush = () => {
    for (let next = 0; next < Math.max(gone.length, come.length); next++) found.push({ name: `[${at++}]`, left: gone[next], right: come[next] });
    gone = [];
    come = [];
  };
  const texts = [one, other].map((items) => items.map((item) => JSON.stringify(item)));
  let left = 0, right = 0;
  for (const [sign] of edits(...texts)) {
    if (sign === "-") gone.push(one[left++]);
    else if (sign === "+") come.push(other[right++]);
    else {
      flush();
      found.push({ name: `[${at++}]`, left: one[left++], right: other[right++] });
    }
  }
  flush();
  return found;
}

// The names of both, those that only the first has where it has them.
function mergedNames(one, other) {
  const found = new Set(), known = new Set(other);
  let at = 0;
  for (const name of other) {
    while (at < one.length && (!known.has(one[at]) || found.has(one[at]))) found.add(one[at++]);
    if (at < one.length && one[at] === name) at++;
    found.add(name);
  }
  for (const name of one) found.add(name);
  return [...found];
}

// Field by field: [{field: "spec.replicas", old: 2, new: 5}], without `old` if it was added, without `new` if removed; what
// people ask for first: spec and data, then metadata, status, and counters.
export function fieldChanges(before, after, skip = MANAGED) {
  const found = [];
  compareFields("", before, after, skip, found);
  return found.map((one, at) => [rank(one.field), at, one]).sort((one, other) => one[0] - other[0] || one[1] - other[1]).map(([, , one]) => one);
}

function rank(field) {
  if (/^(metadata\.generation|status\.observedGeneration)$/.test(field)) return 3;
  return field.startsWith("status") ? 2 : field.startsWith("metadata") ? 1 : 0;
}

const NAME = /^[A-Za-z_$][\w$-]*$/;
const fieldBelow = (path, name) => (NAME.test(name) ? below(path, name) : `${path}[${JSON.stringify(name)}]`);

function compareFields(path, one, other, skip, found) {
  if (skip.includes(path) || isSame(one, other)) return;
  if (one === undefined) found.push({ field: path, new: other });
  else if (other === undefined) found.push({ field: path, old: one });
  else if (isScalar(one) || isScalar(other) || Array.isArray(one) !== Array.isArray(other)) found.push({ field: path, old: one, new: other });
  else if (Array.isArray(one)) compareItems(path, one, other, skip, found);
  else {
    for (const name of mergedNames(Object.keys(one), Object.keys(other))) {
      compareFields(fieldBelow(path, name), own(one, name), own(other, name), skip, found);
    }
  }
}

const own = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);

function compareItems(path, one, other, skip, found) {
  for (const { name, left, right } of pairs(one, other)) {
    const isPlain = isScalar(left ?? null) && isScalar(right ?? null);
    compareFields(isPlain ? `${path}[]` : `${path}${name}`, left, right, skip, found);
  }
  const order = orders(one, other);
  if (order) found.push({ field: `${path}[order]`, old: order[0], new: order[1] });
}

// The keys that two lists have in common, in the order of each; null if it is the same order.
function orders(one, other) {
  const key = mergeKey(one, other);
  if (!key) return null;
  const [left, right] = [one, other].map((items) => items.map((item) => item[key]));
  const inLeft = new Set(left), inRight = new Set(right);
  const found = [left.filter((name) => inRight.has(name)), right.filter((name) => inLeft.has(name))];
  return isSame(...found) ? null : found;
}

// Two objects side by side, as rows like those of sideBySide; fields are beside those of the same name, and items of lists
// beside those of the same key.
export function compared(left, right, skip = MANAGED) {
  const rows = [];
  if (left === null || right === null) return sideBySide(left === null ? [] : lines(left, skip), right === null ? [] : lines(right, skip));
  compareEntries(left, right, 0, "", skip, rows);
  return rows;
}

function compareEntries(one, other, depth, path, skip, rows) {
  for (const name of mergedNames(Object.keys(one), Object.keys(other))) {
    const here = below(path, name);
    if (!skip.includes(here)) compareEntry(keyOf(name), own(one, name), own(other, name), depth, here, skip, rows);
  }
}

function compareEntry(key, one, other, depth, path, skip, rows) {
  if (one !== undefined && other !== undefined && isSame(one, other)) {
    const text = [];
    writeEntry(key, one, depth, path, skip, text);
    for (const line of text) rows.push({ kind: "same", left: line, right: line });
    return;
  }
  const both = isNested(one ?? null) && isNested(other ?? null) && Array.isArray(one) === Array.isArray(other) && depth < DEEPEST;
  if (!both) {
    const [left, right] = [one, other].map((value) => {
      const text = [];
      if (value !== undefined) writeEntry(key, value, depth, path, skip, text);
      return text;
    });
    for (const row of sideBySide(left, right)) rows.push(row);
  } else if (key === "-") {
    compareItem(one, other, depth, path, skip, rows);
  } else {
    const header = `${"  ".repeat(depth)}${key}`;
    rows.push({ kind: "same", left: header, right: header });
    compareNested(one, other, depth + 1, path, skip, rows);
  }
}

// Each side has the dash at its own first line.
function compareItem(one, other, depth, path, skip, rows) {
  const from = rows.length, indent = "  ".repeat(depth);
  compareNested(one, other, depth + 1, path, skip, rows);
  for (const side of ["left", "right"]) {
    let at = from;
    while (at < rows.length && rows[at][side] === null) at++;
    if (at < rows.length) rows[at][side] = dashed(rows[at][side], indent);
  }
}

function compareNested(one, other, depth, path, skip, rows) {
  if (!Array.isArray(one)) {
    compareEntries(one, other, depth, path, skip, rows);
    return;
  }
  const order = orders(one, other)?.map((names) => `${"  ".repeat(depth)}# in the order ${quoted(names)}`);
  if (order) rows.push({ kind: "changed", left: order[0], right: order[1] });
  for (const { left, right } of pairs(one, other)) compareEntry("-", left, right, depth, below(path, "-"), skip, rows);
}

// Rows of two columns: {kind: "same" | "changed" | "added" | "removed", left, right}; null where there is no line.
export function sideBySide(left, right) {
  const rows = [];
  let removed = [], added = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at++) {
      const one = removed[at] ?? null, other = added[at] ?? null;
      const kind = one === null ? "added" : other === null ? "removed" : "changed";
      rows.push({ kind, left: one, right: other });
    }
    removed = [];
    added = [];
  };
  for (const [sign, text] of edits(left, right)) {
    if (sign === "-") removed.push(text);
    else if (sign === "+") added.push(text);
    else {
      flush();
      rows.push({ kind: "same", left: text, right: text });
    }
  }
  flush();
  return rows;
}

const MOST_CELLS = 4e6;

// The shortest edit script: [" ", line], ["-", line], ["+", line]. Very different texts are replaced as a whole.
export function edits(left, right) {
  let start = 0, end = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start++;
  const shorter = Math.min(left.length, right.length) - start;
  while (end < shorter && left[left.length - 1 - end] === right[right.length - 1 - end]) end++;
  const one = left.slice(start, left.length - end), other = right.slice(start, right.length - end);
  return [
    ...left.slice(0, start).map((text) => [" ", text]),
    ...(one.length * other.length > MOST_CELLS ? replaced(one, other) : shortest(one, other)),
    ...left.slice(left.length - end).map((text) => [" ", text]),
  ];
}

const replaced = (one, other) => [...one.map((text) => ["-", text]), ...other.map((text) => ["+", text])];

function shortest(one, other) {
  const width = other.length + 1;
  const common = new Uint32Array((one.length + 1) * width);  // the longest common part of what follows
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      common[i * width + j] = one[i] === other[j]
        ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const found = [];
  let i = 0, j = 0;
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      found.push([" ", one[i]]);
      i++;
      j++;
    } else if (j >= other.length || (i < one.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      found.push(["-", one[i++]]);
    } else {
      found.push(["+", other[j++]]);
    }
  }
  return found;
}

// Long stretches without a change become {kind: "gap", count}.
export function collapsed(rows, around = 3) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (row.kind !== "same") near.fill(1, Math.max(0, at - around), at + around + 1);
  });
  const found = [];
  let gap = [];
  const flush = () => {
    if (gap.length > 2) found.push({ kind: "gap", count: gap.length, rows: gap });
    else found.push(...gap);
    gap = [];
  };
  rows.forEach((row, at) => {
    if (near[at]) {
      flush();
      found.push(row);
    } else gap.push(row);
  });
  flush();
  return found;
}
