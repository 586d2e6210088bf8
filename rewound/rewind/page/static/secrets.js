// Values of Secrets are neither shown nor exported, only their lengths: others may see the screen or get the file.

export const isMasked = (type, field) => type === "secrets" && /^(data|stringData|metadata\.annotations)\b/.test(field);

const VALUES = ["data", "stringData"];

export function masked(type, object) {
  if (type !== "secrets") return object;
  const made = { ...object, metadata: { ...object.metadata } };
  for (const name of VALUES) if (made[name]) made[name] = hidden(made[name]);
  if (made.metadata.annotations) made.metadata.annotations = hidden(made.metadata.annotations);
  return made;
}

// Recordings may have values that are no text, and keys without a value.
function hidden(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `*** (${textOf(value).length} characters)`]));
}

const textOf = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? ""));

// Two versions of an object: of values that differ only the lengths are shown, and that they differ.
export function maskedPair(type, left, right) {
  if (type !== "secrets" || !left || !right) return [left && masked(type, left), right && masked(type, right)];
  const [one, other] = [left, right].map((object) => masked(type, object));
  const parts = [...VALUES.map((name) => [left[name], right[name], other[name]]),
    [left.metadata?.annotations, right.metadata?.annotations, other.metadata.annotations]];
  for (const [before, after, made] of parts) {
    for (const name of Object.keys(made ?? {})) {
      if (before && Object.hasOwn(before, name) && textOf(before[name]) !== textOf(after[name])) made[name] += ", another value";
    }
  }
  return [one, other];
}

// Changes of fields, without values that are masked.
export function maskedChanges(type, changes) {
  return changes.map((one) => (isMasked(type, one.field) ? hiddenChange(one) : one));
}

function hiddenChange({ field, ...values }) {
  return { field, ...Object.fromEntries(Object.keys(values).map((name) => [name, "***"])) };
}
