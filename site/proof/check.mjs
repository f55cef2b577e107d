// A checker of proofs about an RNN, GRU or LSTM of one layer. It shares no code with the checkers in Python and Coq.
//
// The proof lists boxes of the state, each with a state of the machine. They are closed if every symbol leads from every
// box into a box of the machine's next state; then, by induction, the state after any string lies in a box, and where the
// head is right on those boxes every string is answered right. Boxes that are not closed by these bounds are first made a
// little wider. Bounds are computed in double precision and rounded outwards. Assumed of the network: sums of n products
// within γ_n Σ|ab|, in any order, a tanh and a σ within 32 u; of this browser: a Math.tanh within 64 units in its last
// place.

import { NAMES, decoded } from "./network.mjs";
import { sha256 } from "./sha256.mjs";

const U = 2 ** -24, LEAST = 2 ** -100, EPS = 2 ** -52, NEAR_TANH = 32 * U;
const up = (x) => x + Math.abs(x) * EPS + Number.MIN_VALUE;
const down = (x) => x - Math.abs(x) * EPS - Number.MIN_VALUE;
const GROWN = 0.05, WIDEST = 8, ROUNDS = 200;
const gamma = (n) => (n * U) / (1 - n * U);

export class Rejected extends Error {}

function must(holds, why) {
  if (!holds) throw new Rejected(why);
}

const whole = (x, below) => Number.isInteger(x) && x >= 0 && x < below;

/** A row of weights times a box: the middle of the sum, how far from it the sum may be, and Σ|w x| at most. */
function times(row, centre, radius) {
  let middle = 0, off = 0, size = 0;
  for (let j = 0; j < centre.length; j++) {
    const w = Math.abs(row[j]);
    middle += row[j] * centre[j];
    off += w * radius[j];
    size += w * (Math.abs(centre[j]) + radius[j]);
  }
  return { middle, off: (off + (centre.length + 4) * EPS * size) * (1 + (centre.length + 8) * EPS), size };
}

/** The ends of what a sum of n terms may be computed as, made of parts {middle, off, size}. */
function computed(parts, n, largestWeight) {
  let middle = 0, off = 0, size = 0;
  for (const part of parts) {
    middle += part.middle;
    off += part.off;
    size += part.size;
  }
  const noise = gamma(n + 3) * size * (1 + 2 ** -20) + n * LEAST * (1 + largestWeight);
  const spare = up((off + noise + 16 * EPS * size) * (1 + 64 * EPS)) + LEAST;
  return [down(middle - spare), up(middle + spare)];
}

/** Intervals [low, high]: a value as the network may compute it, from values as it may have computed them. */
const size = (x) => Math.max(Math.abs(x[0]), Math.abs(x[1]));
const widened = (x, noise) => [down(x[0] - up(noise)), up(x[1] + up(noise))];
const sum = (x, y) => [down(x[0] + y[0]), up(x[1] + y[1])];
function product(x, y) {
  const ends = [x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]];
  return [down(Math.min(...ends) - LEAST), up(Math.max(...ends) + LEAST)];
}
const rounded = (x) => widened(x, U * size(x) + LEAST);
const plus = (x, y) => rounded(sum(x, y));
const multiplied = (x, y) => rounded(product(x, y));
const tanh = (x) => widened([tanhDown(x[0]), tanhUp(x[1])], NEAR_TANH + LEAST);
const sigmoid = (x) => widened([Math.max(0, down((1 + tanhDown(x[0] / 2)) / 2)), Math.min(1, up((1 + tanhUp(x[1] / 2)) / 2))], NEAR_TANH + LEAST);

/** n + z (h - n), which is linear in z: its extremes are at the ends of z. */
function between(n, h, z) {
  const at = (e) => sum(product([down(1 - e), up(1 - e)], n), product([e, e], h));
  const [a, b] = z.map(at), noise = gamma(8) * 2 * (size(n) + size(h)) * Math.max(1, size(z));
  return widened([Math.min(a[0], b[0]), Math.max(a[1], b[1])], noise * (1 + 64 * EPS) + LEAST);
}

const constant = (k) => ({ middle: k, off: 0, size: Math.abs(k) });
const tanhDown = (x) => Math.max(-1, down(Math.tanh(x) - 64 * EPS * Math.abs(Math.tanh(x))));
const tanhUp = (x) => Math.min(1, up(Math.tanh(x) + 64 * EPS * Math.abs(Math.tanh(x))));

