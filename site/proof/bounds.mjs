// What the checkers of all kinds of networks share: bounds of what float32 may compute, and the machine of a claim.
//
// Intervals [low, high] are computed in double precision and rounded outwards. Assumed of the network: sums of n products
// within γ_n Σ|ab|, in any order; a tanh and a σ within 32 u, an exponential within 64 u of its value, a quotient and a
// root within 8 u. Assumed of this browser: Math.tanh and Math.exp within 64 units in their last place.

export const U = 2 ** -24;
export const LEAST = 2 ** -100;
export const EPS = 2 ** -52;
export const EXP = 64 * U;
export const LAYER_NORM = 1e-5;
const NEAR_TANH = 32 * U;
export const up = (x) => x + Math.abs(x) * EPS + Number.MIN_VALUE;
export const down = (x) => x - Math.abs(x) * EPS - Number.MIN_VALUE;
export const gamma = (n) => (n * U) / (1 - n * U);

export class Rejected extends Error {}

export function must(holds, why) {
  if (!holds) throw new Rejected(why);
}

const LARGEST = 2 ** 100;  // what may be larger could overflow
const SMALLEST = 2 ** -126;

/** Takes weights by name and shape; `done` says that none is left. All numbers must be ones that float32 reads and keeps. */
export function taker(tensors) {
  const left = new Set(Object.keys(tensors));
  function take(name, ...shape) {
    const tensor = tensors[name];
    must(tensor, `the weight ${name} is missing`);
    must(shape.length === tensor.shape.length && shape.every((n, i) => n === undefined || n === tensor.shape[i]), `the weight ${name} has another shape`);
    must(tensor.shape.every((n) => whole(n, 2 ** 24)) && tensor.data.length === tensor.shape.reduce((a, b) => a * b, 1), `${name} is not as large as its shape`);
    must(tensor.data.every((x) => x === 0 || (Math.abs(x) >= SMALLEST && Math.abs(x) < LARGEST)), `${name} has a number that float32 may lose`);
    left.delete(name);
    return tensor;
  }
  return { take, done: () => must(left.size === 0, `nothing uses the weight ${[...left][0]}`) };
}

const sorted = (x) => (x && typeof x === "object" && !Array.isArray(x) ? Object.fromEntries(Object.keys(x).sort().map((key) => [key, sorted(x[key])])) : x);
const written = (x) => JSON.stringify(Array.isArray(x) ? x.map(sorted) : sorted(x));

/** Refuses every config but this one. */
export function knows(config, { vocab_size, ...expected }) {
  const own = { ...config, num_outputs: config?.num_outputs ?? vocab_size };
  const other = Object.keys({ ...own, ...expected, vocab_size }).find((key) => written(own[key]) !== written({ ...expected, vocab_size }[key]));
  must(other === undefined, `the config's ${other} is of a network that this page does not know`);
}

/** What all configs here have in common. */
export const plain = (symbols, outputs, width) => ({
  model_type: "lengthwise", vocab_size: symbols, num_outputs: outputs, width, position: { name: "none" }, embedding_scale: 1,
  head_bias: true, tie_word_embeddings: false,
});

export const whole = (x, below) => Number.isInteger(x) && x >= 0 && x < below;

/** The rows of a matrix. */
export function rowsOf({ data, shape: [count, n] }) {
  return Array.from({ length: count }, (_, i) => Float64Array.from(data.subarray(i * n, (i + 1) * n)));
}

export const greatest = (numbers) => numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

/** A row of weights times a box: the middle of the sum, how far from it the sum may be, and Σ|w x| at most. */
export function times(row, centre, radius) {
  let middle = 0, off = 0, size = 0;
  must(row.length === centre.length, "a row has another width than what it is multiplied by");
  for (let j = 0; j < centre.length; j++) {
    const w = Math.abs(row[j]);
    middle += row[j] * centre[j];
    off += w * radius[j];
    size += w * (Math.abs(centre[j]) + radius[j]);
  }
  return { middle, off: (off + (centre.length + 4) * EPS * size) * (1 + (centre.length + 8) * EPS), size };
}

/** The ends of what a sum of n terms may be computed as, made of parts {middle, off, size}. */
export function computed(parts, n, largestWeight) {
  let middle = 0, off = 0, size = 0;
  for (const part of parts) {
    middle += part.middle;
    off += part.off;
    size += part.size;
  }
  const noise = gamma(n + 3) * size * (1 + 2 ** -20) + n * LEAST * (1 + largestWeight);
  const spare = up((off + noise + 16 * EPS * size) * (1 + 64 * EPS)) + LEAST;
  must(spare + size < LARGEST, "a sum may overflow");
  return [down(middle - spare), up(middle + spare)];
}

export const constant = (k) => ({ middle: k, off: 0, size: Math.abs(k) });

