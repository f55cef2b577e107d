// A RegularGPT with one layer a group, of continuous or of discrete nodes, and the check of a proof about it.
//
//   a node is made of up to C nodes or symbols, the oldest of which may be missing at the beginning of a word:
//   h      = norm(x_0 + O Σ_j softmax_j(q · k_j / √d + r_j) v_j)      j: lags 0 … C-1; a missing tap has the pad's k and v
//   y      = norm(h + W₂ f(W₁ h + b₁) + b₂)                           f: relu or gelu
//   node   = y
//   logits = V node + d, for the last node of a word
//
// Groups are repeated until one node is left: C symbols make a node, C nodes make the next, aligned at the word's end. The
// proof lists boxes, each with the map of the machine's states that it stands for. If every node of symbols and every node
// of vectors in listed boxes lies in a listed box, of the product of their maps, then by induction every node of every word
// lies in one; where the head is right on all of them every word is answered right.
//
// The nodes of one level are made of those of the level below, of which the first alone may lack symbols, as then the node
// does. So a box or a code may be of a level, and of nodes that lack symbols or of those that do not. Behind a node C k
// symbols come, so its map need only lead to states that are alike to those, whatever C k symbols follow, and anywhere from
// where none of these lead to a question.
//
// A discrete node is one of finitely many: code = argmax in each group of choices of Z y + c, and the sum of the codebook's
// vectors for this code stands in the place of y. Then the proof lists codes in the place of boxes.

import * as affine from "./affine.mjs";
import { ACTIVATIONS, added, apply, attend, normed } from "./layers.mjs";
import {
  attention, chosen, computed, constant, down, knows, lead, linear, machine, must, norm, plain, plus, relu,
  rowsOf, taker, up, whole,
} from "./bounds.mjs";

const LAYER = "depth.layers.0", MOST_TUPLES = 1e5, FARTHEST = 2 ** 50;

export function open(tensors, config) {
  const { take, done } = taker(tensors), parts = (at, rows, ...columns) => [take(`${at}.weight`, rows, ...columns), take(`${at}.bias`, rows)];
  const embedding = take("embedding.weight", undefined, undefined), [symbols, width] = embedding.shape;
  const r = take(`${LAYER}.mixer.r`, undefined, undefined), [heads, chunk] = r.shape;
  const { nodes, by } = config?.depth ?? {}, { groups, codes } = nodes ?? {}, { expansion, activation } = config?.block ?? {};
  must(width % heads === 0 && chunk > 1 && expansion > 0 && (!nodes || (groups > 0 && codes > 1)), "the sizes are of no network");
  must(by === "sequence" || by === "position", "the depth is of another kind");
  must(activation in ACTIVATIONS, "the activation is not known");
  const qkv = take(`${LAYER}.mixer.qkv.weight`, 3 * width, width), third = width * width;
  const maps = [0, 1, 2].map((i) => [{ shape: [width, width], data: qkv.data.subarray(i * third, (i + 1) * third) }, null]);
  const w = {
    symbols, width, maps, chunk, groups, codes, r, activation, pad: Float64Array.from(take("pad", width).data), leaves: rowsOf(embedding),
    out: [take(`${LAYER}.mixer.out.weight`, width, width), null], norms: [parts(`${LAYER}.mixer_norm`, width), parts(`${LAYER}.feed_norm`, width)],
    up: parts(`${LAYER}.up`, expansion * width, width), down: parts(`${LAYER}.down`, width, expansion * width),
    choose: nodes && parts(`${LAYER}.nodes.choose`, groups * codes, width),
    codebook: nodes && rowsOf(take(`${LAYER}.nodes.codebook`, groups * codes, width)),
    head: [take("head.weight", undefined, width), take("head.bias", tensors["head.weight"].shape[0])],
  };
  done();
  w.outputs = w.head[0].shape[0];
  knows(config, {
    ...plain(symbols, w.outputs, width), final_norm: false, head: "linear",
    block: { kind: "transformer", norm: "post", activation, expansion },
    mixer: { name: "sliding-dilated", missing: "learned-pad", shared_pad: true, biases: false, heads, chunk },
    depth: { name: "adaptive", by, chunk, thickness: 1, pad_tokens: false, ...(nodes && { nodes: { groups, codes } }) },
  });
  return { ...w, ...reader(w), broken: nodes ? { name: `${LAYER}.nodes.choose.bias`, by: 30 } : { name: `${LAYER}.feed_norm.bias`, by: 3 } };
}

