(** W x + b, of which each entry is a sum of products that may be taken in any order; and its bounds over a box.

    A row (w, b) is a row of W with its entry of b: numbers k 2^-p. [affine p rows x y]: y is what the arithmetic allows.
    [affine_of p rows box] bounds each entry; [affine_holds]. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Lengthwise Require Import Rounding Dyadic Machine.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

Definition one (p k : Z) : R * R := (real p k, 1).
Definition row_terms (p : Z) (x : list R) (row : list Z * Z) : list (R * R) :=
  products p (fst row) x ++ [one p (snd row)].

(** [allows] is the arithmetic of products and sums. *)
Definition affine_in (allows : R -> R -> Prop) (p : Z) (rows : list (list Z * Z)) (x y : list R) : Prop :=
  Forall2 (fun row y => sum_in allows (row_terms p x row) y) rows y.
Definition affine := affine_in rounded.

(** * Bounds *)

(** A bound of a part of a sum, and one of its size, in units of 2^-2p. *)
Definition both (x y : (Z * Z) * Z) : (Z * Z) * Z :=
  ((fst (fst x) + fst (fst y), snd (fst x) + snd (fst y)), snd x + snd y)%Z.

(** A row times a box. *)
Definition times (w : list Z) (b : list (Z * Z)) : (Z * Z) * Z := (dot w b, reach w b).
Definition constant (p k : Z) : (Z * Z) * Z := ((lifted p k, lifted p k), Z.abs (lifted p k)).
Definition computed (p : Z) (n : nat) (x : (Z * Z) * Z) : Z * Z := widened (noise p n (snd x)) (fst x).

Definition row_of (p : Z) (box : list (Z * Z)) (row : list Z * Z) : Z * Z :=
  computed p (length box + 1) (both (times (fst row) box) (constant p (snd row))).

(** In units of 2^-p again, rounded outwards. *)
Definition lowered (p : Z) (ends : Z * Z) : Z * Z := (fst ends / 2 ^ p, - (- snd ends / 2 ^ p))%Z.

Definition affine_of (p : Z) (rows : list (list Z * Z)) (box : list (Z * Z)) : list (Z * Z) :=
  map (fun row => lowered p (row_of p box row)) rows.

(** Rows as long as what they are applied to, which is not too long. *)
Definition fit (n : nat) (rows : list (list Z * Z)) : bool :=
  (n + 1 <=? 4000)%nat && forallb (fun row => length (fst row) =? n)%nat rows.

(** * Soundness *)

Lemma both_within p x y a b :
  within p (fst x) a -> within p (fst y) b -> within p (fst (both x y)) (a + b).
Proof. unfold within, both. simpl. rewrite !real_plus. lra. Qed.

Lemma constant_within p k : (0 <= p)%Z -> within (2 * p) (fst (constant p k)) (exact [one p k]).
Proof. intros. unfold within, constant, one. simpl. rewrite real_lifted by assumption. lra. Qed.

Lemma constant_size p k : (0 <= p)%Z -> size [one p k] <= real (2 * p) (snd (constant p k)).
Proof.
  intros. unfold constant, one. cbn [snd fst size fold_right]. rewrite real_abs, real_lifted by assumption.
  rewrite Rmult_1_r. lra.
Qed.

Lemma products_length p w x : length w = length x -> length (products p w x) = length x.
Proof. intros. unfold products. rewrite combine_length, map_length. lia. Qed.

Lemma row_count p x row : length (fst row) = length x -> length (row_terms p x row) = (length x + 1)%nat.
Proof. intros. unfold row_terms. rewrite app_length, products_length by assumption. reflexivity. Qed.

Lemma row_size p box x row :
  (0 <= p)%Z -> Forall2 (within p) box x ->
  size (row_terms p x row) <= real (2 * p) (snd (both (times (fst row) box) (constant p (snd row)))).
Proof.
  intros Hp Hb. unfold row_terms. rewrite size_app. unfold both, times. cbn [snd fst]. rewrite real_plus.
  apply Rplus_le_compat; [now apply reach_within|now apply constant_size].
Qed.

Lemma row_within p box x row y :
  (0 <= p)%Z -> (length x + 1 <= 4000)%nat -> length (fst row) = length x ->
  Forall2 (within p) box x -> sum (row_terms p x row) y -> within (2 * p) (row_of p box row) y.
Proof.
  intros Hp short Lr Hb Hy. unfold row_of. rewrite (same_length _ _ _ Hb), <- (row_count p x row Lr).
  apply (widened_within _ _ _ (exact (row_terms p x row))).
  - unfold row_terms. rewrite exact_app. apply both_within; [now apply dot_within|now apply constant_within].
  - apply noise_is_enough; auto; [now rewrite row_count|]. now apply row_size.
Qed.

Lemma lowered_within p ends x : (0 <= p)%Z -> within (2 * p) ends x -> within p (lowered p ends) x.
Proof.
  intros Hp [Hl Hh]. assert (P : (0 < 2 ^ p)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (D : forall k, real p (k / 2 ^ p) <= real (2 * p) k).
  { intros k. rewrite <- real_lifted by assumption. apply real_le. unfold lifted.
    rewrite Z.mul_comm. now apply Z.mul_div_le. }
  assert (N : forall q k, real q (- k) = - real q k) by (intros; unfold real; rewrite opp_IZR; ring).
  unfold within, lowered. cbn [fst snd]. pose proof (D (fst ends)). pose proof (D (- snd ends)%Z) as K.
  rewrite N in K |- *. lra.
Qed.

Theorem affine_holds p rows box x y :
  (0 <= p)%Z -> fit (length x) rows = true -> Forall2 (within p) box x -> affine p rows x y ->
  Forall2 (within p) (affine_of p rows box) y.
Proof.
  intros Hp [short sized]%andb_prop Hb Hy. apply Nat.leb_le in short. rewrite forallb_forall in sized.
  unfold affine_of. induction Hy as [|row v rows y Hv _ IH]; simpl; constructor.
  - apply lowered_within, (row_within p box x); auto. apply Nat.eqb_eq, sized. now left.
  - apply IH. intros r Hr. apply sized. now right.
Qed.

Lemma exact_affine_is_allowed p rows x : affine p rows x (map (fun row => exact (row_terms p x row)) rows).
Proof.
  unfold affine, affine_in. induction rows as [|row rows IH]; simpl; constructor; [|exact IH].
  apply every_list_has_a_sum. unfold row_terms. intros none. now apply app_eq_nil in none as [_ none].
Qed.
