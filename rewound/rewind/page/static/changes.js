// The list beside the timeline: a line for what each event changed, the object, and who did it. It follows the cursor.
//
// It holds some of the events of a range, newest first, and loads others where the cursor goes. `actions` has
//     choose(event)     a click, or Enter: move the cursor there and open the object
//     move(event)       an arrow key: move the cursor there
//     newest(), all(), clear(), filter()
//                       what empty lists offer: the newest events, the whole journal, no filter, the fields of the filter

import { authorNumber, authorOf } from "./authors.js";
import { visible } from "./diff.js";
import { button, element, find } from "./dom.js";
import { duration, parseTime, readable, rfc3339 } from "./scale.js";
import { objectText, sentence } from "./summary.js";

const PAGE = 100, AFTER = 50;  // events before and after the cursor that are loaded together
const MOST = 500;              // events in the list
const PAUSE = 150;             // milliseconds before events around the cursor are loaded

export class ChangesPane {
  #session;
  #actions;
  #items = [];
  #rows = [];          // a list item for each
  #refused = [];       // writes that were refused in the range, newest first: they stand between the events
  #query = null;       // parameters of the request that found the items
  #older = false;      // events of the range that are older than the last item are not in the list
  #newer = false;      // the same for events that are newer than the first item
  #words = [];
  #total = null;
  #cursor = null;
  #current = -1;
  #hasMoved = false;   // the cursor, since the list scrolled to it
  #stop = null;        // the button that the Tab key reaches
  #loading = null;
  #waiting = 0;        // a timer: events around the cursor will be loaded
  #list; #count; #note; #empty; #skeleton; #more; #later;