/** The vectors of a codebook that a code picks, a number for each group. */
const picked = (w, code) => code.map((choice, g) => w.codebook[g * w.codes + choice]);

/** Reads words as the network does. A state is the word so far: its tree stands on its end, and grows anew with each symbol. */
function reader(w) {
  const heads = w.r.shape[0], bias = (h, j) => w.r.data[h * w.chunk + j], activation = ACTIVATIONS[w.activation];
  const pads = w.maps.slice(1).map((part) => apply(part, w.pad));
  /** What the layer makes of these vectors, oldest first. */
  function made(taps) {
    const own = taps.at(-1), q = apply(w.maps[0], own), newest = [...taps].reverse();
    const [keys, values] = [1, 2].map((i) => Array.from({ length: w.chunk }, (_, j) => (newest[j] ? apply(w.maps[i], newest[j]) : pads[i - 1])));
    const h = normed(w.norms[0], added(own, apply(w.out, attend(q, keys, values, heads, bias))));
    return normed(w.norms[1], added(h, apply(w.down, apply(w.up, h).map(activation))));
  }
  function codeOf(y) {
    const z = apply(w.choose, y);
    return Array.from({ length: w.groups }, (_, g) => {
      const own = z.slice(g * w.codes, (g + 1) * w.codes);
      return own.indexOf(Math.max(...own));
    });
  }
  // Nodes are numbered as they are met, the symbols first: a node of the same taps, or of the same code, is the same node.
  const vectors = [...w.leaves], numbers = new Map(), known = new Map(), codes = new Map(), answers = new Map();
  function number(y) {
    if (!w.codebook) return vectors.push(Float32Array.from(y)) - 1;
    const code = codeOf(y), name = String(code);
    if (!numbers.has(name)) {
      numbers.set(name, vectors.length);
      codes.set(vectors.length, code);
      vectors.push(picked(w, code).reduce((x, y) => x.map((each, i) => each + y[i])));
    }
    return numbers.get(name);
  }
  function node(taps) {
    const key = taps.join(" ");
    if (!known.has(key)) known.set(key, number(made(taps.map((i) => vectors[i]))));
    return known.get(key);
  }
  /** The nodes over those of one level. */
  function above(level) {
    const nodes = new Array(Math.ceil(level.length / w.chunk));
    for (let i = nodes.length - 1, end = level.length; end > 0; i--, end -= w.chunk) nodes[i] = node(level.slice(Math.max(0, end - w.chunk), end));
    return nodes;
  }
  /** Every level of a word's tree, from its symbols to its last node. */
  function levels(word) {
    const all = [word];
    do all.push(above(all.at(-1))); while (all.at(-1).length > 1);
    return all;
  }
  function answer(at) {
    if (!answers.has(at)) answers.set(at, Float32Array.from(apply(w.head, vectors[at])));
    return answers.get(at);
  }
  const logits = (word) => answer(levels(word).at(-1)[0]);
  /**
   * About `count` beginnings of a long word: [length, logits] of each. They end where nodes of the whole word do, so that
   * their trees share all that is below; null again and again while that is made.
   */
  function* beginnings(word, count) {
    let level = word, span = 1;
    while (level.length > count * w.chunk) {
      const nodes = [], first = level.length % w.chunk || w.chunk;
      for (let begin = 0, end = first; begin < level.length; begin = end, end += w.chunk) {
        nodes.push(node(level.slice(begin, end)));
        if (nodes.length % 2000 === 0) yield null;
      }
      [level, span] = [nodes, span * w.chunk];
    }
    for (let n = span > 1 ? 2 : 1; n <= level.length; n++) {
      let nodes = level.slice(0, n);
      do nodes = above(nodes); while (nodes.length > 1);
      yield [word.length - span * (level.length - n), answer(nodes[0])];
    }
  }
  /** Names the element of a node, by the codes or the boxes of a proof. */
  function places({ proof }) {
    const names = new Map(proof.codes?.map(({ code, element }) => [String(code), `element ${element}`])), boxed = new Map();
    const inside = (x) => proof.boxes.find(({ centre, radius }) => centre.every((c, i) => Math.abs(x[i] - c) <= radius[i]));
    function name(at) {
      if (proof.codes) return names.get(String(codes.get(at))) ?? "another code";
      if (!boxed.has(at)) boxed.set(at, inside(vectors[at]));
      return boxed.get(at) ? `element ${boxed.get(at).element}` : "no box";
    }
    return Object.assign((word) => name(levels(word).at(-1)[0]), { levels: (word) => levels(word).slice(1).map((level) => level.map(name)) });
  }
  return { first: () => [], step: (word, symbol) => (word.push(symbol), word), logits, beginnings, places };
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

/** What nodes of up to C boxes lie in; taps are affine forms that `read` has made of vectors. */
function enclosing(w) {
  const part = ([matrix, bias]) => affine.linear(matrix, bias), [toQ, toK, toV] = w.maps.map(part), out = part(w.out);
  const [before, after] = w.norms.map((each) => affine.norm(...each)), opened = part(w.up), close = part(w.down);
  const pads = [toK, toV].map((to) => to(affine.point(w.pad)));
  const read = (x) => ({ x, q: toQ(x), k: toK(x), v: toV(x) });
  function node(taps) {
    const own = taps.at(-1), newest = [...taps].reverse();
    const [keys, values] = ["k", "v"].map((name, i) => Array.from({ length: w.chunk }, (_, j) => (newest[j] ? newest[j][name] : pads[i])));
    const h = before(affine.plus(own.x, out(affine.attention(own.q, keys, values, w.r))));
    return affine.enclosed(after(affine.plus(h, close(affine[w.activation](opened(h))))));
  }
  return { read, node };
}

/** Those boxes of a proof, rounded: [low, high] of each number from without, and from within. */
function boxesOf({ boxes }, w) {
  return boxes.map(({ centre, radius, element, level = 0, lacking = false }) => {
    must(centre.length === w.width && radius.length === w.width, "a box has another size than a node");
    must([...centre, ...radius].every((x) => Number.isFinite(x) && Math.abs(x) < FARTHEST) && radius.every((r) => r >= 0), "a box is none");
    must(whole(level, 2 ** 31) && typeof lacking === "boolean", "a box is of no level");
    const outer = centre.map((c, i) => [down(c - radius[i]), up(c + radius[i])]), inner = centre.map((c, i) => [up(c - radius[i]), down(c + radius[i])]);
    return { centre, radius, element, level, lacking, outer, inner };
  });
}

/** The map of the machine's states that these make, one after the other. */
const product = (maps) => maps[0].map((_, q) => maps.reduce((at, map) => map[at], q));

/** Whether an answer can hang on a node of this map, of so many of the C places. */
function matters(claim, map, filled, C) {
  return filled < C ? claim.heeded[map[claim.start]] : map.some((to, q) => claim.reached[q] && claim.heeded[to]);
}

/** The conditions, one by one; ends with {conditions, margin}. */
export function* check({ kind, claim: said, proof }, w) {
  const claim = machine(said, w.outputs, w.symbols, w.chunk), Q = claim.delta.length;
  must((kind === "tree-codes") === Boolean(w.codebook), "the proof is about nodes of the other kind");
  must(proof.elements.every((map) => map.length === Q && map.every((q) => whole(q, Q))), "an element must say where each state goes");
  must(new Set(proof.elements.map(String)).size === proof.elements.length, "an element is listed twice");
  return yield* (w.codebook ? checkCodes : checkBoxes)(claim, proof, w);
}

function* checkBoxes(claim, proof, w) {
  must(proof.boxes.every(({ element }) => whole(element, proof.elements.length)), "a box is of no element");
  const boxes = boxesOf(proof, w), maps = boxes.map(({ element }) => proof.elements[element]), { read, node } = enclosing(w);
  const split = proof.boxes.some((box) => "lacking" in box), top = Math.max(...boxes.map(({ level }) => level));
  must(proof.returns === undefined || whole(proof.returns, 2 ** 31), "what is made of the last level is of none");
  const letters = w.leaves.slice(0, claim.letters).map((x, s) => ({ tap: read(affine.point(x)), map: claim.delta.map((row) => row[s]), name: claim.symbols[s], above: 0, lacking: false }));
  const listed = boxes.map(({ centre, radius, level, lacking }, i) => ({
    tap: read(affine.box(centre, radius)), map: maps[i], name: `box ${i}`, level, lacking, above: level === top ? proof.returns ?? top : level + 1,
  }));
  const levels = [...new Set(listed.map(({ level }) => level))].sort((a, b) => a - b).map((level) => listed.filter((each) => each.level === level));
  let conditions = 0, margin = Infinity;
  for (const members of [letters, ...levels]) {
    must(members.length ** w.chunk <= MOST_TUPLES, "the proof has too many nodes for this page");
    for (let length = 1; length <= w.chunk; length++) {
      for (const tuple of tuples(members.length, length)) {
        const taps = tuple.map((i) => members[i]), map = product(taps.map((each) => each.map));
        if (taps.slice(1).some(({ lacking }) => lacking) || !matters(claim, map, length, w.chunk)) continue;
        const image = node(taps.map(({ tap }) => tap)), { above } = taps[0], lacking = split && (length < w.chunk || taps[0].lacking);
        const to = boxes.findIndex((each, j) =>
          each.level === above && each.lacking === lacking && String(maps[j]) === String(map) && each.inner.every(([low, high], i) => low <= image[i][0] && image[i][1] <= high));
        const text = taps.map(({ name }) => name).join(", ");
        must(to >= 0, `the node of ${text} is in no listed box of the product of their maps`);
        conditions += 1;
        yield { kind: "step", text: `${text} → box ${to}` };
      }
    }
  }
  const head = linear(...w.head);
  for (const [i, { outer }] of boxes.entries()) {
    const by = lead(claim, maps[i][claim.start], head(outer));
    must(by > 0, `the head is not surely right on box ${i}`);
    conditions += 1;
    margin = Math.min(margin, by);
    yield { kind: "answer", text: `the answer is right on box ${i}` };
  }
  return { conditions, margin };
}

function* checkCodes(claim, proof, w) {
  const C = w.chunk, { codes } = proof;
  must(codes.every(({ code, element }) => whole(element, proof.elements.length) && code.length === w.groups && code.every((c) => whole(c, w.codes))), "a code is none");
  must(codes.every(({ level = 0, lacking = false }) => whole(level, 2 ** 31) && typeof lacking === "boolean"), "a code is of no level");
  must(proof.returns === undefined || whole(proof.returns, 2 ** 31), "what is made of the last level is of none");
  const key = (level, lacking, code) => `${level} ${lacking} ${code}`;
  const numbers = new Map(codes.map(({ code, level = 0, lacking = false }, i) => [key(level, lacking, code), i]));
  must(numbers.size === codes.length, "a code is listed twice");
  const split = codes.some((each) => "lacking" in each), top = Math.max(...codes.map(({ level = 0 }) => level));

  const decide = decider(w), maps = codes.map(({ element }) => proof.elements[element]);
  const nodes = codes.map(({ code }) => {
    const rows = picked(w, code);
    return Array.from({ length: w.width }, (_, i) => computed(rows.map((row) => constant(row[i])), w.groups, 0));
  });
  const letters = w.leaves.slice(0, claim.letters).map((x, s) => (
    { vector: Array.from(x, (k) => [k, k]), map: claim.delta.map((row) => row[s]), name: claim.symbols[s], above: 0, lacking: false }));
  const listed = codes.map(({ level = 0, lacking = false }, i) => (
    { vector: nodes[i], map: maps[i], name: `node ${i}`, level, lacking, above: level === top ? proof.returns ?? top : level + 1 }));
  const levels = [...new Set(listed.map(({ level }) => level))].sort((x, y) => x - y).map((level) => listed.filter((each) => each.level === level));
  /** Whether both maps lead to states that are alike where a question may follow: of a beginning from the start, else from all. */
  const agree = (own, map, lacking) => map.every((to, q) => (
    (lacking && q !== claim.start) || !claim.heeded[to] || claim.alike[own[q]] === claim.alike[to]));
  let conditions = 0, margin = Infinity;
  for (const members of [letters, ...levels]) {
    must(members.length ** C <= MOST_TUPLES, "the proof has too many nodes for this page");
    for (let length = 1; length <= C; length++) {
      for (const tuple of tuples(members.length, length)) {
        const taps = tuple.map((i) => members[i]), map = product(taps.map((each) => each.map));
        if (taps.slice(1).some(({ lacking }) => lacking) || !matters(claim, map, length, C)) continue;
        const lacking = split && (length < C || taps[0].lacking), text = taps.map(({ name }) => name).join(", ");
        const [code, gap] = decide(taps.map(({ vector }) => vector)), at = numbers.get(key(taps[0].above, lacking, code));
        must(gap > 0, `the node of ${text} is not surely decided`);
        must(at !== undefined && agree(maps[at], map, lacking), `the node of ${text} has no listed code of the product of their maps`);
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
