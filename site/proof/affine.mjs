// Vectors that a network may compute, as affine forms: how far what goes in leads, and what arithmetic rounds on the way.
//
//   x_i = c_i + Σ_k S_ik e_k + d_i,   |e_k| <= 1,  |d_i| <= rest_i
//
// The symbols e_k are shared by all forms that came from the same box or the same rounding, so what cancels on the way does
// cancel, which intervals forget. A symbol belongs to a block (a box, or what one operation was off by); S is kept by blocks.
// An operation g is taken at c with its slope J there: S becomes J S, and rest |J| rest (or J times it is one
// more block) plus what g bends by, what float32 rounds, and 2^-20 |J| r for all that double precision loses here in slopes, sums and radii (each below 2^-21 of that).
//
// Assumed of the network is what bounds.mjs says, and an erf within 32 u; of this browser a Math.exp within 64 units in its
// last place.

import { EXP, LAYER_NORM, LEAST, U, down, gamma, must, rowsOf, up } from "./bounds.mjs";

const WIDER = 1 + 2 ** -20, SLACK = 2 ** -20, BOUNDED = 32, DENSITY = 1 / Math.sqrt(2 * Math.PI);
const zeros = (n) => new Float64Array(n);
const total = (x) => x.reduce((a, b) => a + b, 0);
const mean = (x) => total(x) / x.length;
let symbols = 0;

export const point = (c) => ({ c: Float64Array.from(c), blocks: new Map(), rest: zeros(c.length) });

/** All that is off a centre by no more than radii. */
export function box(c, radii) {
  return named({ ...point(c), rest: Float64Array.from(radii) });
}

/** The same with a symbol for each rest, which then is one and the same wherever the vector goes. */
function named(x) {
  const n = x.c.length, own = zeros(n * n);
  for (let i = 0; i < n; i++) own[i * n + i] = x.rest[i];
  return { c: x.c, blocks: new Map([...x.blocks, [symbols++, own]]), rest: zeros(n) };
}

/** How far each number may be from its centre. */
function radius({ c, blocks, rest }) {
  const r = Float64Array.from(rest), n = c.length;
  for (const block of blocks.values()) {
    const m = block.length / n;
    for (let i = 0; i < n; i++) for (let k = i * m; k < (i + 1) * m; k++) r[i] += Math.abs(block[k]);
  }
  return r.map((x) => x * WIDER);
}

/** A form, whose rest is `noise` and what slopes are off by. */
function made(c, blocks, noise, spread) {
  const rest = Float64Array.from(noise, (x, i) => (x + SLACK * spread[i]) * WIDER + LEAST);
  must(c.every((x, i) => Math.abs(x) + rest[i] < 2 ** 50), "a value may overflow");
  return { c, blocks, rest };
}

const mapped = (blocks, to) => new Map([...blocks].map(([id, block]) => [id, to(block)]));

/** All that a form can be, as intervals. */
export function enclosed(x) {
  const r = radius(x);
  return Array.from(x.c, (c, i) => [down(c - up(r[i])), up(c + up(r[i]))]);
}

export function linear(matrix, bias) {
  const rows = rowsOf(matrix), n = matrix.shape[1], sizes = rows.map((row) => row.map(Math.abs));
  const largest = sizes.reduce((most, row) => Math.max(most, ...row), 0);
  function dot(a, b) {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += a[j] * b[j];
    return sum;
  }
  function moved(block) {
    const m = block.length / n, out = zeros(rows.length * m);
    // What a relu cuts off hangs on no symbol. The others are taken by fours, which writes each sum a quarter as often.
    const starts = Array.from({ length: n }, (_, j) => j * m).filter((from) => block.subarray(from, from + m).some((v) => v !== 0));
    const fours = starts.length - (starts.length % 4);
    rows.forEach((row, i) => {
      const to = i * m;
      for (let at = 0; at < fours; at += 4) {
        const a = starts[at], b = starts[at + 1], c = starts[at + 2], d = starts[at + 3];
        const wa = row[a / m], wb = row[b / m], wc = row[c / m], wd = row[d / m];
        for (let k = 0; k < m; k++) out[to + k] += wa * block[a + k] + wb * block[b + k] + wc * block[c + k] + wd * block[d + k];
      }
      for (const from of starts.slice(fours)) {
        const w = row[from / m];
        for (let k = 0; k < m; k++) out[to + k] += w * block[from + k];
      }
    });
    return out;
  }
  /** What is off by no more than this is a symbol for each number from here on. */
  function ownBlock(rest) {
    const own = zeros(rows.length * n);
    rows.forEach((row, i) => { for (let j = 0; j < n; j++) own[i * n + j] = row[j] * rest[j]; });
    return own;
  }
  return (x) => {
    const r = radius(x), b = rows.map((_, i) => (bias ? bias.data[i] : 0)), spread = sizes.map((row) => dot(row, r));
    const size = x.c.map(Math.abs), terms = sizes.map((row, i) => dot(row, size) + spread[i] + Math.abs(b[i]));
    const noise = terms.map((most) => gamma(n + 3) * most * WIDER + n * LEAST * (1 + largest)), blocks = mapped(x.blocks, moved);
    if (x.rest.some((v) => v > 0)) blocks.set(symbols++, ownBlock(x.rest));
    return made(Float64Array.from(rows, (row, i) => dot(row, x.c) + b[i]), blocks, noise, spread);
  };
}

