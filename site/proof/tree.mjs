// A RegularGPT of discrete nodes with one layer a group, and the check of a proof about it.
//
//   a node is made of up to C nodes or symbols, the oldest of which may be missing at the beginning of a word:
//   h      = norm(x_0 + O Σ_j softmax_j(q · k_j / √d + r_j) v_j)      j: lags 0 … C-1; a missing tap has the pad's k and v
//   y      = norm(h + W₂ relu(W₁ h + b₁) + b₂)
//   code   = argmax in each group of choices of Z y + c
//   node   = the sum of the codebook's vectors for this code
//   logits = V node + d, for the last node of a word
//
// Groups are repeated until one node is left: C symbols make a node, C nodes make the next, aligned at the word's end. The
// proof lists codes, each with the map of the machine's states that it stands for. If every node of symbols and every node
// of listed codes surely has a listed code, of the product of their maps, then by induction every node of every word has
// one; where the head is right on all of them every word is answered right.

import { attention, chosen, computed, constant, knows, lead, linear, machine, must, norm, plain, plus, relu, rowsOf, taker, whole } from "./bounds.mjs";

const LAYER = "depth.layers.0", LAYER_NORM = 1e-5, MOST_TUPLES = 1e5;

export function open(tensors, config) {
  const { take, done } = taker(tensors), parts = (at, rows, ...columns) => [take(`${at}.weight`, rows, ...columns), take(`${at}.bias`, rows)];
  const embedding = take("embedding.weight", undefined, undefined), [symbols, width] = embedding.shape;
  const r = take(`${LAYER}.mixer.r`, undefined, undefined), [heads, chunk] = r.shape;
  const { nodes: { groups, codes } = {}, by } = config?.depth ?? {}, expansion = config?.block?.expansion;
  must(width % heads === 0 && chunk > 1 && groups > 0 && codes > 1 && expansion > 0, "the sizes are of no network");
  must(by === "sequence" || by === "position", "the depth is of another kind");
  const qkv = take(`${LAYER}.mixer.qkv.weight`, 3 * width, width), third = width * width;
  const maps = [0, 1, 2].map((i) => [{ shape: [width, width], data: qkv.data.subarray(i * third, (i + 1) * third) }, null]);
  const w = {
    symbols, width, maps, chunk, groups, codes, r, pad: Float64Array.from(take("pad", width).data), leaves: rowsOf(embedding),
    out: [take(`${LAYER}.mixer.out.weight`, width, width), null], norms: [parts(`${LAYER}.mixer_norm`, width), parts(`${LAYER}.feed_norm`, width)],
    up: parts(`${LAYER}.up`, expansion * width, width), down: parts(`${LAYER}.down`, width, expansion * width),
    choose: parts(`${LAYER}.nodes.choose`, groups * codes, width), codebook: rowsOf(take(`${LAYER}.nodes.codebook`, groups * codes, width)),
    head: [take("head.weight", undefined, width), take("head.bias", tensors["head.weight"].shape[0])],
  };
  done();
  w.outputs = w.head[0].shape[0];
  knows(config, {
    ...plain(symbols, w.outputs, width), final_norm: false, head: "linear",
    block: { kind: "transformer", norm: "post", activation: "relu", expansion },
    mixer: { name: "sliding-dilated", missing: "learned-pad", shared_pad: true, biases: false, heads, chunk },
    depth: { name: "adaptive", by, chunk, thickness: 1, pad_tokens: false, nodes: { groups, codes } },
  });
  return { ...w, ...reader(w), broken: { name: `${LAYER}.nodes.choose.bias`, by: 30 } };
}

/** The vectors of a codebook that a code picks, a number for each group. */
const picked = (w, code) => code.map((choice, g) => w.codebook[g * w.codes + choice]);

