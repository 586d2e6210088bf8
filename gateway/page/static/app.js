// Connects the parts of the page: what it shows is one state, which is also in the URL.

import { GROUP, Refused, Session } from "./api.js";
import { ChangesPane } from "./changes.js";
import { debounced, element, find } from "./dom.js";
import { exportEvents } from "./export.js";
import { TEXTS, format, hasSecret, parse, query } from "./filters.js";
import { ObjectPane } from "./object.js";
import { ReplayBar } from "./replay.js";
import { DAY, HOUR, around, duration, pan, readable, rfc3339, spanOf, zoom } from "./scale.js";
import { StatePane } from "./state.js";
import { Timeline } from "./timeline.js";

const FEW = 300;       // events that are drawn one by one
const LISTED = 100;
const PLAYED = 1000;   // milliseconds between two looks at the state while playing

const session = new Session();
const timeline = new Timeline(find("timeline"));
const changes = new ChangesPane(session, {
  choose: (event) => choose(event),
  move: (event) => setCursor({ time: event.micros, version: event.version }),
  newest: () => newest && show(around(newest.time, spanOf(state.view))),
  all: showAll,
  clear: clearFilters,
  filter: () => find("filters").elements.namespace.focus(),
});
const statePane = new StatePane(session, (target) => openObject(target));
const objectPane = new ObjectPane(session, {
  open: (target) => openObject(target),
  choose: (left, right) => { Object.assign(state, { left, right }); remember(); },
  jump: (version) => jumpTo(version),
  cursor: () => state.cursor,
});
const replayBar = new ReplayBar(session, () => { reload(); showState(); }, (error) => fail(error));
let state = parse(location.hash, Date.now() * 1000);
let newest = null, oldest = null;
let loading = null, following = null, playing = 0, outdated = false;

// The address.

function remember() {
  history.replaceState(null, "", format(state));
}

function say(text) {
  const message = find("message");
  message.textContent = text;
  message.hidden = !text;
}

function fail(error) {
  if (error.name === "AbortError") return;
  if (error instanceof Refused && error.status === 401) {
    askToSignIn("The server does not know this token, or it has expired.");
    return;
  }
  say(error.message);
}

// Signing in.

function askToSignIn(why = "") {
  stopFollowing();
  session.signOut();
  find("main").hidden = true;
  find("sign-in").hidden = false;
  find("sign-out").hidden = true;
  find("user").textContent = "";
  say(why);
  find("token").focus();
}

async function begin() {
  say("");
  try {
    await session.loadTypes(namespaceQuery());
  } catch (error) {
    if (error instanceof Refused && [401, 403].includes(error.status)) askToSignIn(session.hasToken ? error.message : "");
    else fail(error);
    return;
  }
  find("sign-in").hidden = true;
  find("main").hidden = false;
  find("sign-out").hidden = !session.hasToken;
  find("user").textContent = session.user;
  find("types").replaceChildren(...[...session.types.keys()].map((value) => element("option", { value })));
  showFilters();
  replayBar.begin();
  await firstView();
  timeline.cursor = state.cursor;
  changes.follow(state.cursor);
  timeline.view = state.view;
  await reload();
  if (state.cursor?.version && state.cursor.time === null) await jumpTo(state.cursor.version);
  else showState();
  if (state.object) openObject(state.object, false);
  else objectPane.show(null);
  if (state.live) follow();
}

const namespaceQuery = () => {
  const given = new URLSearchParams();
  for (const one of query(state).getAll("namespace")) given.append("namespace", one);
  return given;
};

// Without a range in the address, the last hour before the newest event.
async function firstView() {
  if (new URLSearchParams(location.hash.slice(1)).has("from")) return;
  const found = await session.events(new URLSearchParams({ limit: "1" }));
  const end = Math.max(found.newest?.time ?? 0, found.now - HOUR) + 60 * 1e6;
  const span = Math.min(Math.max(end - (found.oldest?.time ?? end - HOUR), 60e6), HOUR);
  state.view = { from: end - span, to: end };
}

// Loading.

