// The frame: where we are, what is shown there, and keys.
import { h } from "/page/dom.js";
import { state, onChange, connect } from "/page/store.js";
import { fleet } from "/page/fleet.js";
import { services } from "/page/services.js";
import { names } from "/page/names.js";
import { timeline } from "/page/timeline.js";
import { whatIf } from "/page/whatif.js";
import { found } from "/page/found.js";
import { features } from "/page/features.js";
import { serious, worst } from "/page/wrong.js";

const VIEWS = [fleet, services, names, ...features, timeline, whatIf];
const main = document.getElementById("main");
const nav = document.getElementById("nav");
const search = document.getElementById("search");
const pulse = document.getElementById("pulse");
let shown = null;
let placeInNav = null;

function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "", ...rest] = path.split("/");
  return { name: name || "fleet", path: rest.map(decodeURIComponent), query: new URLSearchParams(query) };
}

function offered() { return VIEWS.filter((view) => !view.offered || view.offered(state)); }

// On a narrow screen the links are one row that scrolls.
function showCurrent() {
  const current = nav.querySelector("[aria-current]");
  if (current) nav.scrollLeft = current.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
}
addEventListener("resize", showCurrent);

function drawNav(place) {
  const links = []; let group = "";
  for (const view of offered()) {
    if (view.group && view.group !== group) { group = view.group; links.push(h("div", { class: "group" }, group)); }
    const count = view.count?.(state);
    links.push(h("a", { href: `#/${view.name}`, "aria-current": place.name === view.name ? "page" : undefined },
      view.title, count && h("span", { class: `count ${count.state || ""}`, title: count.title }, count.text)));
  }
  nav.replaceChildren(...links);
  if (place.name !== placeInNav) showCurrent();
  placeInNav = place.name;
}

function drawPulse() {
  const troubled = serious().length;
  pulse.className = `pulse ${!state.connected ? "bad" : troubled ? worst() : state.judged ? "good" : "idle"}`;
  const live = held ? "held while text is selected" : "live";
  pulse.textContent = !state.connected ? (state.loaded ? "not connected: what is shown is old" : "connecting") : troubled ? `${live} · ${troubled} to mend` : state.judged ? live : `${live} · reading`;
}

// Whether text is selected, as a command that is to be copied: it would be lost with its elements.
let held = false;
const selecting = () => { const chosen = getSelection(); return !chosen.isCollapsed && main.contains(chosen.anchorNode); };
document.addEventListener("selectionchange", () => { if (held && !selecting()) draw(); });

// How an element is found again after it was drawn anew, so that it keeps the focus.
function handle(element) {
  if (!element || !(main.contains(element) || nav.contains(element))) return null;
  if (element.id) return `#${CSS.escape(element.id)}`;
  for (const name of ["data-href", "href"]) {
    const value = element.getAttribute(name);
    if (value) return `[${name}="${CSS.escape(value)}"]`;
  }
  return null;
}

function draw() {
  const focus = handle(document.activeElement), inNav = nav.contains(document.activeElement);
  const place = here();
  drawNav(place);
  if (focus && inNav) nav.querySelector(focus)?.focus();
  const wanted = search.value.trim();
  const view = wanted ? found : VIEWS.find((one) => one.name === place.name) || fleet;
  const key = `${view.name} ${wanted} ${location.hash}`;
  const fresh = key !== shown;
  held = state.loaded && !fresh && selecting();
  drawPulse();
  if (held) return;
  if (!state.loaded) { main.replaceChildren(h("div", { class: "empty" }, "Reading the fleet…")); return; }
  document.title = `${wanted ? `“${wanted}”` : view.title} · Hanse`;
  if (!fresh && view.keeps) { view.refresh?.(); return; }  // what is being typed into stays as it is
  const scroll = window.scrollY;
  main.replaceChildren(...[view.draw(place, wanted)].flat());
  shown = key;
  if (focus && !inNav && !fresh) main.querySelector(focus)?.focus({ preventScroll: true });
  window.scrollTo(0, fresh ? 0 : scroll);
}

function logIn() {
  const field = h("input", { class: "field", id: "token", type: "password", autocomplete: "off", "aria-label": "Token", placeholder: "Token" });
  const why = h("p", { class: "muted", role: "alert" });
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    const answered = await fetch("/api/enter", { method: "POST", body: JSON.stringify({ token: field.value }) });
    if (answered.ok) location.reload(); else why.textContent = "That is not the token of this dashboard.";
  } }, field, h("button", { class: "primary" }, "Enter"));
  const spent = location.hash === "#/spent" && h("p", { class: "note" }, "That link was used already, or is older than ten minutes; ask for another.");
  const about = h("p", { class: "muted" }, "In a local federation ", h("code", {}, "hanse dashboard"),
    " prints a link that lets you in. An agent's token is in the Secret that its installation names.");
  main.replaceChildren(h("div", { class: "panel login" }, h("div", { class: "body" }, h("h1", {}, "This dashboard needs its token"), spent, about, form, why)));
  pulse.textContent = "not signed in"; field.focus();
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "☀" : "☾";
}
const stored = () => { try { return localStorage.getItem("hanse-theme"); } catch { return null; } };
const system = matchMedia("(prefers-color-scheme: dark)");
setTheme(stored() ? stored() === "dark" : system.matches);
system.addEventListener("change", () => { if (!stored()) setTheme(system.matches); });
function turnTheme() {
  const dark = document.documentElement.dataset.theme !== "dark";
  setTheme(dark);
  try { localStorage.setItem("hanse-theme", dark ? "dark" : "light"); } catch { /* not kept, then */ }
}
document.getElementById("theme").addEventListener("click", turnTheme);

addEventListener("hashchange", () => { search.value = ""; draw(); main.focus({ preventScroll: true }); });
search.addEventListener("input", draw);
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { search.value = ""; draw(); search.blur(); }
  if (event.key === "Enter") main.querySelector("tr[data-href]")?.click();
});
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "/") { event.preventDefault(); search.focus(); }
  if (event.key === "t") turnTheme();
  const number = Number(event.key);
  const view = number ? offered()[number - 1] : null;
  if (view) location.hash = `#/${view.name}`;
});
main.addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-href]");
  if (row && !event.target.closest("a, button")) location.hash = row.dataset.href;
});
main.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("tr[data-href]")) location.hash = event.target.dataset.href;
});
onChange(draw);
connect(logIn);
