// Connects the parts of the page: what it shows is one state, which is also in the URL.

import { Refused, Session } from "./api.js";
import { ChangesPane } from "./changes.js";
import { ComparePane } from "./compare.js";
import { button, debounced, element, find, throttled } from "./dom.js";
import { exportEvents } from "./export.js";
import { gapText, gapsAt, gapsIn, worst } from "./gaps.js";
import { TABS, TEXTS, format, hasSecret, isFiltered, parse, query } from "./filters.js";
import { beginAuthors } from "./authors.js";
import { grouped } from "./groups.js";
import { showAbout, showHeadline, showLegend, showRange } from "./heading.js";
import { Lanes, firstRange } from "./lanes.js";
import { ObjectPane } from "./object.js";
import { Overview } from "./overview.js";
import { Replay } from "./replay.js";
import { DAY, HOUR, MINUTE, around, pan, readable, rfc3339, spanOf, zoom } from "./scale.js";
import { StatePane } from "./state.js";

const FEW = 500;        // events that are drawn one by one
const AT_ONCE = 4;      // requests for the objects of kinds
const LISTED = 100;     // events in the list
const REFUSED = 1000;   // refused writes, the newest
const TREES = 300;      // objects that the first picture has; more with a click
const PLAYED = 1000;    // milliseconds between two looks at the state while playing

const session = new Session();
const lanes = new Lanes(find("lanes"), find("timeline"), find("lanes-space"));
const overview = new Overview(find("overview"));
const changes = new ChangesPane(session, {
  choose: (event) => choose(event),
  move: (event) => setCursor({ time: event.micros, version: event.version }),
  newest: () => showNewest(),
  all: () => showEverything(),
  clear: () => clearFilters(),
  filter: () => find("filters").elements.namespace.focus(),
});
const statePane = new StatePane(session, (target) => openObject(target));
const objectPane = new ObjectPane(session, {
  open: (target) => openObject(target),
  choose: (left, right) => { Object.assign(state, { left, right }); remember(); },
  jump: (version) => jumpTo(version),
  show: (change) => openAt(change),
  cursor: () => state.cursor,
});
const comparePane = new ComparePane(session, {
  open: (target, left, right) => {
    Object.assign(state, { left, right });
    openObject(target, false);
  },
  compare: () => toggleComparison(),
  clear: () => clearFilters(),
});
const replay = new Replay(session, async () => {
  showPlaying();
  await reload();
  showDetail();
});
let state = null;  // see start()
let newest = null, oldest = null, thinned = [], now = 0, known = [], refused = [], gaps = [];
let loading = null, inFlight = false, following = null, playing = 0, stepping = Promise.resolve(), wholeUpto = "";
let loadedRange = { from: 0, to: 0 }, groups = [], trees = { items: [], token: "", query: null };
const flat = new Map();  // objects of kinds that are below others elsewhere: {items, token} by key

// The address.

function remember() {
  history.replaceState(null, "", format(state));
}

// For what leads somewhere else: the browser's Back leads back.
function rememberNext() {
  if (format(state) !== location.hash) history.pushState(null, "", format(state));
}

// Browsers allow only some changes of the address a second.
const rememberSoon = debounced(remember, 200);

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
  loading?.abort();
  if (playing) pause();
  replay.stop();
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
  busy(true);
  try {
    await session.loadTypes(namespaceQuery());
  } catch (error) {
    if (error instanceof Refused && [401, 403].includes(error.status)) askToSignIn(session.hasToken ? error.message : "");
    else fail(error);
    return;
  } finally {
    busy(false);
  }
  find("sign-in").hidden = true;
  find("main").hidden = false;
  find("sign-out").hidden = !session.hasToken;
  find("user").textContent = session.user;
  showAbout(session.about, session.replays);
  showFilters();
  await replay.begin().catch(fail);
  showPlaying();
  await firstView().catch(fail);
  Object.assign(lanes, { cursor: state.cursor, second: state.second, view: state.view });
  changes.follow(state.cursor);
  await reload();
  if (state.cursor?.version && state.cursor.time === null) await jumpTo(state.cursor.version);
  objectPane.show(state.object, state.left, state.right).catch(fail);
  showTab(state.tab || (state.object ? "object" : state.second === null ? "" : "comparison"));
  if (state.live) follow();
}

