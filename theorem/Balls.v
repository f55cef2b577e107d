(** Vectors whose numbers are known up to a radius each, and what affine maps and sums make of them.

    A ball is a middle and a radius, both k 2^-p for one p. Weights are k 2^-q. What the arithmetic may be off by is
    counted with the radii of what goes in: of n terms w x each is off by (n + 1) u |w x|, as if x were. *)

From Coq Require Import Reals ZArith List Bool Lra Lia Psatz.
From Flocq Require Import Core.
From Lengthwise Require Import Rounding Dyadic Machine Affine.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.
Local Arguments Z.pow : simpl never.
Local Arguments Z.div : simpl never.

Definition ball : Type := (Z * Z)%type.
Definition near (p : Z) (b : ball) (x : R) : Prop := Rabs (x - real p (fst b)) <= real p (snd b).

(** * Numbers k 2^-p *)

Lemma real_times p q a b : real (p + q) (a * b) = real p a * real q b.
Proof. unfold real. rewrite mult_IZR. replace (- (p + q))%Z with (- p + - q)%Z by lia. rewrite bpow_plus. ring. Qed.

Lemma real_scaled p q a : (0 <= q)%Z -> real (p + q) (a * 2 ^ q) = real p a.
Proof.
  intros. rewrite real_times. unfold real at 2. rewrite power_of_two, <- bpow_plus, Z.add_opp_diag_r by assumption.
  simpl. ring.
Qed.

Lemma real_count p k : real p k = IZR k * real p 1.
Proof. unfold real. ring. Qed.

Lemma real_positive p a : (0 <= a)%Z -> 0 <= real p a.
Proof. intros. rewrite <- (real_0 p). now apply real_le. Qed.

(** A quotient by a power of two, rounded down, is off by less than one. *)
Lemma real_over p q a : (0 <= q)%Z -> real p (a / 2 ^ q) <= real (p + q) a <= real p (a / 2 ^ q + 1).
Proof.
  intros. rewrite <- !(real_scaled p q) by assumption.
  pose proof (Z.pow_pos_nonneg 2 q ltac:(lia) ltac:(assumption)).
  pose proof (Z.mod_pos_bound a (2 ^ q)). pose proof (Z.div_mod a (2 ^ q)). split; apply real_le; nia.
Qed.

Lemma real_times_u p a : real p a * u <= real p (a / 2 ^ 24 + 1).
Proof. apply (over_a_power a 24 p). lia. Qed.

Lemma one_is_more p : (p <= 80)%Z -> 16000 * tiny <= real p 1.
Proof.
  intros. unfold real, tiny. rewrite Rmult_1_l. apply Rle_trans with (bpow radix2 14 * bpow radix2 (-100)).
  - apply Rmult_le_compat_r; [apply bpow_ge_0|]. simpl. lra.
  - rewrite <- bpow_plus. apply bpow_le. lia.
Qed.