export function plus(x, y) {
  const blocks = new Map(x.blocks), rx = radius(x), ry = radius(y);
  for (const [id, block] of y.blocks) {
    const other = blocks.get(id);
    blocks.set(id, other ? block.map((v, k) => v + other[k]) : block);
  }
  const spread = rx.map((r, i) => r + ry[i]), c = x.c.map((v, i) => v + y.c[i]);
  const noise = c.map((_, i) => x.rest[i] + y.rest[i] + U * WIDER * (Math.abs(x.c[i]) + Math.abs(y.c[i]) + spread[i]));
  return made(c, blocks, noise, spread);
}

/** A function of each number by itself: `at(c, r)` is its value, its slope, and what is off within r. */
function each(x, steepest, at) {
  const r = radius(x), n = x.c.length, parts = Array.from(x.c, (c, i) => at(c, r[i]));
  function scaled(block) {
    const m = block.length / n, out = zeros(block.length);
    parts.forEach(({ slope }, i) => { for (let k = i * m; k < (i + 1) * m; k++) out[k] = slope * block[k]; });
    return out;
  }
  const noise = parts.map(({ slope, off }, i) => Math.abs(slope) * x.rest[i] + off);
  return made(Float64Array.from(parts, ({ value }) => value), mapped(x.blocks, scaled), noise, r.map((v) => steepest * v));
}

/** What may cross 0 bends by no more than it goes beyond. */
export const relu = (x) => each(x, 1, (c, r) => ({ value: Math.max(0, c), slope: c > 0 ? 1 : 0, off: Math.max(0, r - Math.abs(c)) }));

/**
 * erf(x) within 2^-42: 2/√π x exp(-x²) Σ_n (2x²)^n / (1·3···(2n+1)), whose terms are all positive. It ends where the next
 * ones are less than half of those before them each, and all of them less than 2^-60 of the sum.
 */
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = 1, sum = 1;
  for (let n = 1; term > sum * 2 ** -61 || 4 * x * x > 2 * n + 1; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * x * Math.exp(-x * x) * sum;
}

/** The largest |gelu''| = φ |2 - x²| within r of c: it turns where x is 0, of at most 0.8, and ±2, of at most 0.108. */
function bending(c, r) {
  const low = c - r, high = c + r, ends = [low, high].map((x) => DENSITY * Math.exp((-x * x) / 2) * Math.abs(2 - x * x));
  const turns = [[0, 0.8], [2, 0.108], [-2, 0.108]].filter(([x]) => low <= x && x <= high).map(([, most]) => most);
  return Math.max(...ends, ...turns);
}

/** x Φ(x), whose slope is at most 1.13. It bends by half of the largest second derivative times r². */
export const gelu = (x) => each(x, 1.13, (c, r) => {
  const share = (1 + erf(c / Math.SQRT2)) / 2, size = Math.abs(c) + r;
  const bends = (0.5 * bending(c, r) * WIDER + 2 ** -40) * r * r + 2 ** -30 * r;
  return { value: c * share, slope: share + c * DENSITY * Math.exp((-c * c) / 2), off: bends + size * ((BOUNDED / 2 + 6) * U * WIDER + 2 ** -40) };
});

/**
 * (x - μ) ρ w + b for d = c - μ, ρ = (|d|²/n + ε)^(-1/2), x̂ = ρ d.
 *
 * With a = x̂·ρδ/n and τ = ρ(δ - its mean) - a x̂ a step δ makes ρ^-2 greater by the factor (1 + a)² + v, where v is
 * |τ|²/n + ε ρ² a². So it leads to w ((1 + a) x̂ + τ) ((1 + a)² + v)^(-1/2) + b: the slope is w τ, and what is left is
 * w (τ (1 - p) / (1 + a) - τ - p x̂) for 0 <= p <= v / (2 (1 + a)²).
 */
