// The fleet: a map of clusters and of the ways between them, and what can be done to it.
import { h, s, badge, head, panel, facts, ago, table, clock, counted, troubled } from "/page/dom.js";
import { state, items, item } from "/page/store.js";
import { order } from "/page/act.js";
import { happening } from "/page/timeline.js";
import { wrong, serious, worst } from "/page/wrong.js";

const WIDTH = 760, NODE_W = 172, NODE_H = 70;
const LOCAL = (name) => state.around?.clusters.find((c) => c.name === name);
const isBroker = (c) => c.roles.includes("broker");
const isCut = (one, other) => (state.around?.cuts || []).some((p) => p.includes(one) && p.includes(other));

export const condition = (c) => {
  const local = LOCAL(c.name);
  if (local && !local.running) return { state: "bad", text: "stopped" };
  if (c.state !== "good") return { state: c.state, text: c.findings[0]?.code || c.phase.toLowerCase() };
  const inIt = items("findings").find((f) => f.subject.cluster === c.name && !f.subject.namespace && f.severity !== "note");
  return inIt ? { state: "warn", text: inIt.code } : { state: "good", text: "healthy" };
};

export function inOrder() {
  const order = (state.around?.clusters || []).map((c) => c.name);
  const rank = (c) => (isBroker(c) ? 1e6 : order.includes(c.name) ? order.indexOf(c.name) : 1e5);
  return items("clusters").sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

function places(clusters) {
  const around = clusters.filter((c) => !isBroker(c));
  const brokers = clusters.filter(isBroker);
  const small = around.length <= 4;
  const height = small ? 360 : 440 + Math.max(0, around.length - 12) * 14;
  const at = {};
  around.forEach((c, i) => {
    const turn = -Math.PI / 2 + ((i + (around.length === 2 ? 0.5 : 0)) * 2 * Math.PI) / around.length;
    if (around.length === 3) {  // a triangle that leaves the middle to the broker
      at[c.name] = [{ x: WIDTH / 2, y: NODE_H / 2 + 12 }, { x: NODE_W / 2 + 40, y: height - NODE_H / 2 - 12 }, { x: WIDTH - NODE_W / 2 - 40, y: height - NODE_H / 2 - 12 }][i];
      return;
    }
    at[c.name] = { x: WIDTH / 2 + Math.cos(turn) * (WIDTH / 2 - NODE_W / 2 - 24), y: height / 2 + Math.sin(turn) * (height / 2 - NODE_H / 2 - 14) };
  });
  brokers.forEach((c, i) => { at[c.name] = { x: WIDTH / 2 + (i - (brokers.length - 1) / 2) * (NODE_W + 20), y: height / 2 + (around.length === 1 ? 90 : 10) }; });
  return { at, height };
}

function edge(link, at) {
  const from = at[link.source], to = at[link.target];
  if (!from || !to) return null;
  const bend = link.leads || !isBroker(item("clusters", link.target) || { roles: [] }) ? 26 : 0;
  const dx = to.x - from.x, dy = to.y - from.y, far = Math.hypot(dx, dy) || 1;
  const cx = (from.x + to.x) / 2 - (dy / far) * bend, cy = (from.y + to.y) / 2 + (dx / far) * bend;
  const kind = isCut(link.source, link.target) ? "bad" : link.state;
  const title = `The agent of ${link.source} sees ${link.target}: ${link.phase}${link.reason ? `, ${link.reason}` : ""}${link.leads ? "; it leads it" : ""}`;
  return s("path", { class: `link ${kind} ${link.leads ? "leads" : ""}`, d: `M${from.x},${from.y} Q${cx},${cy} ${to.x},${to.y}` }, s("title", {}, title));
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// What an agent remembers of a lost cluster is shown; one that was never read has not nothing.
const isUnread = (c) => c.phase === "Unreachable" && !c.exports && !c.imports && !c.nodes;
const content = (c) => isUnread(c) ? "content not known" : `${counted(c.exports, "export")} · ${counted(c.imports, "import")}`;

function node(c, at, picked) {
  const { x, y } = at[c.name], told = condition(c), local = LOCAL(c.name);
  const standing = local?.standing || (isBroker(c) ? "broker" : c.roles.includes("local") ? "cluster" : c.roles[0] || "");
  const more = isBroker(c) ? "what clusters share" : content(c);
  const late = local?.delay_milliseconds ? `${local.delay_milliseconds} ms late` : "";
  return s("a", { href: `#/fleet/${c.name}`, "aria-label": `${c.name}, ${standing}, ${told.text}` },
    s("g", { class: `node ${told.state} ${picked === c.name ? "picked" : ""}`, transform: `translate(${x - NODE_W / 2},${y - NODE_H / 2})` },
      s("rect", { width: NODE_W, height: NODE_H, rx: 10 }),
      s("circle", { class: "dot", cx: 18, cy: 21, r: 5 }),
      s("text", { x: 31, y: 26 }, shortened(c.name, 15)),
      s("text", { class: "small", x: 15, y: 43 }, shortened(told.state === "good" || late ? `${standing} · ${late || told.text}` : told.text, 26)),
      s("text", { class: "small", x: 15, y: 59 }, more)));
}

const MANY = 12, STATES = ["bad", "warn", "idle", "good"];

// Above a dozen, the troubled come first, and a map is a tangle: a grid.
function listed() {
  const clusters = inOrder(), rank = (c) => STATES.indexOf(condition(c).state);
  return clusters.length > MANY ? clusters.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1)) : clusters;
}

