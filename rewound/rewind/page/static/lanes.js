// The lanes: a canvas with a row per kind (how much changed, and when) and, below it, a bar per object from its
// creation to its deletion, coloured by its phase, dependents below their owners.

import { authorColor, authorOf } from "./authors.js";
import { visible } from "./diff.js";
import { endOf, gapText, gapsAt, gapsIn, worst } from "./gaps.js";
import { FOLD, HOUR, SECOND, Scale, columns, duration, firstCell, gapsOf, including, pan, readable, rfc3339, spanOf, ticks, zoom } from "./scale.js";
import { objectText, sentence } from "./summary.js";

const ROW = 24, HEAD = 26, BAR = 14, INDENT = 13, LEAST_ROWS = 6, MOST_HEIGHT = 0.5;  // of the window
const NEAR = 7;          // pixels between the pointer and what it means
// Objects of a kind that are shown without a click: more if they are trees.
const MANY = 12, MANY_IN_TREES = 60;
const MOST_UNFOLDED = 500;  // objects of a kind that a link unfolds
const START = 2 * SECOND;  // in which a server creates what it needs
export const CHANGES = ["created", "updated", "deleted"];
const TONES = ["good", "working", "bad", "done", "neutral"];

export class Lanes extends EventTarget {
  view = { from: 0, to: 1 };
  cursor = null;         // {time, version}
  second = null;         // the other moment of a comparison: a time
  data = null;           // counts per kind and bucket
  gaps = [];             // stretches that the recording missed
  #canvas;
  #context;
  #scroller;
  #space;
  #groups = [];          // {key, label, row, total, items, more}
  #rows = [];            // what is shown, from top to bottom
  #events = new Map();   // by uid, ascending; only if there are few
  #few = false;
  #refused = new Map();  // writes by the key of the row that shows them
  #folded = new Map();   // by key of a group or uid of an object, if somebody chose
  #selected = "";        // the key of a row
  #wanted = null;        // an object whose row is to be selected, also when it is loaded
  #now = 0;
  #gaps = [];            // stretches without a change, which are folded where they are long
  #scaled = {};          // the scale, and what it was made from
  #scheduled = false;
  #drag = null;
  #pointers = new Map();
  #colors = {};
  #texts = new Map();    // widths of texts that were cut to fit

  constructor(scroller, canvas, space) {
    super();
    this.#scroller = scroller;
    this.#canvas = canvas;
    this.#space = space;
    this.#context = canvas.getContext("2d");
    new ResizeObserver(() => this.draw()).observe(scroller);
    addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#readColors());
    this.#readColors();
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#release(event));
    canvas.addEventListener("pointercancel", (event) => this.#forget(event));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("dblclick", (event) => this.#inLabels(event) || this.show(zoom(this.view, 0.25, this.#timeAt(event))));
  }

  get #labels() {
    return Math.min(230, Math.max(108, this.#canvas.clientWidth * 0.2));
  }

  get #width() {
    return Math.max(1, this.#canvas.clientWidth - this.#labels);
  }

  // Where times are: computed again when the view, the width or the counts have changed.
  get #scale() {
    const { view, width, gaps, scale } = this.#scaled;
    if (view === this.view && width === this.#width && gaps === this.#gaps) return scale;
    this.#scaled = { view: this.view, width: this.#width, gaps: this.#gaps, scale: new Scale(this.view, this.#width, this.#gaps) };
    return this.#scaled.scale;
  }

  #x(time) {
    return this.#scale.x(time);
  }

  // The distance of a time from the left edge of the canvas, in pixels.
  placeOf(time) {
    return this.#labels + this.#x(time);
  }

  get buckets() {
    return Math.min(1000, Math.max(100, Math.round(this.#width / 2)));
  }

  // The rows that are shown, folded ones left out.
  get rows() {
    return this.#rows;
  }

  // Change what is shown, and say so.
  show(view) {
    this.view = view;
    this.draw();
    this.dispatchEvent(new Event("view"));
  }

  // `groups` are in the order in which they are shown; `events` are all events of the view, or null if there are many.
  load(data, groups, events, refused, now) {
    this.data = data;
    this.#groups = groups;
    this.#now = now;
    this.#few = events !== null;
    this.#events = new Map();
    for (const event of [...(events ?? [])].sort((one, other) => one.micros - other.micros)) {
      const known = this.#events.get(event.uid);
      if (known) known.push(event);
      else this.#events.set(event.uid, [event]);
    }
    this.#gaps = gapsOf(data).flatMap((gap) => without(gap, refused.map((one) => one.micros)));
    this.#refused = new Map();
    for (const one of refused) this.#refused.set(keyOfRefused(one), [...(this.#refused.get(keyOfRefused(one)) ?? []), one]);
    this.#unfold(this.#wanted);
    this.#arrange();
    this.#wanted = null;
  }

  isFolded(group) {
    const chosen = this.#folded.get(group.key);
    if (chosen !== undefined) return chosen;
    if (group.items === null || !group.row) return true;
    return group.items.length > (group.items.some((item) => item.depth) ? MANY_IN_TREES : MANY);
  }

  #arrange() {
    const rows = [];
    for (const group of this.#groups) {
      const folded = this.isFolded(group);
      rows.push({ key: group.key, group, folded, depth: 0 });
      if (folded) continue;
      let hiddenBelow = Infinity;
      const path = [];  // the names of the owners
      (group.items ?? []).forEach((item, at) => {
        path[item.depth] = item.name;
        if (item.depth > hiddenBelow) return;
        const owns = (group.items[at + 1]?.depth ?? 0) > item.depth;
        const closed = owns && (this.#folded.get(item.uid) ?? false);
        hiddenBelow = closed ? item.depth : Infinity;
        rows.push({ key: `${group.key} ${item.uid}`, item, owns, folded: closed, depth: item.depth, owner: path[item.depth - 1] ?? "" });
      });
      if (group.items === null) rows.push({ key: `${group.key} …`, note: "Loading…", group });
      else if (group.more) rows.push({ key: `${group.key} +`, note: "Load more objects", group });
    }
    this.#rows = rows;
    this.#find(this.#wanted);
    this.#canvas.setAttribute("aria-label", `Timeline with ${rows.length} rows`);
    this.draw();
  }

  draw() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#paint();
      this.dispatchEvent(new Event("painted"));
    });
  }

  #readColors() {
    const style = getComputedStyle(document.documentElement);
    const names = ["text", "faint", "line", "back", "panel", "cursor", "second", "current", "inverse", ...CHANGES, ...TONES];
    for (const name of names) this.#colors[name] = style.getPropertyValue(`--${name}`).trim();
    this.draw();
  }

