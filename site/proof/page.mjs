// The page of one proof: type a string, read a long one, check every condition, break a weight.

import { ahead, decoded, drives, first, largest, logits, step } from "./network.mjs";
import { Rejected, check, closed } from "./check.mjs";

const SHOWN = 12, LONGEST = 6, BUCKETS = 200;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const number = (x) => x.toLocaleString("en");
const pause = () => new Promise((resume) => setTimeout(resume));

/** Puts the page of a proof into an element. */
export function show(place, proof) {
  const claim = proof.claim;
  let weights = decoded(proof.tensors), drive = drives(weights);
  const sets = closed(proof, weights);
  const box = (h, state) => sets.findIndex((set) =>
    set.state === state && set.low.every((low, i) => low <= h[i] && h[i] <= set.high[i]));

  const between = claim.symbols.some((name) => name.length > 1) ? " " : "";  // names of more than one letter
  const letters = (text) => (between ? text.split(/\s+/).filter(Boolean) : [...text.replaceAll(" ", "")]);
  const example = [...claim.symbols.slice(0, 2).reverse(), ...claim.symbols].join(between);

  const told = element("div", { role: "status" });
  const typed = element("input", { type: "text", value: example, "aria-label": "A string", oninput: read });
  function read() {
    const word = letters(typed.value).map((letter) => claim.symbols.indexOf(letter));
    if (word.includes(-1)) {
      told.replaceChildren(`The symbols are ${claim.symbols.join(", ")}.`);
      return;
    }
    let h = first(weights), state = claim.start;
    const rows = word.map((symbol, at) => {
      h = step(weights, drive[symbol], h);
      state = claim.delta[state][symbol];
      const x = logits(weights, h), said = largest(x), right = claim.answers[state], into = box(h, state);
      const sign = said === right ? element("span", { class: "proved" }, `✓ ${said}`) : element("span", { class: "refuted" }, `✗ ${said}, not ${right}`);
      const cells = [number(at + 1), claim.symbols[symbol], `state ${state}`, into < 0 ? "no box" : `box ${into}`, sign, ahead(x, right).toFixed(2)];
      return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
    });
    const head = ["", "reads", "machine", "network's state", "says", "margin"].map((name) => element("th", {}, name));
    const hidden = rows.length > SHOWN ? [`The last ${SHOWN} of ${number(rows.length)} steps.`] : [];
    told.replaceChildren(...hidden, element("table", { class: "table" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows.slice(-SHOWN))));
  }

  const slider = element("input", { type: "range", min: 2, max: LONGEST, step: 0.25, value: 4, "aria-label": "How many symbols", oninput: named });
  const long = element("button", { onclick: readLong }), plot = element("div", { role: "status" });
  const wanted = () => Math.round(10 ** slider.value);
  function named() { long.textContent = `Read ${number(wanted())} random symbols`; }
  async function readLong() {
    long.disabled = true;
    const length = wanted(), least = new Array(BUCKETS).fill(Infinity);
    let h = first(weights), state = claim.start, wrong = 0;
    for (let at = 0; at < length; at++) {
      const symbol = Math.floor(Math.random() * claim.symbols.length);
      h = step(weights, drive[symbol], h);
      state = claim.delta[state][symbol];
      const by = ahead(logits(weights, h), claim.answers[state]), bucket = Math.floor((at * BUCKETS) / length);
      least[bucket] = Math.min(least[bucket], by);
      wrong += by <= 0;
      if (at % 20000 === 19999) {
        plot.replaceChildren(`${number(at + 1)} symbols …`);
        await pause();
      }
    }
    const seen = least.filter(Number.isFinite), most = Math.max(...seen, 1), lowest = Math.min(...seen);
    const points = seen.map((y, i) => `${(i * 600) / Math.max(1, seen.length - 1)},${100 - (90 * Math.max(y, 0)) / most}`);
    const text = wrong ? `wrong after ${number(wrong)} of ${number(length)} beginnings` : `right after each of ${number(length)} beginnings, by ${lowest.toFixed(2)} at least`;
    const picture = `<svg viewBox="0 0 600 104" role="img" aria-label="Least margin along the string" class="margins"><line x1="0" y1="100" x2="600" y2="100"/><polyline points="${points.join(" ")}"/></svg>`;
    plot.replaceChildren(element("p", { class: wrong ? "refuted" : "proved" }, (wrong ? "✗ " : "✓ ") + text));
    plot.insertAdjacentHTML("beforeend", picture);
    long.disabled = false;
  }

  const verdict = element("div", { role: "status" });
  const ticks = element("ul", { class: "conditions" });
  const start = element("button", { onclick: run }, "Check the proof");
  const broken = element("button", { onclick: perturb }, "Perturb one weight");
  async function run() {
    start.disabled = broken.disabled = true;
    const lines = {}, counts = {};
    ticks.replaceChildren();
    verdict.replaceChildren("Checking …");
    try {
      const conditions = check(proof, weights);
      let each = conditions.next();
      for (; !each.done; each = conditions.next()) {
        const { kind, text } = each.value;
        if (!lines[kind]) ticks.append((lines[kind] = element("li")));
        counts[kind] = (counts[kind] ?? 0) + 1;
        lines[kind].textContent = `✓ ${{ step: `${number(counts[kind])} steps: ${text}`, answer: `${number(counts[kind])} answers: ${text}` }[kind] ?? text}`;
        await pause();
      }
      const found = `✓ PROVED: ${number(each.value.conditions)} conditions hold, the least margin is ${each.value.margin.toFixed(2)}`;
      verdict.replaceChildren(element("p", { class: "proved" }, found));
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      verdict.replaceChildren(element("p", { class: "refuted" }, `✗ not proved: ${error.message}`));
    }
    start.disabled = broken.disabled = false;
  }
  function perturb() {
    const at = Math.floor(Math.random() * weights.keeps.length);
    weights = { ...weights, keeps: weights.keeps.slice() };
    weights.keeps[at] += weights.keeps[at] > 0 ? -1 : 1;
    drive = drives(weights);
    read();
    broken.textContent = "Perturb another";
    return run();
  }

  place.replaceChildren(
    element("h2", {}, "Type a string"), typed, told,
    element("h2", {}, "Read a long one"), slider, long, plot,
    element("h2", {}, "Check the proof"), start, broken, verdict, ticks,
  );
  named();
  read();
}
