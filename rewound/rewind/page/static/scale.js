// Times and pixels: pure functions, all times in microseconds since 1970. A view is {from, to}.

export const MILLISECOND = 1000, SECOND = 1e6, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
export const LEAST_SPAN = 100, MOST_SPAN = 400 * DAY;

// Distances between two ticks.
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const TICKS = [
  ...STEPS, ...STEPS.map((one) => one * MILLISECOND),
  ...[1, 2, 5, 10, 15, 30].map((one) => one * SECOND), ...[1, 2, 5, 10, 15, 30].map((one) => one * MINUTE),
  ...[1, 2, 3, 6, 12].map((one) => one * HOUR), ...[1, 2, 7, 14, 28, 56, 112].map((one) => one * DAY),
];

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

export const spanOf = (view) => view.to - view.from;

export const xOf = (view, width, time) => ((time - view.from) / spanOf(view)) * width;

export const timeOf = (view, width, x) => Math.round(view.from + (x / width) * spanOf(view));

// Stretches without a change, from the counts of all rows: [{from, to}, ...], oldest first.
export function gapsOf(data) {
  const times = new Set();
  for (const { cells } of data.rows) for (let at = 0; at < cells.length; at += 4) times.add(cells[at]);
  const buckets = [-1, ...[...times].sort((one, other) => one - other), data.buckets], found = [];
  for (let at = 1; at < buckets.length && times.size; at++) {
    if (buckets[at] > buckets[at - 1] + 1) found.push({ from: data.start + (buckets[at - 1] + 1) * data.width, to: data.start + buckets[at] * data.width });
  }
  return found;
}

export const FOLD = 46;               // pixels of a stretch that is folded
const LONG = 0.2, BESIDE = 0.015;     // shares of the view: what is folded, and what of it stays beside the changes

// Where the times of a view are in so many pixels. Long stretches without a change are folded.
export class Scale {
  folds = [];     // {from, to, x}
  segments = [];  // what is not folded: {from, to, x, width}
  #view; #width; #rate = 0;

  constructor(view, width, gaps = []) {
    this.#view = view;
    this.#width = width;
    const span = spanOf(view), beside = span * BESIDE;
    const inside = gaps.map(({ from, to }) => ({ from: Math.max(from + (from > view.from ? beside : 0), view.from), to: Math.min(to - (to < view.to ? beside : 0), view.to) }));
    const long = inside.filter(({ from, to }) => to - from > LONG * span);
    const folded = long.reduce((sum, one) => sum + spanOf(one), 0), room = width - FOLD * long.length;
    const used = folded < span * 0.999 && room > width / 3 ? long : [];
    this.#rate = used.length ? room / (span - folded) : width / span;
    let from = view.from, x = 0;
    for (const fold of [...used, { from: view.to, to: view.to }]) {
      const size = (fold.from - from) * this.#rate;
      this.segments.push({ from, to: fold.from, x, width: size });
      x += size;
      if (spanOf(fold)) this.folds.push({ ...fold, x });
      x += FOLD;
      from = fold.to;
    }
  }

  get rate() {
    return this.#rate;
  }

