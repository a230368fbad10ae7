// What would change where, if something were applied. Nothing is written.
import { h, badge, head, panel, table } from "/page/dom.js";
import { state, ask } from "/page/store.js";
import { inOrder } from "/page/fleet.js";

const SIGNS = { create: "good", update: "warn", delete: "bad", refused: "bad", unchanged: "idle" };
const EXAMPLE = `apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: web
  namespace: shop
`;
let text = EXAMPLE;

function outcome(told) {
  return table(["Cluster", "Change", "Object", "By", ""], told.changes.map((c) => h("tr", {}, h("td", { class: "name" }, c.cluster), h("td", {}, badge(SIGNS[c.change], c.change)),
    h("td", {}, `${c.kind} ${c.namespace ? `${c.namespace}/` : ""}${c.name}`), h("td", { class: "muted" }, c.by === "you" ? "you" : `agent of ${c.by}`), h("td", { class: "muted" }, c.why))),
    { empty: "Nothing would change." });
}

export const whatIf = {
  name: "whatif", title: "What if", group: "Look closer", keeps: true,
  offered: () => state.may.includes("plan"),
  draw() {
    const box = h("textarea", { class: "field", id: "yaml", "aria-label": "Objects as YAML", spellcheck: "false", oninput: () => { text = box.value; } }, text);
    const where = h("select", { class: "field", id: "cluster", "aria-label": "Cluster" }, inOrder().map((c) => h("option", {}, c.name)));
    const out = h("div", { "aria-live": "polite" });
    const look = async () => {
      out.replaceChildren(h("div", { class: "empty" }, "Asking every agent…"));
      try { out.replaceChildren(outcome(await ask("plan", { cluster: where.value, yaml: text }))); }
      catch (error) { out.replaceChildren(h("div", { class: "body" }, h("div", { class: "note bad" }, error.message))); }
    };
    this.refresh = () => {};
    return [head("What if", "What would change in which cluster, if this were applied. Nothing is written."),
      h("div", { class: "grid two" }, panel("Apply", h("div", { class: "body grid" }, box, h("div", { class: "form" }, h("label", { for: "cluster" }, "to"), where, h("button", { class: "primary", onclick: look }, "Show what would change")))),
        panel("Then", out))];
  },
};
