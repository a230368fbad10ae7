// Everything that is known, and who wants to hear of changes.
export const state = { sections: {}, timeline: [], around: null, may: [], connected: false, loaded: false, judged: false };
const listeners = new Set();
let waiting = false;

export function onChange(listener) { listeners.add(listener); }

function changed() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; for (const listener of listeners) listener(); });
}

export const items = (section) => Object.values(state.sections[section] || {});
export const item = (section, key) => (state.sections[section] || {})[key];

function take(news) {
  if (news.first) { state.sections = {}; state.timeline = []; state.loaded = true; state.judged = false; }
  for (const [section, put] of Object.entries(news.put || {})) {
    state.sections[section] = Object.assign(state.sections[section] || {}, put);
  }
  for (const [section, gone] of Object.entries(news.gone || {})) {
    for (const key of gone) delete (state.sections[section] || {})[key];
  }
  if (news.timeline?.length) {
    const last = state.timeline.at(-1)?.number || 0;
    state.timeline = state.timeline.concat(news.timeline.filter((e) => e.number > last)).slice(-500);
  }
  if (news.judged) state.judged = true;
  if (news.around !== undefined) state.around = news.around;
  changed();
}

export async function connect(refused) {
  const asked = await fetch("/api/may").catch(() => null);
  if (asked?.status === 401) { refused(); return; }
  const source = new EventSource("/api/events");
  source.addEventListener("hello", (e) => { state.may = JSON.parse(e.data).may; state.connected = true; changed(); });
  source.addEventListener("news", (e) => { state.connected = true; take(JSON.parse(e.data)); });
  source.addEventListener("error", () => {
    state.connected = false;
    changed();
    if (source.readyState === EventSource.CLOSED) setTimeout(() => connect(refused), 2000);
  });
}

export async function ask(what, wish) {
  let answered;
  try {
    answered = await fetch(`/api/${what}`, {
      method: "POST", headers: { "X-Hanse": "1", "Content-Type": "application/json" }, body: JSON.stringify(wish),
    });
  } catch { throw new Error("the dashboard does not answer; is it still running?"); }
  const told = await answered.json().catch(() => ({ refused: `it answered ${answered.status}` }));
  if (!answered.ok) throw new Error(told.refused || `it answered ${answered.status}`);
  return told;
}
