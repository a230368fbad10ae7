// Services of the cluster set: a list that stays fast with thousands, and one service in full.
import { h, badge, chip, head, panel, table, facts, counted, troubled, reasons } from "/page/dom.js";
import { items, item } from "/page/store.js";

const WORDS = { good: "ready", warn: "look", bad: "not ready", idle: "no endpoints" };
const FILTERS = [["", "All"], ["problems", "With problems"], ["bad", "Not ready"]];

export const href = (x) => `#/services/${encodeURIComponent(x.namespace)}/${encodeURIComponent(x.name)}`;
const sorted = (all) => all.sort((a, b) => (a.namespace + a.name < b.namespace + b.name ? -1 : 1));
const ports = (x) => x.ports.map((p) => `${p.port}/${p.protocol || "TCP"}${p.name ? ` ${p.name}` : ""}`).join(", ");
const UNKNOWN = "not known"; // what could not be read is not absent
const count = (e) => e.unknown ? [UNKNOWN, "warn"] : [`${e.ready}/${e.all}`, e.ready === 0 ? "bad" : e.ready < e.all ? "warn" : ""];
const per = (x) => x.unknown && !x.exporters.length ? UNKNOWN : h("div", { class: "chips" }, x.exporters.map((e) => {
  const [text, state] = count(e);
  return chip([h("span", {}, e.cluster), h("b", {}, text)], state);
}));

export function row(x, open) {
  return h("tr", { "data-href": href(x), tabindex: 0, class: open ? "open" : "" },
    h("td", {}, h("span", { class: "ns" }, `${x.namespace} / `), h("a", { class: "name", href: href(x) }, x.name)),
    h("td", {}, badge(x.state, x.problems.length ? x.problems[0].reason : x.unknown ? UNKNOWN : WORDS[x.state])),
    h("td", { class: "muted word" }, x.unknown ? UNKNOWN : x.type || "–"),
    h("td", { class: "mono" }, x.unknown ? UNKNOWN : ports(x) || "–"),
    h("td", {}, per(x)));
}

// What clusters say in the same words, once, with all who say it.
function told(problems) {
  const once = new Map();
  for (const p of problems) {
    const words = `${p.reason}\n${p.message}`;
    if (!once.has(words)) once.set(words, [p, []]);
    once.get(words)[1].push(p.cluster);
  }
  return [...once.values()];
}

function detail(key) {
  const x = item("services", key);
  if (!x) return panel(key, h("div", { class: "empty" }, `${key} is neither exported nor imported.`));
  const addresses = Object.entries(x.addresses).map(([c, ips]) => h("div", {}, `${c}: `, h("code", {}, ips.join(", "))));
  const dns = `${x.name}.${x.namespace}.svc.clusterset.local`;
  return h("div", { class: "grid side" }, panel(`${x.namespace} / ${x.name}`, h("div", { class: "body" },
    x.problems.length ? told(x.problems).map(([p, where]) => h("div", { class: "note" }, h("b", {}, `${where.join(", ")}: ${p.reason}. `), p.message)) : reasons(x),
    facts([
      ["State", badge(x.state, x.unknown ? `${UNKNOWN}: ${x.unknown}` : WORDS[x.state])],
      ["Type", x.unknown ? UNKNOWN : x.type || "not imported yet"],
      ["Ports", x.unknown ? UNKNOWN : x.ports.length ? h("code", {}, ports(x)) : "none in common"],
      ["Exported by", per(x)],
      ["Weights", x.exporters.some((e) => e.weight || e.priority) && x.exporters.map((e) => h("div", {}, `${e.cluster}: weight ${e.weight || 1}, priority ${e.priority || 10}`))],
      ["Imported by", x.unknown ? UNKNOWN : x.importers.join(", ") || "nobody"],
      ["Addresses", addresses.length ? addresses : ""],
      ["Name", h("a", { href: `#/names/${encodeURIComponent(dns)}/A` }, h("code", {}, dns))],
    ])), h("a", { class: "badge bare", href: "#/services" }, "close")));
}

export const services = {
  name: "services", title: "Services",
  count: () => {
    const wrong = items("services").filter(troubled).length;
    return wrong ? { text: wrong, state: "warn", title: `${wrong} with problems` } : { text: items("services").length };
  },
  draw(place) {
    const filter = place.query.get("show") || "", key = place.path.length === 2 ? place.path.join("/") : "";
    const all = sorted(items("services")).filter((x) => filter === "problems" ? troubled(x) : filter === "bad" ? x.state === "bad" : true);
    const filters = h("div", { class: "filters", role: "group", "aria-label": "Show" }, FILTERS.map(([value, text]) =>
      h("button", { class: "small", id: `show-${value}`, "aria-pressed": String(filter === value), onclick: () => { location.hash = value ? `#/services?show=${value}` : "#/services"; } }, text)));
    const list = panel("", table(["Service", "State", "Type", "Ports", "Ready endpoints by cluster"], all.map((x) => () => row(x, key === `${x.namespace}/${x.name}`)),
      { label: "Services", empty: ["No service is exported yet. Try ", h("code", {}, "hanse export SERVICE"), "."] }));
    return [head("Services", `${counted(all.length, "service")} of the cluster set.`, filters), key ? h("div", { class: "grid two" }, list, detail(key)) : list];
  },
};
