// The strip above the lanes: all of the journal, with the part that is shown. Dragging moves that part.

import { endOf, gapsIn } from "./gaps.js";
import { columns, spanOf, timeOf, xOf } from "./scale.js";

export class Overview extends EventTarget {
  #gaps = [];
  #canvas;
  #data = null;
  #range = { from: 0, to: 1 };
  #view = null;
  #cursor = null;
  #drag = false;
  #counts = null;    // painted once, however often the view moves
  #scheduled = false;

  constructor(canvas) {
    super();
    this.#canvas = canvas;
    new ResizeObserver(() => this.#repaint()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#repaint());
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.#drag = true;
      canvas.setPointerCapture(event.pointerId);
      this.#move(event);
    });
    canvas.addEventListener("pointermove", (event) => this.#drag && this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { this.#drag = false; });
  }

  get buckets() {
    return Math.min(600, Math.max(60, Math.round(this.#canvas.clientWidth / 3)));
  }

  // Stretches that the recording missed.
  set gaps(gaps) {
    this.#gaps = gaps;
    this.#repaint();
  }

  load(data, range) {
    this.#data = data;
    this.#range = range;
    this.#repaint();
  }

  show(view, cursor) {
    this.#view = view;
    this.#cursor = cursor;
    this.draw();
  }

  #move(event) {
    const time = timeOf(this.#range, this.#canvas.clientWidth, event.clientX - this.#canvas.getBoundingClientRect().left);
    this.dispatchEvent(new CustomEvent("move", { detail: time }));
  }

  #repaint() {
    this.#counts = null;
    this.draw();
  }

  draw() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#paint();
    });
  }

  #paint() {
    const ratio = devicePixelRatio || 1, width = this.#canvas.clientWidth, height = this.#canvas.clientHeight;
    const style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(`--${name}`).trim();
    if (!this.#counts || this.#canvas.width !== Math.round(width * ratio)) {
      this.#canvas.width = Math.round(width * ratio);
      this.#canvas.height = Math.round(height * ratio);
      this.#counts = new OffscreenCanvas(Math.max(1, this.#canvas.width), Math.max(1, this.#canvas.height));
      const painted = this.#counts.getContext("2d");
      painted.setTransform(ratio, 0, 0, ratio, 0, 0);
      for (const one of gapsIn(this.#gaps, this.#range)) {
        const from = Math.max(0, xOf(this.#range, width, one.fromMicros)), to = Math.min(width, xOf(this.#range, width, endOf(one)));
        painted.fillStyle = color(one.missing ? "deleted" : "faint");
        painted.fillRect(from, 0, Math.max(2, to - from), 3);
      }
      if (this.#data) this.#paintCounts(painted, width, height, color("faint"));
    }
    const context = this.#canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    context.drawImage(this.#counts, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (!this.#view) return;
    const [from, to] = [this.#view.from, this.#view.to].map((time) => xOf(this.#range, width, time));
    context.fillStyle = color("link");
    context.globalAlpha = 0.18;
    context.fillRect(from, 0, Math.max(2, to - from), height);
    context.globalAlpha = 1;
    for (const x of [from, to]) context.fillRect(x - 1, 0, 2, height);
    if (this.#cursor?.time != null) {
      context.fillStyle = color("cursor");
      context.fillRect(xOf(this.#range, width, this.#cursor.time) - 1, 0, 2, height);
    }
  }

  #paintCounts(context, width, height, color) {
    const totals = new Map();
    for (const row of this.#data.rows) {
      for (const [x, , ...counts] of columns(row, this.#data, this.#range, width)) {
        totals.set(x, (totals.get(x) ?? 0) + counts[0] + counts[1] + counts[2]);
      }
    }
    const most = Math.log2(Math.max(1, ...totals.values()) + 1), wide = Math.max(1, (this.#data.width / spanOf(this.#range)) * width);
    context.fillStyle = color;
    for (const [x, count] of totals) {
      const high = Math.max(2, (Math.log2(count + 1) / most) * (height - 2));
      context.fillRect(x, height - high, wide, high);
    }
  }
}
