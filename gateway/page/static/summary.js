// What an event did, in a line of text: pure functions.

const LONGEST = 80;

// {what: "spec.replicas 2 → 5", more: 2, who: "alice with kubectl"}; `more` changes are not in the text.
export function sentence(event) {
  return { ...whatOf(event), who: whoText(event) };
}

export function objectText({ type, namespace, name }) {
  return `${type} ${namespace ? `${namespace}/` : ""}${name}`;
}

// Nobody, if nobody is known; guesses are marked.
export function whoText({ user, fieldManager, guessed }) {
  const names = [user, fieldManager].filter(Boolean).join(" with ");
  return names && guessed ? `${names} (guessed)` : names;
}

function whatOf(event) {
  const summary = event.summary ?? {};
  if (event.change === "deleted") return { what: "deleted", more: 0 };
  if (event.change === "created") {
    const text = summary.text ?? summary.created?.text ?? "";
    return { what: text ? `created, ${text}` : "created", more: 0 };
  }
  const changes = summary.changes ?? [];
  const what = changes.map(changeText).join(", ") || (event.summary ? "no field changed" : event.verb);
  return { what, more: summary.more ?? 0 };
}

// {field, old, new}: without `old` the field was added, without `new` removed.
export function changeText(change) {
  if (!("old" in change)) return `${change.field} added: ${valueText(change.new)}`;
  if (!("new" in change)) return `${change.field} removed, was ${valueText(change.old)}`;
  return `${change.field} ${valueText(change.old)} → ${valueText(change.new)}`;
}

export function valueText(value) {
  if (value === "") return '""';
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const line = text.replace(/\s+/g, " ");
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
}