async function reload() {
  loading?.abort();
  const { signal } = (loading = new AbortController());
  changes.loading();
  try {
    const margin = Math.round(spanOf(state.view) / 2);
    const parameters = query(state);
    parameters.set("from", rfc3339(state.view.from - margin));
    parameters.set("to", rfc3339(state.view.to + margin));
    parameters.set("buckets", String(Math.min(2000, timeline.buckets * 2)));
    parameters.set("by", state.by);
    const data = await session.timeline(parameters, signal);
    newest = data.newest ?? null;
    oldest = data.oldest ?? null;
    const list = await session.events(eventQuery(LISTED), signal);
    timeline.load(data, await fewEvents(data, list, signal));
    say(notices(data));
    showRange();
    changes.show({
      items: list.items, token: list.metadata.continue, query: eventQuery(LISTED), filtered: TEXTS.some((name) => state[name]),
      indexed: list.indexed, newest, allowed: session.types.size > 0,
    });
    document.body.dataset.loads = String(Number(document.body.dataset.loads ?? 0) + 1);
  } catch (error) {
    if (!signal.aborted) changes.stopLoading();
    fail(error);
  }
}

function notices(data) {
  const notes = [];
  if (!data.rows.length && !session.types.size) notes.push("You may not list anything in all namespaces: name a namespace in the filter.");
  if (data.rowsLeftOut) notes.push(`${data.rowsLeftOut} rows with fewer events are left out: filter by kind or namespace.`);
  if (data.searchedFrom) notes.push(`Only the events from version ${data.searchedFrom} on were searched: choose a shorter range.`);
  return notes.join(" ");
}

function eventQuery(limit, view = state.view) {
  const parameters = query(state);
  parameters.set("from", rfc3339(view.from));
  parameters.set("to", rfc3339(view.to));
  parameters.set("limit", String(limit));
  parameters.set("summary", "true");
  return parameters;
}

// All events of what was loaded, if they are few: they are drawn at their exact times.
async function fewEvents(data, list, signal) {
  const total = data.rows.reduce((sum, row) => sum + row.total, 0);
  if (!total || total > FEW || data.rowsLeftOut) return [];
  const end = data.start + data.buckets * data.width;
  const found = await session.events(eventQuery(FEW, { from: data.start, to: end }), signal);
  return found.metadata.continue ? [] : found.items;
}

const reloadSoon = debounced(reload, 150);

// What is shown.

function showRange() {
  const { from, to } = state.view, span = spanOf(state.view);
  find("range").textContent = `${readable(from, span)} – ${readable(to, span)} UTC (${duration(span)})`;
  find("cursor").textContent = !state.cursor ? "No cursor"
    : `${state.cursor.time === null ? "" : readable(state.cursor.time)} ${state.cursor.version ? `version ${state.cursor.version}` : ""}`;
}

function showFilters() {
  for (const name of [...TEXTS, "by"]) find("filters").elements[name].value = state[name];
}

function choose(event) {
  setCursor({ time: event.micros, version: event.version });
  state.left = "";
  state.right = event.version;
  openObject({ type: event.type, namespace: event.namespace, name: event.name }, false);
}

function setCursor(cursor, { follow = true } = {}) {
  state.cursor = timeline.cursor = cursor;
  if (follow) timeline.follow();
  else timeline.draw();
  showRange();
  changes.follow(cursor);
  remember();
  showStateSoon();
}

// At the cursor; what lies after the newest event is the present. It is many requests: only if somebody sees it.
function showState() {
  outdated = find("state").hidden;
  if (outdated) return;
  const cursor = state.cursor;
  const past = cursor && (cursor.version || (newest && cursor.time < newest.time)) ? cursor : null;
  statePane.show(past, query(state).getAll("namespace"), activeTypes()).catch(fail);
}

// Kinds with events in the timeline, the busiest first; null if its rows are not kinds.
function activeTypes() {
  const totals = new Map();
  for (const { type, total } of timeline.rows) totals.set(type, (totals.get(type) ?? 0) + total);
  return totals.has("") ? null : [...totals.keys()].sort((one, other) => totals.get(other) - totals.get(one));
}