const namespaceQuery = () => {
  const given = new URLSearchParams();
  for (const one of query(state).getAll("namespace")) if (!one.startsWith("!")) given.append("namespace", one);
  return given;
};

// Without a range in the address, the last hour that has events of the filter, or that around the cursor.
async function firstView() {
  if (new URLSearchParams(location.hash.slice(1)).has("from")) return;
  const parameters = filters();
  parameters.set("limit", "1");
  const found = await session.events(parameters);
  const last = found.items[0] ? { time: found.items[0].micros } : found.newest;
  state.view = firstRange(found.oldest, last, found.now);
  if (state.cursor?.time != null) state.view = around(state.cursor.time, spanOf(state.view));
}

// Loading.

function busy(is) {
  find("loading").hidden = !is;
  find("timeline").setAttribute("aria-busy", String(is));
}

const filters = () => query(state, session.types, session.hasIndex);

function rangeQuery(view) {
  const parameters = filters();
  parameters.set("from", rfc3339(view.from));
  parameters.set("to", rfc3339(view.to));
  return parameters;
}

function eventQuery(limit, view = state.view) {
  const parameters = rangeQuery(view);
  parameters.set("limit", String(limit));
  parameters.set("summary", "true");
  return parameters;
}

function refusedQuery(view) {
  const parameters = rangeQuery(view);
  parameters.set("limit", String(REFUSED));
  if (!state.noise) parameters.set("conflicts", "false");
  return parameters;
}

async function reload() {
  loading?.abort();
  const { signal } = (loading = new AbortController());
  inFlight = true;
  busy(true);
  changes.loading();
  try {
    const margin = Math.round(spanOf(state.view) / 2), loaded = { from: state.view.from - margin, to: state.view.to + margin };
    const counts = rangeQuery(loaded), lives = rangeQuery(loaded);
    counts.set("buckets", String(Math.min(2000, lanes.buckets * 2)));
    counts.set("by", state.by);
    lives.set("limit", String(TREES));
    const counted = session.timeline(counts, signal);
    if (!lanes.data) showCounts(await counted);
    // An addition: the other requests say what failed.
    const refusing = session.refused(refusedQuery(loaded), signal).catch(() => []), missing = session.gaps(filters(), signal).catch(() => []);
    const [data, objects, list] = await Promise.all([
      counted, session.lifelines(lives, signal), session.events(eventQuery(LISTED), signal)]);
    [refused, gaps] = await Promise.all([refusing, missing]);
    ({ oldest = null, now } = data);
    // Three responses at once: what only one of them has seen, none has shown.
    newest = [data, objects, list].map((one) => one.newest ?? null).reduce((one, other) => (one && other && BigInt(one.version) < BigInt(other.version) ? one : other));
    known = await fewEvents(data, signal);
    loadedRange = loaded;
    trees = { items: await withOpened(objects, lives, signal), token: objects.metadata.continue ?? "", query: lives };
    beginAuthors();
    showGroups(data);
    loadUnfolded(signal);
    showLoaded(data, objects, list);
    loadWhole(signal);
    showHeading(data, objects, await session.highlights(rangeQuery(state.view), signal));
    if (data.reading || lagOf(list)) reloadLater();
  } catch (error) {
    if (signal.aborted) return;
    changes.stopLoading();
    if (error.status === 503 && session.hasIndex && !state.q) {
      session.hasIndex = false;  // without it, updates of status cannot be left out
      reloadSoon();
    } else fail(error);
  } finally {
    if (loading?.signal === signal) {
      inFlight = false;
      busy(false);
      document.body.dataset.loads = String(Number(document.body.dataset.loads ?? 0) + 1);
    }
  }
}

const isOpened = ({ type, namespace, name }) =>
  type === state.object?.type && namespace === state.object.namespace && name === state.object.name;

// The objects of the picture, and the one that is open: among many it may not be one of the busiest.
async function withOpened(objects, lives, signal) {
  const { object } = state;
  if (!object || !objects.metadata.continue || objects.items.some(isOpened)) return objects.items;
  const parameters = new URLSearchParams(lives);
  for (const name of ["type", "namespace", "q", "user", "verb"]) parameters.delete(name);
  for (const name of ["type", "namespace", "name"]) if (object[name]) parameters.set(name, object[name]);
  parameters.set("limit", "1");
  const found = await session.lifelines(parameters, signal).catch(() => ({ items: [] }));
  return [...objects.items, ...found.items];
}