export function norm(weight, bias) {
  const w = weight.data, b = bias.data, n = w.length;
  return (given) => {
    const x = named(given), r = radius(x), mu = mean(x.c), d = x.c.map((c) => c - mu), sizes = x.c.map(Math.abs);
    const rho = 1 / Math.sqrt(mean(d.map((v) => v * v)) + LAYER_NORM), hat = d.map((v) => v * rho);
    const off = hat.map((h) => 8 * (n + 17) * 2 ** -53 * (1 + Math.abs(h) + rho * mean(sizes)));
    const near = hat.map((h, i) => Math.abs(h) + off[i]), lost = mean(off.map((v, i) => v * r[i])), seen = mean(near.map((v, i) => v * r[i]));
    const unsure = off.map((v, i) => v * seen + near[i] * lost);
    // Blocks of ε - x̂ (x̂·ε)/n, and of x̂·δ/n, the sizes of which are those of τ and a but for ρ.
    const along = new Map(), sums = zeros(n);
    let a = 0;
    for (const [id, block] of x.blocks) {
      const m = block.length / n, middle = zeros(m), part = zeros(m), out = zeros(block.length);
      for (let i = 0; i < n; i++) for (let k = 0; k < m; k++) {
        middle[k] += block[i * m + k] / n;
        part[k] += (hat[i] * block[i * m + k]) / n;
      }
      for (let i = 0; i < n; i++) for (let k = 0; k < m; k++) {
        const v = block[i * m + k] - middle[k] - hat[i] * part[k];
        sums[i] += Math.abs(v);
        out[i * m + k] = w[i] * rho * v;
      }
      a += total(part.map(Math.abs));
      along.set(id, out);
    }
    a = rho * (a + lost + SLACK * seen) * WIDER;
    const spread = near.map((v, i) => rho * (r[i] + mean(r) + v * seen));
    const tau = sums.map((v, i) => (rho * (v + unsure[i]) + SLACK * spread[i]) * WIDER);
    must(a <= 0.9 && Math.max(...off) < 2 ** -24, "a norm may divide by next to nothing");
    const rest = 1 - a, p = ((mean(tau.map((v) => v * v)) + LAYER_NORM * (rho * a) ** 2) / (2 * rest * rest)) * WIDER, top = (rho / rest) * WIDER;
    // What float32 rounds: means within γ mean|x|, a variance by any formula within 4 γ mean x², so ρ within a share of it.
    const most = sizes.map((v, i) => v + r[i]), size = mean(most) * WIDER, squares = mean(most.map((v) => v * v)) * WIDER;
    const t = 4 * gamma(n + 8) * squares * top * top + 4 * U;
    must(t <= 0.5, "a norm divides by next to nothing");
    const share = (1 / Math.sqrt(1 - t) - 1) * (1 + 32 * U) + 32 * U;
    const noise = hat.map((_, i) => {
      const far = Math.abs(d[i]) + r[i] + mean(r) + off[i] / rho, own = Math.abs(w[i]) + LEAST;
      const inner = top * ((1 + share) * (gamma(n + 4) * size + gamma(8) * (most[i] + size)) + share * far) + (1 + top) * LEAST;
      const rounds = own * inner * (1 + 8 * U) + gamma(4) * (own * far * top + Math.abs(b[i]));
      return rounds * WIDER + own * (p * near[i] + (tau[i] * (a + p)) / rest) * WIDER + own * rho * unsure[i];
    });
    return named(made(hat.map((h, i) => h * w[i] + b[i]), along, noise, spread.map((v, i) => (Math.abs(w[i]) + LEAST) * v)));
  };
}

