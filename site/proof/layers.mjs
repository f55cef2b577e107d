// What networks compute on their way, in double precision: maps, norms, activations, and what attention heads read.

import { erf } from "./affine.mjs";
import { LAYER_NORM } from "./bounds.mjs";

export const ACTIVATIONS = { relu: (x) => Math.max(0, x), gelu: (x) => (x * (1 + erf(x / Math.SQRT2))) / 2 };

/** W x + b; a bias may be missing. Four sums go side by side, so that none waits for the one before. */
export function apply([matrix, bias], x) {
  const { data, shape: [count, n] } = matrix, y = new Float64Array(count), fours = n - (n % 4);
  for (let i = 0, at = 0; i < count; i++) {
    let a = bias ? bias.data[i] : 0, b = 0, c = 0, d = 0, j = 0;
    for (; j < fours; j += 4, at += 4) {
      a += data[at] * x[j];
      b += data[at + 1] * x[j + 1];
      c += data[at + 2] * x[j + 2];
      d += data[at + 3] * x[j + 3];
    }
    for (; j < n; j++, at++) a += data[at] * x[j];
    y[i] = a + b + (c + d);
  }
  return y;
}

export function added(x, y) {
  const sum = new Float64Array(x.length);
  for (let i = 0; i < sum.length; i++) sum[i] = x[i] + y[i];
  return sum;
}

/** The norm of a layer: (x - μ) ρ w + b, ρ = 1 / √(σ² + ε). */
export function normed([weight, bias], x) {
  const n = x.length, y = new Float64Array(n);
  let mean = 0, square = 0;
  for (let i = 0; i < n; i++) mean += x[i] / n;
  for (let i = 0; i < n; i++) square += (x[i] - mean) ** 2 / n;
  const rho = 1 / Math.sqrt(square + LAYER_NORM);
  for (let i = 0; i < n; i++) y[i] = (x[i] - mean) * rho * weight.data[i] + bias.data[i];
  return y;
}

/** Σ_s softmax_s(q · k_s / √d + bias(h, s)) v_s in each head h. */
export function attend(q, keys, values, heads, bias = () => 0) {
  const d = q.length / heads, scale = 1 / Math.sqrt(d), shares = new Float64Array(keys.length), y = new Float64Array(q.length);
  for (let h = 0; h < heads; h++) {
    let top = -Infinity, total = 0;
    for (let s = 0; s < keys.length; s++) {
      const k = keys[s];
      let score = 0;
      for (let e = h * d; e < (h + 1) * d; e++) score += q[e] * k[e];
      shares[s] = score * scale + bias(h, s);
      top = Math.max(top, shares[s]);
    }
    for (let s = 0; s < keys.length; s++) total += shares[s] = Math.exp(shares[s] - top);
    for (let s = 0; s < keys.length; s++) {
      const v = values[s], share = shares[s] / total;
      for (let e = h * d; e < (h + 1) * d; e++) y[e] += share * v[e];
    }
  }
  return y;
}
