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

(** What is under each gate: a bound, and one of the size of its terms. *)
Definition sums (n : network) (s : nat) (b : list (Z * Z)) : list ((Z * Z) * Z) :=
  map (fun pair => both (fst pair) (snd pair)) (combine (of_symbol n s) (of_box n b)).
Definition ranges (n : network) (s : nat) (l : list ((Z * Z) * Z)) : list I.type :=
  map (fun z => interval (2 * scale n) (computed (scale n) (count n s) z)) l.

Definition squashed (f : I.type -> I.type) (l : list I.type) : list I.type := map (fun x => around (f x) near_off) l.

Lemma gates_hold m n f f_of s b h ys :
  well_formed n m = true -> (s < symbols m)%nat -> (forall x y, holds x y -> holds (f_of x) (f y)) ->
  Forall2 (within (scale n)) b h -> length b = length (units n) -> Forall2 (gate f n s h) (units n) ys ->
  Forall2 holds (squashed f_of (ranges n s (sums n s b))) ys.
Proof.
  intros formed Hs Hf Hb Lb Hys. unfold squashed, ranges, sums, of_symbol, of_box.
  assert (K : Forall (fun v => In v (units n)) (units n)) by now apply Forall_forall.
  revert Hys K. generalize (units n) at 1 3 4 5 as vs.
  intros vs Hys. induction Hys as [|v y vs ys (z & Hz & Hy) _ IH]; intros K; simpl; [constructor|].
  inversion K as [|? ? Hv K']; subst. constructor; [|now apply IH].
  apply (near_holds _ f z); [|exact Hy]. apply Hf, interval_holds. now apply (terms_within n m formed s h b v Hs Hv).
Qed.

(** * Overflow *)

(** Terms that sum to 2^16 at most, and numbers of that size. Further out exp has numbers too long to compute with. *)
Definition calm (p : Z) (l : list ((Z * Z) * Z)) : bool := forallb (fun z => snd z <=? 2 ^ (2 * p + 16))%Z l.
Definition close (p : Z) (ends : Z * Z) : bool := (- 2 ^ (p + 16) <=? fst ends)%Z && (snd ends <=? 2 ^ (p + 16))%Z.

Lemma far_is p e : (0 <= p)%Z -> (0 <= e)%Z -> real p (2 ^ (p + e)) = bpow radix2 e.
Proof. intros. unfold real. rewrite power_of_two by lia. rewrite <- bpow_plus. f_equal. lia. Qed.

Lemma close_is_small p b x : (0 <= p)%Z -> close p b = true -> within p b x -> Rabs x <= bpow radix2 16.
Proof.
  unfold close. intros Hp [A B]%andb_prop [Hl Hh]. apply Z.leb_le, (real_le p) in A. apply Z.leb_le, (real_le p) in B.
  replace (real p (- 2 ^ (p + 16))) with (- real p (2 ^ (p + 16))) in A by (unfold real; rewrite opp_IZR; ring).
  rewrite far_is in A, B by lia. apply Rabs_le. lra.
Qed.

Lemma calm_is_small m n s b h v :
  well_formed n m = true -> calm (scale n) (sums n s b) = true -> Forall2 (within (scale n)) b h -> In v (units n) ->
  size (terms n s h v) <= bpow radix2 16.
Proof.
  intros formed quiet Hb Hv. destruct (formed_facts n m formed) as (Hp & _). unfold calm in quiet.
  rewrite forallb_forall in quiet.
  set (x := both (both (times (reads v) (map point (embedding n s)))
                       (both (constant (scale n) (bias v)) (constant (scale n) (other_bias v)))) (times (keeps v) b)).
  assert (K : In x (sums n s b)).
  { unfold sums, of_symbol, of_box. apply in_map_iff. eexists (_, _). split; [reflexivity|].
    clear -Hv. induction (units n) as [|w ws IH]; [easy|]. destruct Hv as [->|Hv]; simpl; auto. }
  specialize (quiet x K). apply Z.leb_le in quiet.
  eapply Rle_trans; [now apply (terms_size n m formed s h b)|]. fold x.
  rewrite <- (far_is (2 * scale n)) by lia. now apply real_le.
Qed.

Lemma calm_fits m n s b h v :
  well_formed n m = true -> (s < symbols m)%nat -> calm (scale n) (sums n s b) = true ->
  Forall2 (within (scale n)) b h -> length b = length (units n) -> In v (units n) -> fits (terms n s h v).
Proof.
  intros formed Hs quiet Hb Lb Hv. apply fits_where_small.
  - rewrite (terms_count n m formed); auto; [|now rewrite <- (same_length _ _ _ Hb)].
    destruct (formed_facts n m formed) as (_ & _ & _ & _ & Hsym). now destruct (Hsym s Hs).
  - eapply Rle_trans; [eapply calm_is_small; eassumption|]. apply bpow_le. lia.
Qed.

Lemma small_is_moderate e x : (e <= 40)%Z -> Rabs x <= bpow radix2 e -> moderate x.
Proof. intros He Hx. eapply Rle_trans; [exact Hx|]. now apply bpow_le. Qed.

Lemma near_is_small f x y : -1 <= f x <= 1 -> near f x y -> Rabs y <= 2.
Proof.
  unfold near. intros F N. assert (U : u = / 16777216) by reflexivity. rewrite U in N.
  apply Rabs_le_inv in N. apply Rabs_le. lra.
Qed.

Lemma tanh_is_small x : -1 <= tanh x <= 1.
Proof.
  rewrite tanh_by_exp. pose proof (exp_pos (2 * x)) as E.
  assert (0 < / (1 + exp (2 * x)) <= 1).
  { split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
  unfold Rdiv. lra.
Qed.

Lemma sigmoid_is_small x : -1 <= sigmoid x <= 1.
Proof.
  unfold sigmoid. pose proof (exp_pos (- x)) as E. split.
  - apply Rle_trans with 0; [lra|]. apply Rlt_le, Rinv_0_lt_compat. lra.
  - rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
Qed.

Lemma gates_are_small f n s h ys :
  (forall x, -1 <= f x <= 1) -> Forall2 (gate f n s h) (units n) ys -> Forall (fun y => Rabs y <= 2) ys.
Proof.
  intros F. induction 1 as [|v y vs ys (z & _ & Hy) _ IH]; constructor; [|exact IH]. now apply (near_is_small f z).
Qed.

Lemma two_is_moderate x : Rabs x <= 2 -> moderate x.
Proof. intros. apply (small_is_moderate 1); [lia|]. exact H. Qed.

Lemma both_hold (a b : bool) : (if a then b else false) = true -> a = true /\ b = true.
Proof. destruct a; [auto|discriminate]. Qed.

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