  // Painting.

  #resize() {
    const ratio = devicePixelRatio || 1, width = this.#scroller.clientWidth;
    const most = Math.max(HEAD + LEAST_ROWS * ROW, Math.round(innerHeight * MOST_HEIGHT));
    const wanted = HEAD + Math.max(this.#rows.length, LEAST_ROWS) * ROW;
    const height = Math.min(most, wanted);
    const styled = { canvas: `${height}px`, space: `${wanted - height}px` };
    if (this.#canvas.style.height !== styled.canvas) {
      this.#canvas.style.height = styled.canvas;
      this.#scroller.style.height = styled.canvas;
    }
    if (this.#space.style.height !== styled.space) this.#space.style.height = styled.space;
    if (this.#canvas.width !== Math.round(width * ratio) || this.#canvas.height !== Math.round(height * ratio)) {
      this.#canvas.width = Math.round(width * ratio);
      this.#canvas.height = Math.round(height * ratio);
    }
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { width, height };
  }

  #paint() {
    const { width, height } = this.#resize();
    const context = this.#context, left = this.#labels, scrolled = this.#scroller.scrollTop;
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    const first = Math.floor(scrolled / ROW), last = Math.min(this.#rows.length, Math.ceil((scrolled + height - HEAD) / ROW));
    const shown = [];
    for (let at = first; at < last; at++) shown.push([this.#rows[at], HEAD + at * ROW - scrolled]);
    this.#clipped(0, HEAD, width, height, () => {
      for (const [row, y] of shown) this.#paintBackground(row, y, width);
    });
    this.#paintTicks(left, width, height);
    this.#clipped(left, HEAD, width, height, () => {
      for (const [row, y] of shown) this.#paintGaps(row, y, left, width);
      if (this.data) this.#paintCounts(shown.filter(([row]) => row.group && !row.note), left);
      for (const [row, y] of shown) if (row.item) this.#paintLife(row.item, y, left, width);
      for (const [row, y] of shown) this.#paintRefused(row, y, left);
      this.#paintPresent(left, width, height);
    });
    this.#paintFolds(left, height);
    this.#clipped(0, HEAD, left - 4, height, () => {
      for (const [row, y] of shown) this.#paintLabel(row, y, left);
    });
    this.#paintSelection(left, height);
    if (this.second !== null) this.#paintCursor(this.second, "second", "B", left, height);
    if (this.cursor?.time != null) this.#paintCursor(this.cursor.time, "cursor", this.second === null ? "" : "A", left, height);
  }

  // A stretch in which nothing changed, with its length in the head.
  #paintFolds(left, height) {
    const context = this.#context;
    context.font = "10px system-ui, sans-serif";
    for (const { from, to, x } of this.#scale.folds) {
      context.fillStyle = this.#colors.panel;
      context.globalAlpha = 0.85;
      context.fillRect(left + x, HEAD, FOLD, height);
      context.globalAlpha = 1;
      context.setLineDash([3, 4]);
      context.strokeStyle = this.#colors.faint;
      context.beginPath();
      for (const edge of [left + x + 0.5, left + x + FOLD - 0.5]) {
        context.moveTo(edge, HEAD);
        context.lineTo(edge, height);
      }
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = this.#colors.faint;
      const words = duration(to - from);
      context.fillText(words, left + x + (FOLD - context.measureText(words).width) / 2, HEAD + 8);
    }
  }

  // What was not recorded of a row: lines aslant, red where versions are missing.
  #paintGaps(row, y, left, width) {
    const context = this.#context;
    for (const gap of gapsIn(this.gaps, this.view, this.#typeOf(row))) {
      const from = Math.max(left, left + this.#x(Math.max(gap.fromMicros, this.view.from)));
      const to = Math.min(width, left + this.#x(Math.min(endOf(gap), this.#now || this.view.to, this.view.to)));
      if (to < from) continue;
      const end = Math.max(to, from + 3);
      this.#clipped(from, y, end, y + ROW, () => {
        context.strokeStyle = this.#colors[gap.missing ? "deleted" : "faint"];
        context.globalAlpha = 0.55;
        context.beginPath();
        // From the same origin in all rows, so that the lines go on in the next one.
        for (let x = Math.floor((from - ROW) / 6) * 6; x < end; x += 6) {
          context.moveTo(x, y + ROW);
          context.lineTo(x + ROW, y);
        }
        context.stroke();
        context.globalAlpha = 1;
      });
    }
  }

  // The type of a row; empty if the rows are namespaces.
  #typeOf(row) {
    return row.item?.type ?? row.group?.row?.type ?? "";
  }

  #clipped(x, y, right, bottom, paint) {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.rect(x, y, right - x, bottom - y);
    context.clip();
    paint();
    context.restore();
  }

  #paintBackground(row, y, width) {
    const context = this.#context;
    if (row.key === this.#selected) context.fillStyle = this.#colors.current;
    else if (row.group && !row.note) context.fillStyle = this.#colors.panel;
    else return;
    context.fillRect(0, y, width, ROW);
  }

  #paintTicks(left, width, height) {
    const context = this.#context;
    context.font = "11px system-ui, sans-serif";
    const shown = this.#scale.segments.flatMap((one) => {
      const found = ticks(one, one.width);
      return found.length || !one.width ? found : [{ time: one.from, label: rfc3339(one.from).slice(11, 19), major: false }];
    });
    let free = 0;
    for (const { time, label, major } of shown) {
      const x = Math.round(left + this.#x(time)) + 0.5;
      if (x < left || x < free) continue;
      context.strokeStyle = major ? this.#colors.faint : this.#colors.line;
      context.beginPath();
      context.moveTo(x, HEAD - 6);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = this.#colors.faint;
      free = x + 8 + context.measureText(label).width;
      if (free - 4 <= width) context.fillText(label, x + 4, HEAD / 2 - 1);
    }
  }

  #paintLabel(row, y, left) {
    const context = this.#context, middle = y + ROW / 2;
    if (row.note) {
      context.fillStyle = this.#colors.faint;
      context.font = "12px system-ui, sans-serif";
      context.fillText(row.note, 20, middle);
      return;
    }
    const x = 16 + (row.item ? INDENT * (row.depth + 1) : 0);
    if (row.group || row.owns) this.#paintCaret(x - 10, middle, row.folded);
    else if (row.depth > 0) this.#paintBranch(x - 11, y);
    if (row.group) {
      context.font = "600 12px system-ui, sans-serif";
      const count = `${row.group.row ? row.group.total : row.group.items.length}${row.group.row && this.data?.reading ? "+" : ""}`;
      context.fillStyle = this.#colors.text;
      context.fillText(this.#fitting(row.group.label, left - x - 14 - context.measureText(count).width), x, middle);
      context.font = "11px system-ui, sans-serif";
      context.fillStyle = this.#colors.faint;
      context.fillText(count, left - 10 - context.measureText(count).width, middle);
      return;
    }
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = row.item.deleted ? this.#colors.faint : this.#colors.text;
    context.fillText(this.#fitting(this.#nameOf(row, left - x - 8), left - x - 8), x, middle);
  }

  // Where there is no room, without what it repeats of its owner's name.
  #nameOf({ item, owner }, width) {
    const repeats = owner && item.name.startsWith(`${owner}-`);
    return visible(repeats && this.#context.measureText(item.name).width > width ? `…${item.name.slice(owner.length)}` : item.name);
  }

  #paintCaret(x, y, folded) {
    const context = this.#context;
    context.fillStyle = this.#colors.faint;
    context.beginPath();
    if (folded) for (const [dx, dy] of [[-2, -4], [4, 0], [-2, 4]]) context.lineTo(x + dx, y + dy);
    else for (const [dx, dy] of [[-4, -2], [4, -2], [0, 4]]) context.lineTo(x + dx, y + dy);
    context.fill();
  }

  #paintBranch(x, y) {
    const context = this.#context;
    context.strokeStyle = this.#colors.line;
    context.beginPath();
    context.moveTo(x + 0.5, y);
    context.lineTo(x + 0.5, y + ROW / 2 + 0.5);
    context.lineTo(x + 7, y + ROW / 2 + 0.5);
    context.stroke();
  }

  #fitting(text, width) {
    const key = `${this.#context.font} ${Math.round(width)} ${text}`;
    let shown = this.#texts.get(key);
    if (shown === undefined) {
      shown = text;
      while (shown.length > 4 && this.#context.measureText(shown).width > width) shown = `${shown.slice(0, -2)}…`;
      if (this.#texts.size > 5000) this.#texts.clear();
      this.#texts.set(key, shown);
    }
    return shown;
  }

  // How much changed in each kind: columns as high as the logarithm of their counts.
  #paintCounts(shown, left) {
    const context = this.#context;
    const painted = shown.map(([{ group }, y]) => [group.row ? columns(group.row, this.data, this.view, this.#width, this.#scale) : [], y]);
    let most = 1;
    for (const [found] of painted) for (const one of found) most = Math.max(most, one[2] + one[3] + one[4]);
    const scale = (ROW - 6) / Math.log2(most + 1);
    CHANGES.forEach((change, which) => {
      context.fillStyle = this.#colors[change];
      for (const [found, y] of painted) {
        for (const [x, size, ...counts] of found) {
          if (!counts[which]) continue;
          const total = counts[0] + counts[1] + counts[2];
          const height = Math.max(4, scale * Math.log2(total + 1)), part = (height * counts[which]) / total;
          const below = counts.slice(0, which).reduce((sum, one) => sum + one, 0);
          const wide = this.#few ? Math.max(3, size) : size;
          context.fillRect(left + x, y + ROW - 3 - (height * below) / total - part, Math.max(1, wide - (wide > 3 ? 1 : 0)), part);
        }
      }
    });
  }

  // An object: a bar from its creation to its deletion, its phases as colours, its changes as ticks.
  #paintLife(item, y, left, width) {
    const x = (time) => left + this.#x(time);
    // A canvas has no exact places far outside of it.
    const begin = Math.max(item.created ? x(item.created) : 0, left - 20);
    const end = Math.min(item.deleted ? Math.max(x(item.deleted), begin + 3) : x(this.#now), width + 20);
    if (end < left || begin > width || (item.deleted && x(item.deleted) < left)) return;
    const top = y + (ROW - BAR) / 2, context = this.#context;
    context.save();
    context.beginPath();
    context.roundRect(begin, top, Math.max(3, end - begin), BAR, 3);
    context.clip();
    const phases = item.phases?.length ? item.phases : [[item.created, "", "neutral"]];
    phases.forEach(([since, , tone], at) => {
      const from = Math.max(at ? x(since) : begin, left), to = Math.min(at + 1 < phases.length ? x(phases[at + 1][0]) : end, width);
      if (to <= from && to < left) return;
      context.fillStyle = this.#colors[TONES.includes(tone) ? tone : "neutral"];
      context.fillRect(from, top, Math.max(1, to - from), BAR);
    });
    context.restore();
    this.#paintChanges(item, top, x);
    this.#paintTexts(item, y, x, Math.max(begin, left), Math.min(end, width));
    if (item.deleted && end <= width) this.#paintDeletion(end, top);
  }

  // Each change a tick in the colour of its author; one of the status only is smaller.
  #paintChanges(item, top, x) {
    const context = this.#context, events = this.#events.get(item.uid);
    if (!events) {
      context.fillStyle = this.#colors.back;
      context.globalAlpha = 0.55;
      for (const time of item.marks ?? []) context.fillRect(Math.round(x(time)), top + BAR - 4, 1, 4);
      context.globalAlpha = 1;
      item.authors?.forEach((author, at) => {
        const place = x(item.marks[at]);
        if (item.marks[at] === item.created) return;
        context.fillStyle = this.#colors.back;
        context.fillRect(place - 1.5, top, 3, BAR);
        context.fillStyle = authorColor(author);
        context.fillRect(place - 1, top - 2, 2, BAR + 4);
      });
      return;
    }
    for (const event of events) {
      const at = x(event.micros), small = event.summary?.statusOnly;
      if (event.change === "updated") {
        context.fillStyle = this.#colors.back;
        context.fillRect(at - (small ? 1 : 2.5), small ? top + BAR - 5 : top, small ? 2 : 5, small ? 5 : BAR);
        context.fillStyle = authorColor(authorOf(event));
        if (!small) context.fillRect(at - 1.5, top - 3, 3, BAR + 6);
      }
      if (event.version === this.cursor?.version) {
        context.strokeStyle = this.#colors.cursor;
        context.lineWidth = 2;
        context.strokeRect(at - 4, top - 4, 8, BAR + 8);
        context.lineWidth = 1;
      }
    }
  }

  // Writes that were refused: a cross in the row of the object, or of its kind if that is folded or the object unknown.
  #refusedIn(row) {
    if (row.note) return [];
    if (row.item) return this.#refused.get(keyOfRefused(row.item)) ?? [];
    const hidden = (one) => one.type === row.group.key && !this.#rows.some((other) => other.item && keyOfRefused(other.item) === keyOfRefused(one));
    return [...this.#refused.values()].filter(([one]) => hidden(one)).flat();
  }

  #paintRefused(row, y, left) {
    const context = this.#context, middle = y + ROW / 2;
    for (const [style, width] of [[this.#colors.back, 5], [this.#colors.deleted, 2.5]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.beginPath();
      for (const { micros } of this.#refusedIn(row)) {
        const x = left + this.#x(micros);
        context.moveTo(x - 4, middle - 4);
        context.lineTo(x + 4, middle + 4);
        context.moveTo(x + 4, middle - 4);
        context.lineTo(x - 4, middle + 4);
      }
      context.stroke();
    }
    context.lineWidth = 1;
  }

  // New values and phases, each where it begins, if there is room before the next.
  #paintTexts(item, y, x, begin, end) {
    // A phase is said where its colour is, never beside that of another.
    const phases = item.phases ?? [], slots = phases.map(([since, words, tone], at) =>
      [Math.max(begin, x(since)), [words], tone === "bad" ? 0 : 2, Math.min(end, at + 1 < phases.length ? x(phases[at + 1][0]) : end)]);
    for (const event of this.#events.get(item.uid) ?? []) {
      const texts = shortly(event);
      if (texts.length) slots.push([x(event.micros), texts, 1, end]);
    }
    // What fails is said first, then values; other phases, which are colours too, where there is room left.
    const taken = [], ticks = (this.#events.get(item.uid) ?? []).filter((event) => !event.summary?.statusOnly).map((event) => x(event.micros));
    for (const rank of [0, 1, 2]) {
      const own = slots.filter((slot) => slot[2] === rank).sort((one, other) => one[0] - other[0]);
      own.forEach(([from, texts, , last], at) => {
        let [start, until] = [from, Math.min(last, own[at + 1]?.[0] ?? end)];
        for (const [left, right] of taken) {
          if (left <= start + 1) start = Math.max(start, right);
          else until = Math.min(until, left);
        }
        for (const tick of ticks) if (tick > start + 1) until = Math.min(until, tick);
        const to = this.#paintWords(texts, start + 5, until - 4, y);
        if (to) taken.push([from, to]);
      });
    }
  }

  // The first text that fits; returns where it ends, 0 if none fits.
  #paintWords(texts, from, to, y) {
    const context = this.#context;
    context.font = "600 10px system-ui, sans-serif";
    const words = texts.map(visible).find((one) => context.measureText(one).width <= to - from);
    if (!words) return 0;
    context.fillStyle = this.#colors.inverse;
    context.fillText(words, from, y + ROW / 2 + 0.5);
    return from + context.measureText(words).width;
  }

  #phaseAt(item, time) {
    let found = "";
    for (const [since, words] of item.phases ?? []) if (since <= time) found = words;
    return found;
  }

  #paintDeletion(x, top) {
    const context = this.#context;
    context.fillStyle = this.#colors.deleted;
    context.fillRect(x - 3, top - 2, 3, BAR + 4);
  }

  #paintPresent(left, width, height) {
    const x = left + this.#x(this.#now), context = this.#context;
    if (!this.#now || x > width) return;
    context.fillStyle = this.#colors.line;
    context.globalAlpha = 0.35;
    context.fillRect(Math.max(x, left), HEAD, width - x, height);
    context.globalAlpha = 1;
  }

  #paintSelection(left, height) {
    if (!this.#drag?.selects) return;
    const [one, other] = [this.#drag.from, this.#drag.to].map((time) => left + this.#x(time));
    this.#context.globalAlpha = 0.2;
    this.#context.fillStyle = this.#colors.cursor;
    this.#context.fillRect(Math.min(one, other), HEAD, Math.abs(other - one), height);
    this.#context.globalAlpha = 1;
  }

  #paintCursor(time, color, letter, left, height) {
    const x = left + this.#x(time), context = this.#context;
    if (x < left - 1) return;
    context.fillStyle = this.#colors[color];
    context.fillRect(x - 1, 4, 2, height);
    context.beginPath();
    context.roundRect(x - 7, 2, 14, 14, 3);
    context.fill();
    if (!letter) return;
    context.fillStyle = this.#colors.back;
    context.font = "700 10px system-ui, sans-serif";
    context.fillText(letter, x - context.measureText(letter).width / 2, 9.5);
  }

  // Rows: the keys and the pointer choose one.

  select(distance) {
    const at = this.#rows.findIndex((row) => row.key === this.#selected);
    const next = Math.min(this.#rows.length - 1, Math.max(0, at < 0 ? 0 : at + distance));
    if (!this.#rows.length) return;
    this.#selected = this.#rows[next].key;
    const top = next * ROW, room = this.#canvas.clientHeight - HEAD;
    if (top < this.#scroller.scrollTop) this.#scroller.scrollTop = top;
    else if (top + ROW > this.#scroller.scrollTop + room) this.#scroller.scrollTop = top + ROW - room;
    this.draw();
    this.#hover(this.#rowText(this.#rows[next]));
  }

  // Select the row of an object and scroll to it, now and when the objects of another range are loaded.
  reveal(target) {
    this.#wanted = target;
    this.#unfold(target);
    this.#arrange();
  }

  #unfold(target) {
    if (!target) return;
    for (const group of this.#groups) {
      const at = (group.items ?? []).findIndex((item) => keyOfRefused(item) === keyOfRefused(target));
      if (at < 0 || (group.row && this.isFolded(group) && group.key !== target.type && group.items.length > MOST_UNFOLDED)) continue;
      this.#folded.set(group.key, false);
      for (let above = at, depth = group.items[at].depth; above >= 0 && depth > 0; above--) {
        if (group.items[above].depth >= depth) continue;
        depth = group.items[above].depth;
        this.#folded.delete(group.items[above].uid);
      }
      return;
    }
  }

  #find(target) {
    if (!target) return;
    const key = keyOfRefused(target);
    let at = this.#rows.findIndex((row) => row.item && keyOfRefused(row.item) === key);
    if (at < 0) at = this.#rows.findIndex((row) => row.group?.key === target.type && !row.note);
    if (at < 0) return;
    this.#selected = this.#rows[at].key;
    this.#resize();  // more rows may have been added
    const room = this.#canvas.clientHeight - HEAD, top = at * ROW;
    if (top < this.#scroller.scrollTop || top + ROW > this.#scroller.scrollTop + room) this.#scroller.scrollTop = top - room / 2 + ROW;
  }

  get selected() {
    return this.#rows.find((row) => row.key === this.#selected) ?? null;
  }

  // Fold or unfold a group, or the dependents of an object.
  toggle(row, folded = !row.folded) {
    if (!row.group && !row.owns) return;
    this.#folded.set(row.group ? row.group.key : row.item.uid, folded);
    this.#arrange();
    if (row.group && !folded && row.group.items === null) this.#dispatch("unfold");
  }

  foldAll(folded) {
    for (const group of this.#groups) this.#folded.set(group.key, folded);
    this.#arrange();
    if (!folded) this.#dispatch("unfold");
  }

  #dispatch(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  #rowText(row) {
    if (row.note) return row.note;
    if (row.group) return `${row.group.label}: ${row.group.total} changes${row.folded ? ", folded" : ""}`;
    const { item } = row, until = item.deleted || this.#now;
    const lived = item.created ? `, ${item.deleted ? "lived" : "for"} ${duration(until - item.created)}` : "";
    return `${objectText(item)}: ${item.changes} changes${lived}${item.phases?.length ? `, ${item.phases.at(-1)[1]}` : ""}`;
  }

  // The pointer.

  #timeAt(event) {
    const box = this.#canvas.getBoundingClientRect();
    return this.#scale.time(event.clientX - box.left - this.#labels);
  }

  #rowAt(event) {
    const y = event.clientY - this.#canvas.getBoundingClientRect().top - HEAD;
    return y < 0 ? null : this.#rows[Math.floor((y + this.#scroller.scrollTop) / ROW)] ?? null;
  }

  #inLabels(event) {
    return event.clientX - this.#canvas.getBoundingClientRect().left < this.#labels;
  }

  #inHead(event) {
    return event.clientY - this.#canvas.getBoundingClientRect().top < HEAD;
  }

  // The wheel scrolls the rows; with Ctrl (or pinching a touchpad) it zooms at the pointer, sideways it moves.
  #wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.show(zoom(this.view, Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), this.#timeAt(event)));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      this.show(pan(this.view, ((event.deltaX || event.deltaY) / this.#width) * spanOf(this.view)));
    }
  }

  #press(event) {
    if (event.button !== 0) return;
    const time = this.#timeAt(event);
    this.#canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, event);
    if (this.#pointers.size > 1) {
      this.#drag = { pinch: this.#spread(), view: this.view, moved: true };
      return;
    }
    const moves = this.#inHead(event) ? this.#handleAt(time) : "";
    this.#drag = { x: event.clientX, view: this.view, from: time, to: time, moved: false, selects: event.shiftKey, moves };
  }

  // Which cursor has its handle here.
  #handleAt(time) {
    const isNear = (one) => Math.abs(this.#x(one) - this.#x(time)) < 10;
    if (this.cursor?.time != null && isNear(this.cursor.time)) return "cursor";
    return this.second !== null && isNear(this.second) ? "second" : "";
  }

  #spread() {
    const [one, other] = [...this.#pointers.values()];
    return { distance: Math.max(20, Math.abs(one.clientX - other.clientX)), anchor: this.#timeAt({ clientX: (one.clientX + other.clientX) / 2 }) };
  }

  #move(event) {
    const drag = this.#drag;
    if (!drag) {
      this.#hover(this.#describe(event), event);
      return;
    }
    if (!event.buttons) {
      this.#forget(event);  // the button was released elsewhere
      return;
    }
    this.#pointers.set(event.pointerId, event);
    if (drag.pinch) {
      if (this.#pointers.size > 1) this.show(zoom(drag.view, drag.pinch.distance / this.#spread().distance, drag.pinch.anchor));
      return;
    }
    drag.moved ||= Math.abs(event.clientX - drag.x) > 4;
    if (!drag.moved) return;
    if (drag.moves === "second") this.#dispatch("second", this.#timeAt(event));
    else if (drag.moves === "cursor") this.#dispatch("cursor", { time: this.#timeAt(event) });
    else if (drag.selects) {
      drag.to = this.#timeAt(event);
      this.draw();
    } else this.show(pan(drag.view, (-(event.clientX - drag.x) / this.#width) * spanOf(drag.view)));
  }

  #forget(event) {
    this.#pointers.delete(event.pointerId);
    if (!this.#pointers.size) this.#drag = null;
  }

  #release(event) {
    const drag = this.#drag;
    this.#forget(event);
    if (!drag || drag.pinch) return;
    if (drag.moved) {
      if (!drag.selects) return;
      const [from, to] = [drag.from, drag.to].sort((one, other) => one - other);
      this.show(zoom({ from, to: Math.max(to, from + 1) }, 1, from));
    } else if (drag.selects) this.#dispatch("second", this.#timeAt(event));
    else this.#click(event);
  }

  #click(event) {
    const row = this.#rowAt(event);
    if (!row && this.#inLabels(event)) return;
    this.#selected = row?.key ?? "";
    if (row?.note) this.#dispatch("more", row.group);
    else if (row && this.#inLabels(event)) {
      const caret = event.clientX - this.#canvas.getBoundingClientRect().left < 16 + INDENT * (row.depth + 1);
      if (row.group || (row.owns && caret)) this.toggle(row);
      else this.#dispatch("open", row.item);
    } else {
      const near = row ? this.#nearest(row, event) : null;
      this.#dispatch("cursor", { time: near?.micros ?? this.#timeAt(event), event: near, item: row?.item ?? null });
    }
    this.draw();
  }

  // The event under the pointer, if single events are known.
  #nearest(row, event) {
    const place = event.clientX - this.#canvas.getBoundingClientRect().left - this.#labels, far = (one) => Math.abs(this.#x(one.micros) - place);
    const candidates = row.item ? this.#events.get(row.item.uid) ?? []
      : [...this.#events.values()].flat().filter((one) => one.type === row.group?.key || one.namespace === row.group?.key);
    let best = null;
    for (const one of [...candidates, ...this.#refusedIn(row)]) {
      if (far(one) <= NEAR && (!best || far(one) < far(best))) best = one;
    }
    return best;
  }

  #describe(event) {
    const row = this.#rowAt(event), time = this.#timeAt(event);
    if (this.#inLabels(event)) return row ? this.#rowText(row) : "";
    const at = readable(time, spanOf(this.view)), fold = this.#scale.folds.find((one) => time > one.from && time < one.to);
    const gap = worst(gapsAt(this.gaps, time, row && !row.note ? this.#typeOf(row) : "")), missed = gap ? `\n${gapText(gap, this.view)}` : "";
    if (fold) return `${at}\nnothing changed for ${duration(spanOf(fold))}: folded${missed}`;
    if (!row || row.note) return `${at}${missed}`;
    const near = this.#nearest(row, event);
    if (near) {
      const { what, who } = sentence(near);
      return `${readable(near.micros, SECOND)}  ${objectText(near)}\n${what}${who ? `, by ${who}` : ""}`;
    }
    if (row.item) {
      const phase = this.#phaseAt(row.item, time);
      const alive = (!row.item.created || time >= row.item.created) && (!row.item.deleted || time < row.item.deleted);
      return `${at}  ${objectText(row.item)}${alive ? (phase ? `\n${phase}` : "") : "\ndid not exist"}${missed}`;
    }
    const counts = this.#countsAt(row.group.row, time);
    return `${at}  ${row.group.label}\n${counts.map((count, which) => `${count} ${CHANGES[which]}`).join(", ")} in ${duration(this.data.width)}${missed}`;
  }

  #countsAt(row, time) {
    if (!row) return [0, 0, 0];
    const bucket = Math.floor((time - this.data.start) / this.data.width), at = firstCell(row.cells, bucket) * 4;
    return row.cells[at] === bucket ? row.cells.slice(at + 1, at + 4) : [0, 0, 0];
  }

  #hover(text, event = null) {
    this.#dispatch("hover", { text: text ?? "", x: event?.clientX ?? null, y: event?.clientY ?? null });
  }

  // Keep the cursor in view while it moves by itself.
  follow() {
    if (this.cursor?.time == null) return;
    const moved = including(this.view, this.cursor.time);
    if (moved !== this.view) this.show(moved);
    else this.draw();
  }
}

// The parts of a stretch between these times.
function without({ from, to }, times) {
  const cuts = [from, ...times.filter((time) => time > from && time < to).sort((one, other) => one - other), to];
  return cuts.slice(1).map((end, at) => ({ from: cuts[at], to: end }));
}

const keyOfRefused = ({ type, namespace, name }) => `${type} ${namespace}/${name}`;

// The new value of what changed most tellingly, long and short: "replicas 5", "5". Phases show what the status says, and
// metadata is rarely what a picture is looked at for.
function shortly(event) {
  const change = event.summary?.changes?.[0];
  if (event.change !== "updated" || !change || !("new" in change) || typeof change.new === "object") return [];
  if (/^(status|metadata)\b/.test(change.field)) return [];
  if (change.field === "spec.nodeName") return [];  // of every pod
  const name = change.field.replace(/\[[^\]]*\]$/, "").split(".").at(-1);
  return [`${name} ${change.new}`.slice(0, 40), String(change.new).slice(0, 20)];
}

// The range that a first look shows: the last hour that has events, however long ago that was; without those with which
// the server began, if there are others.
export function firstRange(oldest, newest, now) {
  if (!newest) return { from: now - HOUR, to: now };
  const all = newest.time - (oldest?.time ?? newest.time), span = Math.min(Math.max(all, 5 * SECOND), HOUR);
  const from = all > HOUR || all < 2 * START ? newest.time - span * 1.03 : oldest.time + START;
  return { from: Math.round(from), to: Math.round(newest.time + span * 0.04) };
}
