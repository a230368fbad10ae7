// The features beyond services: what spans clusters, as one list and one of it in full.
import { h, badge, chip, head, panel, table, facts, color, counted, troubled, notes, reasons } from "/page/dom.js";
import { items, item } from "/page/store.js";

const key = (x) => `${x.namespace}/${x.name}`;
const MARKS = { all: ["yes", "✓", "all pods"], some: ["yes", "~", "some pods"], none: ["no", "·", "no pod"] };

const brief = (p) => (p.text.length < 8 ? p.text : p.share ? `${p.share} %` : "");

function shares(parts) {
  const shared = parts.filter((p) => p.share);
  if (!shared.length) return null;
  return h("div", { class: "share", role: "img", "aria-label": shared.map((p) => `${p.cluster} ${p.share} %`).join(", ") },
    shared.map((p) => h("i", { class: color(parts.indexOf(p)), style: { width: `${p.share}%` }, title: `${p.cluster}: ${p.share} %` })));
}

function matrix(m) {
  const cell = (reach, i, j) => {
    const [kind, mark, words] = MARKS[reach];
    return h("td", { class: kind, title: `${m.names[i]} → ${m.names[j]}: ${words}` }, mark);
  };
  const lost = item("clusters", m.cluster)?.phase === "Unreachable";
  return panel(`Who ${lost ? "could" : "can"} reach whom in ${m.cluster}${lost ? ", when it was last seen" : ""}`, h("div", { class: "body scroll" },
    h("table", { class: "matrix", "aria-label": `Reach in ${m.cluster}` },
      h("thead", {}, h("tr", {}, h("th", {}, "from \\ to"), m.names.map((n, i) => h("th", { scope: "col", title: n }, String(i + 1))))),
      h("tbody", {}, m.rows.map((row, i) => h("tr", {}, h("th", { scope: "row" }, `${i + 1}  ${m.names[i]}`), row.map((r, j) => cell(r, i, j)))))),
    h("p", { class: "faint" }, "As written in policies; the cluster's network plugin enforces them, or does not.",
      m.leftOut ? ` ${m.leftOut} more networks: see hanse networks matrix.` : "")));
}

function feature({ name, title, about, columns, empty, beside }) {
  const href = (x) => `#/${name}/${encodeURIComponent(x.namespace)}/${encodeURIComponent(x.name)}`;
  const row = (x, open) => h("tr", { "data-href": href(x), tabindex: 0, class: open ? "open" : "" },
    h("td", {}, h("span", { class: "ns" }, `${x.namespace} / `), h("a", { class: "name", href: href(x) }, x.name)),
    h("td", {}, badge(x.state, x.told)),
    h("td", {}, x.parts.length ? h("div", { class: "chips" }, x.parts.map((p) => chip([h("span", {}, p.cluster), brief(p) && h("b", {}, brief(p))], p.state === "bad" ? "bad" : p.state === "warn" ? "warn" : "", p.text))) : h("span", { class: "faint" }, "–")));
  const detail = (id) => {
    const x = item(name, id);
    if (!x) return panel(id, h("div", { class: "empty" }, `${id} is not there (any more).`));
    return h("div", { class: "grid side" }, panel(`${x.namespace} / ${x.name}`, h("div", { class: "body" },
      x.problems.length ? notes(x, x.problems) : reasons(x),
      shares(x.parts),
      facts([["State", badge(x.state, x.told)], ...x.facts,
        [columns[2], x.parts.length && x.parts.map((p) => h("div", {}, badge(p.state, p.cluster), " ", h("span", { class: "muted" }, p.text + (p.share ? ` (${p.share} %)` : ""))))]])),
      h("a", { class: "badge bare", href: `#/${name}` }, "close")),
      x.versions.length ? panel("Versions that crossed", h("div", { class: "body sides" }, x.versions.map(([who, text]) => h("div", {}, h("h2", {}, who), h("pre", { class: "code" }, text))))) : null);
  };
  return {
    name, title, columns, row, group: "Federation",
    offered: () => items(name).length || location.hash.startsWith(`#/${name}`),
    search: (x) => `${key(x)} ${x.told} ${x.parts.map((p) => p.cluster).join(" ")} ${x.facts.map((f) => f[1]).join(" ")}`,
    count: () => {
      const bad = items(name).filter(troubled).length;
      return bad ? { text: bad, state: "warn", title: `${bad} to look at` } : { text: items(name).length };
    },
    draw(place) {
      const id = place.path.length === 2 ? place.path.join("/") : "";
      const all = items(name).sort((a, b) => (key(a) < key(b) ? -1 : 1));
      const list = panel("", table(columns, all.map((x) => () => row(x, key(x) === id)), { label: title, empty }));
      return [head(title, about(all)), h("div", { class: "grid" }, id ? h("div", { class: "grid two" }, list, detail(id)) : list, beside?.())];
    },
  };
}

export const features = [
  feature({ name: "federated", title: "Federated", columns: ["Federated Service", "State", "Member Services"],
    about: (all) => `${counted(all.length, "Service")} made of Services in several clusters.`,
    empty: ["No Service is federated. Annotate one with ", h("code", {}, "svc.global.federated.antreaplus.vmware.com=NAME"), "."] }),
  feature({ name: "policies", title: "Policies", columns: ["Policy", "State", "In each cluster"],
    about: (all) => `${counted(all.length, "policy", "policies")} kept in all members.`,
    empty: ["No policy is federated. Annotate one with ", h("code", {}, "federated.anp.antreaplus.vmware.com=true"), "."] }),
  feature({ name: "gslb", title: "Global hosts", columns: ["Host", "State", "Members"],
    about: (all) => `${counted(all.length, "host name")} balanced over clusters; shares are those of answers now.`, empty: "No host is load balanced." }),
  feature({ name: "statefulsets", title: "StatefulSets", columns: ["StatefulSet", "State", "Replicas by cluster"],
    about: (all) => `${counted(all.length, "set")} spread over clusters.`, empty: "No StatefulSet is federated." }),
  feature({ name: "networks", title: "Networks", columns: ["Network", "State", "Pool used"],
    about: (all) => `${counted(all.length, "network")} of tenants.`, empty: "No tenant has a network.",
    beside: () => items("reach").sort((a, b) => (a.cluster < b.cluster ? -1 : 1)).map(matrix) }),
];