function cards(clusters, picked) {
  return h("div", { class: "cards", role: "group", "aria-label": "Clusters, the troubled first" }, clusters.map((c) => {
    const told = condition(c);
    return h("a", { href: `#/fleet/${c.name}`, class: `${told.state} ${picked === c.name ? "picked" : ""}` }, h("b", {}, c.name),
      h("span", {}, told.text), h("span", {}, isBroker(c) ? "broker" : content(c)));
  }));
}

function map(picked) {
  const clusters = listed();
  if (clusters.length > MANY) return cards(clusters, picked);
  const { at, height } = places(clusters);
  const links = items("links").flatMap((x) => x.links);
  return s("svg", { class: "map", viewBox: `0 0 ${WIDTH} ${height}`, role: "group", "aria-label": "Map of the fleet" },
    links.map((link) => edge(link, at)), clusters.map((c) => node(c, at, picked)));
}

function faults(c) {
  if (!state.may.includes("order")) return null;
  const local = LOCAL(c.name);
  if (!local) return null;
  const others = state.around.clusters.filter((o) => o.name !== c.name);
  const slow = local.delay_milliseconds > 0;
  return panel("Make things go wrong", h("div", { class: "body grid" },
    h("div", { class: "form" },
      local.running
        ? h("button", { id: "kill", onclick: () => order({ order: "kill", cluster: c.name }) }, "Stop its API server")
        : h("button", { id: "start", class: "primary", onclick: () => order({ order: "start", cluster: c.name }) }, "Start its API server"),
      h("button", { id: "slow", disabled: !local.running, onclick: () => order({ order: "slow", cluster: c.name, milliseconds: slow ? 0 : 500 }) },
        slow ? "Answer at once again" : "Answer 500 ms late")),
    h("div", { class: "form" }, others.map((o) => {
      const cut = isCut(c.name, o.name);
      return h("button", { class: "small", id: `cut-${o.name}`, onclick: () => order({ order: cut ? "heal" : "cut", one: c.name, other: o.name }) },
        cut ? `Heal the way to ${o.name}` : `Cut the way to ${o.name}`);
    }))));
}

