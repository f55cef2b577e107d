// A block-diagonal recurrence of one layer whose transitions are functions on the places of a block, and its proof.
//
//   M(s) = W₂ relu(W₁ norm(E s) + b₁) + b₂                 a matrix for each block, which the symbol alone decides
//   place j of a block goes to argmax_i M(s)_ij            entries of the state that meet are added
//   logits = V relu(H norm(x) + g) + d                     x: the state
//
// So a state is where the entries of the first one lie: one of finitely many. The proof lists those that are reached, each
// with a state of the machine. If the first is listed, every symbol leads from listed ones to listed ones, and each argmax
// that moves an entry is decided by more than rounding, then every state is listed; where the head is right on all of them
// every string is answered right.

import { chosen, computed, constant, knows, lead, linear, machine, must, norm, plain, relu, rowsOf, taker, whole } from "./bounds.mjs";

const LAYER = "depth.layers.0", LAYER_NORM = 1e-5;

export function open(tensors, config) {
  const { take, done } = taker(tensors);
  const embedding = take("embedding.weight", undefined, undefined), initial = take(`${LAYER}.mixer.initial`, undefined, undefined);
  const [symbols, width] = embedding.shape, [blocks, side] = initial.shape, M = blocks * side * side;
  const parts = (at, rows, ...columns) => [take(`${at}.weight`, rows, ...columns), take(`${at}.bias`, rows)];
  const before = parts(`${LAYER}.mixer_norm`, width), inner = parts(`${LAYER}.mixer.transition.0`, M, width), outer = parts(`${LAYER}.mixer.transition.2`, M, M);
  const after = parts("norm", width), hidden = parts("hidden", width, width);
  const head = [take("head.weight", undefined, width), take("head.bias", tensors["head.weight"].shape[0])];
  done();
  const { blocks: count, block: own, p } = config?.mixer ?? {};
  const places = own ?? (count ? width / count : 8);
  must(blocks * side === width && side === places && blocks === (count ?? width / places) && p >= 1, "the blocks do not fit the width");
  knows(config, {
    ...plain(symbols, head[0].shape[0], width), block: [{ kind: "normed" }], depth: { layers: 1, name: "fixed" }, final_norm: true, head: "two-layer",
    mixer: {
      name: "block-lrnn", normalisation: "one-hot", inputs: "none", transition: "two-layer", readout: "identity", learned_initial: true,
      blocks: count, block: own, p,
    },
  });
  const w = { embedding, initial, blocks, side, width, symbols, outputs: head[0].shape[0], before, inner, outer, after, hidden, head };

  const choices = rowsOf(embedding).map((x) => {
    const M = apply(outer, apply(inner, normed(before, x)).map((v) => Math.max(0, v)));
    return Array.from({ length: width }, (_, at) => {
      const b = Math.floor(at / side), j = at % side;
      let best = 0;
      for (let i = 1; i < side; i++) if (M[(b * side + i) * side + j] > M[(b * side + best) * side + j]) best = i;
      return best;
    });
  });
  // An entry is the block it is in, its place there at first, and its value; a state is where the entries lie.
  const entries = [...initial.data].flatMap((value, at) => (value === 0 ? [] : [{ block: Math.floor(at / side), place: at % side, value }]));
  // Biases that send an entry from its first place where not every symbol does: a proof hangs on them.
  const columns = entries.flatMap(({ block, place }) => Array.from({ length: side }, (_, i) => i)
    .filter((i) => choices.some((to) => to[block * side + place] !== i)).map((i) => (block * side + i) * side + place));
  const first = () => entries.map(({ place }) => place);
  const step = (state, symbol) => entries.map(({ block }, k) => choices[symbol][block * side + state[k]]);
  /** The values that meet at each place of each block. */
  function met(state) {
    const values = Array.from({ length: width }, () => []);
    entries.forEach(({ block, value }, k) => values[block * side + state[k]].push(value));
    return values;
  }
  const known = new Map();
  function logits(state) {
    const key = String(state);
    if (!known.has(key)) {
      const x = met(state).map((values) => values.reduce((total, value) => Math.fround(total + value), 0));
      known.set(key, Float32Array.from(apply(head, apply(hidden, normed(after, x)).map((v) => Math.max(0, v)))));
    }
    return known.get(key);
  }
  /** Names the listed state, by the states of a proof. */
  function named({ proof }) {
    const names = new Map(proof.states[0].map((where, i) => [String(where), `state ${i}`]));
    return (state) => names.get(String(state)) ?? "another state";
  }
  return { ...w, entries, met, first, step, logits, places: named, broken: { name: `${LAYER}.mixer.transition.2.bias`, by: 10, at: columns } };
}