Lemma by_way_of x y z a b : Rabs (x - y) <= a -> Rabs (y - z) <= b -> Rabs (x - z) <= a + b.
Proof. intros. replace (x - z) with ((x - y) + (y - z)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. Qed.

Lemma near_size p b x : near p b x -> Rabs x <= real p (Z.abs (fst b) + snd b).
Proof.
  unfold near. intros inside. rewrite real_plus, real_abs. replace x with (real p (fst b) + (x - real p (fst b)))
    by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma near_radius p b x : near p b x -> 0 <= real p (snd b).
Proof. unfold near. intros inside. pose proof (Rabs_pos (x - real p (fst b))). lra. Qed.

Lemma nearer p b x c r : near p b x -> Rabs (real p (fst b) - real p c) + real p (snd b) <= real p r -> near p (c, r) x.
Proof.
  unfold near. simpl. intros inside enough. replace (x - real p c) with ((x - real p (fst b)) + (real p (fst b)
    - real p c)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Definition balls (p : Z) : list ball -> list R -> Prop := Forall2 (near p).
Definition exactly (k : Z) : ball := (k, 0%Z).

Lemma exactly_near p k : near p (exactly k) (real p k).
Proof. unfold near. simpl. rewrite Rminus_diag_eq, Rabs_R0, real_0 by reflexivity. lra. Qed.

(** * Affine maps *)

(** A ball that is as much wider as the arithmetic of n terms asks for. *)
Definition enlarged (n : Z) (b : ball) : ball := (fst b, snd b + ((n + 1) * (Z.abs (fst b) + snd b) / 2 ^ 24 + 1))%Z.

(** Σ w m, and Σ |w| r. *)
Fixpoint both_dots (w : list Z) (x : list ball) : ball :=
  match w, x with
  | k :: w, (m, r) :: x => let (c, s) := both_dots w x in (k * m + c, r * Z.abs k + s)%Z
  | _, _ => (0, 0)%Z
  end.

(** One row, of balls that are spread for n terms. *)
Definition row_bound (p q n : Z) (x : list ball) (w : list Z * Z) : ball :=
  let (c, s) := both_dots (fst w) x in
  ((c + snd w * 2 ^ p) / 2 ^ q, (s + (n + 1) * Z.abs (snd w * 2 ^ p) / 2 ^ 24 + 1) / 2 ^ q + 3)%Z.

Definition terms_of (x : list ball) : Z := (Z.of_nat (length x) + 1)%Z.
Definition affine_bound (p q : Z) (W : list (list Z * Z)) (x : list ball) : list ball :=
  let n := terms_of x in
  let spreads := map (enlarged n) x in
  map (row_bound p q n spreads) W.

Lemma enlarged_enough p n b x w :
  (0 <= n)%Z -> near p b x ->
  Rabs (w * x - w * real p (fst b)) + (IZR n + 1) * u * Rabs (w * x) <= Rabs w * real p (snd (enlarged n b)).
Proof.
  intros Hn inside. pose proof (near_size _ _ _ inside) as large. unfold enlarged. cbn [snd].
  rewrite <- Rmult_minus_distr_l, !Rabs_mult, real_plus.
  pose proof (real_times_u p ((n + 1) * (Z.abs (fst b) + snd b))) as U.
  replace (real p ((n + 1) * (Z.abs (fst b) + snd b))) with ((IZR n + 1) * real p (Z.abs (fst b) + snd b)) in U
    by (unfold real; rewrite mult_IZR, !plus_IZR; ring).
  unfold near in inside. pose proof (Rabs_pos w) as W. pose proof u_positive.
  assert (0 <= IZR n) by now apply IZR_le.
  assert ((IZR n + 1) * u * Rabs x <= (IZR n + 1) * u * real p (Z.abs (fst b) + snd b)) by (apply Rmult_le_compat_l;
    nra).
  replace ((IZR n + 1) * u * (Rabs w * Rabs x)) with (Rabs w * ((IZR n + 1) * u * Rabs x)) by ring.
  rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [assumption|]. lra.
Qed.

Lemma both_dots_near p q n w b x :
  (0 <= n)%Z -> balls p b x ->
  let d := both_dots w (map (enlarged n) b) in
  Rabs (exact (products q w x) - real (p + q) (fst d)) + (IZR n + 1) * u * size (products q w x) <= real (p + q)
    (snd d).
Proof.
  intros Hn inside. revert w. induction inside as [|[m r] y b x near_ _ IH]; intros [|k w]; simpl.
  1-3: rewrite real_0, Rmult_0_r, Rminus_0_r, Rabs_R0; lra.
  specialize (IH w). destruct (both_dots w (map (enlarged n) b)) as [c s]. simpl in *. fold (products q w x).
  pose proof (enlarged_enough p n (m, r) y (real q k) Hn near_) as one. unfold enlarged in one. cbn [fst snd] in *.
  rewrite !real_plus, (Z.add_comm p q), real_times, Z.add_comm, real_times, real_abs.
  rewrite (Rmult_comm (real p _) (Rabs (real q k))). rewrite Rmult_plus_distr_l.
  replace (real q k * y + exact (products q w x) - (real q k * real p m + real (p + q) c))
    with ((real q k * y - real q k * real p m) + (exact (products q w x) - real (p + q) c)) by ring.
  pose proof (Rabs_triang (real q k * y - real q k * real p m) (exact (products q w x) - real (p + q) c)). lra.
Qed.

Lemma products_short q w x : (length (products q w x) <= length w)%nat /\ (length (products q w x) <= length x)%nat.
Proof. unfold products. rewrite combine_length, map_length. lia. Qed.

Lemma row_near p q b x w y :
  (0 <= p <= 80)%Z -> (0 <= q)%Z -> (length (fst w) + 1 <= 4000)%nat -> balls p b x -> sum (row_terms q x w) y ->
  near p (row_bound p q (terms_of b) (map (enlarged (terms_of b)) b) w) y.
Proof.
  intros Hp Hq short inside one. set (n := terms_of b). assert (0 <= n)%Z as Hn by (unfold n, terms_of; lia).
  pose proof (both_dots_near p q n (fst w) b x Hn inside) as D. unfold row_bound. cbv zeta in D.
  destruct (both_dots (fst w) (map (enlarged n) b)) as [c s]. cbn [fst snd] in D.
  assert (length b = length x) as L by (clear -inside; induction inside; simpl; auto).
  set (l := row_terms q x w) in *.
  assert (length l <= length b + 1 /\ length l <= 4000)%nat as [few least].
  { unfold l, row_terms. rewrite app_length. pose proof (products_short q (fst w) x). simpl. lia. }
  pose proof (sum_error _ _ one) as E. pose proof (size_positive l) as S.
  pose proof (off_at_most (length l) (size l) ltac:(lia) S) as O.
  assert (INR (length l) <= IZR n) as Hl.
  { rewrite INR_IZR_INZ. apply IZR_le. unfold n, terms_of. lia. }
  assert (INR (length l) <= 4000) as H4.
  { rewrite INR_IZR_INZ. apply IZR_le. lia. }
  pose proof u_positive as U. pose proof tiny_positive as T.
  assert ((INR (length l) + 1) * u * size l <= (IZR n + 1) * u * size l) as Hu.
  { apply Rmult_le_compat_r; [assumption|]. apply Rmult_le_compat_r; lra. }
  assert (4 * INR (length l) * tiny <= real p 1) as Ht.
  { pose proof (one_is_more p ltac:(lia)). nra. }
  assert (exact l = exact (products q (fst w) x) + real q (snd w)) as X.
  { unfold l, row_terms. rewrite exact_app. simpl. ring. }
  assert (size l = size (products q (fst w) x) + Rabs (real q (snd w))) as Y.
  { unfold l, row_terms. rewrite size_app. simpl. rewrite Rmult_1_r. ring. }
  assert (real (p + q) (snd w * 2 ^ p) = real q (snd w)) as B by (rewrite Z.add_comm; apply real_scaled; lia).
  pose proof (real_times_u (p + q) ((n + 1) * Z.abs (snd w * 2 ^ p))) as N.
  replace (real (p + q) ((n + 1) * Z.abs (snd w * 2 ^ p))) with ((IZR n + 1) * Rabs (real q (snd w))) in N
    by (rewrite <- B, <- real_abs; unfold real; rewrite mult_IZR, !plus_IZR; ring).
  unfold near. cbn [fst snd].
  pose proof (real_over p q (c + snd w * 2 ^ p) Hq) as [low high].
  pose proof (real_over p q (s + (n + 1) * Z.abs (snd w * 2 ^ p) / 2 ^ 24 + 1) Hq) as [_ wide].
  rewrite real_plus, B in low, high. rewrite real_plus in high.
  replace (s + (n + 1) * Z.abs (snd w * 2 ^ p) / 2 ^ 24 + 1)%Z
    with (s + ((n + 1) * Z.abs (snd w * 2 ^ p) / 2 ^ 24 + 1))%Z in * by ring.
  rewrite (real_plus (p + q) s), (real_plus p _ 1) in wide.
  rewrite (real_plus p _ 3), (real_count p 3).
  set (v := real p ((c + snd w * 2 ^ p) / 2 ^ q)) in *.
  replace (y - v) with ((y - exact l) + ((exact (products q (fst w) x) - real (p + q) c) + (real (p + q)
    c + real q (snd w) - v)))
    by (rewrite X; ring).
  eapply Rle_trans; [apply Rabs_triang|].
  pose proof (Rabs_triang (exact (products q (fst w) x) - real (p + q) c) (real (p + q) c + real q (snd w) - v)).
  assert (Rabs (real (p + q) c + real q (snd w) - v) <= real p 1) by (apply Rabs_le; lra).
  rewrite Y in Hu at 2. rewrite Rmult_plus_distr_l in Hu. lra.
Qed.

(** Whether no row is too long. *)
Definition slim (W : list (list Z * Z)) : bool := forallb (fun w => length (fst w) + 1 <=? 4000)%nat W.

Theorem affine_near p q W b x y :
  (0 <= p <= 80)%Z -> (0 <= q)%Z -> slim W = true -> balls p b x -> affine q W x y ->
  balls p (affine_bound p q W b) y.
Proof.
  intros Hp Hq short inside each. unfold affine_bound. cbv zeta. unfold slim in short. rewrite forallb_forall in short.
  unfold affine, affine_in in each. revert short.
  induction each as [|w v W y one _ IH]; intros short; simpl; constructor.
  - apply (row_near p q b x); auto. apply Nat.leb_le, short. now left.
  - apply IH. intros w' later. apply short. now right.
Qed.

(** * Sums of two vectors, and what is below 0 *)

(** What a sum of two vectors may be. *)
Definition added (x y z : list R) : Prop := Forall2 (fun pair v => rounded (fst pair + snd pair) v) (combine x y) z.

Definition add_bound (a b : ball) : ball :=
  (fst a + fst b, snd a + snd b + ((Z.abs (fst a) + snd a + (Z.abs (fst b) + snd b)) / 2 ^ 24 + 1) + 1)%Z.

Definition add_bounds (a b : list ball) : list ball := map (fun pair => add_bound (fst pair) (snd pair)) (combine a b).

Lemma tiny_is_less p : (p <= 80)%Z -> tiny <= real p 1.
Proof. intros Hp. pose proof (one_is_more p Hp). pose proof tiny_positive. lra. Qed.

Lemma add_near p a b x y z :
  (p <= 80)%Z -> near p a x -> near p b y -> rounded (x + y) z -> near p (add_bound a b) z.
Proof.
  intros Hp Ha Hb Hz. pose proof (near_size _ _ _ Ha) as A. pose proof (near_size _ _ _ Hb) as B.
  unfold rounded in Hz. unfold near, add_bound in *. cbn [fst snd]. rewrite !real_plus.
  pose proof (real_times_u p (Z.abs (fst a) + snd a + (Z.abs (fst b) + snd b))) as U. rewrite !real_plus in *.
  pose proof (tiny_is_less p Hp). pose proof u_positive as P.
  assert (u * Rabs (x + y) <= u * (real p (Z.abs (fst a)) + real p (snd a) + (real p (Z.abs (fst b))
    + real p (snd b)))).
  { apply Rmult_le_compat_l; [lra|]. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  replace (z - (real p (fst a) + real p (fst b))) with ((z - (x + y)) + ((x - real p (fst a))
    + (y - real p (fst b)))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang (x - real p (fst a)) (y - real p (fst b))). lra.
Qed.

Theorem added_near p a b x y z : (p <= 80)%Z -> balls p a x -> balls p b y -> added x y z -> balls p (add_bounds a b) z.
Proof.
  intros Hp Ha Hb Hz. unfold added, add_bounds in *. pose proof (combine_holds _ _ _ _ _ _ Ha Hb) as P.
  revert P Hz. generalize (combine a b) (combine x y). intros ab xy P. revert z.
  induction P as [|c v cs vs [one two] _ IH]; intros z Hz; inversion Hz as [|? y' ? ys' Hy rest]; subst; simpl;
    constructor.
  - exact (add_near p _ _ (fst v) (snd v) y' Hp one two Hy).
  - now apply IH.
Qed.

Definition relu (x : R) : R := Rmax 0 x.
Definition relu_bound (b : ball) : ball := if (fst b + snd b <=? 0)%Z then (0, 0)%Z else (Z.max 0 (fst b), snd b).

Lemma real_max p a : real p (Z.max 0 a) = Rmax 0 (real p a).
Proof.
  destruct (Z.max_spec 0 a) as [[less ->]|[more ->]].
  - rewrite Rmax_right; [reflexivity|]. rewrite <- (real_0 p). apply real_le. lia.
  - rewrite Rmax_left; [apply real_0|]. rewrite <- (real_0 p). now apply real_le.
Qed.

Lemma relu_near p b x : near p b x -> near p (relu_bound b) (relu x).
Proof.
  unfold near, relu, relu_bound. destruct (Z.leb_spec (fst b + snd b) 0) as [below|above]; cbn [fst snd].
  - apply (real_le p) in below. rewrite real_plus, real_0 in *. intros inside. apply Rabs_le_inv in inside.
    rewrite Rmax_left, Rminus_0_r, Rabs_R0; lra.
  - rewrite real_max. intros inside. apply Rabs_le_inv in inside.
    apply Rabs_le. unfold Rmax. destruct (Rle_dec 0 x), (Rle_dec 0 (real p (fst b))); lra.
Qed.
