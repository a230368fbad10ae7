// What a click does, and what is said when it fails.
import { ask } from "/page/store.js";

let toasting;
export function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text; box.hidden = false;
  clearTimeout(toasting); toasting = setTimeout(() => { box.hidden = true; }, 6000);
}

export async function order(wish) {
  try { await ask("order", wish); } catch (error) { toast(error.message); }
}
