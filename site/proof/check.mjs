// A checker of proofs about small networks. It shares no code with the checkers in Python and Coq.

import { must } from "./bounds.mjs";
import { sha256 } from "./sha256.mjs";
import * as recurrence from "./recurrence.mjs";
import * as automaton from "./automaton.mjs";
import * as tree from "./tree.mjs";
import * as attention from "./attention.mjs";

const FAMILIES = { "recurrence-boxes": recurrence, cascade: automaton, "tree-codes": tree, "tree-boxes": tree, attention };

function bytesOf(tensor) {
  const text = atob(tensor.data), bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The weights of a proof, {name: {shape, data}}. */
export function decoded(proof) {
  return Object.fromEntries(Object.entries(proof.tensors).map(([name, tensor]) =>
    [name, { shape: tensor.shape, data: new Float32Array(bytesOf(tensor).buffer) }]));
}

/** The network of a proof, with these weights. */
export const opened = (proof, tensors = decoded(proof)) => FAMILIES[proof.kind].open(tensors, proof.config);

/**
 * Checks a proof condition by condition, telling of each; ends with {conditions, margin}, or throws Rejected.
 *
 * Weights that were changed on purpose (`changed`) are another network than the certificate's: their digests are not asked for.
 */
export function* check(proof, tensors = decoded(proof), changed = false) {
  must(Object.keys(tensors).length === Object.keys(proof.digests).length, "there are other weights than the certificate names");
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    const head = new TextEncoder().encode(`float32 [${shape.join(", ")}]\n`), bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    must(changed || sha256([...head, ...bytes]) === proof.digests[name], `the weight ${name} is not the one the proof is about`);
  }
  const told = changed ? "a weight was changed: this is another network than the certificate's" : `${Object.keys(tensors).length} tensors have the digests of the certificate`;
  yield { kind: "weights", text: told };
  return yield* FAMILIES[proof.kind].check(proof, opened(proof, tensors));
}

export const largest = (x) => x.reduce((best, value, i) => (value > x[best] ? i : best), 0);

/** By how much the logit of this answer is ahead of every other. */
export function ahead(x, answer) {
  let others = -Infinity;
  x.forEach((value, i) => { if (i !== answer) others = Math.max(others, value); });
  return x[answer] - others;
}

/** The logits after a string. */
export function logitsAfter(network, word) {
  let state = network.first();
  for (const symbol of word) state = network.step(state, symbol);
  return network.logits(state);
}

/** What the network answers after a string. */
export const answer = (network, word) => largest(logitsAfter(network, word));