/** Σ_j softmax_j(q · k_j / √d + r_j) v_j in each of the heads, r of [head, tap]. */
export function attention(q, keys, values, r) {
  const [heads, taps] = r.shape, n = q.c.length, d = n / heads, C = keys.length, scale = 1 / Math.sqrt(d);
  const rq = radius(q), rk = keys.map(radius), rv = values.map(radius), ids = new Map([q, ...keys, ...values].flatMap(({ blocks }) => [...blocks]).map(([id, block]) => [id, block.length / n]));
  const c = zeros(n), noise = zeros(n), spread = zeros(n), blocks = new Map([...ids].map(([id, m]) => [id, zeros(n * m)])), byScore = zeros(n * heads * C);
  for (let h = 0; h < heads; h++) {
    const own = Array.from({ length: d }, (_, e) => h * d + e), over = (f) => scale * own.reduce((sum, e) => sum + f(e), 0);
    const scores = keys.map((k, j) => {
      const parts = new Map([...ids].map(([id, m]) => [id, zeros(m)]));
      for (const [x, y] of [[q, k], [k, q]]) for (const [id, block] of y.blocks) {
        const part = parts.get(id), m = part.length;
        for (const e of own) for (let s = 0; s < m; s++) part[s] += scale * x.c[e] * block[e * m + s];
      }
      const spread = over((e) => Math.abs(q.c[e]) * rk[j][e] + rq[e] * Math.abs(k.c[e])), bends = over((e) => rq[e] * rk[j][e]);
      const terms = over((e) => Math.abs(q.c[e] * k.c[e])) + spread + bends + Math.abs(r.data[h * taps + j]);
      const rest = over((e) => Math.abs(q.c[e]) * k.rest[e] + q.rest[e] * Math.abs(k.c[e])) + bends + SLACK * spread;
      return { c: over((e) => q.c[e] * k.c[e]) + r.data[h * taps + j], parts, rest, terms, spread };
    });
    const rounds = (gamma(d + 16) * Math.max(...scores.map(({ terms }) => terms)) + C * U + EXP) * WIDER;
    scores.forEach((s) => {
      s.rest = (s.rest + rounds) * WIDER;
      s.radius = (s.spread + s.rest) * WIDER;
    });
    // By how much differences of scores can move: those to the first, or twice that for two others.
    const [first, ...others] = scores, apart = others.map((s) => {
      let off = s.rest + first.rest + SLACK * (s.radius + first.radius);
      for (const [id, part] of s.parts) off += total(part.map((v, k) => Math.abs(v - first.parts.get(id)[k])));
      return off * WIDER;
    });
    const R = Math.max(0, ...apart) * (C === 2 ? 1 : 2);
    must(R <= 4, "a box is too wide for what is known of the softmax");
    // On the way w and 1 - w are at most e^R times what they are at c; w moves by w (1 - w) R, and off its tangent by half
    // of w R² max((1 - w)², min (1 - w)).
    const highest = Math.max(...scores.map((s) => s.c)), powers = scores.map((s) => Math.exp(s.c - highest)), rise = Math.exp(R) * WIDER;
    const w = powers.map((x) => x / total(powers)), left = w.map((x) => Math.min(1, (1 - x) * rise));
    const ways = w.map((x, j) => {
      const large = Math.min(1, x * rise), moved = large * left[j] * R * WIDER + 2 ** -40 * R;
      const bends = 0.5 * large * R * R * Math.max(left[j] ** 2, Math.min(...left)) * WIDER + 2 ** -40 * R * R;
      const most = Math.min(1, x + moved), rest = Math.min(1, 1 - x + moved + 2 ** -40);
      return { moved, bends, rounds: most * (rest * 2.1 * EXP + (C + 16) * U) * WIDER };
    });
    for (const e of own) {
      const y = w.reduce((sum, x, j) => sum + x * values[j].c[e], 0), sizes = values.reduce((sum, v) => sum + Math.abs(v.c[e]), 0);
      c[e] = y;
      noise[e] = gamma(2 * C + 8 + BOUNDED) * WIDER * values.reduce((sum, v, j) => sum + Math.abs(v.c[e]) + rv[j][e], 0);
      values.forEach((v, j) => {
        const way = v.c[e] - y, far = Math.abs(way) + 2 ** -24 * sizes, { moved, bends, rounds } = ways[j];
        noise[e] += rounds * (Math.abs(v.c[e]) + rv[j][e]) + moved * rv[j][e] + bends * far + w[j] * v.rest[e];
        byScore[e * heads * C + h * C + j] = w[j] * way * scores[j].rest;
        spread[e] += w[j] * (rv[j][e] + far * scores[j].radius);
        for (const [id, block] of blocks) {
          const m = ids.get(id), of = v.blocks.get(id), part = scores[j].parts.get(id);
          for (let s = 0; s < m; s++) block[e * m + s] += w[j] * ((of ? of[e * m + s] : 0) + way * part[s]);
        }
      });
    }
  }
  return made(c, blocks.set(symbols++, byScore), noise, spread);
}
