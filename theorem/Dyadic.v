(** Exact arithmetic with numbers k 2^-p, and sums of products over boxes.

    All that is decided by computation is decided on whole numbers. A weight or an end of an interval is k 2^-p for one
    p; a product of two is k 2^-2p. *)

From Coq Require Import Reals ZArith List Lra Lia Psatz.
From Flocq Require Import Core.
From Lengthwise Require Import Rounding.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.opp : simpl never.

Definition real (p k : Z) : R := IZR k * bpow radix2 (- p).

(** [x] lies in the interval of two numbers k 2^-p. *)
Definition within (p : Z) (ends : Z * Z) (x : R) : Prop := real p (fst ends) <= x <= real p (snd ends).

Lemma real_le p a b : (a <= b)%Z -> real p a <= real p b.
Proof. intros. apply Rmult_le_compat_r; [apply bpow_ge_0|]. now apply IZR_le. Qed.

Lemma real_lt p a b : (a < b)%Z -> real p a < real p b.
Proof. intros. apply Rmult_lt_compat_r; [apply bpow_gt_0|]. now apply IZR_lt. Qed.

Lemma real_plus p a b : real p (a + b) = real p a + real p b.
Proof. unfold real. rewrite plus_IZR. ring. Qed.

Lemma real_minus p a b : real p (a - b) = real p a - real p b.
Proof. unfold real. rewrite minus_IZR. ring. Qed.

Lemma real_0 p : real p 0 = 0.
Proof. unfold real. ring. Qed.

Lemma real_mult p a b : real (2 * p) (a * b) = real p a * real p b.
Proof.
  unfold real. rewrite mult_IZR. replace (- (2 * p))%Z with (- p + - p)%Z by lia. rewrite bpow_plus. ring.
Qed.

Lemma real_abs p a : real p (Z.abs a) = Rabs (real p a).
Proof. unfold real. rewrite Rabs_mult, abs_IZR, (Rabs_pos_eq (bpow _ _)) by apply bpow_ge_0. reflexivity. Qed.

Lemma power_of_two e : (0 <= e)%Z -> IZR (2 ^ e) = bpow radix2 e.
Proof. exact (IZR_Zpower radix2 e). Qed.

(** A number k 2^-p as one in units of 2^-2p. *)
Definition lifted (p k : Z) : Z := (k * 2 ^ p)%Z.

Lemma real_lifted p k : (0 <= p)%Z -> real (2 * p) (lifted p k) = real p k.
Proof.
  intros. unfold real, lifted. rewrite mult_IZR, power_of_two by assumption. rewrite Rmult_assoc, <- bpow_plus. do 2 f_equal. lia.
Qed.

(** A bound of Σ w x over x in a box, in units of 2^-2p. *)
Fixpoint dot (w : list Z) (box : list (Z * Z)) : Z * Z :=
  match w, box with
  | k :: w, (low, high) :: box =>
      let (a, b) := dot w box in
      if (0 <=? k)%Z then (low * k + a, high * k + b)%Z else (high * k + a, low * k + b)%Z
  | _, _ => (0, 0)%Z
  end.

(** A bound of Σ |w x|. *)
Fixpoint reach (w : list Z) (box : list (Z * Z)) : Z :=
  match w, box with
  | k :: w, (low, high) :: box => (Z.max (Z.abs low) (Z.abs high) * Z.abs k + reach w box)%Z
  | _, _ => 0%Z
  end.

Definition products (p : Z) (w : list Z) (x : list R) : list (R * R) := combine (map (real p) w) x.

Lemma dot_within p w box x : Forall2 (within p) box x -> within (2 * p) (dot w box) (exact (products p w x)).
Proof.
  intros inside. revert w. induction inside as [|[low high] y box x [Hl Hh] _ IH]; intros [|k w]; simpl.
  1-3: unfold within; simpl; rewrite real_0; lra.
  specialize (IH w). destruct (dot w box) as [a b]. destruct IH as [IHl IHh]. unfold within in *. simpl in *.
  destruct (Z.leb_spec 0 k) as [sign|sign]; simpl; rewrite !real_plus, !real_mult; fold (products p w x).
  - pose proof (real_le p 0 k sign) as K. rewrite real_0 in K.
    pose proof (Rmult_le_compat_r _ _ _ K Hl). pose proof (Rmult_le_compat_r _ _ _ K Hh). split; lra.
  - pose proof (real_lt p k 0 sign) as K. rewrite real_0 in K. apply Rlt_le in K.
    pose proof (Rmult_le_compat_neg_l _ _ _ K Hl). pose proof (Rmult_le_compat_neg_l _ _ _ K Hh). split; lra.
Qed.