/** A box by its middle and how far from it its ends are. */
export function around(low, high) {
  const centre = low.map((x, i) => x / 2 + high[i] / 2);
  return [centre, centre.map((c, i) => up(Math.max(up(high[i] - c), up(c - low[i]))))];
}

/** Intervals [low, high]: a value as the network may compute it, from values as it may have computed them. */
export const size = (x) => Math.max(Math.abs(x[0]), Math.abs(x[1]));
export function widened(x, noise) {
  must(size(x) + noise < LARGEST, "a value may overflow");
  return [down(x[0] - up(noise)), up(x[1] + up(noise))];
}
export const sum = (x, y) => [down(x[0] + y[0]), up(x[1] + y[1])];
const less = (x, y) => [down(x[0] - y[1]), up(x[1] - y[0])];
export function product(x, y) {
  const ends = [x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]];
  return [down(Math.min(...ends) - LEAST), up(Math.max(...ends) + LEAST)];
}
const rounded = (x) => widened(x, U * size(x) + LEAST);
export const plus = (x, y) => rounded(sum(x, y));
export const multiplied = (x, y) => rounded(product(x, y));
export const relu = (x) => [Math.max(0, x[0]), Math.max(0, x[1])];
const tanhDown = (x) => Math.max(-1, down(Math.tanh(x) - 64 * EPS * Math.abs(Math.tanh(x))));
const tanhUp = (x) => Math.min(1, up(Math.tanh(x) + 64 * EPS * Math.abs(Math.tanh(x))));
export const tanh = (x) => widened([tanhDown(x[0]), tanhUp(x[1])], NEAR_TANH + LEAST);
export const sigmoid = (x) => widened([Math.max(0, down((1 + tanhDown(x[0] / 2)) / 2)), Math.min(1, up((1 + tanhUp(x[1] / 2)) / 2))], NEAR_TANH + LEAST);
const exponential = (x) => [Math.max(0, down(Math.exp(x[0]) * (1 - 64 * EPS) - LEAST)), up(Math.exp(x[1]) * (1 + 64 * EPS) + LEAST)];

/** W x + b for a vector of intervals; W a matrix {data, shape}, b a vector or none. */
export function linear(matrix, bias) {
  const rows = rowsOf(matrix), n = matrix.shape[1], largest = greatest(matrix.data);
  return (x) => {
    const [centre, radius] = around(x.map(([low]) => low), x.map(([, high]) => high));
    return rows.map((row, i) => computed([times(row, centre, radius), constant(bias ? bias.data[i] : 0)], n + 1, largest));
  };
}

/**
 * (x - μ) ρ w + b, ρ = 1 / √(σ² + ε), over a vector of intervals.
 *
 * A computed mean is off by γ mean|x|; a variance, by any formula, by 4 γ mean x², so that ρ is off by a share δ of itself.
 * What that does to (x - μ) ρ, also where it is computed as x ρ - μ ρ, is `inner`.
 */
export function norm(weight, bias) {
  return (x) => {
    const n = x.length, slack = (n + 4) * EPS * x.reduce((total, each) => total + size(each), 0);
    const total = (numbers) => numbers.reduce((a, b) => a + b, 0);
    const mean = [down((total(x.map(([a]) => a)) - slack) / n), up((total(x.map(([, b]) => b)) + slack) / n)];
    const d = x.map((each) => less(each, mean));
    const squares = d.map(([a, b]) => [a <= 0 && b >= 0 ? 0 : Math.min(a * a, b * b), Math.max(a * a, b * b)]);
    const share = 1 + (n + 8) * EPS;
    const low = Math.max(0, down(total(squares.map(([a]) => a)) / n / share)), high = up((total(squares.map(([, b]) => b)) / n) * share);
    const rho = [down(1 / up(Math.sqrt(up(high + LAYER_NORM)))), up(1 / down(Math.sqrt(down(low + LAYER_NORM))))];
    const sizes = x.map(size), meanSize = (total(sizes) / n) * share, meanSquare = (total(sizes.map((s) => s * s)) / n) * share;
    const t = 4 * gamma(n + 8) * meanSquare * rho[1] ** 2 + 4 * U;
    must(t <= 0.5 && meanSquare < LARGEST, "a norm divides by next to nothing, or overflows");
    const delta = (1 / Math.sqrt(1 - t) - 1) * (1 + 32 * U) + 32 * U;
    return d.map((each, i) => {
      const far = size(each), w = Math.abs(weight.data[i]), b = bias.data[i];
      const inner = rho[1] * ((1 + delta) * (gamma(n + 4) * meanSize + gamma(8) * (sizes[i] + meanSize)) + delta * far) + (1 + rho[1]) * LEAST;
      const noise = w * inner * (1 + 8 * U) + gamma(4) * (w * far * rho[1] + Math.abs(b)) + LEAST;
      return widened(sum(product(product(each, rho), [weight.data[i], weight.data[i]]), [b, b]), noise * (1 + 2 ** -20));
    });
  };
}