/** The machine, as the claim states it, and from which states a question can still be reached. */
function machine(claim, outputs, symbols) {
  const states = claim.delta.length, letters = claim.symbols.length;
  must(states > 0 && letters > 0 && letters <= symbols && outputs > 1, "the claim is of another kind of network");
  must(claim.delta.every((row) => row.length === letters && row.every((to) => whole(to, states))), "delta is no table");
  must(whole(claim.start, states), "the start is no state");
  must(claim.asked.length === states && claim.answers.length === states, "the claim leaves states out");
  must(claim.answers.every((a, q) => !claim.asked[q] || whole(a, outputs)), "an answer is no output");
  const heeded = claim.asked.map(Boolean), reached = claim.delta.map((_, q) => q === claim.start);
  for (let round = 0; round <= states; round++) {
    claim.delta.forEach((row, q) => row.forEach((to) => {
      heeded[q] ||= heeded[to];
      reached[to] ||= reached[q];
    }));
  }
  const asks = claim.delta.some((row, q) => reached[q] && row.some((to) => claim.asked[to]));
  must(asks, "the claim is vacuous: after no string is anything asked");
  return { ...claim, heeded, letters };
}

/** A box by its middle and how far from it its ends are. */
function around(low, high) {
  const centre = low.map((x, i) => x / 2 + high[i] / 2);
  return [centre, centre.map((c, i) => up(Math.max(up(high[i] - c), up(c - low[i]))))];
}

/** What a network's steps and answers lie in, of boxes {low, high} of its state. */
function boundsOf(w) {
  const D = w.hidden, G = w.gates * D, none = new Float64Array(w.width);
  const rows = (x, n, count) => Array.from({ length: count }, (_, i) => Float64Array.from(x.subarray(i * n, (i + 1) * n)));
  const reads = rows(w.reads, w.width, G), keeps = rows(w.keeps, D, G), head = rows(w.head, D, w.outputs);
  const most = (x) => x.reduce((most, k) => Math.max(most, Math.abs(k)), 0);
  const inner = Math.max(most(w.reads), most(w.keeps)), outer = most(w.head);
  const bySymbol = rows(w.embedding, w.width, w.symbols).map((x) =>
    reads.map((row, i) => [times(row, x, none), constant(w.bias[i])]));
  const kept = ({ low, high }) => {
    const [centre, radius] = around(low.slice(0, D), high.slice(0, D));
    return keeps.map((row, i) => [times(row, centre, radius), constant(w.otherBias[i])]);
  };
  /** The numbers of the next state. */
  const image = (symbol, { low, high }, own) => {
    const given = bySymbol[symbol], h = [], c = [];
    for (let i = 0; i < D; i++) {
      const gate = (k) => computed([...given[k * D + i], ...own[k * D + i]], w.width + D + 2, inner);
      if (w.gates === 1) h.push(tanh(gate(0)));
      else if (w.gates === 3) {
        const fresh = computed(given[2 * D + i], w.width + 1, inner), old = computed(own[2 * D + i], D + 1, inner);
        const n = tanh(plus(fresh, multiplied(sigmoid(gate(0)), old)));
        h.push(between(n, [low[i], high[i]], sigmoid(gate(1))));
      } else {
        const before = [low[D + i], high[D + i]];
        c.push(plus(multiplied(sigmoid(gate(1)), before), multiplied(sigmoid(gate(0)), tanh(gate(2)))));
        h.push(multiplied(sigmoid(gate(3)), tanh(c[i])));
      }
    }
    return [...h, ...c];
  };
  const answers = ({ low, high }) => {
    const [centre, radius] = around(low.slice(0, D), high.slice(0, D));
    return head.map((row, o) => computed([times(row, centre, radius), constant(w.headBias[o])], D + 1, outer));
  };
  return { kept, image, answers };
}

/** Every step that matters: from a box by a symbol into the box that holds its image best, with so much room. */
function* steps(claim, sets, bounds) {
  for (let from = 0; from < sets.length; from++) {
    const own = bounds.kept(sets[from]);
    for (let symbol = 0; symbol < claim.letters; symbol++) {
      const next = claim.delta[sets[from].state][symbol];
      if (!claim.heeded[next]) continue;
      const image = bounds.image(symbol, sets[from], own);
      let to = -1, room = -Infinity;
      sets.forEach(({ state, low, high }, j) => {
        if (state !== next) return;
        const here = image.reduce((least, [a, b], i) => Math.min(least, a - low[i], high[i] - b), Infinity);
        if (here > room) [to, room] = [j, here];
      });
      yield { from, symbol, to, room, image };
    }
  }
}