// The first picture has kinds; their objects, which take the server longer, follow.
function showCounts(data) {
  ({ newest = null, oldest = null, thinned = [], now } = data);
  known = null;
  showGroups(data);
  showMoment();
  document.body.dataset.counted = "true";
}

function showGroups(data) {
  groups = grouped(data, state.view, state.by, trees.items, !trees.token, flat);
  lanes.gaps = overview.gaps = gaps;
  lanes.load(data, groups, known, refused, now);
}

// All events of what was loaded, if they are few: they are drawn at their exact times. Else null.
async function fewEvents(data, signal) {
  const total = data.rows.reduce((sum, row) => sum + row.total, 0);
  if (total > FEW || data.rowsLeftOut) return null;
  const end = data.start + data.buckets * data.width;
  const found = await session.events(eventQuery(FEW, { from: data.start, to: end }), signal);
  return found.metadata.continue ? null : found.items;
}

// Objects of a group that are not in the picture yet: those of a kind that are below others, or the next of all.
async function loadGroup(group, signal = loading?.signal) {
  const flatly = group.isFlat, before = flatly ? flat.get(group.key) : trees;
  const parameters = new URLSearchParams(trees.query ?? rangeQuery(state.view));
  if (flatly) {
    parameters.delete("type");
    parameters.set("type", group.key);
    parameters.set("roots", "false");
    parameters.set("limit", "1000");
  }
  if (group.more) parameters.set("continue", before.token);
  const found = await session.lifelines(parameters, signal);
  const isNew = new Set(found.items.map((one) => one.uid)), kept = group.more ? before.items.filter((one) => !isNew.has(one.uid)) : [];
  const next = { items: [...kept, ...found.items], token: found.metadata.continue ?? "" };
  if (flatly) flat.set(group.key, next);
  else trees = { ...next, query: trees.query };
  showGroups(lanes.data);
}