/** Reads words as the network does. A state is the word so far: its tree stands on its end, and grows anew with each symbol. */
function reader(w) {
  const apply = ([matrix, bias], x) => {
    const rows = (matrix.rows ??= rowsOf(matrix));
    return rows.map((row, i) => row.reduce((total, k, j) => total + k * x[j], bias ? bias.data[i] : 0));
  };
  const normed = ([weight, bias], x) => {
    const mean = x.reduce((a, b) => a + b, 0) / x.length;
    const rho = 1 / Math.sqrt(x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length + LAYER_NORM);
    return x.map((each, i) => (each - mean) * rho * weight.data[i] + bias.data[i]);
  };
  const heads = w.r.shape[0], d = w.width / heads;
  const pads = w.maps.slice(1).map((part) => apply(part, w.pad));
  /** The code of a node of these vectors, oldest first. */
  function codeOf(taps) {
    const own = taps.at(-1), q = apply(w.maps[0], own), newest = [...taps].reverse();
    const [keys, values] = [1, 2].map((i) => Array.from({ length: w.chunk }, (_, j) => (newest[j] ? apply(w.maps[i], newest[j]) : pads[i - 1])));
    const mixed = Array.from({ length: w.width }, () => 0);
    for (let h = 0; h < heads; h++) {
      const scores = keys.map((k, j) => {
        let score = 0;
        for (let e = h * d; e < (h + 1) * d; e++) score += q[e] * k[e];
        return score / Math.sqrt(d) + w.r.data[h * w.chunk + j];
      });
      const top = Math.max(...scores), shares = scores.map((s) => Math.exp(s - top)), total = shares.reduce((a, b) => a + b);
      for (let e = h * d; e < (h + 1) * d; e++) values.forEach((v, j) => { mixed[e] += (shares[j] / total) * v[e]; });
    }
    const h = normed(w.norms[0], apply(w.out, mixed).map((x, i) => x + own[i]));
    const y = normed(w.norms[1], apply(w.down, apply(w.up, h).map((x) => Math.max(0, x))).map((x, i) => x + h[i]));
    const z = apply(w.choose, y);
    return Array.from({ length: w.groups }, (_, g) => {
      const own = z.slice(g * w.codes, (g + 1) * w.codes);
      return own.indexOf(Math.max(...own));
    });
  }
  // Nodes are numbered as they are met, the symbols first: a node of the same taps is the same node.
  const vectors = [...w.leaves], numbers = new Map(), made = new Map(), codes = new Map(), answers = new Map();
  function node(taps) {
    const key = taps.join(" ");
    if (!made.has(key)) {
      const code = codeOf(taps.map((i) => vectors[i])), name = String(code);
      if (!numbers.has(name)) {
        numbers.set(name, vectors.length);
        codes.set(vectors.length, code);
        vectors.push(picked(w, code).reduce((x, y) => x.map((each, i) => each + y[i])));
      }
      made.set(key, numbers.get(name));
    }
    return made.get(key);
  }
  /** Every level of a word's tree, from its symbols to its last node. */
  function levels(word) {
    const all = [word];
    do {
      const below = all.at(-1), above = [];
      for (let end = below.length; end > 0; end -= w.chunk) above.unshift(node(below.slice(Math.max(0, end - w.chunk), end)));
      all.push(above);
    } while (all.at(-1).length > 1);
    return all;
  }
  function last(word) {
    let level = word;
    do {
      const above = new Array(Math.ceil(level.length / w.chunk));
      for (let i = 0, end = level.length; end > 0; i++, end -= w.chunk) above[above.length - 1 - i] = node(level.slice(Math.max(0, end - w.chunk), end));
      level = above;
    } while (level.length > 1);
    return level[0];
  }
  function logits(word) {
    const at = last(word);
    if (!answers.has(at)) answers.set(at, Float32Array.from(apply(w.head, vectors[at])));
    return answers.get(at);
  }
  /** Names the element of the last node, by the codes of a proof. */
  function places({ proof }) {
    const names = new Map(proof.codes.map(({ code, element }) => [String(code), `element ${element}`]));
    const name = (at) => names.get(String(codes.get(at))) ?? "another code";
    return Object.assign((word) => name(last(word)), { levels: (word) => levels(word).slice(1).map((level) => level.map(name)) });
  }
  return { first: () => [], step: (word, symbol) => (word.push(symbol), word), logits, places, whole: true };
}

