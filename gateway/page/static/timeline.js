// The timeline: a canvas with a row per kind or namespace, drawn from counts per bucket, or from single events.

import { columns, duration, firstCell, including, pan, readable, spanOf, ticks, timeOf, xOf, zoom } from "./scale.js";

const ROW = 24, HEAD = 22, LEAST_ROWS = 5, MOST_ROWS = 14;
export const CHANGES = ["created", "updated", "deleted"];

export class Timeline extends EventTarget {
  view = { from: 0, to: 1 };
  data = null;       // the newest response with counts
  events = [];       // single events of the view, if they are few
  cursor = null;     // a time
  frames = 0;
  #canvas;
  #context;
  #scheduled = false;
  #scroll = 0;       // the first row
  #drag = null;
  #colors = {};
  #rowOf = new Map();

  constructor(canvas) {
    super();
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#readColors());
    this.#readColors();
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#release(event));
    canvas.addEventListener("pointercancel", () => { this.#drag = null; });
    canvas.addEventListener("dblclick", (event) => this.show(zoom(this.view, 0.25, this.#timeAt(event))));
  }

  get #labels() {
    return Math.min(170, Math.max(84, this.#canvas.clientWidth * 0.24));
  }

  get #width() {
    return Math.max(1, this.#canvas.clientWidth - this.#labels);
  }

  get buckets() {
    return Math.min(1000, Math.max(100, Math.round(this.#width / 2)));
  }

  get rows() {
    return this.data?.rows ?? [];
  }

  // Change what is shown, and say so.
  show(view) {
    this.view = view;
    this.draw();
    this.dispatchEvent(new Event("view"));
  }

  load(data, events) {
    this.data = data;
    this.events = events;
    this.#rowOf = new Map(this.rows.map((row, at) => [`${row.type}/${row.namespace}`, at]));
    this.#scroll = Math.min(this.#scroll, Math.max(0, this.rows.length - MOST_ROWS));
    this.#canvas.height = 0;  // its height follows the number of rows
    this.draw();
  }

  draw() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#paint();
      this.frames++;
      this.dispatchEvent(new Event("painted"));
    });
  }

  #readColors() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["text", "faint", "line", "back", "cursor", ...CHANGES]) {
      this.#colors[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.draw();
  }

  #resize() {
    const ratio = devicePixelRatio || 1;
    const shown = Math.min(Math.max(this.rows.length, LEAST_ROWS), MOST_ROWS);
    const height = HEAD + shown * ROW;
    const width = this.#canvas.clientWidth;
    if (this.#canvas.style.height !== `${height}px`) this.#canvas.style.height = `${height}px`;
    if (this.#canvas.width !== Math.round(width * ratio) || this.#canvas.height !== Math.round(height * ratio)) {
      this.#canvas.width = Math.round(width * ratio);
      this.#canvas.height = Math.round(height * ratio);
    }
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { width, height, shown };
  }

  #paint() {
    const { width, height, shown } = this.#resize();
    const context = this.#context, left = this.#labels;
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.#paintTicks(left, width, height);
    const rows = this.rows.slice(this.#scroll, this.#scroll + shown);
    rows.forEach((row, at) => this.#paintLabel(row, HEAD + at * ROW, left, width));
    if (this.data) {
      context.save();
      context.beginPath();
      context.rect(left, HEAD, width - left, height - HEAD);
      context.clip();
      if (this.events.length) this.#paintEvents(left, shown);
      else this.#paintCounts(rows, left);
      context.restore();
    }
    this.#paintSelection(left, height);
    this.#paintCursor(left, height);
  }

  #paintTicks(left, width, height) {
    const context = this.#context;
    for (const { time, label, major } of ticks(this.view, this.#width)) {
      const x = Math.round(left + xOf(this.view, this.#width, time)) + 0.5;
      if (x < left) continue;
      context.strokeStyle = major ? this.#colors.faint : this.#colors.line;
      context.beginPath();
      context.moveTo(x, HEAD - 4);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = this.#colors.faint;
      if (x + 3 + context.measureText(label).width <= width) context.fillText(label, x + 3, HEAD / 2);
    }
  }

  #paintLabel(row, y, left, width) {
    const context = this.#context;
    context.strokeStyle = this.#colors.line;
    context.beginPath();
    context.moveTo(0, y + ROW - 0.5);
    context.lineTo(width, y + ROW - 0.5);
    context.stroke();
    context.fillStyle = this.#colors.text;
    context.save();
    context.beginPath();
    context.rect(0, y, left - 6, ROW);
    context.clip();
    context.fillText(this.#fitting([row.type, row.namespace].filter(Boolean).join(" · ") || "cluster", left - 12), 4, y + ROW / 2);
    context.restore();
  }

  #fitting(text, width) {
    let shown = text;
    while (shown.length > 4 && this.#context.measureText(shown).width > width) shown = `${shown.slice(0, -2)}…`;
    return shown;
  }

  #paintCounts(rows, left) {
    const context = this.#context, painted = rows.map((row) => columns(row, this.data, this.view, this.#width));
    let most = 1;
    for (const found of painted) for (const one of found) most = Math.max(most, one[2] + one[3] + one[4]);
    const scale = (ROW - 5) / Math.log2(most + 1);
    CHANGES.forEach((change, which) => {
      context.fillStyle = this.#colors[change];
      painted.forEach((found, at) => {
        const bottom = HEAD + (at + 1) * ROW - 2;
        for (const [x, size, ...counts] of found) {
          if (!counts[which]) continue;
          const total = counts[0] + counts[1] + counts[2];
          const height = Math.max(3, scale * Math.log2(total + 1));
          const below = counts.slice(0, which).reduce((sum, one) => sum + one, 0);
          const part = (height * counts[which]) / total;
          context.fillRect(left + x, bottom - (height * below) / total - part, Math.max(1, size - (size > 3 ? 1 : 0)), part);
        }
      });
    });
  }

  #paintEvents(left, shown) {
    const context = this.#context;
    for (const event of this.events) {
      const row = this.rowOf(event) - this.#scroll;
      if (row < 0 || row >= shown || event.micros < this.view.from || event.micros > this.view.to) continue;
      const x = left + xOf(this.view, this.#width, event.micros), y = HEAD + row * ROW + ROW / 2;
      context.fillStyle = this.#colors[event.change];
      context.beginPath();
      context.arc(x, y, event.version === this.cursor?.version ? 7 : 5, 0, 2 * Math.PI);
      context.fill();
    }
  }

  #paintSelection(left, height) {
    if (!this.#drag?.selects) return;
    const [one, other] = [this.#drag.from, this.#drag.to].map((time) => left + xOf(this.view, this.#width, time));
    this.#context.globalAlpha = 0.2;
    this.#context.fillStyle = this.#colors.cursor;
    this.#context.fillRect(Math.min(one, other), HEAD, Math.abs(other - one), height);
    this.#context.globalAlpha = 1;
  }

  #paintCursor(left, height) {
    if (this.cursor === null || this.cursor.time === null) return;
    const x = left + xOf(this.view, this.#width, this.cursor.time);
    if (x < left) return;
    this.#context.fillStyle = this.#colors.cursor;
    this.#context.fillRect(x - 1, 0, 2, height);
  }

  rowOf(event) {
    const { type, namespace } = event;
    return this.#rowOf.get(`${type}/`) ?? this.#rowOf.get(`${type}/${namespace}`) ?? this.#rowOf.get(`/${namespace}`) ?? -1;
  }

  // The pointer.

  #timeAt(event) {
    const box = this.#canvas.getBoundingClientRect();
    return timeOf(this.view, this.#width, event.clientX - box.left - this.#labels);
  }

  #rowAt(event) {
    const box = this.#canvas.getBoundingClientRect();
    return this.rows[Math.floor((event.clientY - box.top - HEAD) / ROW) + this.#scroll];
  }

  #wheel(event) {
    event.preventDefault();
    const box = this.#canvas.getBoundingClientRect();
    if (event.clientX - box.left < this.#labels) {
      const most = Math.max(0, this.rows.length - MOST_ROWS);
      this.#scroll = Math.min(most, Math.max(0, this.#scroll + Math.sign(event.deltaY)));
      this.draw();
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.show(pan(this.view, (event.deltaX / this.#width) * spanOf(this.view)));
    } else {
      this.show(zoom(this.view, Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), this.#timeAt(event)));
    }
  }

  #press(event) {
    const time = this.#timeAt(event);
    this.#canvas.setPointerCapture(event.pointerId);
    this.#drag = { x: event.clientX, view: this.view, from: time, to: time, moved: false, selects: event.shiftKey };
  }

  #move(event) {
    const drag = this.#drag;
    if (!drag) {
      this.dispatchEvent(new CustomEvent("hover", { detail: this.#describe(event) }));
      return;
    }
    drag.moved ||= Math.abs(event.clientX - drag.x) > 4;
    if (drag.selects) {
      drag.to = this.#timeAt(event);
      this.draw();
    } else if (drag.moved) {
      this.show(pan(drag.view, (-(event.clientX - drag.x) / this.#width) * spanOf(drag.view)));
    }
  }

  #release(event) {
    const drag = this.#drag;
    this.#drag = null;
    if (!drag) return;
    if (drag.selects && drag.moved) {
      const [from, to] = [drag.from, drag.to].sort((one, other) => one - other);
      this.show(zoom({ from, to: Math.max(to, from + 1) }, 1, from));
    } else if (!drag.moved) {
      const near = this.#nearest(event);
      const detail = near ? { time: near.micros, version: near.version, event: near } : { time: this.#timeAt(event), version: "" };
      this.dispatchEvent(new CustomEvent("cursor", { detail }));
    }
  }

  // The event under the pointer, if single events are drawn.
  #nearest(event) {
    const row = this.#rowAt(event), time = this.#timeAt(event);
    const reach = (8 / this.#width) * spanOf(this.view);
    let best = null;
    for (const one of this.events) {
      if (this.rows[this.rowOf(one)] !== row || Math.abs(one.micros - time) > reach) continue;
      if (best === null || Math.abs(one.micros - time) < Math.abs(best.micros - time)) best = one;
    }
    return best;
  }

  #describe(event) {
    const near = this.#nearest(event), row = this.#rowAt(event), time = this.#timeAt(event);
    if (near) return `${readable(near.micros)} ${near.verb} ${near.type} ${near.namespace ? `${near.namespace}/` : ""}${near.name}`;
    if (!row || !this.data) return readable(time, spanOf(this.view));
    const bucket = Math.floor((time - this.data.start) / this.data.width);
    const at = firstCell(row.cells, bucket) * 4;
    const counts = row.cells[at] === bucket ? row.cells.slice(at + 1, at + 4) : [0, 0, 0];
    const words = counts.map((count, which) => `${count} ${CHANGES[which]}`).join(", ");
    const name = [row.type, row.namespace].filter(Boolean).join(" · ");
    return `${readable(time, spanOf(this.view))} ${name}: ${words} in ${duration(this.data.width)}`;
  }

  // Keep the cursor in view while it moves by itself.
  follow() {
    if (this.cursor?.time == null) return;
    const moved = including(this.view, this.cursor.time);
    if (moved !== this.view) this.show(moved);
    else this.draw();
  }
}
