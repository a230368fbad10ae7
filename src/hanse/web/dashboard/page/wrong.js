// What is wrong: the cause, what follows from it, and what mends it, to be copied.
import { h, badge, panel, ago, counted } from "/page/dom.js";
import { state, items } from "/page/store.js";

const RANK = { outage: 0, degraded: 1, risk: 2, note: 3 };
const STATE = { outage: "bad", degraded: "bad", risk: "warn", note: "idle" };
const SHOWN = 12, FOLLOWING = 5;
const open = new Set();

export const findings = () => items("findings").sort((a, b) =>
  RANK[a.severity] - RANK[b.severity] || b.consequences.length - a.consequences.length || (a.code + a.summary < b.code + b.summary ? -1 : 1));
export const serious = () => findings().filter((f) => RANK[f.severity] < RANK.note);
export const worst = () => (findings().length ? STATE[findings()[0].severity] : "good");

const id = (f) => `finding-${[f.code, f.subject.cluster, f.subject.namespace, f.subject.name].join("-").replace(/[^A-Za-z0-9-]/g, "_")}`;

function command(text) {
  const button = h("button", { class: "small", id: `copy-${text.replace(/[^A-Za-z0-9]/g, "_")}`, "aria-label": `Copy ${text}`, onclick: async () => {
    await navigator.clipboard?.writeText(text);
    button.textContent = "Copied";
  } }, "Copy");
  return h("div", { class: "command" }, h("code", {}, text), button);
}

function following(f) {
  if (!f.consequences.length) return null;
  const all = open.has(id(f)) ? f.consequences : f.consequences.slice(0, FOLLOWING);
  const more = f.consequences.length - all.length;
  return h("ul", { class: "follows", "aria-label": "What follows from it" }, all.map((c) => h("li", {}, c.summary)),
    more > 0 && h("li", {}, h("button", { class: "small", id: `more-${id(f)}`, onclick: (event) => { open.add(id(f)); event.target.closest(".finding").replaceWith(finding(f)); } }, `${more} more`)));
}

export function finding(f) {
  return h("article", { class: `finding ${STATE[f.severity]}`, id: id(f), "data-code": f.code },
    h("div", { class: "what" }, badge(STATE[f.severity], f.severity), h("b", {}, f.summary), h("span", { class: "muted" }, f.code, f.since && `, for ${ago(f.since)}`)),
    f.certainty?.is === "Unknown" && h("p", { class: "muted" }, `Not known: ${f.certainty.why}`),
    h("div", { class: "mend" }, f.remedy.commands.map(command), f.remedy.ask && h("p", {}, `ask ${f.remedy.ask}`), f.remedy.advice && h("p", { class: "muted" }, f.remedy.advice)),
    following(f));
}

export function wrong() {
  const all = findings(), shown = all.slice(0, SHOWN);
  if (!all.length) return h("section", { class: "panel wrong good", "aria-label": "What is wrong" }, h("div", { class: "body" },
    state.judged && items("clusters").length ? badge("good", "Nothing is wrong.") : badge("idle", "Not known yet: the fleet is being read.")));
  const shownPanel = panel("What is wrong", h("div", { class: "body findings" }, shown.map(finding),
    all.length > shown.length && h("p", { class: "muted" }, `${counted(all.length - shown.length, "more finding")}: `, h("code", {}, "hanse doctor"))));
  shownPanel.classList.add("wrong");
  return shownPanel;
}