// Again for the range that is shown now, some at a time.
async function loadUnfolded(signal) {
  const wanted = groups.filter((group) => group.isFlat && !lanes.isFolded(group) && state.by === "type").values();
  const work = async () => {
    for (const group of wanted) await loadGroup({ ...group, more: false }, signal).catch((error) => signal.aborted || fail(error));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

// The strip with all of the journal: again only when there is something new.
async function loadWhole(signal) {
  if (!oldest || !newest || wholeUpto === `${newest.version} ${filters()}`) return;
  const span = Math.max(newest.time - oldest.time, 1e6);
  const range = { from: Math.round(oldest.time - span * 0.02), to: Math.round(Math.max(newest.time, now) + span * 0.02) };
  if (now - newest.time > span) range.to = Math.round(newest.time + span * 0.05);
  const parameters = rangeQuery(range);
  parameters.set("buckets", String(overview.buckets));
  try {
    const whole = await session.timeline(parameters, signal);
    overview.load(whole, range);
    if (!whole.reading && !whole.indexed) wholeUpto = `${newest.version} ${filters()}`;
    overview.show(state.view, state.cursor);
  } catch {
    // It is an addition: what failed is said by the requests for the lanes.
  }
}

// How far the index is, if older events are missing in it, or new ones that a text is looked for in.
const lagOf = ({ indexed }) => (indexed && (state.q || BigInt(indexed.from) > BigInt(indexed.oldest)) ? indexed : null);

const reloadSoon = debounced(reload, 150);
const reloadWhileMoving = throttled(() => inFlight || reload(), 600);
const reloadLater = debounced(reload, 2000); // the server reads older events meanwhile

// What is shown.

const inView = (event) => event.micros >= state.view.from && event.micros <= state.view.to;
const totalShown = () => groups.reduce((sum, one) => sum + one.total, 0);

function showHeading(data, objects, highlights) {
  const isPart = Boolean(data.reading || data.searchedFrom || data.rowsLeftOut);
  showHeadline({ groups, total: totalShown(), items: objects.items, highlights, refused: refused.filter((one) => inView(one) && !one.conflict), moreRefused: refused.length === REFUSED, isPart }, openAt);
}

function showLoaded(data, objects, list) {
  const total = totalShown();
  showHeading(data, objects, null);
  showLegend(known, objects.items, gapsIn(gaps, state.view));
  say(notices(data, objects));
  showMoment();
  changes.show({
    items: list.items, refused: refused.filter(inView), token: list.metadata.continue, query: eventQuery(LISTED), filtered: isFiltered(state), text: state.q,
    indexed: lagOf(list), total: data.searchedFrom || data.reading ? null : total, newest, allowed: session.types.size > 0,
  });
  showNothing(total);
}

function notices(data, objects) {
  const notes = [];
  if (!data.rows.length && !session.types.size) notes.push("You may not list anything in all namespaces: name a namespace in the filter.");
  if (data.rowsLeftOut) notes.push(`${data.rowsLeftOut} rows with fewer events are left out: filter by kind or namespace.`);
  if (objects.leftOut) notes.push(`${objects.leftOut.toLocaleString("en")} objects with fewer changes are left out: filter, or choose a shorter range.`);
  const searched = data.searchedFrom ?? objects.searchedFrom;
  if (searched) notes.push(`Only the events from version ${searched} on were searched: choose a shorter range.`);
  return notes.join(" ");
}

function showNothing(total) {
  find("nothing").hidden = total > 0;
  if (total) return;
  const made = [];
  if (!newest) made.push(element("p", { text: session.types.size ? "The journal has no events yet. They appear here as soon as somebody writes." : "There is nothing that you may list." }));
  else if (isFiltered(state)) made.push(element("p", { text: "Nothing in this range matches the filter." }), button("Clear the filter", clearFilters));
  else made.push(element("p", { text: `Nothing changed in this range. The newest change was at ${readable(newest.time, HOUR)} UTC.` }));
  if (newest && !state.noise) made.push(button("Show noise", toggleNoise));
  if (newest) made.push(button("Show the newest changes", showNewest), button("Show everything", showEverything));
  find("nothing").replaceChildren(...made);
}

function showMoment() {
  showRange(state.view, newest, now, thinned, gapsIn(gaps, state.view));
  overview.show(state.view, state.cursor);
  find("cursor").textContent = !state.cursor ? "No cursor: click the timeline"
    : `${state.cursor.time === null ? "" : readable(state.cursor.time)} ${state.cursor.version ? `version ${state.cursor.version}` : ""}${gapWords(state.cursor)}`;
  find("cursor").setAttribute("aria-live", playing ? "off" : "polite");
  find("compare").setAttribute("aria-pressed", String(state.second !== null));
}

// What a moment is worth that the recording missed. Its own version was recorded.
function gapWords({ time, version }) {
  const gap = time === null || version ? null : worst(gapsAt(gaps, time));
  return gap ? ` · ${gapText(gap, state.view)}` : "";
}

function showFilters() {
  find("types").replaceChildren(...[...session.types.keys()].map((value) => element("option", { value })));
  for (const name of [...TEXTS, "by"]) find("filters").elements[name].value = state[name];
  find("noise").setAttribute("aria-pressed", String(!state.noise));
}

function showPlaying() {
  const plays = replay.active ? replay.playing : playing !== 0;
  find("play").textContent = plays ? "Pause" : "Play";
  find("play").setAttribute("aria-pressed", String(plays));
}

function choose(event) {
  setCursor({ time: event.micros, version: event.version });
  lanes.reveal(event);
  if (!event.name) return;  // a refused create
  state.left = "";
  state.right = event.version;
  openObject({ type: event.type, namespace: event.namespace, name: event.name }, false);
}

// A link leads to the moment and to the row of the object, and opens it; with `part`, that part of it.
function openAt(item, part = "") {
  if (part) {
    // The heading says what failed at the end of the range.
    if (newest && state.view.to < newest.time) setCursor({ time: state.view.to, version: "" });
    openObject(item, true, part);
    return;
  }
  if (item.micros) {
    const span = spanOf(state.view);
    show(around(item.micros, Math.min(span, Math.max(Math.round(span / 4), MINUTE))));
  }
  if (item.version || item.refused) choose(item);
  else openObject(item);
  find("lanes").scrollIntoView({ block: "start" });
}

function setCursor(cursor, { follow = true } = {}) {
  state.cursor = lanes.cursor = cursor;
  if (follow) lanes.follow();
  else lanes.draw();
  showMoment();
  changes.follow(cursor);
  rememberSoon();
  showDetailSoon();
}

const showDetailSoon = debounced(showDetail, 250);

// What the cursor stands for: a moment, or null for the present, which is all that lies after the newest event.
function momentOf(cursor) {
  return cursor && (cursor.version || (newest && cursor.time < newest.time)) ? cursor : null;
}

// The tab that is open: it is many requests, only if somebody sees it.
function showDetail() {
  if (!isOpen()) return;
  if (!find("state").hidden) {
    statePane.show(momentOf(state.cursor), filters().getAll("namespace").filter((one) => !one.startsWith("!")), activeTypes()).catch(fail);
  }
  if (!find("comparison").hidden) comparePane.show(state.cursor, state.second, filters(), newest).catch(fail);
}

// Kinds with events in the picture, the busiest first; null if its rows are not kinds.
function activeTypes() {
  return state.by === "type" ? groups.filter((group) => group.row).map((group) => group.key) : null;
}

function openObject(target, fresh = true, part = "") {
  if (fresh) Object.assign(state, { left: "", right: "" });
  state.object = { type: target.type, namespace: target.namespace, name: target.name };
  state.tab = "object";
  lanes.reveal(target);
  if (trees.token && !trees.items.some(isOpened)) reloadSoon();
  rememberNext();
  selectTab("object");
  objectPane.show(state.object, state.left, state.right, part).catch(fail);
}

// Beside the picture there is room in a wide window; else the details are a drawer, which may be closed.
const wide = matchMedia("(min-width: 1600px)");
const isOpen = () => wide.matches || state.tab !== "";
wide.addEventListener("change", () => state && showDetail());

function selectTab(which) {
  rememberSoon();
  showTab(which);
}

function closeDrawer() {
  rememberSoon();
  showTab("");
}

// Which one, or none: then a wide window has the state at the cursor.
function showTab(chosen) {
  state.tab = chosen;
  find("detail").classList.toggle("closed", !chosen);
  document.body.classList.toggle("drawer", Boolean(chosen));
  const which = chosen || (state.object ? "object" : "state");
  for (const name of TABS) {
    find(name).hidden = name !== which;
    find(`tab-${name}`).setAttribute("aria-selected", String(name === which));
    find(`tab-${name}`).tabIndex = name === which ? 0 : -1;
  }
  if (which !== "object") showDetail();
}

// Moving through time.

async function jumpTo(version) {
  const before = state.cursor;
  try {
    const found = await session.events(new URLSearchParams({ from: version, to: version, limit: "1" }));
    if (state.cursor !== before) return;  // somebody has moved it meanwhile
    if (found.items.length) setCursor({ time: found.items[0].micros, version });
    else say(`Version ${version} is not in the journal, or you may not see it.`);
  } catch (error) {
    fail(error);
  }
}

// One after the other, however fast the keys are.
function step(forward) {
  stepping = stepping.then(() => stepOnce(forward));
}

async function stepOnce(forward) {
  if (replay.active) {
    await replay.step(forward).catch(fail);
    return;
  }
  const cursor = state.cursor ?? { time: forward ? state.view.from : state.view.to, version: "" }, parameters = filters();
  parameters.set("limit", "1");
  parameters.set("summary", "true");
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

// Moves the cursor along the recorded time; a replay plays itself.
function play() {
  if (replay.active) {
    replay.toggle(find("speed").value === "3600" ? "max" : `${find("speed").value}x`).then(showPlaying, fail);
    return;
  }
  if (playing) {
    pause();
    return;
  }
  if (!state.cursor || state.cursor.time === null || state.cursor.time >= (newest?.time ?? 0)) setCursor({ time: state.view.from, version: "" });
  let last = performance.now(), looked = last;
  const frame = (at) => {
    if (!playing) return;
    const time = state.cursor.time + (at - last) * 1000 * Number(find("speed").value), end = newest?.time ?? state.view.to;
    last = at;
    state.cursor = lanes.cursor = { time: Math.round(Math.min(time, end)), version: "" };
    lanes.follow();
    showMoment();
    changes.follow(state.cursor);
    if (at - looked > PLAYED && find("state").getAttribute("aria-busy") !== "true") {
      looked = at;
      showDetail();
    }
    if (time >= end) pause();
    else playing = requestAnimationFrame(frame);
  };
  playing = requestAnimationFrame(frame);
  showPlaying();
}

function pause() {
  cancelAnimationFrame(playing);
  playing = 0;
  showPlaying();
  remember();
  showDetailSoon();
}

function showNewest() {
  if (newest) show(around(newest.time, spanOf(state.view)));
}

function showEverything() {
  if (oldest && newest) show(everything());
}

function everything() {
  const span = Math.max(newest.time - oldest.time, 1000);
  return around(oldest.time + span / 2, Math.min(Math.round(span * 1.1), 400 * DAY));
}

// The second cursor: beside the first one until somebody moves it.
function toggleComparison() {
  setSecond(state.second === null ? Math.round(anchor() - spanOf(state.view) / 4) : null);
}

function setSecond(time) {
  state.second = lanes.second = time;
  if (time !== null && state.cursor === null) setCursor({ time: Math.round(anchor()), version: "" }, { follow: false });
  lanes.draw();
  showMoment();
  rememberSoon();
  if (time === null) showTab(state.object && state.tab ? "object" : state.tab && "state");
  else if (find("comparison").hidden) selectTab("comparison");
  else showDetailSoon();
}

// Following.

async function follow() {
  stopFollowing();
  const { signal } = (following = new AbortController());
  state.live = true;
  find("live").setAttribute("aria-pressed", "true");
  remember();
  let failed = false;
  while (!signal.aborted) {
    try {
      const parameters = filters();
      parameters.set("from", String(BigInt(newest?.version ?? "0") + 1n));
      parameters.set("order", "ascending");
      parameters.set("wait", "25");
      const found = await session.events(parameters, signal);
      if (failed) say("");
      failed = false;
      newest = { version: found.upto, time: found.newest?.time ?? found.now };
      if (found.items.length) {
        const moved = pan(state.view, Math.max(0, found.items.at(-1).micros - state.view.to + spanOf(state.view) * 0.05));
        state.view = lanes.view = moved;
        await reload();
        remember();
      }
      await new Promise((resume) => setTimeout(resume, 300));
    } catch (error) {
      if (signal.aborted) return;
      failed = true;
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
  lanes.show(view);
}

lanes.addEventListener("view", () => {
  state.view = lanes.view;
  showMoment();
  rememberSoon();
  reloadSoon();
  const near = spanOf(state.view) / 8;
  if (state.view.from < loadedRange.from + near || state.view.to > loadedRange.to - near) reloadWhileMoving();
});
lanes.addEventListener("cursor", ({ detail }) => {
  find("timeline").focus({ preventScroll: true });
  if (detail.event) choose(detail.event);
  else {
    setCursor({ time: detail.time, version: "" }, { follow: false });
    if (detail.item) openObject(detail.item);
  }
});
lanes.addEventListener("second", ({ detail }) => setSecond(detail));
lanes.addEventListener("open", ({ detail }) => openObject(detail));
lanes.addEventListener("unfold", () => loading && loadUnfolded(loading.signal));
lanes.addEventListener("more", ({ detail }) => loadGroup(detail).catch(fail));
lanes.addEventListener("hover", ({ detail }) => {
  const hover = find("hover");
  hover.textContent = detail.text;
  hover.hidden = !detail.text;
  hover.classList.toggle("floating", detail.x !== null);
  if (detail.x === null || !detail.text) return;
  hover.style.left = `${Math.max(4, Math.min(detail.x + 14, innerWidth - hover.offsetWidth - 8))}px`;
  hover.style.top = `${Math.min(detail.y + 18, innerHeight - hover.offsetHeight - 8)}px`;
});
overview.addEventListener("move", ({ detail }) => show(around(detail, spanOf(state.view))));

const middle = () => (state.view.from + state.view.to) / 2;
const anchor = () => {
  const time = state.cursor?.time ?? null;
  return time !== null && time >= state.view.from && time <= state.view.to ? time : middle();
};

function openRow() {
  const row = lanes.selected;
  if (row?.item) openObject(row.item);
  else if (row?.note) loadGroup(row.group).catch(fail);
  else if (row) lanes.toggle(row);
  else {
    const event = changes.items.find((one) => one.version === state.cursor?.version);
    if (event) choose(event);
  }
}

const KEYS = {
  "ArrowLeft": (event) => (event.shiftKey ? lanes.selected && lanes.toggle(lanes.selected, true) : show(pan(state.view, -spanOf(state.view) / 8))),
  "ArrowRight": (event) => (event.shiftKey ? lanes.selected && lanes.toggle(lanes.selected, false) : show(pan(state.view, spanOf(state.view) / 8))),
  "ArrowUp": () => lanes.select(-1),
  "ArrowDown": () => lanes.select(1),
  "PageUp": () => lanes.select(-10),
  "PageDown": () => lanes.select(10),
  "+": () => show(zoom(state.view, 0.5, anchor())),
  "=": () => show(zoom(state.view, 0.5, anchor())),
  "-": () => show(zoom(state.view, 2, anchor())),
  "[": () => step(false),
  "]": () => step(true),
  " ": play,
  "Home": () => oldest && show(around(oldest.time, spanOf(state.view))),
  "End": showNewest,
  "l": toggleLive,
  "c": toggleComparison,
  "b": () => setSecond(Math.round(anchor())),
  "f": toggleFolds,
  "Enter": openRow,
};
find("timeline").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key](event);
});

// In the whole page, unless somebody writes a text.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || find("main").hidden) return;
  if (event.key === "Escape" && state.tab) closeDrawer();
  if (event.target.closest("input, select, textarea")) return;
  if (event.key === "/") find("filters").elements.q.focus();
  else if (event.key === "?") {
    find("keys").open = !find("keys").open;
    if (find("keys").open) find("keys").scrollIntoView({ block: "center" });
  } else return;
  event.preventDefault();
});

