// A replay (`rewound replay`): what the server shows to everybody, not the cursor of this page. Where there is one, the
// buttons to step and play move it.

import { find } from "./dom.js";
import { parseTime, readable } from "./scale.js";

const LOOK = 1000;  // milliseconds between two looks while it plays

export class Replay {
  #session;
  #moved;
  #state = null;
  #timer = 0;

  // `moved` is called when the server shows another moment, and awaited before the next look.
  constructor(session, moved) {
    this.#session = session;
    this.#moved = moved;
  }

  get active() {
    return this.#state !== null;
  }

  get playing() {
    return this.#state?.playing ?? false;
  }

  async begin() {
    clearTimeout(this.#timer);
    this.#state = null;
    find("replay-now").hidden = true;
    if (!this.#session.replays) return;
    try {
      this.#show(await this.#session.replay());
      this.#lookLater();
      find("replay-now").hidden = false;
    } catch (error) {
      if (![401, 403, 404].includes(error.status)) throw error;  // else it is no replay, or its user may not see it
    }
  }

  step(forward) {
    return this.#act({ action: forward ? "step" : "back" });
  }

  // At a speed like "60x", or "max".
  toggle(speed) {
    return this.#act(this.playing ? { action: "pause" } : { action: "play", speed });
  }

  async #act(action) {
    this.#show(await this.#session.replay(action));
    await this.#moved();
    this.#lookLater();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#state = null;
  }

  #show(state) {
    this.#state = state;
    const time = parseTime(state.time), at = time === null ? "" : `, ${readable(time, 1e6)}`;
    find("replay-now").textContent = `Replay at version ${state.version}${at} of ${state.end.version}${state.stopped ? ` (${state.stopped})` : ""}`;
  }

  #lookLater() {
    clearTimeout(this.#timer);
    if (this.playing) this.#timer = setTimeout(() => this.#look(), LOOK);
  }

  async #look() {
    try {
      this.#show(await this.#session.replay());
    } catch (error) {
      if ([401, 403, 404].includes(error.status)) {
        this.stop();
        find("replay-now").hidden = true;
      }
    }
    await this.#moved();
    this.#lookLater();
  }
}
