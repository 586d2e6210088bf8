// What an event did, in a line of text: pure functions. Whoever may write an object chooses most of the words, so
// characters that one does not see, or that turn text around, are escaped in all of them.

import { visible } from "./diff.js";

const LONGEST = 80, CONTEXT = 12;  // characters of a value, and before the first difference of two

// {what: "spec.replicas 2 → 5", more: 2, who: "alice with kubectl"}; `more` changes are not in the text.
export function sentence(event) {
  return { ...whatOf(event), who: whoText(event) };
}

export function objectText({ type, namespace, name }) {
  return visible(`${type} ${namespace ? `${namespace}/` : ""}${name}`);
}

// Nobody, if nobody is known; guesses are marked. Service accounts are named like objects: ci/deployer. Of users that are
// named like their tool, and of the controllers of Kubernetes, which share one, the tool says nothing more.
export function whoText({ user = "", fieldManager = "", guessed, userGuessed }) {
  const shortened = user.replace(/^system:serviceaccount:([^:]+):(.+)$/, "$1/$2");
  const isEnough = user === fieldManager || user.endsWith(`:${fieldManager}`) || shortened.startsWith("kube-system/");
  const mark = (name, isGuess) => (name && isGuess ? `${name} (guessed)` : name);
  return visible([mark(shortened, userGuessed), user && isEnough ? "" : mark(fieldManager, guessed)].filter(Boolean).join(" with "));
}

// Who refused a write, as the text of the refusal says.
const REFUSERS = [
  [/AdmissionPolicy '([^']+)'/, "policy"], [/admission webhook "([^"]+)"/, "webhook"], [/exceeded quota: ([^,]+)/, "quota"],
  [/violates (PodSecurity) /, "admission plugin"], [/cannot \w+ resource/, "missing rights"],
];

export function refusedText({ verb, subresource, code, message, conflict }) {
  const what = subresource ? `${verb} of ${subresource}` : verb;
  if (conflict) return visible(`${what} too late: ${/already exists/.test(message) ? "the object exists" : "there is a newer version"} (${code})`);
  for (const [pattern, kind] of REFUSERS) {
    const found = pattern.exec(message);
    if (found) return visible(`${what} refused by ${[kind, found[1]].filter(Boolean).join(" ")} (${code})`);
  }
  return visible(`${what} refused (${code})`);
}

function whatOf(event) {
  if (event.refused) return { what: refusedText(event), more: 0 };
  const summary = event.summary ?? {};
  if (event.change === "deleted") return { what: "deleted", more: 0 };
  if (event.change === "created") {
    const text = summary.text ?? "";
    return { what: text ? `created, ${visible(text)}` : "created", more: 0 };
  }
  if (summary.compacted) return { what: "changed, the version before is no longer in the journal", more: 0 };
  const changes = summary.changes ?? [];
  if (!changes.length) return { what: event.summary ? "no field changed" : event.verb, more: 0 };
  // Whoever changed the spec is not asked about the annotations and the status that came with it.
  const told = changes.filter((one) => partOf(one.field) === partOf(changes[0].field));
  return { what: told.map(changeText).join(", "), more: (summary.more ?? 0) + changes.length - told.length };
}

const partOf = (field) => /^(metadata|status)\b/.exec(field)?.[0] ?? "";

// {field, old, new}: without `old` the field was added, without `new` removed.
export function changeText(change) {
  const field = visible(change.field);
  if (!("old" in change)) return `${field} added: ${valueText(change.new)}`;
  if (!("new" in change)) return `${field} removed, was ${valueText(change.old)}`;
  const [old, now] = differing(lineOf(change.old), lineOf(change.new));
  return `${field} ${old} → ${now}`;
}

export function valueText(value) {
  return cut(lineOf(value), 0);
}

function lineOf(value) {
  if (value === "") return '""';
  return visible((typeof value === "string" ? value : JSON.stringify(value) ?? "").replace(/[ \t\r\n]+/g, " "));
}

function cut(line, start) {
  const shown = line.slice(start, start + LONGEST - 1);
  return `${start ? "…" : ""}${start + LONGEST >= line.length ? line.slice(start) : `${shown}…`}`;
}

// Long values are cut so that one sees where they differ.
function differing(one, other) {
  let same = 0;
  if (Math.max(one.length, other.length) > LONGEST) while (same < one.length && one[same] === other[same]) same++;
  const start = Math.max(0, same - CONTEXT);
  return [cut(one, start), cut(other, start)];
}
