// An RNN, GRU or LSTM of one layer in float32, as the zoo has it; which one it is its number of gates says.
//
//   rnn   h' = tanh(W x + b + U h + b')
//   gru   r, z = σ(…), n = tanh(W x + b + r (U h + b')), h' = n + z (h - n)
//   lstm  i, f, o = σ(…), g = tanh(…), c' = f c + i g, h' = o tanh(c')
//   all   logits = V h + d

const CELL = "depth.layers.0.mixer.cell";
export const NAMES = {
  embedding: "embedding.weight",
  reads: `${CELL}.weight_ih_l0`,
  keeps: `${CELL}.weight_hh_l0`,
  bias: `${CELL}.bias_ih_l0`,
  otherBias: `${CELL}.bias_hh_l0`,
  head: "head.weight",
  headBias: "head.bias",
};

/** Weights by short name, of tensors {shape, data: base64 of float32}. */
export function decoded(tensors) {
  const weights = {};
  for (const [short, name] of Object.entries(NAMES)) {
    const bytes = Uint8Array.from(atob(tensors[name].data), (c) => c.charCodeAt(0));
    weights[short] = new Float32Array(bytes.buffer);
  }
  weights.hidden = tensors[NAMES.keeps].shape[1];
  weights.gates = tensors[NAMES.keeps].shape[0] / weights.hidden;
  weights.size = weights.hidden * (weights.gates === 4 ? 2 : 1);
  weights.width = tensors[NAMES.embedding].shape[1];
  weights.outputs = tensors[NAMES.headBias].shape[0];
  weights.symbols = tensors[NAMES.embedding].shape[0];
  return weights;
}

/** What W x + b is for every symbol: it does not change along a string. */
export function drives(w) {
  return Array.from({ length: w.symbols }, (_, s) => {
    const drive = new Float64Array(w.bias.length);
    for (let i = 0; i < drive.length; i++) {
      let sum = w.bias[i];
      for (let j = 0; j < w.width; j++) sum += w.reads[i * w.width + j] * w.embedding[s * w.width + j];
      drive[i] = sum;
    }
    return drive;
  });
}

export const first = (w) => new Float32Array(w.size);
const logistic = (x) => (1 + Math.tanh(x / 2)) / 2;

/** The state after one more symbol: h, and then c of an LSTM. */
export function step(w, drive, state) {
  const D = w.hidden, next = new Float32Array(w.size), kept = new Float64Array(drive.length);
  for (let i = 0; i < kept.length; i++) {
    let sum = w.otherBias[i];
    for (let j = 0; j < D; j++) sum += w.keeps[i * D + j] * state[j];
    kept[i] = sum;
  }
  for (let i = 0; i < D; i++) {
    const gate = (k) => drive[k * D + i] + kept[k * D + i];
    if (w.gates === 1) next[i] = Math.tanh(gate(0));
    else if (w.gates === 3) {
      const z = logistic(gate(1)), n = Math.tanh(drive[2 * D + i] + logistic(gate(0)) * kept[2 * D + i]);
      next[i] = n + z * (state[i] - n);
    } else {
      const c = logistic(gate(1)) * state[D + i] + logistic(gate(0)) * Math.tanh(gate(2));
      next[i] = logistic(gate(3)) * Math.tanh(c);
      next[D + i] = c;
    }
  }
  return next;
}

export function logits(w, h) {
  return Float32Array.from({ length: w.outputs }, (_, o) => {
    let sum = w.headBias[o];
    for (let j = 0; j < w.hidden; j++) sum += w.head[o * w.hidden + j] * h[j];
    return sum;
  });
}

export const largest = (x) => x.reduce((best, value, i) => (value > x[best] ? i : best), 0);

/** By how much the logit of this answer is ahead of every other. */
export function ahead(x, answer) {
  let others = -Infinity;
  x.forEach((value, i) => { if (i !== answer) others = Math.max(others, value); });
  return x[answer] - others;
}

/** What the network answers after a string. */
export function answer(w, word) {
  const drive = drives(w);
  let h = first(w);
  for (const symbol of word) h = step(w, drive[symbol], h);
  return largest(logits(w, h));
}
