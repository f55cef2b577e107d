// The page of one proof: type a string, read a long one, check every condition, break a weight.

import { Rejected } from "./bounds.mjs";
import { ahead, check, decoded, largest, opened } from "./check.mjs";

const SHOWN = 12, LONGEST = 6, BUCKETS = 200, WIDEST_TREE = 32;

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
  let tensors = decoded(proof), network = opened(proof, tensors);
  let where = proof.proof ? network.places(proof, network) : null;  // a refuted network has no sets

  const between = claim.symbols.some((name) => name.length > 1) ? " " : "";  // names of more than one letter
  const letters = (text) => (between ? text.split(/\s+/).filter(Boolean) : [...text.replaceAll(" ", "")]);
  const example = (proof.word?.map((symbol) => claim.symbols[symbol]) ?? [...claim.symbols.slice(0, 2).reverse(), ...claim.symbols]).join(between);

  const told = element("div", { role: "status" });
  const typed = element("input", { type: "text", value: example, "aria-label": "A string", oninput: read });
  function read() {
    const word = letters(typed.value).map((letter) => claim.symbols.indexOf(letter));
    if (word.includes(-1)) {
      told.replaceChildren(`The symbols are ${claim.symbols.join(", ")}.`);
      return;
    }
    let h = network.first(), state = claim.start;
    const rows = word.map((symbol, at) => {
      h = network.step(h, symbol);
      state = claim.delta[state][symbol];
      const x = network.logits(h), said = largest(x), right = claim.answers[state];
      const sign = said === right ? element("span", { class: "proved" }, `✓ ${said}`) : element("span", { class: "refuted" }, `✗ ${said}, not ${right}`);
      const cells = [number(at + 1), claim.symbols[symbol], `state ${state}`, ...(where ? [where(h, state)] : []), sign, ahead(x, right).toFixed(2)];
      return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
    });
    const head = ["", "reads", "machine", ...(where ? ["network's state"] : []), "says", "margin"].map((name) => element("th", {}, name));
    const hidden = rows.length > SHOWN ? [`The last ${SHOWN} of ${number(rows.length)} steps.`] : [];
    const levels = where?.levels && word.length && word.length <= WIDEST_TREE ? [tree(where.levels(word), word)] : [];
    told.replaceChildren(...levels, ...hidden, element("table", { class: "table" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows.slice(-SHOWN))));
  }

  /** A word's tree, its last node on top, each node over the symbols that it is made of. */
  function tree(levels, word) {
    const rows = [word.map((symbol) => claim.symbols[symbol]), ...levels].map((names, level) => {
      const span = network.chunk ** level;
      return element("div", { class: "level", style: `grid-template-columns: repeat(${word.length}, 1fr); --level: ${level}` }, ...names.map((name, i) => {
        const end = word.length - span * (names.length - 1 - i), begin = Math.max(0, end - span);
        return element("span", { style: `grid-column: ${begin + 1} / ${end + 1}`, title: name }, name.replace("element ", "e"));
      }));
    });
    return element("div", { class: "tree", role: "img", "aria-label": "The tree of nodes" }, ...rows.reverse());
  }

  const longest = network.longest ?? LONGEST;
  const slider = element("input", { type: "range", min: 2, max: longest, step: 0.25, value: Math.min(4, longest), "aria-label": "How many symbols", oninput: named });
  const long = element("button", { onclick: readLong }), plot = element("div", { role: "status" });
  const wanted = () => Math.round(10 ** slider.value);
  function named() { long.textContent = `Read ${number(wanted())} random symbols`; }
  /** The margin after the beginnings of a random string: [length, margin], null where more is to be read before. */
  function* readings(length) {
    const word = new Uint8Array(length), states = new Uint32Array(length);
    for (let at = 0, state = claim.start; at < length; at++) {
      word[at] = Math.floor(Math.random() * claim.symbols.length);
      states[at] = state = claim.delta[state][word[at]];
    }
    // A tree stands on its string's end, so it is made for some beginnings alone; a recurrence goes through all.
    const readings = network.beginnings?.([...word], BUCKETS) ?? recurrent(word);
    for (const reading of readings) yield reading && [reading[0], ahead(reading[1], claim.answers[states[reading[0] - 1]])];
  }
  function* recurrent(word) {
    let h = network.first();
    for (let at = 0; at < word.length; at++) {
      h = network.step(h, word[at]);
      yield [at + 1, network.logits(h)];
    }
  }
  async function readLong() {
    long.disabled = true;
    const length = wanted(), least = new Array(BUCKETS).fill(Infinity);
    let wrong = 0, read = 0, drawn = performance.now();
    for (const reading of readings(length)) {
      if (reading) {
        const [at, by] = reading, bucket = Math.floor(((at - 1) * BUCKETS) / length);
        least[bucket] = Math.min(least[bucket], by);
        wrong += by <= 0;
        read += 1;
      }
      if (performance.now() - drawn > 40) {
        plot.replaceChildren(reading ? `${number(reading[0])} symbols …` : "Making the tree …");
        await pause();
        drawn = performance.now();
      }
    }
    const seen = least.filter(Number.isFinite), most = Math.max(...seen, 1), lowest = Math.min(...seen);
    const points = seen.map((y, i) => `${(i * 600) / Math.max(1, seen.length - 1)},${100 - (90 * Math.max(y, 0)) / most}`);
    const text = wrong ? `wrong after ${number(wrong)} of ${number(read)} beginnings` : `right after each of ${number(read)} beginnings, by ${lowest.toFixed(2)} at least`;
    const picture = `<svg viewBox="0 0 600 104" role="img" aria-label="Least margin along the string" class="margins"><line x1="0" y1="100" x2="600" y2="100"/><polyline points="${points.join(" ")}"/></svg>`;
    plot.replaceChildren(element("p", { class: wrong ? "refuted" : "proved" }, (wrong ? "✗ " : "✓ ") + text));
    plot.insertAdjacentHTML("beforeend", picture);
    plot.append(element("p", { class: "axis" }, element("span", {}, "1"), element("span", {}, `margin, from 0 to ${most.toFixed(1)}, by length`), element("span", {}, number(length))));
    long.disabled = false;
  }

  const verdict = element("div", { role: "status" }), changed = element("p");
  const ticks = element("ul", { class: "conditions" });
  const start = element("button", { onclick: run }, "Check the proof");
  const broken = element("button", { onclick: perturb }, "Perturb one weight");
  async function run() {
    start.disabled = broken.disabled = true;
    const lines = {}, counts = {};
    let drawn = performance.now();
    ticks.replaceChildren();
    verdict.replaceChildren("Checking …");
    try {
      const conditions = check(proof, tensors, changed.textContent !== "");
      let each = conditions.next();
      for (; !each.done; each = conditions.next()) {
        const { kind, text } = each.value;
        if (!lines[kind]) ticks.append((lines[kind] = element("li")));
        counts[kind] = (counts[kind] ?? 0) + 1;
        lines[kind].textContent = `${kind === "weights" && changed.textContent ? "–" : "✓"} ${{ step: `${number(counts[kind])} steps: ${text}`, answer: `${number(counts[kind])} answers: ${text}` }[kind] ?? text}`;
        if (performance.now() - drawn > 15) {  // or a browser waits some milliseconds for each
          await pause();
          drawn = performance.now();
        }
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
    const { name, by, at: all } = network.broken, { shape, data } = tensors[name];
    const moved = data.slice(), place = Math.floor(Math.random() * (all ?? data).length), at = all ? all[place] : place;
    moved[at] += !all && moved[at] > 0 ? -by : by;
    tensors = { ...tensors, [name]: { shape, data: moved } };
    changed.textContent = `Number ${number(at)} of ${name} was ${data[at].toPrecision(4)}, and is ${moved[at].toPrecision(4)}.`;
    network = opened(proof, tensors);
    where = network.places(proof, network);
    read();
    broken.textContent = "Perturb another";
    return run();
  }

  place.replaceChildren(
    element("h2", {}, "Type a string"), typed, told,
    element("h2", {}, "Read a long one"), slider, long, plot,
    ...(proof.proof ? [element("h2", {}, "Check the proof"), start, broken, changed, verdict, ticks] : []),
  );
  named();
  read();
}