/** The boxes of a proof. Those of gates are made wider until they hold what is led to them, up to eight times as wide. */
export function closed(proof, w) {
  const claim = machine(proof.claim, w.outputs, w.symbols), bounds = boundsOf(w);
  let sets = proof.sets.map(({ state, centre, radius }) => {
    must(whole(state, claim.delta.length), "a box is of no state");
    must(centre.length === w.size && radius.length === w.size, "a box has another size than the state");
    must([...centre, ...radius].every(Number.isFinite) && radius.every((r) => r >= 0), "a box is none");
    return { state, low: centre.map((c, i) => c - radius[i]), high: centre.map((c, i) => c + radius[i]) };
  });
  const most = w.gates === 1 ? 1 : WIDEST;  // an RNN's boxes hold as they are listed, or not
  const widest = proof.sets.map(({ centre, radius }) => centre.map((c, i) => [c - most * radius[i], c + most * radius[i]]));
  for (let round = 0; round < ROUNDS; round++) {
    const wider = sets.map(({ state, low, high }) => ({ state, low: [...low], high: [...high] }));
    let holds = true;
    for (const { to, room, image } of steps(claim, sets, bounds)) {
      if (to < 0) return sets;
      if (room >= 0) continue;
      holds = false;
      image.forEach(([a, b], i) => {
        if (a < sets[to].low[i]) wider[to].low[i] = Math.min(wider[to].low[i], a - GROWN * (b - a));
        if (b > sets[to].high[i]) wider[to].high[i] = Math.max(wider[to].high[i], b + GROWN * (b - a));
      });
    }
    if (holds || !wider.every(({ low, high }, j) => widest[j].every(([a, b], i) => a <= low[i] && high[i] <= b))) break;
    sets = wider;
  }
  return sets;
}

/** Checks a proof condition by condition, telling of each; ends with {conditions, margin}, or throws Rejected. */
export function* check(proof, weights = decoded(proof.tensors)) {
  const w = weights, claim = machine(proof.claim, w.outputs, w.symbols);
  for (const [name, tensor] of Object.entries(proof.tensors)) {
    const bytes = Uint8Array.from(atob(tensor.data), (c) => c.charCodeAt(0));
    const head = new TextEncoder().encode(`float32 [${tensor.shape.join(", ")}]\n`);
    must(sha256([...head, ...bytes]) === proof.digests[name], `the weight ${name} is not the one the proof is about`);
  }
  must(Object.values(NAMES).every((name) => proof.tensors[name]), "a weight is missing");
  for (const name of Object.keys(NAMES)) must(w[name].every(Number.isFinite), `${name} has a number that is not finite`);
  const G = w.gates * w.hidden;
  must([1, 3, 4].includes(w.gates) && w.embedding.length === w.symbols * w.width, "the weights are of no known cell");
  must(w.reads.length === G * w.width && w.keeps.length === G * w.hidden, "the weights do not fit one another");
  must(w.bias.length === G && w.otherBias.length === G, "the biases do not fit the weights");
  must(w.head.length === w.outputs * w.hidden && w.headBias.length === w.outputs, "the head does not fit the state");
  yield { kind: "weights", text: `${Object.keys(proof.tensors).length} tensors have the digests of the certificate` };

  const sets = closed(proof, w);
  const starts = sets.some((set) => set.state === claim.start && set.low.every((low, i) => low <= 0 && 0 <= set.high[i]));
  must(starts, "the first state, 0, lies in no box of the machine's start");
  yield { kind: "start", text: "the first state lies in a box of the machine's start" };

  const entered = new Set(), bounds = boundsOf(w);
  let conditions = 0;
  for (const { from, symbol, to, room } of steps(claim, sets, bounds)) {
    must(room >= 0, `box ${from} is not led by ${claim.symbols[symbol]} into a listed box of its next state`);
    entered.add(to);
    conditions += 1;
    yield { kind: "step", text: `box ${from}, ${claim.symbols[symbol]} → box ${to}`, from, symbol, to };
  }
  let margin = Infinity;
  for (const j of [...entered].sort((a, b) => a - b)) {
    conditions += 1;
    const state = sets[j].state;
    if (claim.asked[state]) {
      const ends = bounds.answers(sets[j]);
      const right = claim.answers[state];
      const others = Math.max(...ends.filter((_, o) => o !== right).map(([, high]) => high));
      const by = down(ends[right][0] - others);
      must(by > 0, `the head is not surely right on box ${j}`);
      margin = Math.min(margin, by);
    }
    yield { kind: "answer", text: `the answer is right on box ${j}`, to: j };
  }
  return { conditions, margin };
}
