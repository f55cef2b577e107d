(* The weights, the machine and the codes of a RegularGPT, as they stand in the files, and the conditions about them. *)

open Read
open Checked

let nat term =
  let rec of_int k = if k = 0 then O else S (of_int (k - 1)) in
  of_int (count term)

let rec int_of = function O -> 0 | S k -> 1 + int_of k
let row = pair (list whole) whole
let rows = list row
let norm = list (pair whole whole)

let weights term =
  let fields =
    record
      [ "unit_of_weights"; "chunk"; "heads"; "embedded"; "before_the_first"; "queries"; "keys"; "values"; "tap_biases"; "outs";
        "mixer_norm"; "ups"; "downs"; "feed_norm"; "choices"; "codebook"; "answering" ]
      term
  in
  let field name = List.assoc name fields in
  {
    unit_of_weights = whole (field "unit_of_weights");
    chunk = nat (field "chunk");
    heads = nat (field "heads");
    embedded = list (list whole) (field "embedded");
    before_the_first = option (list whole) (field "before_the_first");
    queries = rows (field "queries");
    keys = rows (field "keys");
    values = rows (field "values");
    tap_biases = list (list whole) (field "tap_biases");
    outs = rows (field "outs");
    mixer_norm = norm (field "mixer_norm");
    ups = rows (field "ups");
    downs = rows (field "downs");
    feed_norm = norm (field "feed_norm");
    choices = list rows (field "choices");
    codebook = list (list (list whole)) (field "codebook");
    answering = rows (field "answering");
  }

let machine term =
  let parts = made "Machine" 4 term in
  { start = nat parts.(0); symbols = nat parts.(1); delta = list (list nat) parts.(2); answers = list nat parts.(3) }

let name about =
  let several each = String.concat ", " (List.map (fun k -> string_of_int (int_of k)) each) in
  match about with
  | Form -> "the network's shape, or which states are heeded"
  | Head_on set -> Printf.sprintf "the head is right on code %d" (int_of set)
  | Node_of_symbols each -> Printf.sprintf "the node of symbols %s has a listed code" (several each)
  | Node_of_sets each -> Printf.sprintf "the node of codes %s has a listed code" (several each)

let conditions found =
  let get name = List.assoc name found in
  let codes = list (pair (list nat) (list nat)) (get "codes") in
  let asked, heeded = (list truth (get "asked"), list truth (get "heeded")) in
  gpt_conditions (whole (get "fineness")) (weights (get "weights")) (machine (get "claim")) asked heeded codes
  |> List.map (fun (about, holds) -> (name about, holds))

let () = Run.main conditions
