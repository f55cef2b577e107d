// A Transformer, one whose positions are in two levels (BiPE), or one with chain attention (ChaCAL). No proof about these
// is checked here: they are run on the strings that refute them.
//
//   x_t    = E[symbol_t] + p_t
//   layer    h = x + O y(norm(x)) + b;   x' = h + W₂ gelu(W₁ norm(h) + b₁) + b₂
//   y_t    = Σ_{s<t} a_ts z_s + a_tt (1-γ) v_t,   a_ts = softmax_s(q_t · k_s / √d) over s <= t
//   z_t    = (1-γ) v_t + γ y_t                    what later symbols read; softmax attention is γ = 0, and z = v
//   logits = V norm(x_t) + d
//
//   p_t      learned: row t of a table, or its last;  sinusoidal: sines and cosines of t w_i, w_i = 10,000^(-2i/D)
//   bilevel  learned inside segments of so many symbols, and the segment's number turns pairs of q and k by RoPE

import { ACTIVATIONS, added, apply, attend, normed } from "./layers.mjs";
import { knows, must, plain, rowsOf, taker } from "./bounds.mjs";

const BASE = 10_000, AT_MOST = 2 ** 16;
const EXCLUDED = { exclude_diagonal: true, learn_gamma: false, paths: "mean" };

/** Where a symbol is: the number of what is added to its embedding, and by how many places its pairs are turned. */
const PLACES = {
  learned: { at: (t) => t, turns: () => 0 },
  sinusoidal: { at: (t) => t, turns: () => 0 },
  bilevel: { at: (t, { ends }) => t % ends, turns: (t, { ends }) => Math.floor(t / ends) },
};

/** The network of these tensors {name: {shape, data}}. A state is what was made of the word so far. */
export function open(tensors, config) {
  const { take, done } = taker(tensors), parts = (at, rows, ...columns) => [take(`${at}.weight`, rows, ...columns), take(`${at}.bias`, rows)];
  const embedding = rowsOf(take("embedding.weight", undefined, undefined)), symbols = embedding.length, width = embedding[0].length;
  const { position } = config, layers = config.depth?.layers, specs = [config.mixer].flat();
  must(position?.name in PLACES && layers > 0 && (specs.length === 1 || specs.length === layers), "the network is of another kind");
  const mixers = Array.from({ length: layers }, (_, i) => specs[i % specs.length]), heads = specs[0].heads, d = width / heads;
  must(Number.isInteger(d / 2) && mixers.every((each) => each.heads === heads), "the heads are of another kind");
  const gammas = mixers.map(({ name, gamma }) => (name === "chain" ? gamma : 0));
  must(gammas.every((gamma) => gamma >= 0 && gamma < 1), "a gamma is none");
  const stack = mixers.map((_, i) => {
    const at = (name) => `depth.layers.${i}.${name}`;
    return {
      qkv: parts(at("mixer.qkv"), 3 * width, width), out: parts(at("mixer.out"), width, width), gamma: gammas[i],
      before: parts(at("mixer_norm"), width), between: parts(at("feed_norm"), width),
      up: parts(at("up"), config.block.expansion * width, width), down: parts(at("down"), width, config.block.expansion * width),
    };
  });
  const norm = parts("norm", width), head = parts("head", tensors["head.weight"].shape[0], width);
  const table = { learned: "position.table.weight", bilevel: "position.levels.0.table.weight" }[position.name];
  const rows = table && rowsOf(take(table, undefined, width));
  done();
  knows(config, {
    ...plain(symbols, head[0].shape[0], width), final_norm: true, head: "linear",
    block: { kind: "transformer", norm: "pre", activation: "gelu", expansion: config.block.expansion },
    depth: { layers, name: "fixed" },
    mixer: Array.isArray(config.mixer) ? mixers.map(kind) : kind(config.mixer),
    position: {
      learned: { name: "learned", rows: rows?.length },
      sinusoidal: { name: "sinusoidal" },
      bilevel: { name: "bilevel", ends: position.ends, inside: { name: "learned", rows: rows?.length }, between: { name: "rope" } },
    }[position.name],
  });

  const { at, turns } = PLACES[position.name];
  const placed = (t) => (rows ? rows[Math.min(at(t, position), rows.length - 1)] : sinusoid(t, width));
  function step({ length: t, read }, symbol) {
    must(t < AT_MOST, "the string is too long for this page");
    const turn = turning(turns(t, position), d);
    let x = added(embedding[symbol], placed(t));
    stack.forEach((layer, i) => {
      const { keys, values } = read[i], mixed = apply(layer.qkv, normed(layer.before, x)), { gamma } = layer;
      const q = turn(mixed.subarray(0, width)), v = mixed.subarray(2 * width).map((each) => (1 - gamma) * each);
      keys.push(turn(mixed.subarray(width, 2 * width)));
      values.push(v);
      const y = attend(q, keys, values, heads);
      values[t] = gamma ? v.map((each, e) => each + gamma * y[e]) : v;
      const h = added(x, apply(layer.out, y));
      x = added(h, apply(layer.down, apply(layer.up, normed(layer.between, h)).map(ACTIVATIONS.gelu)));
    });
    return { length: t + 1, read, x };
  }
  const first = () => ({ length: 0, read: stack.map(() => ({ keys: [], values: [] })) });
  return { symbols, width, outputs: head[0].shape[0], first, step, logits: ({ x }) => Float32Array.from(apply(head, normed(norm, x))), longest: 3 };
}

/** A mixer that this page knows, from a config. */
const kind = ({ name, heads, gamma }) => ({ name: name === "chain" ? name : "softmax", heads, ...(name === "chain" && { gamma, ...EXCLUDED }) });

/** What stands at t among sines and cosines, as float32 keeps it. */
function sinusoid(t, width) {
  const angles = Array.from({ length: width / 2 }, (_, i) => t * BASE ** ((-2 * i) / width));
  return Float32Array.from([...angles.map(Math.sin), ...angles.map(Math.cos)]);
}

/** RoPE by so many places: entry i of every head's first half is turned with entry i of its second. */
function turning(places, d) {
  if (!places) return (x) => x;
  const half = d / 2, angles = Array.from({ length: half }, (_, i) => places * BASE ** ((-2 * i) / d));
  const [cos, sin] = [angles.map(Math.cos), angles.map(Math.sin)];
  return (x) => x.map((each, e) => {
    const i = e % d;
    return i < half ? each * cos[i] - x[e + half] * sin[i] : each * cos[i - half] + x[e - half] * sin[i - half];
  });
}