function apply([matrix, bias], x) {
  return rowsOf(matrix).map((row, i) => row.reduce((total, w, j) => total + w * x[j], bias.data[i]));
}

function normed([weight, bias], x) {
  const n = x.length, mean = x.reduce((a, b) => a + b, 0) / n;
  const rho = 1 / Math.sqrt(x.reduce((a, b) => a + (b - mean) ** 2, 0) / n + LAYER_NORM);
  return Array.from(x, (each, i) => (each - mean) * rho * weight.data[i] + bias.data[i]);
}

/** Where each place of each block goes by a symbol, and by how much that is surely decided. */
function moves(w) {
  const parts = [norm(...w.before), linear(...w.inner), (x) => x.map(relu), linear(...w.outer)];
  return rowsOf(w.embedding).map((x) => {
    const M = parts.reduce((value, part) => part(value), Array.from(x, (k) => [k, k]));
    return Array.from({ length: w.width }, (_, at) => {
      const b = Math.floor(at / w.side), j = at % w.side;
      return chosen(Array.from({ length: w.side }, (_, i) => M[(b * w.side + i) * w.side + j]));
    });
  });
}

/** The conditions, one by one; ends with {conditions, margin}. */
export function* check({ claim: said, proof }, w) {
  const claim = machine(said, w.outputs, w.symbols), own = w.entries.map(({ block, place }) => [block, place]);
  must(JSON.stringify(proof.entries) === JSON.stringify([own]), "the entries must be those of the first state that are not 0");
  must(proof.states.length === 1, "the proof must list the states of one layer");
  const [states] = proof.states, numbers = new Map(states.map((where, i) => [String(where), i]));
  must(states.every((where) => where.length === own.length && where.every((j) => whole(j, w.side))), "a state must say where each entry is");
  must(proof.pairs.every(([q, i]) => whole(q, claim.delta.length) && whole(i, states.length)), "a pair is of no state");
  const pairs = new Set(proof.pairs.map(String));
  must(pairs.has(String([claim.start, numbers.get(String(w.first()))])), "the first state is not listed");
  yield { kind: "start", text: "the first state is listed with the machine's start" };

  const decided = moves(w), reached = new Map();
  let conditions = 0, margin = Infinity;
  for (const [q, from] of proof.pairs) {
    for (let symbol = 0; symbol < claim.letters; symbol++) {
      const next = claim.delta[q][symbol];
      if (!claim.heeded[next]) continue;
      const where = w.entries.map(({ block }, k) => {
        const [to, gap] = decided[symbol][block * w.side + states[from][k]];
        must(gap > 0, `what moves an entry by ${claim.symbols[symbol]} is not surely decided`);
        margin = Math.min(margin, gap);
        return to;
      });
      const to = numbers.get(String(where));
      must(to !== undefined && pairs.has(String([next, to])), `state ${from} is led by ${claim.symbols[symbol]} to one that is not listed`);
      reached.set(String([next, to]), [next, to]);
      conditions += where.length + 1;
      yield { kind: "step", text: `state ${from}, ${claim.symbols[symbol]} → state ${to}` };
    }
  }
  const parts = [norm(...w.after), linear(...w.hidden), (x) => x.map(relu), linear(...w.head)];
  for (const [q, i] of reached.values()) {
    // One value alone is read as it is; those that meet are added up.
    const x = w.met(states[i]).map((values) => (values.length > 1 ? computed(values.map(constant), w.side, 0) : [values[0] ?? 0, values[0] ?? 0]));
    const by = lead(claim, q, parts.reduce((value, part) => part(value), x));
    must(by > 0, `the head is not surely right on state ${i}`);
    margin = Math.min(margin, by);
    yield { kind: "answer", text: `the answer is right on state ${i}` };
  }
  return { conditions, margin };
}
