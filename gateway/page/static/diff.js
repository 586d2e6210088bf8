// Objects as lines of text, and two texts side by side: pure functions.

// YAML, as far as objects need it. Every string that could be read as something else is quoted.
export function lines(value, skip = ["metadata.managedFields", "metadata.resourceVersion"]) {
  const found = [];
  write(value, 0, "", "", skip, found);
  return found;
}

const PLAIN = /^[A-Za-z/][\w./ -]*$/;
const WORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !WORDS.test(value) && !value.endsWith(" ") ? value : JSON.stringify(value);
}

const isEmpty = (value) => Object.keys(value).length === 0;
const isScalar = (value) => value === null || typeof value !== "object";

function write(value, depth, path, lead, skip, found) {
  const indent = "  ".repeat(depth);
  const entries = Array.isArray(value) ? value.map((one) => ["-", one]) : Object.entries(value);
  for (const [name, one] of entries) {
    const here = path ? `${path}.${name}` : name;
    if (skip.includes(here)) continue;
    const key = name === "-" && Array.isArray(value) ? "-" : `${scalar(name)}:`;
    if (isScalar(one)) found.push(`${indent}${key} ${scalar(one)}`);
    else if (isEmpty(one)) found.push(`${indent}${key} ${Array.isArray(one) ? "[]" : "{}"}`);
    else if (key === "-") {
      const at = found.length;
      write(one, depth + 1, here, "", skip, found);
      if (found.length > at) found[at] = `${indent}- ${found[at].slice(indent.length + 2)}`;
    } else {
      found.push(`${indent}${key}`);
      write(one, depth + 1, here, "", skip, found);
    }
  }
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
