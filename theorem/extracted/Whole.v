(** What the extracted program computes with: OCaml's truth values, lists, pairs and options, and whole numbers of zarith.

    Coq's own translation to zarith is used. Some functions that go bit by bit are replaced by zarith's; beside each stands
    what it does. That they do it is believed, as zarith is. *)

From Coq Require Import ZArith Reals Extraction ExtrOcamlBasic ExtrOcamlZBigInt.
From Flocq Require Import Core.
From Interval Require Import Float.Specific_stdz.

(** An axiom of the real numbers, which only what is said of real numbers calls. *)
Extract Constant ClassicalDedekindReals.sig_forall_dec => "(fun _ -> assert false)".

(** 2 p + 1, 2 p and 1, and which of these a positive number is. *)
Extract Inductive positive => "Big_int_Z.big_int"
 [ "(fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))"
   "Big_int_Z.mult_int_big_int 2" "Big_int_Z.unit_big_int" ]
 "(fun odd even one p -> if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then one () else
   let half = Big_int_Z.shift_right_big_int p 1 in if Numbers.is_odd p then odd half else even half)".

(** x^y; 0 for y < 0. *)
Extract Constant Z.pow => "Numbers.power".

(** [Z.div_eucl], as [Zfast_div_eucl_correct] says: quotient and remainder, which has the sign of the divisor. *)
Extract Constant Zaux.Zfast_div_eucl => "Numbers.quotient_and_remainder".

(** m's number of bits, and k - 1; m 2^d, of d > 0. *)
Extract Constant StdZRadix2.digits_aux => "(fun m k -> Numbers.bits_and m k)".
Extract Constant StdZRadix2.mantissa_shl => "(fun m d -> Numbers.shifted m d)".

(** m / 2^d rounded down, and on which side of the middle what was cut off lies: nothing, less than half, half, more. What had
    been cut off before counts as a little. Where nothing of m is left, the answer is 1 and nothing was cut off. *)
Extract Constant StdZRadix2.mantissa_shr =>
 "(fun m d before -> match Numbers.cut m d with
   | None -> (Big_int_Z.unit_big_int, Pos_Eq)
   | Some (q, half, below) ->
       let exact = not below && (match before with Pos_Eq -> true | _ -> false) in
       (q, if half then (if exact then Pos_Mi else Pos_Up) else (if exact then Pos_Eq else Pos_Lo)))".
