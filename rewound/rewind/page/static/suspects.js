// What changed before an object broke: when it broke, in which words, and the changes in the order of the server, each
// with its reasons. `open(item)` leads to a change.

import { authorNumber, authorOf } from "./authors.js";
import { visible } from "./diff.js";
import { button, element } from "./dom.js";
import { readable } from "./scale.js";
import { objectText, sentence, whoText } from "./summary.js";

const SHOWN = 5, MINUTE = 60_000_000;
const CHANGES = { created: "created", deleted: "deleted", refused: "refused" };

// The elements that show a document of timeline/suspects.
export function suspectsOf(found, open) {
  const { broke, items, symptoms, leftOut, looked } = found;
  const when = found.broken
    ? `${broke.phase} since ${readable(broke.micros, MINUTE)} UTC; ${broke.before ? `before: ${broke.before}` : "it never was well"}.`
    : "Nothing in the journal says that it is broken. The newest changes around it:";
  const words = symptoms.slice(0, SHOWN).map((one) => element("li", {},
    element("strong", { text: visible(one.reason) }), visible(` ${one.message}`), element("small", { text: ` ${one.source} of ${objectText(one.object)}` })));
  const listed = items.map((one) => suspect(one, open));
  const first = element("ol", { class: "suspects" }, ...listed.slice(0, SHOWN)), rest = listed.slice(SHOWN);
  const more = rest.length ? button(`${rest.length} weaker ones`, () => { first.append(...rest); more.remove(); }, { id: "weaker-suspects" }) : null;
  const seen = `Looked at ${looked.objects.toLocaleString("en")} objects and ${looked.events.toLocaleString("en")} events.`;
  return [
    element("p", { class: found.broken ? "bad" : "hint", id: "broke", text: visible(when) }),
    words.length ? element("ul", { class: "symptoms" }, ...words) : null,
    items.length ? first : element("p", { class: "hint", text: "No change before it is a suspect." }),
    more,
    element("p", { class: "hint", text: visible([seen, ...leftOut.map((text) => `Not looked at: ${text}.`)].join(" ")) }),
  ].filter(Boolean);
}

function suspect(one, open) {
  const change = CHANGES[one.action] ?? "updated";
  const said = one.message || (one.summary && change !== "deleted" ? sentence({ ...one, change }).what : "");
  const who = whoText(one);
  return element("li", {},
    button(objectText(one), () => open(one), { class: "link", title: "Show this change" }),
    ` was ${one.action} ${readable(one.micros, MINUTE)} UTC`,
    who ? " by " : null,
    who ? element("span", { class: `author author-${authorNumber(authorOf(one))}`, text: visible(who) }) : null,
    said ? element("div", { class: "said", text: visible(said) }) : null,
    element("div", { class: "hint", text: visible([one.relation, ...one.reasons].join("; ")) }));
}