  x(time) {
    if (!this.folds.length || time <= this.#view.from) return (time - this.#view.from) * this.#rate;
    let at = this.segments.length - 1;
    while (at > 0 && time < this.segments[at].from) at--;
    const { from, to, x, width } = this.segments[at], fold = this.folds[at];
    if (!fold || time <= to) return x + (time - from) * this.#rate;
    return x + width + ((time - fold.from) / spanOf(fold)) * FOLD;
  }

  time(x) {
    if (!this.folds.length || x <= 0) return Math.round(this.#view.from + x / this.#rate);
    let at = this.segments.length - 1;
    while (at > 0 && x < this.segments[at].x) at--;
    const segment = this.segments[at], fold = this.folds[at], beyond = x - segment.x - segment.width;
    if (!fold || beyond <= 0) return Math.round(segment.from + (x - segment.x) / this.#rate);
    return Math.round(fold.from + (beyond / FOLD) * spanOf(fold));
  }
}

// The time under the anchor stays where it is. A factor below 1 zooms in.
export function zoom(view, factor, anchor) {
  const span = Math.round(clamp(spanOf(view) * factor, LEAST_SPAN, MOST_SPAN));
  const share = clamp((anchor - view.from) / spanOf(view), 0, 1);
  const from = Math.round(anchor - share * span);
  return { from, to: from + span };
}

export function pan(view, distance) {
  const moved = Math.round(distance);
  return { from: view.from + moved, to: view.to + moved };
}

export function around(time, span) {
  const from = Math.round(time - span / 2);
  return { from, to: from + span };
}

// A view that shows the time, moved as little as possible.
export function including(view, time) {
  const margin = spanOf(view) * 0.1;
  if (time < view.from + margin) return pan(view, time - view.from - margin);
  if (time > view.to - margin) return pan(view, time - view.to + margin);
  return view;
}

export function ticks(view, width, apart = 110) {
  const least = (spanOf(view) / Math.max(width, 1)) * apart;
  const step = TICKS.find((one) => one >= least) ?? TICKS.at(-1);
  const found = [];
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    found.push({ time, label: tickLabel(time, step), major: time % DAY === 0 });
  }
  return found;
}

function tickLabel(time, step) {
  const text = rfc3339(time);
  if (time % DAY === 0) return text.slice(0, 10);
  if (step >= MINUTE) return text.slice(11, 16);
  if (step >= SECOND) return text.slice(11, 19);
  return text.slice(14, step >= MILLISECOND ? 23 : 26);
}

// Exactly: a Date has no microseconds.
export function rfc3339(time) {
  const micros = ((time % SECOND) + SECOND) % SECOND;
  const whole = new Date((time - micros) / MILLISECOND).toISOString().slice(0, 19);
  return `${whole}.${String(micros).padStart(6, "0")}Z`;
}

export function parseTime(text) {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?Z$/.exec(text ?? "");
  if (!match) return null;
  const whole = Date.parse(`${match[1]}Z`);
  return Number.isNaN(whole) ? null : whole * MILLISECOND + Number((match[2] ?? "").padEnd(6, "0"));
}

export function readable(time, span = 0) {
  const text = rfc3339(time).replace("T", " ");
  return span > MINUTE ? text.slice(0, 19) : span > SECOND ? text.slice(0, 23) : text.slice(0, 26);
}

export function duration(micros) {
  for (const [unit, size] of [["d", DAY], ["h", HOUR], ["min", MINUTE], ["s", SECOND], ["ms", MILLISECOND]]) {
    if (micros >= size) return `${Number((micros / size).toPrecision(3))} ${unit}`;
  }
  return `${Math.round(micros)} µs`;
}

// The first cell of a row whose bucket ends after the view begins. Cells are [bucket, created, updated, deleted, ...].
export function firstCell(cells, bucket) {
  let low = 0, high = cells.length / 4;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cells[middle * 4] < bucket) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Counts per column of pixels, from the buckets that a view shows: [x, width, created, updated, deleted], ...
export function columns(row, data, view, width, scale = new Scale(view, width)) {
  const found = [];
  const perBucket = data.width * scale.rate;
  const size = Math.max(perBucket, 1);
  const first = Math.floor((view.from - data.start) / data.width);
  const last = Math.floor((view.to - data.start) / data.width);
  let column = null;
  for (let at = firstCell(row.cells, first); at * 4 < row.cells.length; at++) {
    const place = at * 4, bucket = row.cells[place];
    if (bucket > last) break;
    const x = Math.floor(scale.x(data.start + bucket * data.width));
    if (column !== null && column[0] === x) {
      column[2] += row.cells[place + 1];
      column[3] += row.cells[place + 2];
      column[4] += row.cells[place + 3];
    } else {
      column = [x, Math.max(1, Math.floor(size)), row.cells[place + 1], row.cells[place + 2], row.cells[place + 3]];
      found.push(column);
    }
  }
  return found;
}

// How many changes of a row are in a view: those of buckets that begin in it, up to one whose middle is in it.
export function countIn(row, data, view) {
  const first = (view.from - data.start) / data.width, last = (view.to - data.start) / data.width - 0.5;
  let count = 0;
  for (let at = firstCell(row.cells, first) * 4; at < row.cells.length && row.cells[at] <= last; at += 4) {
    count += row.cells[at + 1] + row.cells[at + 2] + row.cells[at + 3];
  }
  return count;
}
