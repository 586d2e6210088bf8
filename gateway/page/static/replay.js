// Moves a replay (`rewound replay`): what the server shows to everybody, not the cursor of this page.

import { find } from "./dom.js";
import { parseTime, readable } from "./scale.js";

const LOOK = 1000;  // milliseconds between two looks while it plays

export class ReplayBar {
  #session;
  #moved;
  #state = null;
  #timer = 0;

  // `moved` is called when the server shows another moment.
  constructor(session, moved, fail) {
    this.#session = session;
    this.#moved = moved;
    const press = (id, action) => find(id).addEventListener("click", () => this.#act(action()).catch(fail));
    press("replay-back", () => ({ action: "back" }));
    press("replay-step", () => ({ action: "step" }));
    press("replay-play", () => (this.#state?.playing ? { action: "pause" } : { action: "play", speed: find("replay-speed").value }));
  }

  async begin() {
    clearTimeout(this.#timer);
    find("replay").hidden = true;
    if (!this.#session.replays) return;
    try {
      this.#show(await this.#session.replay());
      find("replay").hidden = false;
    } catch {
      // It is no replay, or its user may not see it.
    }
  }

  async #act(action) {
    this.#show(await this.#session.replay(action));
    this.#moved();
  }

  #show(state) {
    this.#state = state;
    const time = parseTime(state.time);
    find("replay-now").textContent = `version ${state.version}${time === null ? "" : `, ${readable(time)}`} of ${state.end.version}${state.stopped ? ` (${state.stopped})` : ""}`;
    find("replay-play").textContent = state.playing ? "Pause" : "Play";
    find("replay-play").setAttribute("aria-pressed", String(state.playing));
    clearTimeout(this.#timer);
    if (state.playing) this.#timer = setTimeout(() => this.#look(), LOOK);
  }

  async #look() {
    try {
      this.#show(await this.#session.replay());
      this.#moved();
    } catch {
      find("replay").hidden = true;
    }
  }
}