const showStateSoon = debounced(showState, 250);

function openObject(target, fresh = true) {
  if (fresh) Object.assign(state, { left: "", right: "" });
  state.object = target;
  remember();
  selectTab("object");
  objectPane.show(target, state.left, state.right).catch(fail);
}

function selectTab(which) {
  for (const name of ["state", "object"]) {
    find(name).hidden = name !== which;
    find(`tab-${name}`).setAttribute("aria-selected", String(name === which));
    find(`tab-${name}`).tabIndex = name === which ? 0 : -1;
  }
  if (which === "state" && outdated) showState();
}

// Moving through time.

async function jumpTo(version) {
  try {
    const found = await session.events(new URLSearchParams({ from: version, to: version, limit: "1" }));
    if (found.items.length) setCursor({ time: found.items[0].micros, version });
    else say(`Version ${version} is not in the journal, or you may not see it.`);
  } catch (error) {
    fail(error);
  }
}

async function step(forward) {
  const parameters = query(state), cursor = state.cursor ?? { time: forward ? state.view.from : state.view.to, version: "" };
  parameters.set("limit", "1");
  if (forward) {
    parameters.set("order", "ascending");
    parameters.set("from", cursor.version ? String(BigInt(cursor.version) + 1n) : rfc3339(cursor.time));
  } else {
    parameters.set("to", cursor.version ? String(BigInt(cursor.version) - 1n) : rfc3339(cursor.time));
  }
  try {
    const found = await session.events(parameters);
    if (!found.items.length) say(forward ? "There is no later event." : "There is no earlier event.");
    else {
      say("");
      choose(found.items[0]);
    }
  } catch (error) {
    fail(error);
  }
}

function play() {
  if (playing) {
    pause();
    return;
  }
  if (!state.cursor || state.cursor.time === null) setCursor({ time: state.view.from, version: "" });
  find("play").textContent = "Pause";
  find("play").setAttribute("aria-pressed", "true");
  let last = performance.now(), looked = last;
  const frame = (now) => {
    if (!playing) return;
    const time = state.cursor.time + (now - last) * 1000 * Number(find("speed").value);
    last = now;
    const end = newest?.time ?? state.view.to;
    state.cursor = timeline.cursor = { time: Math.round(Math.min(time, end)), version: "" };
    timeline.follow();
    changes.follow(state.cursor);
    showRange();
    if (now - looked > PLAYED && find("state").getAttribute("aria-busy") !== "true") {
      looked = now;
      showState();
    }
    if (time >= end) pause();
    else playing = requestAnimationFrame(frame);
  };
  playing = requestAnimationFrame(frame);
}

function pause() {
  cancelAnimationFrame(playing);
  playing = 0;
  find("play").textContent = "Play";
  find("play").setAttribute("aria-pressed", "false");
  remember();
  showState();
}

// Following.

async function follow() {
  stopFollowing();
  const { signal } = (following = new AbortController());
  state.live = true;
  find("live").setAttribute("aria-pressed", "true");
  remember();
  while (!signal.aborted) {
    try {
      const parameters = query(state);
      parameters.set("from", String(BigInt(newest?.version ?? "0") + 1n));
      parameters.set("order", "ascending");
      parameters.set("wait", "25");
      const found = await session.events(parameters, signal);
      newest = { version: found.upto, time: found.newest?.time ?? found.now };
      if (found.items.length) {
        const moved = pan(state.view, Math.max(0, found.items.at(-1).micros - state.view.to + spanOf(state.view) * 0.05));
        state.view = timeline.view = moved;
        await reload();
        remember();
      }
      await new Promise((resume) => setTimeout(resume, 300));
    } catch (error) {
      if (signal.aborted) return;
      fail(error);
      await new Promise((resume) => setTimeout(resume, 3000));
    }
  }
}

function stopFollowing() {
  following?.abort();
  following = null;
  find("live").setAttribute("aria-pressed", "false");
}

function toggleLive() {
  if (following) {
    stopFollowing();
    state.live = false;
    remember();
  } else follow();
}

