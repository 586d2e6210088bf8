// Requests to the server. The token is stored for this tab and sent in a header, never in a URL.

const KEY = "journal-token";
export const GROUP = "/apis/rewound.cluster.io/v1";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Session {
  #token = sessionStorage.getItem(KEY) ?? "";
  about = null;       // which cluster it is
  metaGroup = "";
  replays = false;
  types = new Map();  // those of the namespaces in the filter
  #known = new Map();  // all that were seen: links lead to kinds outside of the filter, too
  #loads = 0;
  hasIndex = true;    // of words and updates of status
  user = "";

  get hasToken() {
    return this.#token !== "";
  }

  signIn(token) {
    this.#token = token.trim();
    sessionStorage.setItem(KEY, this.#token);
  }

  signOut() {
    this.#token = "";
    sessionStorage.clear();
  }

  // A POST if there is a body.
  async get(path, { parameters = null, accept = "application/json", signal = null, body = null } = {}) {
    const query = parameters && `${parameters}` ? `?${parameters}` : "";
    const headers = { Accept: accept };
    if (body !== null) headers["Content-Type"] = "application/json";
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    const options = { headers, signal, credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" };
    // A client certificate is a credential too: without a token, the browser may send it.
    if (!this.#token) options.credentials = "same-origin";
    if (body !== null) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    const response = await fetch(path + query, options);
    // A body that broke off is an error too; one of a refusal may be no JSON.
    const found = await response.json().catch((error) => {
      if (response.ok || error.name === "AbortError") throw error;
      return null;
    });
    if (!response.ok) throw new Refused(response.status, found?.message ?? `${response.status} ${response.statusText}`);
    return found;
  }

  // The types that the user sees, in these namespaces.
  async loadTypes(parameters = null) {
    const load = ++this.#loads, found = await this.get(`${GROUP}/timeline/types`, { parameters });
    if (load !== this.#loads) return;  // another filter was asked for meanwhile
    this.user = found.user;
    this.about = found.about ?? null;
    this.metaGroup = found.metaGroup;
    this.replays = found.replays;
    this.types = new Map(found.items.map((one) => [one.type, one]));
    for (const [type, one] of this.types) this.#known.set(type, one);
  }

  timeline(parameters, signal) {
    return this.get(`${GROUP}/timeline`, { parameters, signal });
  }

  events(parameters, signal = null) {
    return this.get(`${GROUP}/timeline/events`, { parameters, signal });
  }

  // Writes that were refused, newest first, in the form of events; they have no version.
  async refused(parameters, signal = null) {
    const found = await this.get(`${GROUP}/timeline/refused`, { parameters, signal });
    return found.items.map((one) => ({ ...one, refused: true, change: "refused", version: "", fieldManager: one.manager }));
  }

  // Stretches of time that a flight recorder missed, newest first.
  async gaps(parameters, signal = null) {
    return (await this.get(`${GROUP}/timeline/gaps`, { parameters, signal })).items;
  }

  // Fields that authors fight over, and objects that fail, among all events of a range.
  highlights(parameters, signal = null) {
    return this.get(`${GROUP}/timeline/highlights`, { parameters, signal });
  }

  // What changed before an object broke, ranked.
  suspects(parameters, signal = null) {
    return this.get(`${GROUP}/timeline/suspects`, { parameters, signal });
  }

  // Objects with their lives: from when to when they existed, and in which phases.
  lifelines(parameters, signal = null) {
    return this.get(`${GROUP}/timeline/objects`, { parameters, signal });
  }

  // What differs between two moments.
  comparison(parameters, signal = null) {
    return this.get(`${GROUP}/timeline/comparison`, { parameters, signal });
  }

  // An object, or a list, of a type; as it was, if the parameters say so. Whole, only its metadata, or a Table.
  async objects(type, namespace, name = "", { parameters = null, metadata = false, table = false, signal = null } = {}) {
    const one = this.#known.get(type);
    if (!one) throw new Refused(403, `${type}: there is no such kind, or you may not list it`);
    const root = one.apiVersion.includes("/") ? `/apis/${one.apiVersion}` : `/api/${one.apiVersion}`;
    const where = one.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
    const which = name ? `/${encodeURIComponent(name)}` : "";
    const kind = table ? "Table" : name ? "PartialObjectMetadata" : "PartialObjectMetadataList";
    const accept = metadata || table ? `application/json;as=${kind};g=${this.metaGroup};v=v1` : "application/json";
    return this.get(`${root}${where}/${one.resource}${which}`, { parameters, accept, signal });
  }

  // What the group rewound.cluster.io has about one object: history or blame.
  past({ type, namespace, name }, what, parameters = null) {
    const where = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
    return this.get(`${GROUP}${where}/${encodeURIComponent(type)}/${encodeURIComponent(name)}/${what}`, { parameters });
  }

  // Where a replay is, and how to move it: {action: "step"}.
  replay(action = null) {
    return this.get("/debug/rewound/replay", { body: action });
  }

  kindOf(type) {
    return this.#known.get(type)?.kind;
  }

  // The type of an object that another one names by apiVersion and kind; versions of a group are the same type.
  typeOf(apiVersion, kind) {
    const group = (text) => (text.includes("/") ? text.split("/")[0] : "");
    for (const one of this.#known.values()) {
      if (one.kind === kind && group(one.apiVersion) === group(apiVersion ?? "v1")) return one;
    }
    return null;
  }
}