function toggleFolds() {
  lanes.foldAll(groups.some((group) => !lanes.isFolded(group)));
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
press("compare", toggleComparison);
press("fold", toggleFolds);
press("sign-out", () => {
  session.signOut();
  location.reload();  // nothing of the last user stays on the page
});
press("clear", clearFilters);
press("drawer-close", closeDrawer);
press("drawer-size", () => {
  const tall = find("detail").classList.toggle("tall");
  find("drawer-size").setAttribute("aria-pressed", String(tall));
});
press("more-filters", () => {
  const open = find("filters").classList.toggle("open");
  find("more-filters").setAttribute("aria-expanded", String(open));
});
press("noise", toggleNoise);
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
  if (target.value === "all") showEverything();
  else if (target.value) show(around(anchor(), Math.min(Number(target.value), 400 * DAY)));
  target.value = "";
});
TABS.forEach((name, at) => {
  press(`tab-${name}`, () => selectTab(name));
  find(`tab-${name}`).addEventListener("keydown", ({ key }) => {
    if (key !== "ArrowLeft" && key !== "ArrowRight") return;
    const other = TABS.at((at + (key === "ArrowRight" ? 1 : -1)) % TABS.length);
    selectTab(other);
    find(`tab-${other}`).focus();
  });
});

function clearFilters() {
  for (const name of TEXTS) state[name] = "";
  refilter();
}

