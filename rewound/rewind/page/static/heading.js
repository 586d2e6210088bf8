// The words above the picture: which cluster, which time, and what happened most; and the legend below it.

import { authorNumber, authorOf, byImportance, shortNames } from "./authors.js";
import { visible } from "./diff.js";
import { button, element, find } from "./dom.js";
import { gapText, worst } from "./gaps.js";
import { CHANGES } from "./lanes.js";
import { duration, readable, spanOf } from "./scale.js";
import { objectText, refusedText } from "./summary.js";

export function showAbout(about, replays) {
  const title = about?.title || location.host;
  find("title").textContent = title;
  document.title = `${title} · Journal`;
  const words = [];
  if (about?.replay) words.push(`replay of ${about.replay.of}`);
  if (about?.recorded?.server) words.push(`recorded from ${about.recorded.server}`);
  else if (about?.server && !about.server.includes(title)) words.push(about.server);
  if (about?.kubernetes) words.push(`Kubernetes ${about.kubernetes}`);
  find("about").textContent = words.join(" · ") || (replays ? "replay" : "");
}

// `thinned`: the types of which events were dropped (only those that changed nothing but times, or `whole`), and before when.
// `missed`: the gaps of the recording in this range.
export function showRange(view, newest, now, thinned, missed) {
  const span = spanOf(view), from = readable(view.from, span), to = readable(view.to, span);
  const day = from.slice(0, 10), until = to.startsWith(day) ? to.slice(11) : to;
  const idle = newest && newest.time < view.from ? ` · the newest change is ${duration(now - newest.time)} old` : "";
  const gaps = thinned.filter(one => view.from < one.before)
    .map(one => ` · older ${one.whole ? "versions" : "renewals"} of ${one.type} were dropped before ${readable(one.before, span)}`);
  if (missed.length) gaps.push(` · ${gapText(worst(missed), view)}${missed.length > 1 ? `, and ${missed.length - 1} more` : ""}`);
  find("range").textContent = `${from} – ${until} UTC (${duration(span)})${idle}${gaps.join("")}`;
}

// One or two sentences about what the picture shows. `open` leads to an object or an event; `highlights` are null until
// the server has found them. `isPart`: it has not read all events yet.
export function showHeadline({ groups, total, items, highlights, refused, moreRefused, isPart }, open) {
  const parts = [], changed = groups.filter((one) => one.total);
  if (total) {
    const most = changed.slice(0, 3).map((one) => `${one.total.toLocaleString("en")} of ${one.label}`);
    const what = changed.length > 1 ? `: ${most.join(", ")}` : ` of ${changed[0].label}`;
    parts.push(`${total.toLocaleString("en")}${isPart ? " or more" : ""} ${total === 1 ? "change" : "changes"}${what}${changed.length > 3 ? " and others" : ""}. `);
  }
  const fight = highlights?.fights[0];
  if (fight) {
    const authors = [...shortNames(fight.authors).values()];
    parts.push(element("strong", { text: visible(`${list(authors)} changed ${fight.field} of `) }),
      button(objectText(fight), () => open(fight), { class: "link" }),
      element("strong", { text: ` in turn, ${fight.turns} times. ` }));
  }
  const bad = highlights?.failing ?? [];
  if (bad.length) {
    const many = `${highlights.failingTotal}${highlights.failingPartly ? " or more" : ""}`;
    parts.push(element("span", { class: "bad", text: `${many} ${many === "1" ? "object needs" : "objects need"} attention: ` }),
      ...between(bad.slice(0, 3).map((one) => element("span", {}, button(visible(`${objectText(one)} (${one.phase})`), () => open(one), { class: "link" }), " ",
        button("Suspects", () => open(one, "suspects"), { title: `What changed before ${objectText(one)} broke` })))),
      bad.length > 3 ? " and others. " : ". ");
  }
  if (refused.length) {
    const latest = refused[0], many = `${refused.length.toLocaleString("en")}${moreRefused ? " or more" : ""}`;
    const more = refused.length > 1 ? `${many} writes were refused, the last: ` : "A write was refused: ";
    parts.push(element("span", { class: "bad", text: more }),
      button(`${refusedText(latest)} of ${objectText(latest)}`, () => open(latest), { class: "link" }), `${latest.user ? visible(` by ${latest.user}`) : ""}. `);
  }
  const busiest = items.reduce((one, other) => (other.changes > (one?.changes ?? 2) ? other : one), null);
  if (highlights && !fight && !bad.length && !refused.length && busiest) {
    parts.push("Most changed: ", button(objectText(busiest), () => open(busiest), { class: "link" }), ` (${busiest.changes} times). `);
  }
  find("headline").replaceChildren(...parts);
}

const between = (made) => made.flatMap((one, at) => (at ? [", ", one] : [one]));

const list = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

const TONES = [["good", "ready"], ["working", "in progress"], ["bad", "failing"], ["done", "finished"], ["neutral", "without phases"]];
const MOST_AUTHORS = 8;

// The authors of the marks of objects, those with the most first, in the form of events.
function marksOf(items) {
  const counts = new Map();
  for (const { authors = [] } of items) for (const author of authors) counts.set(author, (counts.get(author) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]).map(([author]) => {
    const at = author.indexOf(" with ");
    return at < 0 ? { user: author } : { user: author.slice(0, at), fieldManager: author.slice(at + 6) };
  });
}

// What the colours mean; authors of the events that are drawn, one by one or as marks of objects.
export function showLegend(events, items, missed) {
  const entry = (kind, shape, text) => element("li", {}, element("i", { class: `${shape} ${kind}` }), text);
  const drawn = events?.filter((event) => event.change === "updated" && !event.summary?.statusOnly) ?? marksOf(items);
  const marks = [...shortNames(byImportance(drawn))].slice(0, MOST_AUTHORS).map(([author, text]) =>
    element("li", { title: author }, element("i", { class: `mark author-${authorNumber(author)}` }), `changed by ${text}`));
  find("legend").replaceChildren(
    ...TONES.map(([tone, text]) => entry(tone, "bar", text)), ...CHANGES.map((change) => entry(change, "column", change)),
    ...(missed.length ? [entry("gap", "bar", "not recorded")] : []), ...marks);
}
