// A checker of proofs about RNNs of one tanh layer. It shares no code with the checkers in Python and Coq.
//
// The proof lists boxes of the state, each with a state of the machine. They are closed if every symbol leads from every
// box into a box of the machine's next state; then, by induction, the state after any string lies in a box, and where the
// head is right on those boxes every string is answered right. Bounds are computed in double precision and rounded
// outwards. Assumed of the network: sums of n products within γ_n Σ|ab|, in any order, and a tanh within 32 u; of this
// browser: a Math.tanh within 64 units in its last place.

import { NAMES, decoded } from "./network.mjs";
import { sha256 } from "./sha256.mjs";

const U = 2 ** -24, LEAST = 2 ** -100, EPS = 2 ** -52, NEAR_TANH = 32 * U;
const up = (x) => x + Math.abs(x) * EPS + Number.MIN_VALUE;
const down = (x) => x - Math.abs(x) * EPS - Number.MIN_VALUE;
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

/** Checks a proof condition by condition, telling of each; ends with {conditions, margin}, or throws Rejected. */
export function* check(proof, weights = decoded(proof.tensors)) {
  const w = weights, D = w.size, claim = machine(proof.claim, w.outputs, w.symbols);
  for (const [name, tensor] of Object.entries(proof.tensors)) {
    const bytes = Uint8Array.from(atob(tensor.data), (c) => c.charCodeAt(0));
    const head = new TextEncoder().encode(`float32 [${tensor.shape.join(", ")}]\n`);
    must(sha256([...head, ...bytes]) === proof.digests[name], `the weight ${name} is not the one the proof is about`);
  }
  must(Object.values(NAMES).every((name) => proof.tensors[name]), "a weight is missing");
  for (const name of Object.keys(NAMES)) must(w[name].every(Number.isFinite), `${name} has a number that is not finite`);
  const sets = proof.sets.map((set) => {
    must(whole(set.state, claim.delta.length), "a box is of no state");
    must(set.centre.length === D && set.radius.length === D, "a box has another size than the state");
    must([...set.centre, ...set.radius].every(Number.isFinite) && set.radius.every((r) => r >= 0), "a box is none");
    return set;
  });
  yield { kind: "weights", text: `${Object.keys(proof.tensors).length} tensors have the digests of the certificate` };

  const starts = sets.some((set) => set.state === claim.start && set.centre.every((c, i) => Math.abs(c) <= set.radius[i]));
  must(starts, "the first state, 0, lies in no box of the machine's start");
  yield { kind: "start", text: "the first state lies in a box of the machine's start" };

  const rows = (x, n, count) => Array.from({ length: count }, (_, i) => Float64Array.from(x.subarray(i * n, (i + 1) * n)));
  const reads = rows(w.reads, w.width, D), keeps = rows(w.keeps, D, D), head = rows(w.head, D, w.outputs);
  const none = new Float64Array(w.width), terms = w.width + D + 2;
  const largest = [w.reads, w.keeps, w.head].map((x) => x.reduce((most, k) => Math.max(most, Math.abs(k)), 0));
  const bySymbol = rows(w.embedding, w.width, w.symbols).map((x) =>
    reads.map((row, i) => [times(row, x, none), constant(w.bias[i]), constant(w.otherBias[i])]));
  const inner = sets.map((set) => set.centre.map((c, i) => [up(c - set.radius[i]), down(c + set.radius[i])]));
  const entered = new Set();
  let conditions = 0;
  for (let k = 0; k < sets.length; k++) {
    const kept = keeps.map((row) => times(row, sets[k].centre, sets[k].radius));
    for (let s = 0; s < claim.letters; s++) {
      const to = claim.delta[sets[k].state][s];
      if (!claim.heeded[to]) continue;
      const image = kept.map((part, i) => {
        const [low, high] = computed([...bySymbol[s][i], part], terms, Math.max(largest[0], largest[1]));
        return [down(tanhDown(low) - NEAR_TANH), up(tanhUp(high) + NEAR_TANH)];
      });
      const fits = (j) => sets[j].state === to && image.every(([low, high], i) => low >= inner[j][i][0] && high <= inner[j][i][1]);
      const j = sets.findIndex((_, j) => fits(j));
      must(j >= 0, `box ${k} is not led by ${claim.symbols[s]} into a listed box of state ${to}`);
      entered.add(j);
      conditions += 1;
      yield { kind: "step", text: `box ${k}, ${claim.symbols[s]} → box ${j}`, from: k, symbol: s, to: j };
    }
  }
  let margin = Infinity;
  for (const j of [...entered].sort((a, b) => a - b)) {
    conditions += 1;
    const state = sets[j].state;
    if (claim.asked[state]) {
      const ends = head.map((row, o) =>
        computed([times(row, sets[j].centre, sets[j].radius), constant(w.headBias[o])], D + 1, largest[2]));
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