/** Σ_j softmax_j(q · k_j / √d + r_j) v_j in each of the heads; q, k_j, v_j are vectors of intervals, r of [head, tap]. */
export function attention(q, keys, values, r) {
  const [heads, taps] = r.shape, d = q.length / heads, scale = 1 / Math.sqrt(d), C = keys.length;
  return q.map((_, i) => i).flatMap((i) => {
    if (i % d) return [];
    const head = i / d;
    const scores = keys.map((k, j) => {
      let score = [r.data[head * taps + j], r.data[head * taps + j]], terms = Math.abs(score[0]);
      for (let e = i; e < i + d; e++) {
        score = sum(score, product(product(q[e], k[e]), [down(scale), up(scale)]));
        terms += size(q[e]) * size(k[e]) * scale;
      }
      return { score, terms };
    });
    const off = gamma(d + 16) * Math.max(...scores.map(({ terms }) => terms)) * (1 + 2 ** -20) + C * U + EXP;
    const s = scores.map(({ score }) => widened(score, off));
    const shares = s.map((own) => {
      const total = s.map((each) => (each === own ? [1, 1] : exponential(less(each, own)))).reduce(sum);
      const share = [down(1 / total[1]), Math.min(1, up(1 / total[0]))], rest = 1 - share[0];
      return widened(share, share[1] * (rest * 2.1 * EXP + (C + 16) * U) * (1 + 2 ** -20) + LEAST);
    });
    return Array.from({ length: d }, (_, e) => {
      const total = shares.map((share, j) => product(share, values[j][i + e])).reduce(sum);
      const terms = values.reduce((most, v) => most + size(v[i + e]), 0);
      return widened(total, gamma(2 * C + 40) * terms * (1 + 2 ** -20) + LEAST);
    });
  });
}

/** The number of the largest of some intervals, and by how much it is surely ahead of the others. */
export function chosen(x) {
  const best = x.reduce((best, [low, high], i) => (low + high > x[best][0] + x[best][1] ? i : best), 0);
  const others = x.reduce((most, [, high], i) => (i === best ? most : Math.max(most, high)), -Infinity);
  return [best, down(x[best][0] - others)];
}

/** By how much the answer of a state is surely ahead; infinite where nothing is asked. */
export function lead(claim, state, logits) {
  if (!claim.asked[state]) return Infinity;
  const right = claim.answers[state];
  return down(logits[right][0] - Math.max(...logits.filter((_, o) => o !== right).map(([, high]) => high)));
}

/** The machine, as the claim states it, and from which states a question can still be reached by steps of C symbols. */
export function machine(claim, outputs, symbols, chunk = 1) {
  const states = claim.delta.length, letters = claim.symbols.length;
  must(states > 0 && letters > 0 && letters <= symbols && outputs > 1, "the claim is of another kind of network");
  must(claim.delta.every((row) => row.length === letters && row.every((to) => whole(to, states))), "delta is no table");
  must(whole(claim.start, states), "the start is no state");
  must(claim.asked.length === states && claim.answers.length === states, "the claim leaves states out");
  must(claim.answers.every((a, q) => !claim.asked[q] || whole(a, outputs)), "an answer is no output");
  let heeded = claim.asked.map(Boolean);
  const reached = claim.delta.map((_, q) => q === claim.start);
  for (let round = 0; round <= states; round++) {
    let before = heeded;
    for (let k = 0; k < chunk; k++) before = claim.delta.map((row) => row.some((to) => before[to]));
    heeded = heeded.map((x, q) => x || before[q]);
    claim.delta.forEach((row, q) => row.forEach((to) => { reached[to] ||= reached[q]; }));
  }
  const asks = claim.delta.some((row, q) => reached[q] && row.some((to) => claim.asked[to]));
  must(asks, "the claim is vacuous: after no string is anything asked");
  return { ...claim, heeded, reached, letters, alike: alike(claim, chunk) };
}

/** The number of each state; two have one if no C k symbols lead from them to different answers. */
function alike({ delta, asked, answers }, chunk) {
  const numbered = (rows) => {
    const numbers = new Map();
    for (const row of rows) if (!numbers.has(String(row))) numbers.set(String(row), numbers.size);
    return rows.map((row) => numbers.get(String(row)));
  };
  let number = numbered(asked.map((is, q) => (is ? answers[q] : "none")));
  for (let round = 0; round < delta.length; round++) {
    let ahead = number;
    for (let k = 0; k < chunk; k++) ahead = numbered(delta.map((row) => row.map((to) => ahead[to])));
    number = numbered(number.map((own, q) => [own, ahead[q]]));
  }
  return number;
}
