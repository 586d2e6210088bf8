// Values of Secrets are neither shown nor exported, only their lengths: others may see the screen or get the file.

export const isMasked = (type, field) => type === "secrets" && /^(data|stringData|metadata\.annotations)\b/.test(field);

export function masked(type, object) {
  if (type !== "secrets") return object;
  const hidden = (values) => values && Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `*** (${value.length} characters)`]));
  const made = { ...object, data: hidden(object.data), metadata: { ...object.metadata, annotations: hidden(object.metadata.annotations) } };
  for (const part of [made, made.metadata]) for (const name of Object.keys(part)) if (part[name] === undefined) delete part[name];
  return made;
}

// Two versions of an object: of values that differ only the lengths are shown, and that they differ.
export function maskedPair(type, left, right) {
  if (type !== "secrets" || !left || !right) return [left && masked(type, left), right && masked(type, right)];
  const [one, other] = [left, right].map((object) => masked(type, object));
  for (const [before, after, made] of [[left.data, right.data, other.data], [left.metadata.annotations, right.metadata.annotations, other.metadata.annotations]]) {
    for (const name of Object.keys(made ?? {})) {
      if (before && Object.hasOwn(before, name) && before[name] !== after[name]) made[name] += ", another value";
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
