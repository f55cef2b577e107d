// An RNN of one tanh layer in float32, as the zoo has it: h' = tanh(W x + b + U h + c), logits = V h + d.

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
  weights.size = tensors[NAMES.bias].shape[0];
  weights.width = tensors[NAMES.embedding].shape[1];
  weights.outputs = tensors[NAMES.headBias].shape[0];
  weights.symbols = tensors[NAMES.embedding].shape[0];
  return weights;
}

/** What W x + b + c is for every symbol: it does not change along a string. */
export function drives(w) {
  return Array.from({ length: w.symbols }, (_, s) => {
    const drive = new Float32Array(w.size);
    for (let i = 0; i < w.size; i++) {
      let sum = w.bias[i] + w.otherBias[i];
      for (let j = 0; j < w.width; j++) sum += w.reads[i * w.width + j] * w.embedding[s * w.width + j];
      drive[i] = sum;
    }
    return drive;
  });
}

/** The state after one more symbol. */
export function step(w, drive, h) {
  const next = new Float32Array(w.size);
  for (let i = 0; i < w.size; i++) {
    let sum = drive[i];
    const row = i * w.size;
    for (let j = 0; j < w.size; j++) sum += w.keeps[row + j] * h[j];
    next[i] = Math.tanh(sum);
  }
  return next;
}

export function logits(w, h) {
  return Float32Array.from({ length: w.outputs }, (_, o) => {
    let sum = w.headBias[o];
    for (let j = 0; j < w.size; j++) sum += w.head[o * w.size + j] * h[j];
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
  let h = new Float32Array(w.size);
  for (const symbol of word) h = step(w, drive[symbol], h);
  return largest(logits(w, h));
}