  constructor(session, actions) {
    this.#session = session;
    this.#actions = actions;
    this.#list = element("ol", {
      id: "events", "aria-label": "Changes", on: { keydown: (event) => this.#press(event), pointerover: (event) => this.#explain(event) },
    });
    this.#count = element("small", { id: "events-count" });
    this.#note = element("p", { id: "events-note", class: "hint", role: "status", hidden: true });
    this.#empty = element("div", { id: "events-empty", class: "empty", hidden: true });
    this.#skeleton = skeleton(6);
    this.#later = button("Newer", () => this.#loadNewer(), { id: "newer", hidden: true });
    this.#more = button("More", () => this.#loadOlder(), { id: "more", hidden: true });
    find("changes").replaceChildren(
      element("h2", { id: "events-title" }, "Changes ", this.#count),
      this.#note, this.#later, this.#skeleton, this.#empty, this.#list, this.#more);
  }

  get items() {
    return this.#items;
  }

  // Before a request whose response show() will get.
  loading() {
    this.#list.setAttribute("aria-busy", "true");
    this.#skeleton.hidden = this.#items.length > 0;
    this.#empty.hidden = true;
  }

  // If there will be no response.
  stopLoading() {
    this.#list.setAttribute("aria-busy", "false");
    this.#skeleton.hidden = true;
  }

  // `query` found `items`, newest first, and more after `token`. `filtered`: there is a filter. `indexed`: how far the
  // index of texts is, if it is behind. `text`: what was searched. `total`: events in the range. `newest`: that of the
  // journal, null if it has none. `refused`: writes of the range that changed nothing. `allowed`: the caller may list some kind.
  show({ items, refused = [], token = "", query = null, filtered = false, indexed = null, text = "", total = null, newest, allowed = true }) {
    this.#loading?.abort();
    this.#query = query;
    this.#words = wordsOf(text);
    this.#total = total;
    this.#refused = refused;
    this.#set(items, Boolean(token), false);
    this.#note.textContent = indexingText(indexed);
    this.#note.hidden = !this.#note.textContent;
    this.#empty.hidden = items.length + refused.length > 0;
    if (!this.#empty.hidden) this.#empty.replaceChildren(...this.#reasons(filtered, newest, allowed, text));
    this.#mark(indexAt(items, this.#cursor));
    this.#showCurrent();
  }

  // Mark the event at the cursor, or the last one before it, and scroll the list to it if the cursor has moved. It is
  // called for every frame while the cursor moves.
  follow(cursor) {
    this.#hasMoved ||= cursor?.time !== this.#cursor?.time || cursor?.version !== this.#cursor?.version;
    this.#cursor = cursor;
    const at = indexAt(this.#items, cursor);
    if (at === this.#current && !this.#isOutside(cursor)) return;
    this.#mark(at);
    this.#showCurrent();
  }

  #showCurrent() {
    if (this.#isOutside(this.#cursor)) this.#loadAround();
    else if (this.#hasMoved && this.#current >= 0) this.#reveal(this.#rows[this.#current]);
  }

  #mark(at) {
    this.#rows[this.#current]?.removeAttribute("aria-current");
    this.#rows[at]?.setAttribute("aria-current", "true");
    this.#current = at;
    // One stop for the Tab key; arrows lead on.
    const stop = this.#rows[Math.max(at, 0)]?.firstElementChild;
    if (this.#stop) this.#stop.tabIndex = -1;
    if (stop) stop.tabIndex = 0;
    this.#stop = stop;
  }

  // Only the list scrolls, never the page; who has scrolled away meanwhile stays there until the cursor moves again.
  #reveal(row) {
    this.#hasMoved = false;
    const list = this.#list, top = row.offsetTop - list.offsetTop;
    if (top < list.scrollTop || top + row.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = top - (list.clientHeight - row.offsetHeight) / 2;
    }
  }

  // Rows.

  #set(items, older, newer) {
    const focused = this.#list.contains(document.activeElement) ? document.activeElement.parentElement.dataset.version : "";
    this.#items = items;
    this.#older = older;
    this.#newer = newer;
    this.#rows = items.map((event, at) => this.#row(event, items[at - 1]));
    this.#current = -1;
    this.#stop = null;
    this.#list.replaceChildren(...this.#withRefused());
    this.#list.setAttribute("aria-busy", "false");
    this.#list.hidden = !this.#list.children.length;
    this.#skeleton.hidden = true;
    this.#more.hidden = !older;
    this.#later.hidden = !newer;
    this.#count.textContent = countText(items.length, older || newer, this.#total);
    // Who moves through the list by keys stays where they were.
    if (focused) this.#rows.find((row) => row.dataset.version === focused)?.firstElementChild.focus({ preventScroll: true });
  }

  // The rows of events, and of refused writes between them where all events around them are in the list.
  #withRefused() {
    const items = this.#items, newest = this.#newer ? items[0]?.micros : Infinity, oldest = this.#older ? items.at(-1)?.micros : 0;
    const refused = this.#refused.filter((one) => one.micros >= oldest && one.micros <= newest), rows = [];
    items.forEach((event, at) => {
      while (refused.length && refused[0].micros > event.micros) rows.push(this.#row(refused.shift(), null));
      rows.push(this.#rows[at]);
    });
    return [...rows, ...refused.map((one) => this.#row(one, null))];
  }

  #row(event, above) {
    const { what, more, who } = sentence(event);
    const time = rfc3339(event.micros), day = time.slice(0, 10);
    const isNewDay = !event.refused && (!above || rfc3339(above.micros).slice(0, 10) !== day);
    const said = element("span", { class: "said", title: what }, ...marked(what, this.#words));
    if (more) said.append(element("small", { text: ` and ${more} more` }));
    const author = who && element("span", { class: `who author author-${authorNumber(authorOf(event))}`, title: visible(authorOf(event)) }, ...marked(who, this.#words));
    if (event.refused && event.message) said.append(element("small", {}, ` ${visible(event.message)}`));
    return element("li", { class: event.change, "data-version": event.version, ...(event.refused ? { title: visible(event.message) } : {}) },
      element("button", { type: "button", class: "event", tabindex: "-1", on: { click: () => this.#actions.choose(event) } },
        said,
        element("time", { datetime: time }, isNewDay ? element("span", { class: "day", text: `${day} ` }) : null, time.slice(11, 23)),
        element("span", { class: "what" }, ...marked(objectText(event), this.#words)),
        author || null));
  }

  // Where an event is relative to the cursor, for who points at it.
  #explain({ target }) {
    const at = this.#rows.indexOf(target.closest("li"));
    if (at < 0) return;
    const { micros } = this.#items[at], time = this.#cursor?.time ?? null;
    const apart = time === null ? "" : `, ${micros === time ? "at" : `${duration(Math.abs(micros - time))} ${micros < time ? "before" : "after"}`} the cursor`;
    this.#rows[at].title = `${readable(micros)} UTC${apart}, version ${this.#items[at].version}`;
  }

  #press(event) {
    const rows = [...this.#list.children], at = rows.indexOf(document.activeElement?.parentElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!rows[to]) return;
    rows[to].firstElementChild.focus();
    const item = this.#items[this.#rows.indexOf(rows[to])];
    if (item) this.#actions.move(item);
  }

  // Why there is nothing, and what to do.
  #reasons(filtered, newest, allowed, text) {
    const { newest: showNewest, all, clear, filter } = this.#actions;
    const say = (words) => element("p", { text: words });
    if (!allowed) return [say("You may not list anything in all namespaces: name one."), button("Name a namespace", filter)];
    if (newest === null && !filtered) return [say("The journal has no events yet. They appear here as soon as somebody writes an object.")];
    if (filtered) {
      const what = text ? `matches the filter and has “${text}”` : "matches the filter";
      return [say(`No event in this range ${what}.`), button("Clear the filter", clear), button("Show everything", all)];
    }
    return [say("Nothing happened in this range."), button("Show the newest events", showNewest), button("Show everything", all)];
  }

  // Other events of the range.

  #isOutside(cursor) {
    if (!cursor || cursor.time === null || !this.#query || !this.#items.length || !this.#isInRange(cursor)) return false;
    return (this.#older && cursor.time < this.#items.at(-1).micros) || (this.#newer && cursor.time > this.#items[0].micros);
  }

  #isInRange({ time }) {
    const from = parseTime(this.#query.get("from")), to = parseTime(this.#query.get("to"));
    return (from === null || time >= from) && (to === null || time <= to);
  }

  // Not more often than now and then, while the cursor moves. If it has moved on, or the list is of another range, when
  // the events are there, others are loaded.
  #loadAround() {
    if (this.#waiting) return;
    this.#waiting = setTimeout(async () => {
      const time = this.#cursor?.time, query = this.#query;
      if (this.#isOutside(this.#cursor)) await this.#load((signal) => this.#around(time, signal));
      this.#waiting = 0;
      if ((this.#cursor?.time !== time || this.#query !== query) && this.#isOutside(this.#cursor)) this.#loadAround();
    }, PAUSE);
  }

  async #around(time, signal) {
    const [before, after] = await Promise.all([
      this.#page({ to: rfc3339(time), limit: PAGE }, signal),
      this.#page({ from: rfc3339(time + 1), limit: AFTER, order: "ascending" }, signal),
    ]);
    this.#set([...after.items.reverse(), ...before.items], Boolean(before.metadata.continue), Boolean(after.metadata.continue));
    const row = this.#rows[indexAt(this.#items, this.#cursor)];
    if (row) this.#reveal(row);
  }

  #loadOlder() {
    return this.#load(async (signal) => {
      const found = await this.#page({ to: String(BigInt(this.#items.at(-1).version) - 1n), limit: PAGE }, signal);
      const items = [...this.#items, ...found.items];
      this.#set(items.slice(-MOST), Boolean(found.metadata.continue), this.#newer || items.length > MOST);
    });
  }

  #loadNewer() {
    return this.#load(async (signal) => {
      const found = await this.#page({ from: String(BigInt(this.#items[0].version) + 1n), limit: PAGE, order: "ascending" }, signal);
      const items = [...found.items.reverse(), ...this.#items];
      this.#set(items.slice(0, MOST), this.#older || items.length > MOST, Boolean(found.metadata.continue));
    });
  }

  async #load(work) {
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    this.#list.setAttribute("aria-busy", "true");
    try {
      await work(signal);
      this.#mark(indexAt(this.#items, this.#cursor));
    } catch (error) {
      if (signal.aborted) return;
      this.#list.setAttribute("aria-busy", "false");
      this.#note.textContent = error.message;
      this.#note.hidden = false;
    }
  }

  #page(changes, signal) {
    const parameters = new URLSearchParams(this.#query);
    for (const [name, value] of Object.entries(changes)) parameters.set(name, String(value));
    return this.#session.events(parameters, signal);
  }
}

// The position of the event at the cursor, or of the last one before it, among events with the newest first; -1 without one.
export function indexAt(items, cursor) {
  if (!cursor) return -1;
  if (cursor.version) {
    const at = items.findIndex((one) => one.version === cursor.version);
    if (at >= 0) return at;
  }
  if (cursor.time === null) return -1;
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].micros > cursor.time) low = middle + 1;
    else high = middle;
  }
  return low < items.length ? low : -1;
}

// How many events the list has, and of how many. A total may be off by some, as buckets at both ends of the range are
// counted whole or not at all: a list that has all of them knows better.
export function countText(listed, isPart, total) {
  const shown = listed.toLocaleString("en");
  if (!isPart) return `${shown} in this range`;
  return total > listed ? `${shown} of ${total.toLocaleString("en")} in this range` : `${shown}+ in this range`;
}

// How much of the journal the index of texts has: events from one version up to another.
export function indexingText(indexed) {
  if (!indexed) return "";
  const { from = 1, upto, oldest = 1, newest } = indexed;
  const share = (Number(upto) - Number(from) + 1) / (Number(newest) - Number(oldest) + 1);
  return `Indexing: ${Math.max(0, Math.min(99, Math.floor(100 * share)))} % of the journal is searched so far…`;
}

// What to look for in a text that was searched: words, and phrases in quotes.
export function wordsOf(text) {
  return [...text.matchAll(/"([^"]+)"?|(\S+)/g)].map(([, phrase, word]) => (phrase ?? word).toLowerCase()).filter((one) => one !== '"');
}

// Nodes with the text; where a word of it begins with one of `words`, it is marked.
export function marked(text, words) {
  const nodes = [], lower = text.toLowerCase();
  if (!words.length || lower.length !== text.length) return [text];
  let shown = 0;
  for (let at = 0; at < text.length; at++) {
    const found = words.find((one) => lower.startsWith(one, at));
    if (!found || isWithinWord(text, at)) continue;
    if (at > shown) nodes.push(text.slice(shown, at));
    nodes.push(element("mark", { text: text.slice(at, at + found.length) }));
    shown = at + found.length;
    at = shown - 1;
  }
  if (shown < text.length) nodes.push(text.slice(shown));
  return nodes;
}

const LETTER = /[\p{L}\p{N}]/u;
const isWithinWord = (text, at) => at > 0 && LETTER.test(text[at - 1]) && LETTER.test(text[at]);

export function skeleton(rows) {
  const made = element("div", { class: "skeleton", "aria-hidden": "true", hidden: true });
  for (let row = 0; row < rows; row++) made.append(element("div", {}, element("span"), element("span")));
  return made;
}
