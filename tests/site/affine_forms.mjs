// By how much what operations make of the corners of boxes lies outside their affine forms, and how wide these are in radii.

import * as affine from "../../site/proof/affine.mjs";
let seed = 1;
const random = () => ((seed = (seed * 48271) % 2147483647) / 2147483647) * 2 - 1, n = 6;
const vector = (size, by = 1) => Float32Array.from({ length: size }, () => by * random());
const weight = (rows) => ({ shape: [rows, n], data: vector(rows * n, 0.7) }), bias = { data: vector(n) }, scale = { data: vector(n) };
const erf = (x) => { let sum = 0; for (let i = 0; i < 2000; i++) sum += Math.exp(-((((i + 0.5) * x) / 2000) ** 2)); return (sum * x * 2) / 2000 / Math.sqrt(Math.PI); };
const mean = (x) => x.reduce((a, b) => a + b) / n;
const plain = {
  linear: (x, W) => Array.from({ length: n }, (_, i) => x.reduce((sum, v, j) => sum + W.data[i * n + j] * v, bias.data[i])),
  gelu: (x) => x.map((v) => (v * (1 + erf(v / Math.SQRT2))) / 2),
  relu: (x) => x.map((v) => Math.max(0, v)),
  norm(x) {
    const d = x.map((v) => v - mean(x)), rho = 1 / Math.sqrt(mean(d.map((v) => v * v)) + 1e-5);
    return d.map((v, i) => v * rho * scale.data[i] + bias.data[i]);
  },
  attention(q, keys, values, r) {
    return q.map((_, i) => {
      const h = i < 3 ? 0 : 3, w = keys.map((k, j) => Math.exp((q[h] * k[h] + q[h + 1] * k[h + 1] + q[h + 2] * k[h + 2]) / Math.sqrt(3) + r.data[(h / 3) * 2 + j]));
      return values.reduce((sum, v, j) => sum + w[j] * v[i], 0) / (w[0] + w[1]);
    });
  },
};
const worst = {};
for (const radius of [1e-3, 0.01, 0.05, 0.1]) for (let round = 0; round < 20; round++) {
  const W = weight(n), Q = weight(n), K = weight(n), r = { shape: [2, 2], data: vector(4) };
  const centres = [vector(n, 1.5), vector(n, 1.5)], boxes = centres.map((c) => affine.box(c, vector(n).map(() => radius)));
  const [x, y] = boxes, seen = (M, v) => affine.linear(M, bias)(v);
  const forms = {
    linear: seen(W, affine.plus(x, y)), relu: affine.relu(seen(W, x)), gelu: affine.gelu(seen(W, x)), norm: affine.norm(scale, bias)(x),
    attention: affine.attention(seen(Q, x), [seen(K, x), seen(K, y)], [seen(W, x), seen(W, y)], r),
  };
  const values = ([a, b]) => ({
    linear: plain.linear(a.map((v, i) => v + b[i]), W), relu: plain.relu(plain.linear(a, W)), gelu: plain.gelu(plain.linear(a, W)), norm: plain.norm(a),
    attention: plain.attention(plain.linear(a, Q), [plain.linear(a, K), plain.linear(b, K)], [plain.linear(a, W), plain.linear(b, W)], r),
  });
  // The corners at which a number is about greatest and least, by its slopes in the middle.
  const middle = centres.map((c) => Array.from(c)), at = values(middle), nudged = [];
  for (let t = 0; t < 2; t++) for (let j = 0; j < n; j++) nudged.push(values(middle.map((c, k) => c.map((v, l) => (k === t && l === j ? v + 1e-6 : v)))));
  for (const name in forms) affine.enclosed(forms[name]).forEach(([low, high], i) => {
    worst[name] ??= [-Infinity, -Infinity];
    worst[name][1] = Math.max(worst[name][1], (high - low) / radius);
    for (const way of [1, -1]) {
      const value = values(middle.map((c, t) => c.map((v, j) => v + way * radius * (nudged[t * n + j][name][i] >= at[name][i] ? 1 : -1))))[name][i];
      worst[name][0] = Math.max(worst[name][0], low - value, value - high);
    }
  });
}
// What only a product of two boxes moves, for slopes are 0 in the middle: queries and keys around 0, and values that cancel there.
const signed = (sign) => affine.linear({ shape: [n, n], data: Float32Array.from({ length: n * n }, (_, k) => (k % (n + 1) ? 0 : sign)) });
const all = (v) => Array(n).fill(v), alike = { shape: [2, 2], data: new Float32Array(4) }, both = (x) => [signed(1)(x), signed(-1)(x)];
for (const radius of [0.1, 0.3]) {
  const around0 = () => affine.box(all(0), all(radius)), ends = [all(radius), all(-radius)], ones = [all(1), all(-1)];
  const crossed = {
    scores: [affine.attention(around0(), both(around0()), ones.map(affine.point), alike), plain.attention(ends[0], ends, ones, alike)],
    values: [affine.attention(affine.point(all(1)), both(around0()), both(around0()), alike), plain.attention(all(1), ends, ends, alike)],
  };
  for (const name in crossed) affine.enclosed(crossed[name][0]).forEach(([low, high], i) => {
    const value = crossed[name][1][i], [outside, wide] = (worst[name] ??= [-Infinity, -Infinity]);
    worst[name] = [Math.max(outside, low - value, value - high), Math.max(wide, (high - low) / radius)];
  });
}
const erfs = [0, 1e-9, -0.3, 0.7, 1.5, -2.5, 4, 5.9, 6.1, 40].map((x) => [x, affine.erf(x)]);
console.log(JSON.stringify({ worst, erfs }));
