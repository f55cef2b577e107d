(** What arithmetic a network may be evaluated in.

    An operation is [rounded] if it is off by at most u of its exact result, and by 2^-100 where that is tiny. Rounding
    to nearest in binary32 is (proved here, from Flocq), with gradual underflow or with results flushed to zero.

    A sum of products may be taken in any order, in parts, with or without fused multiply-adds: [sum]. However it is
    taken, it is off by at most γ_n Σ|a b|, and a little for underflow: [sum_error]. *)

From Coq Require Import Reals List Permutation Lra Lia Psatz.
From Flocq Require Import Core Relative.
Import ListNotations.
Local Open Scope R_scope.

Definition u : R := bpow radix2 (-24).
Definition tiny : R := bpow radix2 (-100).

Lemma u_positive : 0 < u. Proof. apply bpow_gt_0. Qed.
Lemma tiny_positive : 0 < tiny. Proof. apply bpow_gt_0. Qed.

Lemma abs_sum a b c : Rabs (a - c) <= Rabs (a - b) + Rabs (b - c).
Proof. replace (a - c) with ((a - b) + (b - c)) by ring. apply Rabs_triang. Qed.

(** [y] is a result that the arithmetic allows where [x] is exact. *)
Definition rounded (x y : R) : Prop := Rabs (y - x) <= u * Rabs x + tiny.

Definition binary32 : R -> R := round radix2 (FLT_exp (-149) 24) ZnearestE.

Theorem binary32_is_rounded x : rounded x (binary32 x).
Proof.
  destruct (error_N_FLT radix2 (-149) 24 eq_refl (fun x => negb (Z.even x)) x) as (e & d & He & Hd & _ & Hr).
  unfold rounded. change (binary32 x) with (round radix2 (FLT_exp (-149) 24) (Znearest (fun n => negb (Z.even n))) x).
  rewrite Hr.
  replace (x * (1 + e) + d - x) with (e * x + d) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
  apply Rplus_le_compat.
  - apply Rmult_le_compat_r; [apply Rabs_pos|]. eapply Rle_trans; [exact He|].
    unfold u. simpl. lra.
  - eapply Rle_trans; [exact Hd|]. unfold tiny.
    pose proof (bpow_gt_0 radix2 (-149)). pose proof (bpow_le radix2 (-149) (-100) ltac:(lia)). lra.
Qed.

(** An exact result is one of those allowed. *)
Lemma exact_is_rounded x : rounded x x.
Proof.
  unfold rounded. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity.
  pose proof u_positive. pose proof tiny_positive. pose proof (Rabs_pos x). nra.
Qed.

(** The results for a sum of products where [allows x y] says that the operation whose exact result is x may give y. *)
Inductive sum_in (allows : R -> R -> Prop) : list (R * R) -> R -> Prop :=
| product a b y : allows (a * b) y -> sum_in allows [(a, b)] y
| fused a b l x y : sum_in allows l x -> allows (x + a * b) y -> sum_in allows ((a, b) :: l) y
| joined l l' x x' y : sum_in allows l x -> sum_in allows l' x' -> allows (x + x') y -> sum_in allows (l ++ l') y
| reordered l l' y : Permutation l l' -> sum_in allows l y -> sum_in allows l' y.

Definition sum : list (R * R) -> R -> Prop := sum_in rounded.

(** The arithmetic of binary32 itself: rounding to nearest, ties to even. *)
Definition is_binary32 (x y : R) : Prop := y = binary32 x.

Lemma binary32_sum l y : sum_in is_binary32 l y -> sum l y.
Proof.
  induction 1 as [a b y ->|a b l x y _ IH ->|l l' x x' y _ IH _ IH' ->|l l' y same _ IH].
  - apply product, binary32_is_rounded.
  - apply (fused _ a b l x); auto using binary32_is_rounded.
  - apply (joined _ l l' x x'); auto using binary32_is_rounded.
  - now apply (reordered _ l).
Qed.

(** Σ a b, and Σ |a b|. *)
Definition exact (l : list (R * R)) : R := fold_right (fun p s => fst p * snd p + s) 0 l.
Definition size (l : list (R * R)) : R := fold_right (fun p s => Rabs (fst p * snd p) + s) 0 l.