// What somebody chose last holds for this tab, also when the page is loaded again.
const NOISE = "journal-noise";

function toggleNoise() {
  state.noise = !state.noise;
  try {
    sessionStorage.setItem(NOISE, state.noise ? "1" : "0");
  } catch {
    // A browser may refuse to store anything.
  }
  refilter();
}

function showsNoise() {
  try {
    return sessionStorage.getItem(NOISE) === "1";
  } catch {
    return false;
  }
}

async function refilter() {
  showFilters();
  rememberNext();
  try {
    await session.loadTypes(namespaceQuery());
    showFilters();
    flat.clear();
    await reload();
    showDetail();
    if (following) follow();  // from now on with this filter
  } catch (error) {
    fail(error);
  }
}

find("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  const before = state.q;
  for (const name of [...TEXTS, "by"]) state[name] = find("filters").elements[name].value.trim();
  // A text is looked for in the whole journal: show all of it.
  if (state.q && state.q !== before && oldest && newest) state.view = lanes.view = everything();
  refilter();
});
find("filters").elements.by.addEventListener("change", () => find("filters").requestSubmit());
find("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.signIn(find("token").value);
  find("token").value = "";
  if (document.body.dataset.loads) location.reload();
  else begin();
});
addEventListener("hashchange", (event) => {
  if (location.href !== event.newURL) history.replaceState(null, "", event.newURL);  // `remember` came in between
  stopFollowing();
  if (playing) pause();
  start();
});

// A token in the address is in the history of the browser and perhaps in logs: it is not used, and taken out.
function start() {
  const isSecret = hasSecret(location.href);
  if (isSecret) history.replaceState(null, "", location.pathname);
  state = parse(location.hash, Date.now() * 1000, showsNoise());
  if (isSecret) askToSignIn("There was a token in the address of this page. It was not used: paste it below, and do not share such links.");
  else begin();
}

start();

export { lanes, session };
