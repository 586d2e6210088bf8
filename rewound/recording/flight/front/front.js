// The clusters, and what is wrong where. A token is for one cluster: it stays in this tab, and goes to the recording of
// this cluster only.

const STATES = "/clusters/api/clusters";
const OFTEN = 5000, SELDOM = 60000;  // milliseconds between two looks at the recorder, and at what fails
const LATE = 30;                     // seconds without a word from the API server
const NAMED = 5;                     // failing objects and alerts

const keyOf = (name) => `token ${name}`;
const cards = new Map();  // by name: {root, status, problems, form, out, one, known, failing, asked}
let forEveryone = false;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// What others wrote may have characters that one does not see, or that turn text around.
const visible = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);

async function get(path, token = "") {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { headers, credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" });
  const found = await response.json().catch(() => null);
  return { status: response.status, found };
}

function pageOf({ securePort, insecurePort }) {
  const isPlain = location.protocol === "http:" && insecurePort, port = isPlain || !securePort ? insecurePort : securePort;
  return `${isPlain || !securePort ? "http" : "https"}://${location.hostname.includes(":") && !location.hostname.startsWith("[") ? `[${location.hostname}]` : location.hostname}:${port}/debug/journal/`;
}

function cardOf(one) {
  const found = cards.get(one.name);
  if (found) return found;
  const link = element("a", { href: pageOf(one), textContent: one.name }), status = element("div"), problems = element("ul");
  const token = element("input", { type: "password", required: true, autocomplete: "off", spellcheck: false, placeholder: "bearer token" });
  token.setAttribute("aria-label", `Bearer token of ${one.name}`);
  const form = element("form", { autocomplete: "off", hidden: true }, token, element("button", { textContent: "Sign in" }));
  const out = element("button", { type: "button", textContent: "Sign out", hidden: true });
  const root = element("li", { className: "unknown" }, element("h2", {}, link), status, problems, form, out);
  root.dataset.name = one.name;
  const card = { root, status, problems, form, out, one, known: null, failing: null, asked: 0 };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(keyOf(one.name), token.value.trim());
    token.value = "";
    card.asked = 0;
    look(one);
  });
  out.addEventListener("click", () => {
    sessionStorage.removeItem(keyOf(one.name));
    Object.assign(card, { known: null, failing: null, asked: 0 });
    look(one);
  });
  cards.set(one.name, card);
  document.getElementById("clusters").append(root);
  return card;
}

const tokenOf = (name) => sessionStorage.getItem(keyOf(name)) ?? "";

// Each cluster by itself: one that does not respond delays no other.
async function look(one) {
  const card = cardOf(one), token = tokenOf(one.name);
  card.one = one;
  if (one.state !== "running" || (!token && !forEveryone)) {
    show(card);
    return;
  }
  if (Date.now() - card.asked > SELDOM) lookWhatFails(card, token);
  const known = await asked(card, "flight", token);
  if (token !== tokenOf(one.name)) return;  // somebody has signed in or out meanwhile
  card.known = known;
  if (known.status === 401) {
    sessionStorage.removeItem(keyOf(one.name));
    Object.assign(card, { failing: null, asked: 0 });
  }
  show(card);
}

// It may take long: what the recorder says does not wait for it.
async function lookWhatFails(card, token) {
  card.asked = Date.now();
  const failing = await asked(card, "failing", token);
  if (token !== tokenOf(card.one.name)) return;
  if (failing.status !== 200) card.asked = Date.now() - SELDOM + OFTEN;  // soon again
  card.failing = failing;
  show(card);
}

const asked = (card, what, token) => get(`${STATES}/${card.one.name}/${what}`, token).catch(() => ({ status: 0, found: null }));

function show(card) {
  const { one } = card, signedIn = tokenOf(one.name) !== "";
  const { tone, words, problems } = judged(one, card.known, card.failing, signedIn || forEveryone);
  card.root.className = tone;
  card.status.textContent = words;
  card.problems.replaceChildren(...problems.map((text) => element("li", { className: "problem", textContent: visible(text) })));
  card.form.hidden = forEveryone || signedIn || one.state !== "running";
  card.out.hidden = forEveryone || !signedIn;
  summarize();
}

// How a cluster is, in words: pure, except for the time zone.
export function judged(one, known, failing, signedIn) {
  if (one.state !== "running") {
    const words = { starting: "its recorder starts", ended: "its recorder has ended, and starts again", "no response": "its recorder does not respond" };
    return { tone: one.state === "starting" ? "working" : "bad", words: words[one.state] ?? one.state, problems: [] };
  }
  if (!signedIn) {
    const words = known?.status === 401 ? "the cluster does not know this token: sign in to see it" : "sign in to see it";
    return { tone: "unknown", words, problems: [] };
  }
  const problems = [], words = [];
  let tone = "good";
  if (!known || known.status !== 200) {
    const why = { 403: "you may not read /debug/rewound/flight there", 504: "its recorder does not respond" };
    words.push(why[known?.status] ?? known?.found?.message ?? "not known");
    tone = known?.status === 403 ? "unknown" : "bad";
  } else {
    const { recording, problem, lagSeconds, gaps = [], listed, disk, rules } = known.found;
    words.push(recording ? `recording, lag ${lagSeconds.toFixed(1)} s` : listed ? "nothing is recorded now" : "the first lists are not complete");
    if (!recording) tone = listed ? "bad" : "working";
    else if (lagSeconds > LATE) tone = "working";
    if (problem) problems.push(problem);
    if (disk?.problem) problems.push(disk.problem);
    const missing = gaps.filter((gap) => gap.missing).length;
    words.push(gaps.length ? `${gaps.length} ${gaps.length === 1 ? "gap" : "gaps"}${missing ? `, ${missing} with missing versions` : ""}` : "no gaps");
    if (missing && tone === "good") tone = "working";
    for (const alert of (rules?.alerts ?? []).slice(0, NAMED)) problems.push(`${alert.rule}: ${alert.message}`);
    if (rules?.firing) {
      words.push(`${rules.firing} ${rules.firing === 1 ? "alert" : "alerts"}`);
      tone = tone === "bad" || (rules.alerts ?? []).some((alert) => alert.severity === "critical") ? "bad" : "working";
    }
  }
  if (failing?.status === 200) {
    const { failingTotal = 0, failing: objects = [] } = failing.found;
    if (failingTotal) {
      words.push(`${failingTotal} failing`);
      if (tone === "good") tone = "working";
      for (const object of objects.slice(0, NAMED)) problems.push(`${object.type} ${object.namespace ? `${object.namespace}/` : ""}${object.name}: ${object.phase}`);
    } else words.push("nothing fails");
  }
  return { tone, words: words.join(" · "), problems };
}

function summarize() {
  const tones = [...cards.values()].map((card) => card.root.className), bad = tones.filter((one) => one === "bad").length;
  const working = tones.filter((one) => one === "working").length;
  document.getElementById("summary").textContent = `${tones.length} ${tones.length === 1 ? "cluster" : "clusters"}${bad ? `, ${bad} in trouble` : ""}${working ? `, ${working} to look at` : ""}`;
}

async function lookAtAll() {
  const message = document.getElementById("message");
  try {
    const { status, found } = await get(STATES);
    if (status !== 200) throw new Error(found?.message ?? `${status}`);
    message.hidden = true;
    forEveryone = found.forEveryone;
    for (const one of found.items) look(one);
  } catch (error) {
    message.textContent = `The recorder does not respond: ${error.message}`;
    message.hidden = false;
  }
  setTimeout(lookAtAll, OFTEN);
}

lookAtAll();