/** The bounds of the code of a node of up to C vectors of intervals, and by how much it is surely decided. */
function decider(w) {
  const part = ([matrix, bias]) => linear(matrix, bias), [toQ, toK, toV] = w.maps.map(part), out = part(w.out);
  const [before, after] = w.norms.map((each) => norm(...each)), opened = part(w.up), close = part(w.down), choose = part(w.choose);
  const pad = Array.from(w.pad, (x) => [x, x]), pads = [toK(pad), toV(pad)];
  return (taps) => {
    const own = taps.at(-1), newest = [...taps].reverse();
    const [keys, values] = [toK, toV].map((to, i) => Array.from({ length: w.chunk }, (_, j) => (newest[j] ? to(newest[j]) : pads[i])));
    const y = out(attention(toQ(own), keys, values, w.r));
    const h = before(own.map((x, i) => plus(x, y[i])));
    const fed = close(opened(h).map(relu)), z = choose(after(h.map((x, i) => plus(x, fed[i]))));
    const groups = Array.from({ length: w.groups }, (_, g) => chosen(z.slice(g * w.codes, (g + 1) * w.codes)));
    return [groups.map(([choice]) => choice), Math.min(...groups.map(([, gap]) => gap))];
  };
}

function* tuples(count, length) {
  for (let number = 0; number < count ** length; number++) {
    yield Array.from({ length }, (_, i) => Math.floor(number / count ** (length - 1 - i)) % count);
  }
}

/** The conditions, one by one; ends with {conditions, margin}. */
export function* check({ claim: said, proof }, w) {
  const claim = machine(said, w.outputs, w.symbols, w.chunk), Q = claim.delta.length, C = w.chunk;
  must(proof.elements.every((map) => map.length === Q && map.every((q) => whole(q, Q))), "an element must say where each state goes");
  must(proof.codes.every(({ code, element }) => whole(element, proof.elements.length) && code.length === w.groups && code.every((c) => whole(c, w.codes))), "a code is none");
  const numbers = new Map(proof.codes.map(({ code }, i) => [String(code), i]));
  must(numbers.size === proof.codes.length, "a code is listed twice");
  const count = Math.max(claim.letters, proof.codes.length);
  must(count ** C <= MOST_TUPLES, "the proof has too many nodes for this page");

  const decide = decider(w), maps = proof.codes.map(({ element }) => proof.elements[element]);
  const nodes = proof.codes.map(({ code }) => {
    const rows = picked(w, code);
    return Array.from({ length: w.width }, (_, i) => computed(rows.map((row) => constant(row[i])), w.groups, 0));
  });
  const leaves = w.leaves.slice(0, claim.letters).map((x) => Array.from(x, (k) => [k, k]));
  const letters = leaves.map((_, s) => claim.delta.map((row) => row[s]));
  let conditions = 0, margin = Infinity;
  for (const [vectors, of, names] of [[leaves, letters, claim.symbols], [nodes, maps, proof.codes.map((_, i) => `node ${i}`)]]) {
    for (let length = 1; length <= C; length++) {
      for (const tuple of tuples(vectors.length, length)) {
        const map = claim.delta.map((_, q) => tuple.reduce((at, i) => of[i][at], q));
        const open = length < C ? claim.heeded[map[claim.start]] : map.some((to, q) => claim.reached[q] && claim.heeded[to]);
        if (!open) continue;
        const [code, gap] = decide(tuple.map((i) => vectors[i])), at = numbers.get(String(code)), text = tuple.map((i) => names[i]).join(", ");
        must(gap > 0, `the node of ${text} is not surely decided`);
        must(at !== undefined && String(maps[at]) === String(map), `the node of ${text} has no listed code of the product of their maps`);
        margin = Math.min(margin, gap);
        conditions += 1;
        yield { kind: "step", text: `${text} → node ${at}` };
      }
    }
  }
  const head = linear(...w.head);
  for (const [i, map] of maps.entries()) {
    const by = lead(claim, map[claim.start], head(nodes[i]));
    must(by > 0, `the head is not surely right on node ${i}`);
    conditions += 1;
    margin = Math.min(margin, by);
    yield { kind: "answer", text: `the answer is right on node ${i}` };
  }
  return { conditions, margin };
}