// Controls.

function show(view) {
  timeline.show(view);
}

timeline.addEventListener("view", () => {
  state.view = timeline.view;
  showRange();
  remember();
  reloadSoon();
});
timeline.addEventListener("cursor", ({ detail }) => {
  find("timeline").focus();
  if (detail.event) choose(detail.event);
  else setCursor({ time: detail.time, version: "" }, { follow: false });
});
timeline.addEventListener("hover", ({ detail }) => { find("hover").textContent = detail; });

const middle = () => (state.view.from + state.view.to) / 2;
const anchor = () => {
  const time = state.cursor?.time ?? null;
  return time !== null && time >= state.view.from && time <= state.view.to ? time : middle();
};
const KEYS = {
  "ArrowLeft": () => show(pan(state.view, -spanOf(state.view) / 8)),
  "ArrowRight": () => show(pan(state.view, spanOf(state.view) / 8)),
  "+": () => show(zoom(state.view, 0.5, anchor())),
  "=": () => show(zoom(state.view, 0.5, anchor())),
  "-": () => show(zoom(state.view, 2, anchor())),
  "[": () => step(false),
  "]": () => step(true),
  " ": play,
  "Home": () => oldest && show(around(oldest.time, spanOf(state.view))),
  "End": () => newest && show(around(newest.time, spanOf(state.view))),
  "l": toggleLive,
  "Enter": () => {
    const event = changes.items.find((one) => one.version === state.cursor?.version);
    if (event) choose(event);
  },
};
find("timeline").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});

function showAll() {
  if (!oldest || !newest) return;
  const span = Math.max(newest.time - oldest.time, 1000);
  show(around(oldest.time + span / 2, Math.round(span * 1.1)));
}

function clearFilters() {
  for (const name of TEXTS) state[name] = "";
  refilter();
}

function press(id, work) {
  find(id).addEventListener("click", work);
}

press("step-back", () => step(false));
press("step-on", () => step(true));
press("play", play);
press("zoom-in", KEYS["+"]);
press("zoom-out", KEYS["-"]);
press("live", toggleLive);
press("tab-state", () => selectTab("state"));
press("tab-object", () => selectTab("object"));
press("sign-out", () => askToSignIn());
press("clear", clearFilters);
press("export", async () => {
  try {
    say("Exporting …");
    const count = await exportEvents(session, eventQuery(500), (many) => say(`Exporting … ${many} events`));
    say(`Exported ${count} events.`);
  } catch (error) {
    fail(error);
  }
});
find("span").addEventListener("change", ({ target }) => {
  if (target.value === "all") showAll();
  else if (target.value) show(around(anchor(), Math.min(Number(target.value), 400 * DAY)));
  target.value = "";
});
for (const name of ["tab-state", "tab-object"]) {
  find(name).addEventListener("keydown", ({ key }) => {
    if (key !== "ArrowLeft" && key !== "ArrowRight") return;
    const other = name === "tab-state" ? "object" : "state";
    selectTab(other);
    find(`tab-${other}`).focus();
  });
}

async function refilter() {
  showFilters();
  remember();
  try {
    await session.loadTypes(namespaceQuery());
    await reload();
    showState();
  } catch (error) {
    fail(error);
  }
}

find("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  for (const name of [...TEXTS, "by"]) state[name] = find("filters").elements[name].value.trim();
  refilter();
});
find("filters").elements.by.addEventListener("change", () => find("filters").requestSubmit());
find("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.signIn(find("token").value);
  find("token").value = "";
  begin();
});
addEventListener("hashchange", () => {
  stopFollowing();
  state = parse(location.hash, Date.now() * 1000);
  begin();
});

// A token in the address is in the history of the browser and perhaps in logs: it is not used, and taken out.
if (hasSecret(location.href)) {
  history.replaceState(null, "", location.pathname);
  state = parse("", Date.now() * 1000);
  askToSignIn("There was a token in the address of this page. It was not used: paste it below, and do not share such links.");
} else {
  begin();
}

export { GROUP, session, timeline };
