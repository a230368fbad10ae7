// The DNS explorer: what each cluster's clients are answered, and why.
import { h, badge, head, panel, color } from "/page/dom.js";
import { state, ask } from "/page/store.js";

const TYPES = ["A", "AAAA", "SRV", "TXT", "PTR"];
let result = null, asked = "";

function answer(view) {
  const good = view.code === "NOERROR";
  return panel(view.view, h("div", { class: "body" },
    h("div", {}, badge(good ? "good" : view.code === "SERVFAIL" ? "bad" : "idle", view.code), " ", h("span", { class: "muted" }, view.rule)),
    view.records.length > 1 && h("div", { class: "share", role: "img", "aria-label": "Shares of answers" }, view.records.map((r, i) => h("i", { class: color(i), style: { width: `${r.percent}%` } }))),
    h("table", { class: "rows" }, h("tbody", {}, view.records.map((r) => h("tr", {}, h("td", { class: "mono" }, r.value), h("td", { class: "num muted" }, r.percent < 100 ? `${r.percent} % of answers` : "in every answer"))))),
    view.leftOut.map((l) => h("div", { class: "left" }, h("b", {}, `${l.cluster} is left out: `), l.why))));
}

export const names = {
  name: "names", title: "Names", keeps: true,
  offered: () => state.may.includes("resolve"),
  draw(place) {
    const name = place.path[0] || "", type = place.path[1] || "A";
    const field = h("input", { class: "field wide mono", id: "name", value: name, placeholder: "web.shop.svc.clusterset.local", "aria-label": "Name", spellcheck: "false" });
    const kind = h("select", { class: "field", id: "type", "aria-label": "Type" }, TYPES.map((t) => h("option", { selected: t === type }, t)));
    const out = h("div", { class: "grid", "aria-live": "polite" });
    const show = () => out.replaceChildren(...(result.answers || []).map(answer));
    const look = async () => {
      out.replaceChildren(h("div", { class: "muted" }, "Asking…"));
      try { result = await ask("resolve", { name, type }); asked = `${name} ${type}`; show(); }
      catch (error) { out.replaceChildren(h("div", { class: "note bad" }, error.message)); }
    };
    this.refresh = () => {};
    if (name && asked === `${name} ${type}` && result) show(); else if (name) look();
    else out.replaceChildren(h("div", { class: "empty" }, "Ask for a name, such as ", h("a", { href: "#/names/web.shop.svc.clusterset.local/A" }, h("code", {}, "web.shop.svc.clusterset.local")), "."));
    const go = (event) => { event.preventDefault(); asked = ""; const to = `#/names/${encodeURIComponent(field.value.trim())}/${kind.value}`; if (location.hash === to) look(); else location.hash = to; };
    return [head("Names", "What DNS answers in each cluster, and why."),
      h("form", { class: "form", onsubmit: go, style: { marginBottom: "16px" } }, field, kind, h("button", { class: "primary" }, "Resolve")), out];
  },
};
