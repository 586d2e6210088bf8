// Differences as elements: field by field, and two objects side by side. The object pane and the comparison use it.

import { collapsed, compared, fieldChanges, visible } from "./diff.js";
import { button, element } from "./dom.js";
import { maskedChanges, maskedPair } from "./secrets.js";
import { valueText } from "./summary.js";

const MOST_FIELDS = 200, MOST_LINES = 2000;  // shown at once

// `left` and `right` are objects, or null where there is none; `titles` are the headings of both sides.
export function differenceOf(type, left, right, titles) {
  const fields = left && right ? maskedChanges(type, fieldChanges(left, right)) : [];
  return element("div", { class: "difference" }, left && right ? changeList(fields) : null, sides(type, left, right, titles));
}

// spec.replicas  2 → 5
function changeList(changes) {
  if (!changes.length) return element("p", { class: "hint", text: "No field differs, but for what every write changes." });
  const list = element("ul", { class: "fields" }, ...changes.slice(0, MOST_FIELDS).map(changeItem));
  if (changes.length > MOST_FIELDS) list.append(element("li", { class: "hint", text: `and ${changes.length - MOST_FIELDS} more, below` }));
  return list;
}

function changeItem(change) {
  const item = element("li", {}, element("code", { class: "field", text: visible(change.field) }), " ");
  if ("old" in change) item.append(element("del", { text: valueText(change.old) }));
  if ("old" in change && "new" in change) item.append(" → ");
  if ("new" in change) item.append(element("ins", { text: valueText(change.new) }));
  if (!("new" in change)) item.append(element("small", { text: " removed" }));
  if (!("old" in change)) item.append(element("small", { text: " added" }));
  return item;
}

function sides(type, left, right, titles) {
  const rows = collapsed(compared(...maskedPair(type, left, right)));
  const body = element("tbody");
  show(body, rows);
  const head = element("tr", {}, ...titles.map((text) => element("th", { scope: "col", text })));
  return element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Side by side" },
    element("table", { class: "compared" }, element("thead", {}, head), body));
}

function show(body, rows) {
  for (const row of rows.slice(0, MOST_LINES)) body.append(lineRow(row));
  if (rows.length <= MOST_LINES) return;
  const rest = rows.slice(MOST_LINES);
  body.append(unfolding(`${rest.length} more lines`, (place) => {
    place.remove();
    show(body, rest);
  }));
}

function lineRow(row) {
  if (row.kind === "gap") {
    return unfolding(`${row.count} lines without a change`, (place) => {
      const rest = row.rows.slice(MOST_LINES);
      place.replaceWith(...row.rows.slice(0, MOST_LINES).map(lineRow), ...(rest.length ? [lineRow({ kind: "gap", count: rest.length, rows: rest })] : []));
    });
  }
  const cell = (text) => element("td", { text: text ?? "", class: text === null ? "none" : null });
  return element("tr", { class: row.kind }, cell(row.left), cell(row.right));
}

function unfolding(text, press) {
  const made = element("tr", { class: "gap" });
  made.append(element("td", { colspan: "2" }, button(text, () => press(made), { class: "link" })));
  return made;
}