Lemma reach_within p w box x : Forall2 (within p) box x -> size (products p w x) <= real (2 * p) (reach w box).
Proof.
  intros inside. revert w. induction inside as [|[low high] y box x [Hl Hh] _ IH]; intros [|k w]; simpl.
  1-3: rewrite real_0; lra.
  specialize (IH w). simpl in *. fold (products p w x).
  rewrite real_plus, real_mult, real_abs. apply Rplus_le_compat; [|assumption].
  rewrite Rabs_mult, Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos|].
  pose proof (real_le p _ _ (Z.le_max_l (Z.abs low) (Z.abs high))) as A.
  pose proof (real_le p _ _ (Z.le_max_r (Z.abs low) (Z.abs high))) as B.
  rewrite real_abs in A, B. revert A B Hl Hh. unfold Rabs. do 3 destruct Rcase_abs; lra.
Qed.

(** Numbers as a box of their own. *)
Definition point (k : Z) : Z * Z := (k, k).

Lemma points_within p x : Forall2 (within p) (map point x) (map (real p) x).
Proof. induction x; simpl; constructor; [unfold within; simpl; lra|assumption]. Qed.

(** What a sum of [n] products of size [k] 2^-2p may be off by, in units of 2^-2p. *)
Definition noise (p : Z) (n : nat) (k : Z) : Z :=
  ((Z.of_nat n + 1) * k / 2 ^ 24 + 1 + (4 * Z.of_nat n * 2 ^ (2 * p) / 2 ^ 100 + 1))%Z.

Lemma quotient_below a d : (0 < d)%Z -> IZR a <= IZR (a / d + 1) * IZR d.
Proof.
  intros. rewrite <- mult_IZR. apply IZR_le. pose proof (Z.mod_pos_bound a d). pose proof (Z.div_mod a d). nia.
Qed.

Lemma over_a_power a e q : (0 <= e)%Z -> real q a * bpow radix2 (- e) <= real q (a / 2 ^ e + 1).
Proof.
  intros He. unfold real. pose proof (quotient_below a (2 ^ e) ltac:(lia)) as H.
  rewrite power_of_two in H by assumption.
  assert (E : bpow radix2 e * bpow radix2 (- e) = 1) by (rewrite <- bpow_plus, Z.add_opp_diag_r; reflexivity).
  pose proof (bpow_ge_0 radix2 (- q)) as A. pose proof (bpow_ge_0 radix2 (- e)) as B.
  pose proof (Rmult_le_compat_r _ _ _ (Rmult_le_pos _ _ A B) H) as K.
  replace (IZR (a / 2 ^ e + 1) * bpow radix2 (- q))
    with (IZR (a / 2 ^ e + 1) * (bpow radix2 e * bpow radix2 (- e)) * bpow radix2 (- q)) by (rewrite E; ring).
  lra.
Qed.

Lemma noise_is_enough p l y k :
  (0 <= p)%Z -> (length l <= 4000)%nat -> sum l y -> size l <= real (2 * p) k ->
  Rabs (y - exact l) <= real (2 * p) (noise p (length l) k).
Proof.
  intros Hp short allowed large. eapply Rle_trans; [apply sum_error, allowed|].
  eapply Rle_trans; [apply off_at_most; [assumption|apply size_positive]|].
  unfold noise. rewrite real_plus. rewrite INR_IZR_INZ.
  set (n := Z.of_nat (length l)). assert (0 <= IZR n) by (apply IZR_le; lia).
  apply Rplus_le_compat.
  - eapply Rle_trans; [|apply over_a_power; lia]. change (bpow radix2 (- (24))) with u.
    apply Rle_trans with ((IZR n + 1) * u * real (2 * p) k).
    + apply Rmult_le_compat_l; [|assumption]. apply Rmult_le_pos; pose proof u_positive; lra.
    + right. unfold real. rewrite mult_IZR, plus_IZR. ring.
  - eapply Rle_trans; [|apply over_a_power; lia]. change (bpow radix2 (- (100))) with tiny. right.
    assert (E : bpow radix2 (2 * p) * bpow radix2 (- (2 * p)) = 1)
      by (rewrite <- bpow_plus, Z.add_opp_diag_r; reflexivity).
    unfold real. rewrite !mult_IZR, power_of_two by lia. rewrite (Rmult_assoc _ (bpow _ (2 * p))), E. ring.
Qed.

(** An interval, wider by [off] on both sides. *)
Definition widened (off : Z) (ends : Z * Z) : Z * Z := (fst ends - off, snd ends + off)%Z.

Lemma widened_within p off ends x y :
  within p ends x -> Rabs (y - x) <= real p off -> within p (widened off ends) y.
Proof.
  unfold within, widened. simpl. rewrite real_minus, real_plus. intros [Hl Hh] near.
  apply Rabs_le_inv in near. lra.
Qed.
