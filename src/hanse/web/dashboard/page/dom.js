// Elements are made by calls, never from text: what clusters say cannot become markup.
const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export const badge = (state, text, extra = "") => h("span", { class: `badge ${state} ${extra}` }, text);
export const chip = (text, state = "", title) => h("span", { class: `chip ${state}`, title }, text);

export function head(title, about, ...more) {
  return h("div", { class: "head" }, h("h1", {}, title), about && h("p", {}, about), ...more);
}

export function panel(title, body, ...tools) {
  return h("section", { class: "panel", "aria-label": title },
    title && h("header", {}, h("h2", {}, title), h("span", { class: "grow" }), ...tools), body);
}

// Long lists are drawn as far as somebody has scrolled; rows may be given as functions that make them.
const STEP = 120;
const drawn = new Map();

export function table(columns, rows, { label, empty } = {}) {
  if (!rows.length) return h("div", { class: "empty" }, empty || "Nothing to show.");
  const made = (row) => (typeof row === "function" ? row() : row);
  const body = h("tbody", {});
  const sentinel = h("tr", {}, h("td", { colspan: columns.length, class: "faint" }, ""));
  let next = 0;
  const draw = (until) => {
    const more = rows.slice(next, until).map(made);
    next = Math.min(until, rows.length);
    if (label) drawn.set(label, next);
    sentinel.remove();
    body.append(...more);
    if (next < rows.length) { sentinel.firstChild.textContent = `${rows.length - next} more`; body.append(sentinel); }
  };
  draw(Math.max(STEP, drawn.get(label) || 0));
  if (next < rows.length) {
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      draw(next + STEP);
      if (next >= rows.length) watch.disconnect();
    }, { rootMargin: "600px" });
    watch.observe(sentinel);
  }
  return h("table", { class: "rows", "aria-label": label, "aria-rowcount": rows.length },
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col" }, c)))), body);
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false)
    .map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}

export function clock(at) {
  return new Date(at).toLocaleTimeString([], { hour12: false });
}

export function ago(at, now = Date.now()) {
  if (!at) return "";
  const seconds = Math.max(0, Math.round((now - Date.parse(at)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export const troubled = (x) => x.state === "bad" || x.state === "warn";
export const notes = (x, texts) => texts.map((text) => h("div", { class: `note ${x.state === "bad" ? "bad" : ""}` }, text));
export const reasons = (x) => notes(x, x.findings.map((f) => f.summary));
export const counted = (n, what, more = `${what}s`) => `${n} ${n === 1 ? what : more}`;
export const color = (index) => `c${index % 8}`;