function detail(name) {
  const c = item("clusters", name);
  if (!c) return panel(name, h("div", { class: "empty" }, `There is no cluster ${name} in this fleet.`));
  const told = condition(c), local = LOCAL(name);
  const seenBy = (item("links", name)?.links || []).map((l) => h("div", {}, badge(l.state, l.source), " ", h("span", { class: "muted" }, l.phase + (l.reason ? `: ${l.reason}` : ""))));
  return h("div", { class: "grid side" },
    panel(name, h("div", { class: "body" }, facts([
      ["State", badge(told.state, told.text)],
      ["Since", c.since && `${clock(c.since)} (${ago(c.since)})`],
      ["Why", c.reason],
      ["Roles", local?.standing || c.roles.join(", ")],
      ["Led by", c.leader],
      ["Agent", c.replica && `${c.replica}${c.standby ? `, ${counted(c.standby, "replica")} on standby` : ""}`],
      ["Exports", isBroker(c) ? "" : isUnread(c) ? "not known" : String(c.exports)],
      ["Imports", isBroker(c) ? "" : isUnread(c) ? "not known" : String(c.imports)],
      ["Nodes", c.nodes || local?.nodes ? String(c.nodes || "") : ""],
      ["API server", local && h("code", {}, local.url)],
      ["Service range", local?.services && h("code", {}, local.services)],
      ["Pod range", local?.pods && h("code", {}, local.pods)],
      ["DNS", local?.dns && h("code", {}, local.dns)],
      ["Seen by", seenBy.length ? seenBy : ""],
    ])), h("a", { class: "badge bare", href: "#/fleet", "aria-label": "Close" }, "close")),
    faults(c));
}

function tiles() {
  const clusters = items("clusters"), all = items("services");
  const away = clusters.filter((c) => condition(c).state !== "good").length;
  const broken = items("links").flatMap((x) => x.links).filter((l) => l.state === "bad" || isCut(l.source, l.target)).length;
  const wrong = all.filter(troubled).length;
  const ready = all.reduce((n, x) => n + x.exporters.reduce((m, e) => m + e.ready, 0), 0);
  const tile = (href, value, label, sub, kind) => h("a", { class: "panel tile", href }, h("b", {}, value), h("span", {}, label), h("span", { class: `sub ${kind || ""}` }, sub));
  return h("div", { class: "tiles" },
    tile("#/fleet", clusters.length, "clusters", away ? `${away} to look at` : broken ? `${counted(broken, "way")} broken` : "all healthy", away || broken ? "bad" : ""),
    tile("#/services", all.length, "services", wrong ? `${wrong} with problems` : "all well", wrong ? "warn" : ""),
    tile("#/services", ready, "ready endpoints", "in all clusters"),
    tile("#/timeline", state.timeline.at(-1)?.number || 0, "changes", "since this began"));
}

export const fleet = {
  name: "fleet", title: "Fleet",
  count: () => {
    const bad = serious().length;
    return bad ? { text: bad, state: worst(), title: `${bad} to mend` } : { text: items("clusters").length };
  },
  draw(place) {
    const picked = place.path[0];
    const cuts = state.around?.cuts || [];
    const anyFault = cuts.length || state.around?.clusters.some((c) => !c.running || c.delay_milliseconds);
    const heal = anyFault && state.may.includes("order") && h("button", { id: "healall", class: "small primary", onclick: () => order({ order: "healall" }) }, "Heal everything");
    const recent = state.timeline.slice(-8).reverse();
    return [
      head("Fleet", "Clusters, and who sees whom."),
      wrong(),
      tiles(),
      h("div", { class: "grid two" },
        panel("Map", h("div", { class: "body" }, map(picked)), heal),
        picked ? detail(picked) : h("div", { class: "grid" },
          panel("Clusters", table(["Cluster", "State", "Led by"], listed().map((c) => {
            const told = condition(c);
            return h("tr", { "data-href": `#/fleet/${c.name}`, tabindex: 0 }, h("td", { class: "name" }, c.name),
              h("td", {}, badge(told.state, told.text), c.reason && h("div", { class: "faint" }, c.reason)), h("td", { class: "muted word" }, c.leader || "–"));
          }), { label: "Clusters" })),
          panel("Lately", recent.length ? h("ul", { class: "list" }, recent.map(happening)) : h("div", { class: "empty" }, "Nothing has changed since this began.")))),
    ];
  },
};
