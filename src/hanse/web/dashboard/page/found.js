// What a search finds, in every section.
import { h, badge, head, panel, table } from "/page/dom.js";
import { items } from "/page/store.js";
import { condition } from "/page/fleet.js";
import { row } from "/page/services.js";
import { features } from "/page/features.js";

const MOST = 100;

export const found = {
  name: "found", title: "Search",
  draw(_, wanted) {
    const words = wanted.toLowerCase().split(/\s+/);
    const has = (text) => words.every((w) => text.toLowerCase().includes(w));
    const clusters = items("clusters").filter((c) => has(`${c.name} ${c.roles.join(" ")} ${c.phase} ${c.reason}`));
    const services = items("services").filter((x) => has(`${x.namespace}/${x.name} ${x.type} ${x.ports.join(" ")} ${x.exporters.map((e) => e.cluster).join(" ")} ${x.problems.map((p) => p.reason).join(" ")}`));
    const more = features.map((view) => ({ view, found: view.search ? items(view.name).filter((x) => has(view.search(x))) : [] })).filter((one) => one.found.length);
    const count = clusters.length + services.length + more.reduce((n, one) => n + one.found.length, 0);
    return [head("Search", `${count} found for “${wanted}”.`),
      h("div", { class: "grid" },
        clusters.length ? panel("Clusters", table(["Cluster", "State"], clusters.map((c) => h("tr", { "data-href": `#/fleet/${c.name}`, tabindex: 0 }, h("td", { class: "name" }, c.name), h("td", {}, badge(condition(c).state, condition(c).text)))))) : null,
        services.length ? panel(`Services${services.length > MOST ? ` (the first ${MOST} of ${services.length})` : ""}`, table(["Service", "State", "Type", "Ports", "Ready endpoints by cluster"], services.slice(0, MOST).map((x) => row(x)), { label: "Services" })) : null,
        more.map(({ view, found: list }) => panel(view.title, table(view.columns, list.slice(0, MOST).map((x) => view.row(x))))),
        count ? null : h("div", { class: "panel empty" }, "Nothing has that in its name or state."))];
  },
};
