// Values of Secrets are neither shown nor exported, only their lengths: others may see the screen or get the file.

export const isMasked = (type, field) => type === "secrets" && /^(data|stringData|metadata\.annotations)\b/.test(field);

export function masked(type, object) {
  if (type !== "secrets") return object;
  const hidden = (values) => values && Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `*** (${value.length} characters)`]));
  const made = { ...object, data: hidden(object.data), metadata: { ...object.metadata, annotations: hidden(object.metadata.annotations) } };
  for (const part of [made, made.metadata]) for (const name of Object.keys(part)) if (part[name] === undefined) delete part[name];
  return made;
}
