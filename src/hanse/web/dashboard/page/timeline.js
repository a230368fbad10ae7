// What happened, newest first.
import { h, badge, head, panel, clock } from "/page/dom.js";
import { state } from "/page/store.js";

export function happening(e) {
  const what = e.kind ? [h("b", {}, e.kind), ` ${e.namespace ? `${e.namespace}/` : ""}${e.name} `] : [];
  const word = ["told", "event", "fleet"].includes(e.what) ? "" : e.what;
  return h("li", {}, h("time", { datetime: e.at }, clock(e.at)), h("span", { class: "where" }, e.where),
    h("span", { class: "text" }, what, word && badge(e.what === "deleted" ? "idle" : e.state, word, "plain"), e.text && h("span", { class: e.state === "idle" ? "faint" : e.state === "good" ? "muted" : "" }, ` ${e.text}`),
      e.state === "bad" || e.state === "warn" ? [" ", badge(e.state, e.state === "bad" ? "trouble" : "look", "plain")] : null));
}

export const timeline = {
  name: "timeline", title: "Timeline", group: "Look closer",
  draw(place) {
    const where = place.query.get("cluster") || "";
    const names = [...new Set(state.timeline.map((e) => e.where))].sort();
    const filters = h("div", { class: "filters", role: "group", "aria-label": "Cluster" }, ["", ...names].map((n) =>
      h("button", { class: "small", id: `where-${n}`, "aria-pressed": String(where === n), onclick: () => { location.hash = n ? `#/timeline?cluster=${n}` : "#/timeline"; } }, n || "All")));
    const list = state.timeline.filter((e) => !where || e.where === where).slice(-300).reverse();
    return [head("Timeline", "What changed, as the agents saw it, and the Events that they wrote.", filters),
      panel("", list.length ? h("ul", { class: "list" }, list.map(happening)) : h("div", { class: "empty" }, "Nothing has changed since this began."))];
  },
};
