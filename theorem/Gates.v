(** Gates: sigmoid or tanh of a sum over a symbol and a state, off by at most 32 u; and their bounds over a box. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Float.Specific_ops Interval.Interval Interval.Float_full Real.Xreal.
From Lengthwise Require Import Words Rounding Dyadic Tanh.
From Lengthwise Require Export Recurrence.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

Definition sigmoid (x : R) : R := / (1 + exp (- x)).
Definition near (f : R -> R) (x y : R) : Prop := Rabs (y - f x) <= 32 * u.
Definition gate_in (allows : R -> R -> Prop) (f : R -> R) (n : network) (s : nat) (h : list R) (v : unit) (y : R) : Prop :=
  exists z, sum_in allows (terms n s h v) z /\ near f z y.
Definition gate := gate_in rounded.

Lemma binary32_rounded x y : is_binary32 x y -> rounded x y.
Proof. intros ->. apply binary32_is_rounded. Qed.

Lemma binary32_gates f n s h vs ys :
  Forall2 (gate_in is_binary32 f n s h) vs ys -> Forall2 (gate f n s h) vs ys.
Proof. apply weaker. intros v y (z & Hz & Hy). exists z. split; [now apply binary32_sum|exact Hy]. Qed.

Lemma binary32_affine p rows x y : affine_in is_binary32 p rows x y -> affine p rows x y.
Proof. apply weaker. intros row z. apply binary32_sum. Qed.

(** * Bounds *)

Definition sigmoid_of (x : I.type) : I.type :=
  I.inv digits (plus (I.fromZ digits 1) (I.exp digits (I.neg x))).

Lemma sigmoid_holds a x : contains (I.convert a) (Xreal x) -> contains (I.convert (sigmoid_of a)) (Xreal (sigmoid x)).
Proof.
  intros Ha. unfold sigmoid_of, sigmoid. pose proof (exp_pos (- x)).
  replace (Xreal (/ (1 + exp (- x)))) with (Xinv (Xadd (Xreal 1) (Xexp (Xneg (Xreal x))))).
  - apply I.inv_correct, I.add_correct; [apply I.fromZ_correct|]. now apply I.exp_correct, I.neg_correct.
  - simpl. unfold Xinv'. rewrite is_zero_false by lra. reflexivity.
Qed.

Lemma near_holds a f x y :
  contains (I.convert a) (Xreal (f x)) -> near f x y -> contains (I.convert (around a near_off)) (Xreal y).
Proof.
  intros Ha Hy. apply (around_holds _ _ (f x) _ (32 * u)); auto.
  replace (32 * u) with (real 19 1); [apply spot_holds|]. unfold real, u. simpl. lra.
Qed.

Definition ranges (n : network) (s : nat) (x kept : list ((Z * Z) * Z)) : list I.type :=
  map (fun pair => interval (2 * scale n) (computed (scale n) (count n s) (both (fst pair) (snd pair)))) (combine x kept).
Definition squashed (f : I.type -> I.type) (l : list I.type) : list I.type := map (fun x => around (f x) near_off) l.

Lemma gates_hold m n f f_of s b h ys :
  well_formed n m = true -> (s < symbols m)%nat -> (forall x y, holds x y -> holds (f_of x) (f y)) ->
  Forall2 (within (scale n)) b h -> length b = length (units n) -> Forall2 (gate f n s h) (units n) ys ->
  Forall2 holds (squashed f_of (ranges n s (of_symbol n s) (of_box n b))) ys.
Proof.
  intros formed Hs Hf Hb Lb Hys. unfold squashed, ranges, of_symbol, of_box.
  assert (K : Forall (fun v => In v (units n)) (units n)) by now apply Forall_forall.
  revert Hys K. generalize (units n) at 1 3 4 5 as vs.
  intros vs Hys. induction Hys as [|v y vs ys (z & Hz & Hy) _ IH]; intros K; simpl; [constructor|].
  inversion K as [|? ? Hv K']; subst. constructor; [|now apply IH].
  apply (near_holds _ f z); [|exact Hy]. apply Hf, interval_holds. now apply (terms_within n m formed s h b v Hs Hv).
Qed.

(** * Something is allowed *)

Definition exact_gate (f : R -> R) (n : network) (s : nat) (h : list R) : list R :=
  map (fun v => f (exact (terms n s h v))) (units n).
Lemma exactly_near f x : near f x (f x).
Proof. unfold near. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. pose proof u_positive. lra. Qed.

Lemma exact_gate_is_allowed f n s h : Forall2 (gate f n s h) (units n) (exact_gate f n s h).
Proof.
  unfold exact_gate. induction (units n) as [|v vs IH]; simpl; constructor; [|exact IH].
  exists (exact (terms n s h v)). split; [|apply exactly_near]. apply every_list_has_a_sum. unfold terms.
  intros none. apply app_eq_nil in none as [_ none]. now apply app_eq_nil in none as [_ none].
Qed.