Lemma exact_app l l' : exact (l ++ l') = exact l + exact l'.
Proof. induction l as [|p l IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma size_app l l' : size (l ++ l') = size l + size l'.
Proof. induction l as [|p l IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma exact_reordered l l' : Permutation l l' -> exact l = exact l'.
Proof. induction 1; simpl; lra. Qed.

Lemma size_reordered l l' : Permutation l l' -> size l = size l'.
Proof. induction 1; simpl; lra. Qed.

Lemma size_positive l : 0 <= size l.
Proof. induction l as [|p l IH]; simpl; [lra|]. pose proof (Rabs_pos (fst p * snd p)). lra. Qed.

Lemma exact_within_size l : Rabs (exact l) <= size l.
Proof.
  induction l as [|p l IH]; simpl; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma every_list_has_a_sum l : l <> [] -> sum l (exact l).
Proof.
  induction l as [|[a b] l IH]; [easy|]. intros _. destruct l as [|p l].
  - simpl. apply product. rewrite Rplus_0_r. apply exact_is_rounded.
  - apply (fused _ a b (p :: l) (exact (p :: l))); [now apply IH|].
    replace (exact ((a, b) :: p :: l)) with (exact (p :: l) + a * b) by (simpl; ring). apply exact_is_rounded.
Qed.

Lemma sum_not_empty l y : sum l y -> (1 <= length l)%nat.
Proof.
  induction 1 as [| | |l l' y same _ IH]; simpl; try lia.
  - rewrite app_length. lia.
  - now rewrite <- (Permutation_length same).
Qed.

Definition growth (n : nat) : R := (1 + u) ^ n.

Lemma growth_least n : 1 <= growth n.
Proof. apply pow_R1_Rle. pose proof u_positive. lra. Qed.

Lemma growth_grows n m : (n <= m)%nat -> growth n <= growth m.
Proof. intros. apply Rle_pow; [|assumption]. pose proof u_positive. lra. Qed.

Lemma growth_next n : growth (S n) = (1 + u) * growth n.
Proof. reflexivity. Qed.

(** What a sum of n products, of absolute values that sum to A, may be off by. *)
Definition off (n : nat) (A : R) : R := (growth n - 1) * A + (2 * INR n - 1) * tiny * growth n.

Lemma off_of_two n m A B s t x y z :
  (1 <= n)%nat -> (1 <= m)%nat -> Rabs s <= A -> Rabs t <= B ->
  Rabs (x - s) <= off n A -> Rabs (y - t) <= off m B -> rounded (x + y) z ->
  Rabs (z - (s + t)) <= off (n + m) (A + B).
Proof.
  intros Hn Hm Hs Ht Hx Hy Hz. unfold rounded in Hz.
  set (k := (n + m - 1)%nat). replace (n + m)%nat with (S k) by lia.
  pose proof u_positive as Hu. pose proof tiny_positive as Htiny.
  pose proof (growth_grows n k ltac:(lia)) as Gn. pose proof (growth_grows m k ltac:(lia)) as Gm.
  pose proof (growth_least k) as Gk.
  assert (Hin : 1 <= INR n) by (apply (le_INR 1); lia). assert (Him : 1 <= INR m) by (apply (le_INR 1); lia).
  assert (Hk : INR (S k) = INR n + INR m) by (rewrite <- plus_INR; f_equal; lia).
  assert (HA : 0 <= A) by (pose proof (Rabs_pos s); lra). assert (HB : 0 <= B) by (pose proof (Rabs_pos t); lra).
  assert (Ox : off n A <= (growth k - 1) * A + (2 * INR n - 1) * tiny * growth k).
  { unfold off. apply Rplus_le_compat; [nra|]. apply Rmult_le_compat_l; [nra|assumption]. }
  assert (Oy : off m B <= (growth k - 1) * B + (2 * INR m - 1) * tiny * growth k).
  { unfold off. apply Rplus_le_compat; [nra|]. apply Rmult_le_compat_l; [nra|assumption]. }
  unfold off. rewrite growth_next, Hk.
  set (E := (growth k - 1) * (A + B) + (2 * (INR n + INR m) - 2) * tiny * growth k).
  assert (HE : Rabs ((x + y) - (s + t)) <= E).
  { replace (x + y - (s + t)) with ((x - s) + (y - t)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. unfold E. lra. }
  assert (Hxy : Rabs (x + y) <= A + B + E).
  { replace (x + y) with ((s + t) + ((x + y) - (s + t))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang s t). lra. }
  replace (z - (s + t)) with ((z - (x + y)) + ((x + y) - (s + t))) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  assert (u * Rabs (x + y) <= u * (A + B + E)) by (apply Rmult_le_compat_l; lra).
  apply Rle_trans with ((1 + u) * E + u * (A + B) + tiny); [lra|]. unfold E.
  assert (tiny <= tiny * ((1 + u) * growth k)).
  { rewrite <- (Rmult_1_r tiny) at 1. apply Rmult_le_compat_l; [lra|]. nra. }
  lra.
Qed.

Lemma off_of_none x : Rabs (x - x) <= 0.
Proof. rewrite Rminus_diag_eq, Rabs_R0; lra. Qed.

Theorem sum_error l y : sum l y -> Rabs (y - exact l) <= off (length l) (size l).
Proof.
  induction 1 as [a b y Hy|a b l x y Hl IH Hy|l l' x x' y Hl IH Hl' IH' Hy|l l' y same Hl IH].
  - unfold rounded in Hy. unfold off, growth. simpl. rewrite !Rplus_0_r.
    pose proof u_positive. pose proof tiny_positive. pose proof (Rabs_pos (a * b)). nra.
  - pose proof (sum_not_empty _ _ Hl).
    replace (length ((a, b) :: l)) with (length l + 1)%nat by (simpl; lia).
    replace (exact ((a, b) :: l)) with (exact l + a * b) by (simpl; ring).
    replace (size ((a, b) :: l)) with (size l + Rabs (a * b)) by (simpl; ring).
    apply off_of_two with x (a * b); auto using exact_within_size, Rle_refl.
    rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. unfold off, growth. simpl.
    pose proof u_positive. pose proof tiny_positive. pose proof (Rabs_pos (a * b)). nra.
  - rewrite exact_app, size_app, app_length.
    apply off_of_two with x x'; eauto using exact_within_size, sum_not_empty.
  - now rewrite <- (exact_reordered _ _ same), <- (size_reordered _ _ same), <- (Permutation_length same).
Qed.

(** γ_n = n u / (1 - n u), as it is usually written. *)
Lemma growth_at_most n : INR n * u < 1 -> growth n <= / (1 - INR n * u).
Proof.
  intros small. apply Rmult_le_reg_r with (1 - INR n * u); [lra|]. rewrite Rinv_l by lra. clear small.
  pose proof u_positive as Hu. pose proof (pos_INR n) as _.
  induction n as [|n IH]; [unfold growth; simpl; lra|].
  rewrite growth_next, S_INR. pose proof (growth_least n). pose proof (pos_INR n).
  apply Rle_trans with (growth n * (1 - INR n * u)); [|assumption].
  replace ((1 + u) * growth n * (1 - (INR n + 1) * u))
    with (growth n * ((1 + u) * (1 - (INR n + 1) * u))) by ring.
  apply Rmult_le_compat_l; [lra|]. nra.
Qed.

(** A bound that is read off at once: up to 4,000 products are off by at most (n + 1) u Σ|a b|. *)
Theorem off_at_most n A : (n <= 4000)%nat -> 0 <= A -> off n A <= (INR n + 1) * u * A + 4 * INR n * tiny.
Proof.
  intros Hn HA. assert (Hi : INR n <= 4000) by (apply le_INR in Hn; rewrite (INR_IZR_INZ 4000) in Hn; exact Hn).
  pose proof (pos_INR n) as H0. pose proof u_positive as Hu. pose proof tiny_positive as Ht.
  assert (U : u = / 16777216) by reflexivity.
  assert (small : INR n * u <= / 4000) by (rewrite U; lra).
  pose proof (growth_at_most n ltac:(lra)) as G.
  assert (Hg : growth n <= 1 + (INR n + 1) * u).
  { eapply Rle_trans; [exact G|]. apply Rmult_le_reg_r with (1 - INR n * u); [lra|]. rewrite Rinv_l by lra.
    rewrite U. nra. }
  unfold off. apply Rplus_le_compat.
  - apply Rmult_le_compat_r; lra.
  - assert (growth n <= 2) by (rewrite U in Hg; lra). pose proof (growth_least n).
    assert (0 <= INR n * tiny) by (apply Rmult_le_pos; lra).
    apply Rle_trans with (2 * INR n * tiny * growth n); [apply Rmult_le_compat_r; lra|].
    apply Rle_trans with (2 * INR n * tiny * 2); [apply Rmult_le_compat_l; lra|lra].
Qed.

(** * Overflow *)

Lemma sum_is_small l y : sum l y -> (length l <= 4000)%nat -> Rabs y <= 2 * size l + 1.
Proof.
  intros Hy short. pose proof (sum_error _ _ Hy) as E. pose proof (size_positive l) as S.
  pose proof (off_at_most (length l) (size l) short S) as O. pose proof (exact_within_size l) as X.
  assert (Hi : INR (length l) <= 4000) by (apply le_INR in short; rewrite (INR_IZR_INZ 4000) in short; exact short).
  pose proof (pos_INR (length l)) as H0.
  assert (U : u = / 16777216) by reflexivity.
  assert (T : tiny <= / 16777216) by (rewrite <- U; apply bpow_le; lia). pose proof tiny_positive.
  assert (A : (INR (length l) + 1) * u * size l <= 1 * size l)
    by (apply Rmult_le_compat_r; [exact S|]; rewrite U; lra).
  assert (B : 4 * INR (length l) * tiny <= 4 * 4000 * / 16777216)
    by (apply Rmult_le_compat; lra).
  replace y with (exact l + (y - exact l)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

(** Whatever part of these terms is summed, in whatever order, no result is too large for binary32. *)
Definition fits (terms : list (R * R)) : Prop :=
  forall part rest y, Permutation (part ++ rest) terms -> sum part y -> Rabs y < bpow radix2 128.

Lemma a_power e : (0 <= e)%Z -> 1 <= bpow radix2 e.
Proof. intros. change 1 with (bpow radix2 0). apply bpow_le. assumption. Qed.

(** Terms that are not huge overflow nowhere. *)
Theorem fits_where_small terms : (length terms <= 4000)%nat -> size terms <= bpow radix2 100 -> fits terms.
Proof.
  intros short small part rest y same Hy.
  rewrite <- (Permutation_length same), app_length in short. rewrite <- (size_reordered _ _ same), size_app in small.
  pose proof (size_positive rest). pose proof (sum_is_small part y Hy ltac:(lia)).
  pose proof (a_power 100 ltac:(lia)) as one.
  assert (bpow radix2 128 = bpow radix2 28 * bpow radix2 100) as E by (rewrite <- bpow_plus; reflexivity).
  assert (bpow radix2 28 = 268435456) as F by reflexivity. rewrite F in E. lra.
Qed.

(** Numbers of up to 2^40, of which one rounded result is as small again, and sums of two products fit. *)
Definition moderate (x : R) : Prop := Rabs x <= bpow radix2 40.

Lemma two_products_fit a b c d : moderate a -> moderate b -> moderate c -> moderate d -> fits [(a, b); (c, d)].
Proof.
  unfold moderate. intros A B C D. apply fits_where_small; [simpl; lia|]. cbn [size fold_right fst snd]. rewrite !Rabs_mult.
  pose proof (Rmult_le_compat _ _ _ _ (Rabs_pos a) (Rabs_pos b) A B) as AB.
  pose proof (Rmult_le_compat _ _ _ _ (Rabs_pos c) (Rabs_pos d) C D) as CD. rewrite <- bpow_plus in AB, CD.
  assert (bpow radix2 100 = bpow radix2 20 * bpow radix2 (40 + 40)) as E by (rewrite <- bpow_plus; reflexivity).
  assert (bpow radix2 20 = 1048576) as F by reflexivity. pose proof (bpow_ge_0 radix2 (40 + 40)). rewrite E, F. lra.
Qed.

Lemma one_product_fits a b : moderate a -> moderate b -> fits [(a, b)].
Proof.
  intros A B part rest y same Hy. apply (two_products_fit a b a b A B A B part (rest ++ [(a, b)]) y); [|exact Hy].
  rewrite app_assoc. now apply (Permutation_app_tail [(a, b)]) in same.
Qed.

Lemma rounded_is_moderate x y : Rabs x <= bpow radix2 30 -> rounded x y -> moderate y.
Proof.
  unfold rounded, moderate. intros X Y. pose proof (abs_sum y x 0) as K. rewrite !Rminus_0_r in K.
  assert (U : u = / 16777216) by reflexivity. assert (T : tiny <= / 16777216) by (rewrite <- U; apply bpow_le; lia).
  pose proof (bpow_le radix2 0 30 ltac:(lia)) as one. change (bpow radix2 0) with 1 in one.
  assert (bpow radix2 40 = bpow radix2 10 * bpow radix2 30) as E by (rewrite <- bpow_plus; reflexivity).
  assert (bpow radix2 10 = 1024) as F by reflexivity. rewrite E, F. rewrite U in Y. pose proof (Rabs_pos x). lra.
Qed.
