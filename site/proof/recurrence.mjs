// An RNN, GRU or LSTM of one layer, and the check of a proof about it. Which one it is its number of gates says.
//
//   rnn   h' = tanh(W x + b + U h + b')
//   gru   r, z = σ(…), n = tanh(W x + b + r (U h + b')), h' = n + z (h - n)
//   lstm  i, f, o = σ(…), g = tanh(…), c' = f c + i g, h' = o tanh(c')
//   all   logits = V h + d
//
// The proof lists boxes of the state, each with a state of the machine. They are closed if every symbol leads from every
// box into a box of the machine's next state; then, by induction, the state after any string lies in a box, and where the
// head is right on those boxes every string is answered right. Boxes that are not closed by these bounds are first made a
// little wider.

import {
  EPS, LEAST, around, computed, constant, down, gamma, greatest, knows, lead, machine, multiplied, must, plain, plus,
  product, rowsOf, sigmoid, size, sum, taker, tanh, times, up, whole, widened,
} from "./bounds.mjs";

const CELL = "depth.layers.0.mixer.cell";
const KINDS = { 1: "rnn", 3: "gru", 4: "lstm" };
const GROWN = 0.05, WIDEST = 8, ROUNDS = 200, FARTHEST = 2 ** 50;
const logistic = (x) => (1 + Math.tanh(x / 2)) / 2;

/** The network of these tensors {name: {shape, data}}: its states are h, and then c of an LSTM. */
export function open(tensors, config) {
  const { take, done } = taker(tensors);
  const embedding = take("embedding.weight", undefined, undefined), keeps = take(`${CELL}.weight_hh_l0`, undefined, undefined);
  const [symbols, width] = embedding.shape, hidden = keeps.shape[1], gates = keeps.shape[0] / hidden, G = gates * hidden;
  must(gates in KINDS, "the weights are of no known cell");
  const reads = take(`${CELL}.weight_ih_l0`, G, width), bias = take(`${CELL}.bias_ih_l0`, G), otherBias = take(`${CELL}.bias_hh_l0`, G);
  const head = take("head.weight", undefined, hidden), headBias = take("head.bias", head.shape[0]);
  done();
  knows(config, {
    ...plain(symbols, head.shape[0], width), mixer: { name: KINDS[gates] }, block: { kind: "bare" }, depth: { layers: 1, name: "fixed" },
    final_norm: false, head: "linear",
  });
  // What W x + b is for every symbol: it does not change along a string.
  const drives = rowsOf(embedding).map((x) => rowsOf(reads).map((row, i) => row.reduce((s, w, j) => s + w * x[j], bias.data[i])));

  function step(state, symbol) {
    const next = new Float32Array(state.length), kept = new Float64Array(G), drive = drives[symbol];
    for (let i = 0; i < G; i++) {
      let total = otherBias.data[i];
      for (let j = 0; j < hidden; j++) total += keeps.data[i * hidden + j] * state[j];
      kept[i] = total;
    }
    for (let i = 0; i < hidden; i++) {
      const gate = (k) => drive[k * hidden + i] + kept[k * hidden + i];
      if (gates === 1) next[i] = Math.tanh(gate(0));
      else if (gates === 3) {
        const z = logistic(gate(1)), n = Math.tanh(drive[2 * hidden + i] + logistic(gate(0)) * kept[2 * hidden + i]);
        next[i] = n + z * (state[i] - n);
      } else {
        const c = logistic(gate(1)) * state[hidden + i] + logistic(gate(0)) * Math.tanh(gate(2));
        next[i] = logistic(gate(3)) * Math.tanh(c);
        next[hidden + i] = c;
      }
    }
    return next;
  }
  const logits = (h) => Float32Array.from({ length: head.shape[0] }, (_, o) => {
    let total = headBias.data[o];
    for (let j = 0; j < hidden; j++) total += head.data[o * hidden + j] * h[j];
    return total;
  });
  const first = () => new Float32Array(hidden * (gates === 4 ? 2 : 1));
  /** Names the box that a state lies in, by the boxes of a proof. */
  function places(proof, network) {
    const sets = closed(proof, network);
    return (h, q) => {
      const at = sets.findIndex((set) => set.state === q && set.low.every((low, i) => low <= h[i] && h[i] <= set.high[i]));
      return at < 0 ? "no box" : `box ${at}`;
    };
  }
  const shapes = { symbols, width, hidden, gates, outputs: head.shape[0], size: first().length };
  return { ...shapes, embedding, reads, keeps, bias, otherBias, head, headBias, first, step, logits, places, broken: { name: `${CELL}.weight_hh_l0`, by: 1 } };
}

