(** Bounds of tanh, computed: tanh x = 1 - 2 / (1 + exp 2x), on intervals whose operations are proved correct. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Float.Basic Float.Generic_proof Float.Specific_ops Float.Specific_stdz
  Interval.Interval Interval.Float Interval.Float_full Real.Xreal.
From Lengthwise Require Import Rounding Dyadic.
From Lengthwise Require Export Intervals.
Local Open Scope R_scope.

Definition tanh_of (x : I.type) : I.type :=
  let one := I.fromZ digits 1 in
  let two := I.fromZ digits 2 in
  I.sub digits one (I.div digits two (I.add digits one (I.exp digits (I.mul digits two x)))).

Lemma tanh_by_exp x : tanh x = 1 - 2 / (1 + exp (2 * x)).
Proof.
  unfold tanh, sinh, cosh. replace (2 * x) with (x + x) by ring. rewrite exp_plus, exp_Ropp.
  pose proof (exp_pos x). field. nra.
Qed.

Lemma tanh_of_correct xi x : contains (I.convert xi) (Xreal x) -> contains (I.convert (tanh_of xi)) (Xreal (tanh x)).
Proof.
  intros inside. rewrite tanh_by_exp.
  replace (Xreal (1 - 2 / (1 + exp (2 * x))))
    with (Xsub (Xreal 1) (Xdiv (Xreal 2) (Xadd (Xreal 1) (Xexp (Xmul (Xreal 2) (Xreal x)))))).
  - apply I.sub_correct; [apply I.fromZ_correct|].
    apply I.div_correct; [apply I.fromZ_correct|].
    apply I.add_correct; [apply I.fromZ_correct|].
    apply I.exp_correct, I.mul_correct; [apply I.fromZ_correct|assumption].
  - simpl. unfold Xdiv'. pose proof (exp_pos (2 * x)). rewrite is_zero_false by lra. reflexivity.
Qed.

(** How far a computed tanh may be from the function: 32 u, which nobody guarantees and everybody keeps. *)
Definition near_tanh (x y : R) : Prop := Rabs (y - tanh x) <= 32 * u.

(** Whether a computed tanh of what lies in [drive] lies in [box]; of an empty [drive], always. *)
Definition leads (p : Z) (drive box : Z * Z) : bool :=
  let off := (2 ^ (p - 19))%Z in
  (snd drive <? fst drive)%Z || (19 <=? p)%Z && I.subset (tanh_of (interval p drive)) (interval p (fst box + off, snd box - off)%Z).

Lemma leads_correct p drive box x y :
  leads p drive box = true -> within p drive x -> near_tanh x y -> within p box y.
Proof.
  unfold leads. intros [empty|[Hp inside]%andb_prop]%orb_prop Hx Hy.
  { apply Z.ltb_lt, (real_lt p) in empty. unfold within in Hx. lra. }
  apply Z.leb_le in Hp.
  assert (T : within p (fst box + 2 ^ (p - 19), snd box - 2 ^ (p - 19))%Z (tanh x)).
  { apply interval_holds. apply (I.subset_correct (tanh_of (interval p drive))); [|exact inside].
    now apply tanh_of_correct, interval_holds. }
  assert (E : real p (2 ^ (p - 19)) = 32 * u).
  { unfold real. rewrite power_of_two by lia. rewrite <- bpow_plus.
    replace (p - 19 + - p)%Z with (-19)%Z by lia. unfold u. simpl. lra. }
  revert T. unfold within. simpl. rewrite real_plus, real_minus, E. unfold near_tanh in Hy.
  apply Rabs_le_inv in Hy. lra.
Qed.
