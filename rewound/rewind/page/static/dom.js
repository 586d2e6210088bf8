// Elements of the page. Text from the journal only ever becomes text: nothing here parses markup.

export const find = (id) => document.getElementById(id);

// Attributes are those that pages of this kind need; `on` has listeners by event.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (name === "text") made.textContent = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const button = (text, press, attributes = {}) =>
  element("button", { type: "button", text, on: { click: press }, ...attributes });

export function table(headings, rows) {
  const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col", text })));
  const body = rows.map((cells) =>
    element("tr", {}, ...cells.map((cell) => (cell instanceof Node ? element("td", {}, cell) : element("td", { text: cell ?? "" })))));
  const made = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "scrolls", tabindex: "0" }, made);
}

// Calls `work` at most so often, as long as somebody asks for it.
export function throttled(work, milliseconds) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => {
      timer = 0;
      work();
    }, milliseconds);
  };
}

// Calls `work` when nobody has asked for it for a while.
export function debounced(work, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}