/** n + z (h - n), which is linear in z: its extremes are at the ends of z. */
function between(n, h, z) {
  const at = (e) => sum(product([down(1 - e), up(1 - e)], n), product([e, e], h));
  const [a, b] = z.map(at), noise = gamma(8) * 2 * (size(n) + size(h)) * Math.max(1, size(z));
  return widened([Math.min(a[0], b[0]), Math.max(a[1], b[1])], noise * (1 + 64 * EPS) + LEAST);
}

/** What a network's steps and answers lie in, of boxes {low, high} of its state. */
function boundsOf(w) {
  const D = w.hidden, none = new Float64Array(w.width);
  const reads = rowsOf(w.reads), keeps = rowsOf(w.keeps), head = rowsOf(w.head);
  const inner = Math.max(greatest(w.reads.data), greatest(w.keeps.data)), outer = greatest(w.head.data);
  const bySymbol = rowsOf(w.embedding).map((x) => reads.map((row, i) => [times(row, x, none), constant(w.bias.data[i])]));
  const kept = ({ low, high }) => {
    const [centre, radius] = around(low.slice(0, D), high.slice(0, D));
    return keeps.map((row, i) => [times(row, centre, radius), constant(w.otherBias.data[i])]);
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
    return head.map((row, o) => computed([times(row, centre, radius), constant(w.headBias.data[o])], D + 1, outer));
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
function closed({ claim: said, proof }, w) {
  const claim = machine(said, w.outputs, w.symbols), bounds = boundsOf(w);
  let sets = proof.sets.map(({ state, centre, radius }) => {
    must(whole(state, claim.delta.length), "a box is of no state");
    must(centre.length === w.size && radius.length === w.size, "a box has another size than the state");
    must([...centre, ...radius].every((x) => Math.abs(x) < FARTHEST) && radius.every((r) => r >= 0), "a box is none");
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

/** The conditions, one by one; ends with {conditions, margin}. */
export function* check(proof, w) {
  const claim = machine(proof.claim, w.outputs, w.symbols), sets = closed(proof, w);
  const starts = sets.some((set) => set.state === claim.start && set.low.every((low, i) => low <= 0 && 0 <= set.high[i]));
  must(starts, "the first state, 0, lies in no box of the machine's start");
  yield { kind: "start", text: "the first state lies in a box of the machine's start" };

  const entered = new Set(), bounds = boundsOf(w);
  let conditions = 0;
  for (const { from, symbol, to, room } of steps(claim, sets, bounds)) {
    must(room >= 0, `box ${from} is not led by ${claim.symbols[symbol]} into a listed box of its next state`);
    entered.add(to);
    conditions += 1;
    yield { kind: "step", text: `box ${from}, ${claim.symbols[symbol]} → box ${to}` };
  }
  let margin = Infinity;
  for (const j of [...entered].sort((a, b) => a - b)) {
    conditions += 1;
    const by = lead(claim, sets[j].state, bounds.answers(sets[j]));
    must(by > 0, `the head is not surely right on box ${j}`);
    margin = Math.min(margin, by);
    yield { kind: "answer", text: `the answer is right on box ${j}` };
  }
  return { conditions, margin };
}
