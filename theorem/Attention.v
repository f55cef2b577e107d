(** Attention over the taps of a node: what it may be, and bounds of it.

    A head mixes the values of its taps by the softmax of q · k_j / √d + r_j. How an implementation does so is not
    prescribed: scores may be off by (d + 16) u of the largest Σ|q k_j| / √d + |r_j|, so that it may be scaled before or
    after, and the largest score or that of one tap be taken off; and what is mixed by (2 C + 200)
      u Σ|v_j|, so that each
    exponential may be off by 32 ulps, or the sigmoid of two taps by 32 u. These are hypotheses about it. [scaled_after] and
    [mixed_by_weights] prove them of the usual way. *)

From Coq Require Import Reals ZArith List Bool Lra Lia Psatz.
From Flocq Require Import Core.
From Interval Require Import Float.Basic Float.Generic_proof Float.Specific_ops Float.Specific_stdz
  Interval.Interval Interval.Float Interval.Float_full Real.Xreal.
From Lengthwise Require Import Rounding Dyadic Intervals Balls.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.
Local Arguments Z.pow : simpl never.
Local Arguments Z.div : simpl never.

(** * What it may be *)

(** What is lost where numbers are too small. *)
Definition little : R := 16000 * tiny.

Definition sizes (x : list R) : R := fold_right (fun v s => Rabs v + s) 0 x.
Definition total (s : list R) : R := fold_right (fun x t => exp x + t) 0 s.
Definition softmax (s : list R) : list R := map (fun x => exp x / total s) s.

Section Head.

Variable q : Z.
Variable d : nat.

Definition score (query : list R) (tap : list R * Z) : R := exact (combine query (fst tap)) / sqrt (INR d)
  + real q (snd tap).
Definition score_size (query : list R) (tap : list R * Z) : R :=
  size (combine query (fst tap)) / sqrt (INR d) + Rabs (real q (snd tap)).
Definition largest (query : list R) (taps : list (list R * Z)) : R :=
  fold_right (fun tap m => Rmax (score_size query tap) m) 0 taps.

Definition scores (query : list R) (taps : list (list R * Z)) (s : list R) : Prop :=
  Forall2 (fun tap v => Rabs (v - score query tap) <= (INR d + 16) * u * largest query taps + little) taps s.

Definition column (i : nat) (values : list (list R)) : list R := map (fun v => nth i v 0) values.

Definition mixed (s : list R) (values : list (list R)) (i : nat) (y : R) : Prop :=
  Rabs (y - exact (combine (softmax s) (column i values))) <=
  (2 * INR (length values) + 200) * u * sizes (column i values) + little.

(** What a head may make of its query, and of the keys, the biases and the values of its taps. *)
Definition attends (query : list R) (keys : list (list R)) (biases : list Z) (values : list (list R)) (y : list R)
  : Prop :=
  exists s, scores query (combine keys biases) s /\ Forall2 (mixed s values) (seq 0 d) y.

End Head.

(** The numbers of one head. *)
Definition part {A} (d h : nat) (x : list A) : list A := firstn d (skipn (h * d) x).

Definition attention (q : Z) (heads d : nat) (query : list R) (keys values : list (list R)) (biases : list (list Z))
    (y : list R) : Prop :=
  exists ys, y = concat ys /\
  Forall2 (fun h => attends q d (part d h query) (map (part d h) keys) (nth h biases []) (map (part d h) values))
          (seq 0 heads) ys.

(** * Products of balls *)

(** Σ m m', what it may be off by, and a bound of Σ|x x'|, in units of 2^-2p. *)
Fixpoint ball_dot (a b : list ball) : Z * Z * Z :=
  match a, b with
  | (m, r) :: a, (m', r') :: b =>
      let '(c, s, t) := ball_dot a b in
      (m * m' + c, r * (Z.abs m' + r') + Z.abs m * r' + s, (Z.abs m + r) * (Z.abs m' + r') + t)%Z
  | _, _ => (0, 0, 0)%Z
  end.

Lemma product_near p a b x y :
  near p a x -> near p b y ->
  Rabs (x * y - real (p + p) (fst a * fst b)) <= real (p + p) (snd a * (Z.abs (fst b) + snd b) + Z.abs (fst a) * snd b).
Proof.
  intros Ha Hb. pose proof (near_size _ _ _ Hb) as B. rewrite real_plus, !real_times, real_abs.
  unfold near in Ha, Hb. replace (x * y - real p (fst a) * real p (fst b))
    with ((x - real p (fst a)) * y + real p (fst a) * (y - real p (fst b))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult. apply Rplus_le_compat.
  - apply Rmult_le_compat; auto using Rabs_pos.
  - apply Rmult_le_compat_l; auto using Rabs_pos.
Qed.

Lemma product_size p a b x y :
  near p a x -> near p b y -> Rabs (x * y) <= real (p + p) ((Z.abs (fst a) + snd a) * (Z.abs (fst b) + snd b)).
Proof.
  intros Ha Hb. rewrite Rabs_mult, real_times. apply Rmult_le_compat; auto using Rabs_pos, near_size.
Qed.

Lemma ball_dot_near p a b x y :
  balls p a x -> balls p b y ->
  let '(m, r, z) := ball_dot a b in
  Rabs (exact (combine x y) - real (p + p) m) <= real (p + p) r /\ size (combine x y) <= real (p + p) z.
Proof.
  intros Ha. revert b y. induction Ha as [|[m r] v a x one _ IH]; intros b y Hb; simpl.
  - rewrite real_0, Rminus_0_r, Rabs_R0. lra.
  - destruct Hb as [|[m' r'] v' b y one' Hb]; simpl; [rewrite real_0, Rminus_0_r, Rabs_R0; lra|].
    specialize (IH b y Hb). destruct (ball_dot a b) as [[c s] t]. destruct IH as [near_ small]. split.
    + pose proof (product_near p _ _ _ _ one one') as E. cbn [fst snd] in E.
      rewrite (real_plus _ _ c), (real_plus _ _ s).
      replace (v * v' + exact (combine x y) - (real (p + p) (m * m') + real (p + p) c))
        with ((v * v' - real (p + p) (m * m')) + (exact (combine x y) - real (p + p) c)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra.
    + pose proof (product_size p _ _ _ _ one one') as E. cbn [fst snd] in E. rewrite real_plus. lra.
Qed.

(** * Scores *)

(** 1 / √d is the first, or up to 2^-p more. *)
Definition root_of (p : Z) (d : nat) : Z := Z.sqrt (2 ^ (p + p) / Z.of_nat d).

Lemma root_near p d : (0 <= p)%Z -> (1 <= d)%nat -> real p (root_of p d) <= / sqrt (INR d) <= real p (root_of p d + 1).
Proof.
  intros Hp Hd. assert (0 < Z.of_nat d)%Z as D by lia. rewrite INR_IZR_INZ.
  set (k := Z.of_nat d) in *. set (N := (2 ^ (p + p) / k)%Z).
  assert (0 <= N)%Z as HN by (apply Z.div_pos; [apply Z.pow_nonneg; lia|assumption]).
  pose proof (Z.sqrt_spec N HN) as [low high]. pose proof (Z.sqrt_nonneg N) as pos. unfold root_of. fold k N.
  set (m := Z.sqrt N) in *. rewrite <- Z.add_1_r in high.
  assert (m * m * k <= 2 ^ (p + p))%Z as L.
  { pose proof (Z.mul_div_le (2 ^ (p + p)) k D). fold N in H. nia. }
  assert (2 ^ (p + p) < (m + 1) * (m + 1) * k)%Z as U.
  { pose proof (Z.mul_succ_div_gt (2 ^ (p + p)) k D). fold N in H. nia. }
  apply IZR_le in L. apply IZR_lt in U. rewrite !mult_IZR, power_of_two, bpow_plus in L, U by lia.
  assert (0 < IZR k) as K by (now apply IZR_lt).
  pose proof (sqrt_lt_R0 _ K) as S. pose proof (sqrt_sqrt (IZR k) ltac:(lra)) as SS.
  set (s := sqrt (IZR k)) in *. rewrite <- SS in L, U.
  pose proof (bpow_gt_0 radix2 p) as B. pose proof (IZR_le _ _ pos) as M. rewrite plus_IZR in U.
  assert (E : bpow radix2 p * bpow radix2 (- p) = 1) by (rewrite <- bpow_plus, Z.add_opp_diag_r; reflexivity).
  pose proof (bpow_gt_0 radix2 (- p)) as B'.
  assert (IZR m * s <= bpow radix2 p) as L' by (apply Rsqr_incr_0_var; [unfold Rsqr; lra|lra]).
  assert (bpow radix2 p <= (IZR m + 1) * s) as U' by (apply Rsqr_incr_0_var; [unfold Rsqr; lra|apply Rmult_le_pos;
    lra]).
  apply (Rmult_le_compat_r _ _ _ (Rlt_le _ _ B')) in L', U'.
  unfold real. rewrite plus_IZR. split.
  - apply Rmult_le_reg_r with s; [assumption|]. rewrite Rinv_l by lra. lra.
  - apply Rmult_le_reg_r with s; [assumption|]. rewrite Rinv_l by lra. lra.
Qed.

(** Of one tap: a ball of the score, and a bound of its size. *)
Definition score_bound (p q root : Z) (query : list ball) (tap : list ball * Z) : ball * Z :=
  let '(c, s, t) := ball_dot query (fst tap) in
  ((c / 2 ^ p * root / 2 ^ p + snd tap * 2 ^ p / 2 ^ q,
    (Z.abs (c / 2 ^ p) + (s / 2 ^ p + 2) * (root + 1)) / 2 ^ p + 4),
   (t / 2 ^ p + 1) * (root + 1) / 2 ^ p + 1 + (Z.abs (snd tap) * 2 ^ p / 2 ^ q + 1))%Z.

Lemma biased p q k : (0 <= p)%Z -> (0 <= q)%Z -> real p (k * 2 ^ p / 2 ^ q)
  <= real q k <= real p (k * 2 ^ p / 2 ^ q + 1).
Proof. intros Hp Hq. rewrite <- (real_scaled q p) by assumption. rewrite (Z.add_comm q p). now apply real_over. Qed.

Lemma score_near p q d query b tap tap' :
  (0 <= p)%Z -> (0 <= q)%Z -> (1 <= d)%nat -> balls p b query -> balls p (fst tap') (fst tap) -> snd tap' = snd tap ->
  near p (fst (score_bound p q (root_of p d) b tap')) (score q d query tap) /\
  score_size q d query tap <= real p (snd (score_bound p q (root_of p d) b tap')).
Proof.
  intros Hp Hq Hd Hb Ht same. pose proof (ball_dot_near p _ _ _ _ Hb Ht) as D. unfold score_bound, score, score_size.
  destruct (ball_dot b (fst tap')) as [[c s] t]. destruct D as [D Z]. rewrite same. cbn [fst snd].
  pose proof (root_near p d Hp Hd) as [Rl Rh]. set (root := root_of p d) in *. set (i := / sqrt (INR d)) in *.
  assert (0 <= real p root) as R0 by (apply real_positive, Z.sqrt_nonneg).
  set (x := exact (combine query (fst tap))) in *. set (z := size (combine query (fst tap))) in *.
  assert (0 <= z) as Z0 by apply size_positive.
  unfold Rdiv. fold i.
  pose proof (real_over p p c Hp) as [Cl Ch]. pose proof (real_over p p s Hp) as [_ Sh].
    pose proof (real_over p p t Hp) as [_ Th].
  rewrite real_plus in Ch, Sh, Th, Rh.
  assert (Rabs (x - real p (c / 2 ^ p)) <= real p (s / 2 ^ p + 2)) as X.
  { rewrite (real_plus p _ 2), (real_count p 2).
    replace (x - real p (c / 2 ^ p)) with ((x - real (p + p) c) + (real (p + p) c - real p (c / 2 ^ p))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. assert (Rabs (real (p + p) c - real p (c / 2 ^ p)) <= real p 1)
      by (apply Rabs_le; lra).
    lra. }
  set (m := (c / 2 ^ p)%Z) in *. set (e := (s / 2 ^ p + 2)%Z) in *.
  split.
  - pose proof (real_over p p (m * root) Hp) as [Ml Mh].
    pose proof (real_over p p (Z.abs m + e * (root + 1)) Hp) as [_ Eh].
    pose proof (biased p q (snd tap) Hp Hq) as [Bl Bh].
    rewrite real_plus, real_times in Mh. rewrite real_times in Ml.
    rewrite (real_plus (p + p)), (real_plus p _ 1), real_times, real_plus in Eh. rewrite real_plus in Bh.
    assert (real (p + p) (Z.abs m) = Rabs (real p m) * real p 1) as A.
    { rewrite <- real_abs, <- real_times, Z.mul_1_r. reflexivity. }
    rewrite A in Eh. unfold near. cbn [fst snd]. rewrite (real_plus p _ 4), (real_count p 4), real_plus.
    set (v := real p (m * root / 2 ^ p)) in *. set (w := real p (snd tap * 2 ^ p / 2 ^ q)) in *.
    replace (x * i + real q (snd tap) - (v + w))
      with ((x - real p m) * i + (real p m * (i - real p root) + ((real p m * real p root - v) + (real q (snd tap)
        - w)))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
    pose proof (Rabs_triang (real p m * (i - real p root)) ((real p m * real p root - v) + (real q (snd tap) - w)))
      as T1.
    pose proof (Rabs_triang (real p m * real p root - v) (real q (snd tap) - w)) as T2. rewrite Rabs_mult in T1.
    assert (Rabs (real p m * real p root - v) <= real p 1) by (apply Rabs_le; lra).
    assert (Rabs (real q (snd tap) - w) <= real p 1) by (apply Rabs_le; lra).
    assert (Rabs (i - real p root) <= real p 1) as I1 by (apply Rabs_le; lra).
    assert (Rabs (real p m) * Rabs (i - real p root) <= Rabs (real p m) * real p 1)
      by (apply Rmult_le_compat_l; auto using Rabs_pos).
    assert (Rabs (x - real p m) * Rabs i <= real p e * (real p root + real p 1)).
    { apply Rmult_le_compat; auto using Rabs_pos. apply Rabs_le. lra. }
    lra.
  - pose proof (real_over p p ((t / 2 ^ p + 1) * (root + 1)) Hp) as [_ Mh].
    pose proof (biased p q (Z.abs (snd tap)) Hp Hq) as [_ Bh]. rewrite real_times, real_plus in Mh.
    rewrite (real_plus p _ (_ / _ + 1)%Z), (real_plus p _ 1).
    rewrite <- real_abs.
    assert (z * i <= real p (t / 2 ^ p + 1) * real p (root + 1)).
    { apply Rmult_le_compat; try rewrite real_plus; lra. }
    rewrite !real_plus in *. lra.
Qed.

(** A bound of every score, with what the arithmetic may be off by. *)
Definition scores_bound (p q : Z) (d : nat) (query : list ball) (taps : list (list ball * Z)) : list ball :=
  let root := root_of p d in
  let bounds := map (score_bound p q root query) taps in
  let most := fold_right (fun b m => Z.max (snd b) m) 0%Z bounds in
  let off := ((Z.of_nat d + 16) * most / 2 ^ 24 + 1 + 1)%Z in
  map (fun b => (fst (fst b), snd (fst b) + off)%Z) bounds.

(** Balls of what a tap is to a head, and the bias. *)
Definition tap_near (p : Z) (b : list ball * Z) (tap : list R * Z) : Prop :=
  balls p (fst b) (fst tap) /\ snd b = snd tap.

Lemma little_is_less p : (p <= 80)%Z -> little <= real p 1.
Proof. exact (one_is_more p). Qed.

Lemma largest_bound p q d query b taps taps' :
  (0 <= p)%Z -> (0 <= q)%Z -> (1 <= d)%nat -> balls p b query -> Forall2 (tap_near p) taps' taps ->
  largest q d query taps <=
  real p (fold_right (fun b m => Z.max (snd b) m) 0%Z (map (score_bound p q (root_of p d) b) taps')).
Proof.
  intros Hp Hq Hd Hb. induction 1 as [|t' t ts' ts [near_ same] _ IH]; simpl; [rewrite real_0; lra|].
  destruct (score_near p q d query b t t' Hp Hq Hd Hb near_ same) as [_ S]. apply Rmax_lub.
  - eapply Rle_trans; [exact S|]. apply real_le. lia.
  - eapply Rle_trans; [exact IH|]. apply real_le. lia.
Qed.

Lemma scores_near p q d query b taps taps' s :
  (0 <= p <= 80)%Z -> (0 <= q)%Z -> (1 <= d)%nat -> balls p b query -> Forall2 (tap_near p) taps' taps ->
  scores q d query taps s -> balls p (scores_bound p q d b taps') s.
Proof.
  intros Hp Hq Hd Hb Ht each. pose proof (largest_bound p q d query b taps taps' ltac:(lia) Hq Hd Hb Ht) as most.
  unfold scores_bound. cbv zeta. set (k := fold_right _ _ _) in *. clearbody k. unfold scores in each.
  assert ((INR d + 16) * u * largest q d query taps + little <= real p ((Z.of_nat d + 16) * k / 2 ^ 24 + 1 + 1))
    as enough.
  { pose proof (real_times_u p ((Z.of_nat d + 16) * k)) as U. pose proof (little_is_less p ltac:(lia)).
    replace (real p ((Z.of_nat d + 16) * k)) with ((INR d + 16) * real p k) in U
      by (unfold real; rewrite mult_IZR, plus_IZR, <- INR_IZR_INZ; ring).
    rewrite (real_plus p _ 1). pose proof u_positive as P. pose proof (pos_INR d).
    assert ((INR d + 16) * u * largest q d query taps <= (INR d + 16) * u * real p k) by (apply Rmult_le_compat_l; nra).
    lra. }
  set (off := ((Z.of_nat d + 16) * k / 2 ^ 24 + 1 + 1)%Z) in *. clearbody off.
  set (bound := (INR d + 16) * u * largest q d query taps + little) in *. clearbody bound. clear most k.
  revert taps' Ht. induction each as [|t v ts vs one _ IH]; intros ts' Ht;
    inversion Ht as [|t' ? ts0 ? [near_ same] rest]; subst.
  - constructor.
  - simpl. constructor; [|now apply IH].
    destruct (score_near p q d query b t t' ltac:(lia) Hq Hd Hb near_ same) as [N _]. unfold near in *. cbn [fst snd].
    rewrite real_plus.
    rewrite Rplus_comm. apply (by_way_of v (score q d query t)); [exact (Rle_trans _ _ _ one enough)|exact N].
Qed.

(** * The softmax *)

Definition units (p m e : Z) : Z := if (0 <=? e + p)%Z then (m * 2 ^ (e + p))%Z else (m / 2 ^ (- (e + p)))%Z.

Lemma units_near p m e : real p (units p m e) <= real (- e) m <= real p (units p m e + 1).
Proof.
  unfold units. destruct (Z.leb_spec 0 (e + p)) as [large|small].
  - rewrite real_plus. replace (real p (m * 2 ^ (e + p))) with (real (- e) m).
    + pose proof (real_positive p 1 ltac:(lia)). lra.
    + replace p with (- e + (e + p))%Z at 1 by lia. now rewrite real_scaled.
  - replace (- e)%Z with (p + - (e + p))%Z by lia. apply real_over. lia.
Qed.

(** A ball of a number of an interval that is known to lie in [0, 1]. *)
Definition weight_of (p : Z) (i : I.type) : ball :=
  match i with
  | Ibnd (Float m e) (Float m' e') =>
      let low := units p m e in
      let high := (units p m' e' + 1)%Z in
      ((low + high) / 2, high - (low + high) / 2)%Z
  | _ => (0, 2 ^ p)%Z
  end.

Lemma weight_near p i x :
  (0 <= p)%Z -> contains (I.convert i) (Xreal x) -> 0 <= x <= 1 -> near p (weight_of p i) x.
Proof.
  intros Hp inside unit. unfold weight_of.
  assert (near p (0, 2 ^ p)%Z x) as trivial.
  { unfold near. cbn [fst snd]. rewrite real_0, Rminus_0_r. unfold real.
    rewrite power_of_two, <- bpow_plus, Z.add_opp_diag_r by assumption.
    simpl. rewrite Rabs_pos_eq; lra. }
  destruct i as [|[|m e] [|m' e']]; try exact trivial.
  change (Ibnd (Float m e) (Float m' e')) with (I.bnd (Float m e) (Float m' e')) in inside.
  rewrite I.bnd_correct in inside by reflexivity. change I.F.toX with F.toX in inside.
  replace e with (- - e)%Z in inside by lia. replace e' with (- - e')%Z in inside by lia.
  rewrite !float_is_real in inside. simpl in inside.
  pose proof (units_near p m e) as [L _]. pose proof (units_near p m' e') as [_ H].
  set (low := units p m e) in *. set (high := (units p m' e' + 1)%Z) in *. clearbody low high.
  set (c := ((low + high) / 2)%Z). unfold near. cbn [fst snd]. rewrite real_minus.
  assert (real p c - real p low <= real p high - real p c) as C.
  { rewrite <- !real_minus. apply real_le. unfold c. pose proof (Z.mul_div_le (low + high) 2 ltac:(lia)). lia. }
  apply Rabs_le. lra.
Qed.

(** exp (s_i - s_j), or anything where the difference may be above 2^16: sums of such numbers are too long to compute. *)
Definition ratio (p : Z) (a b : ball) : I.type :=
  if (Z.abs (fst a - fst b) + (snd a + snd b) <=? 2 ^ (p + 16))%Z
  then I.exp digits (interval p (fst a - fst b - (snd a + snd b), fst a - fst b + (snd a + snd b))%Z)
  else I.nai.

Lemma ratio_holds p a b x y :
  near p a x -> near p b y -> contains (I.convert (ratio p a b)) (Xreal (exp (x - y))).
Proof.
  intros Ha Hb. unfold ratio. destruct (_ <=? _)%Z; [|now rewrite I.nai_correct]. apply (I.exp_correct digits _ (Xreal (x - y))). apply interval_holds. unfold within.
    cbn [fst snd].
  unfold near in *. apply Rabs_le_inv in Ha, Hb. rewrite real_minus, real_plus, !real_plus, !real_minus. lra.
Qed.

(** Σ_k exp (s_k - s_j), of which the one with itself is 1. [i] is the place of the first. *)
Fixpoint ratios (p : Z) (j : nat) (b : ball) (i : nat) (s : list ball) : I.type :=
  match s with
  | [] => I.fromZ digits 0
  | a :: s => I.add digits (if (i =? j)%nat then I.fromZ digits 1 else ratio p a b) (ratios p j b (S i) s)
  end.

Definition softmax_bound (p : Z) (s : list ball) : list ball :=
  map (fun j => weight_of p (I.inv digits (ratios p j (nth j s (exactly 0)) 0 s))) (seq 0 (length s)).

Definition total_to (y : R) (s : list R) : R := fold_right (fun x t => exp (x - y) + t) 0 s.

Lemma total_to_is y s : total s = exp y * total_to y s.
Proof.
  unfold total, total_to. induction s as [|x s IH]; simpl; [ring|]. rewrite IH, Rmult_plus_distr_l, <- exp_plus.
  do 2 f_equal. ring.
Qed.

Lemma total_to_positive y s : 0 <= total_to y s.
Proof. induction s as [|x s IH]; simpl; [lra|]. pose proof (exp_pos (x - y)). lra. Qed.

Lemma ratios_hold p j b y s x : balls p s x -> near p b y -> forall i,
  (forall k v, nth_error x k = Some v -> (i + k)%nat = j -> v = y) ->
  contains (I.convert (ratios p j b i s)) (Xreal (total_to y x)).
Proof.
  intros Hs Hb. induction Hs as [|a v s x one _ IH]; intros i same.
  { exact (I.fromZ_correct digits 0). }
  cbn [ratios]. change (total_to y (v :: x)) with (exp (v - y) + total_to y x).
  replace (Xreal (exp (v - y) + total_to y x)) with (Xadd (Xreal (exp (v - y))) (Xreal (total_to y x))) by reflexivity.
  apply I.add_correct.
  - destruct (Nat.eqb_spec i j) as [here|].
    + rewrite (same 0%nat v eq_refl) by lia. rewrite Rminus_diag_eq, exp_0 by reflexivity. apply I.fromZ_correct.
    + now apply ratio_holds.
  - apply IH. intros k w at_k place. apply (same (S k) w); [assumption|lia].
Qed.

Lemma nth_near p a x j : balls p a x -> near p (nth j a (exactly 0)) (nth j x 0).
Proof.
  intros H. revert j. induction H as [|b v a x one _ IH]; intros [|j]; simpl; auto;
  unfold near, exactly; cbn [fst snd]; rewrite real_0, Rminus_0_r, Rabs_R0; lra.
Qed.

Lemma by_places {A} (d : A) l : l = map (fun j => nth j l d) (seq 0 (length l)).
Proof. induction l as [|x l IH]; simpl; [reflexivity|]. f_equal. rewrite <- seq_shift, map_map. exact IH. Qed.

Lemma softmax_is s : softmax s = map (fun j => / total_to (nth j s 0) s) (seq 0 (length s)).
Proof.
  unfold softmax. transitivity (map (fun x => exp x / total s) (map (fun j => nth j s 0) (seq 0 (length s)))).
  { f_equal. apply by_places. }
  rewrite map_map. apply map_ext. intros j.
  rewrite (total_to_is (nth j s 0) s). pose proof (exp_pos (nth j s 0)) as P.
  destruct (Req_dec (total_to (nth j s 0) s) 0) as [->|some].
  - rewrite Rmult_0_r. unfold Rdiv. rewrite Rinv_0. ring.
  - field. lra.
Qed.

Lemma on_places {A B} (P : A -> B -> Prop) f g n start :
  (forall j, (start <= j < start + n)%nat -> P (f j) (g j)) -> Forall2 P (map f (seq start n)) (map g (seq start n)).
Proof.
  revert start. induction n as [|n IH]; intros start each; simpl; constructor; [apply each; lia|].
  apply IH. intros j Hj. apply each. lia.
Qed.

Lemma total_to_own y s : In y s -> 1 <= total_to y s.
Proof.
  induction s as [|x s IH]; [easy|]. intros [->|later]; simpl.
  - rewrite Rminus_diag_eq, exp_0 by reflexivity. pose proof (total_to_positive y s). lra.
  - specialize (IH later). pose proof (exp_pos (x - y)). lra.
Qed.

Lemma softmax_near p a s : (0 <= p)%Z -> balls p a s -> balls p (softmax_bound p a) (softmax s).
Proof.
  intros Hp near_. rewrite softmax_is. unfold softmax_bound.
  assert (length a = length s) as L by (clear -near_; induction near_; simpl; auto). rewrite L.
  apply on_places. intros j [_ Hj]. simpl in Hj.
  assert (1 <= total_to (nth j s 0) s) as large by (apply total_to_own, nth_In; exact Hj).
  apply weight_near; [assumption| |].
  - replace (Xreal (/ total_to (nth j s 0) s)) with (Xinv (Xreal (total_to (nth j s 0) s))).
    + apply I.inv_correct, ratios_hold; [exact near_|now apply nth_near|].
      intros k v at_k place. simpl in place. subst k. symmetry. now apply nth_error_nth.
    + simpl. unfold Xinv'. rewrite is_zero_false by lra. reflexivity.
  - split; [left; apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
Qed.

(** * What is mixed *)

Definition ball_sizes (x : list ball) : Z := fold_right (fun b s => Z.abs (fst b) + snd b + s)%Z 0%Z x.

Lemma sizes_bound p b x : balls p b x -> sizes x <= real p (ball_sizes b).
Proof.
  induction 1 as [|a v b x one _ IH]; simpl; [rewrite real_0; lra|]. rewrite (real_plus p _ (ball_sizes b)).
  pose proof (near_size _ _ _ one). lra.
Qed.

Definition column_of (i : nat) (b : list (list ball)) : list ball := map (fun v => nth i v (exactly 0)) b.

Definition mixed_bound (p : Z) (weights values : list ball) : ball :=
  let '(c, s, _) := ball_dot weights values in
  (c / 2 ^ p, s / 2 ^ p + 2 + ((2 * Z.of_nat (length values) + 200) * ball_sizes values / 2 ^ 24 + 1) + 1)%Z.

Lemma mixed_near p i a s b values y :
  (0 <= p <= 80)%Z -> balls p a s -> Forall2 (balls p) b values -> mixed s values i y ->
  near p (mixed_bound p (softmax_bound p a) (column_of i b)) y.
Proof.
  intros Hp Hs Hv one. unfold mixed in one.
  assert (balls p (column_of i b) (column i values)) as C.
  { clear -Hv. unfold column, column_of. induction Hv; simpl; constructor; auto. now apply nth_near. }
  assert (length b = length values) as L by (clear -Hv; induction Hv; simpl; auto).
  set (col := column_of i b) in *. assert (length col = length values) as L' by (unfold col, column_of;
    now rewrite map_length).
  pose proof (ball_dot_near p _ _ _ _ (softmax_near p a s ltac:(lia) Hs) C) as D. unfold mixed_bound.
  destruct (ball_dot (softmax_bound p a) col) as [[c r] z]. destruct D as [D _]. rewrite L'.
  pose proof (sizes_bound _ _ _ C) as S. unfold near. cbn [fst snd].
  pose proof (real_over p p c ltac:(lia)) as [Cl Ch]. pose proof (real_over p p r ltac:(lia)) as [_ Rh].
  pose proof (real_times_u p ((2 * Z.of_nat (length values) + 200) * ball_sizes col)) as U.
  replace (real p ((2 * Z.of_nat (length values) + 200) * ball_sizes col))
    with ((2 * INR (length values) + 200) * real p (ball_sizes col)) in U
    by (unfold real; rewrite !mult_IZR, plus_IZR, mult_IZR, <- INR_IZR_INZ; ring).
  pose proof (little_is_less p ltac:(lia)) as T. pose proof u_positive as P. pose proof (pos_INR (length values)) as N.
  assert ((2 * INR (length values) + 200) * u * sizes (column i values) <=
          (2 * INR (length values) + 200) * u * real p (ball_sizes col)) by (apply Rmult_le_compat_l; nra).
  rewrite (real_plus p _ 1), (real_plus p (r / 2 ^ p + 2)), (real_plus p _ 2), (real_count p 2).
  rewrite (real_plus p _ 1) in Ch. rewrite (real_plus p _ 1) in Rh.
  set (x := exact (combine (softmax s) (column i values))) in *.
  replace (y - real p (c / 2 ^ p)) with ((y - x) + ((x - real (p + p) c) + (real (p + p) c - real p (c / 2 ^ p))))
    by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  pose proof (Rabs_triang (x - real (p + p) c) (real (p + p) c - real p (c / 2 ^ p))).
  assert (Rabs (real (p + p) c - real p (c / 2 ^ p)) <= real p 1) by (apply Rabs_le; lra). lra.
Qed.

Definition attends_bound (p q : Z) (d : nat) (query : list ball) (keys : list (list ball)) (biases : list Z)
    (values : list (list ball)) : list ball :=
  let weights := softmax_bound p (scores_bound p q d query (combine keys biases)) in
  map (fun i => mixed_bound p weights (column_of i values)) (seq 0 d).

Lemma attends_near p q d query keys biases values b kb vb y :
  (0 <= p <= 80)%Z -> (0 <= q)%Z -> (1 <= d)%nat ->
  balls p b query -> Forall2 (balls p) kb keys -> Forall2 (balls p) vb values ->
  attends q d query keys biases values y -> balls p (attends_bound p q d b kb biases vb) y.
Proof.
  intros Hp Hq Hd Hb Hk Hv (s & each & mixes).
  assert (balls p (scores_bound p q d b (combine kb biases)) s) as S.
  { apply (scores_near p q d query b (combine keys biases)); auto. clear -Hk. revert biases.
    induction Hk as [|k' k ks' ks one _ IH]; intros [|r rs]; simpl; constructor; auto. now split. }
  unfold attends_bound. cbv zeta. clear each. revert mixes. generalize (seq 0 d). intros places mixes.
  induction mixes as [|i v is y one _ IH]; simpl; constructor; [|exact IH].
  now apply (mixed_near p i _ s vb values).
Qed.

Definition attention_bound (p q : Z) (heads d : nat) (query : list ball) (keys values : list (list ball))
    (biases : list (list Z)) : list ball :=
  concat (map (fun h => attends_bound p q d (part d h query) (map (part d h) keys) (nth h biases []) (map (part d h)
    values))
              (seq 0 heads)).

Lemma part_near p d h b x : balls p b x -> balls p (part d h b) (part d h x).
Proof.
  unfold part. generalize (h * d)%nat. intros n H. revert n d. induction H as [|a v b x one H IH]; intros [|n] d;
    simpl; rewrite ?firstn_nil; try constructor.
  - destruct d as [|d]; simpl; constructor; [assumption|]. specialize (IH 0%nat d). exact IH.
  - apply IH.
Qed.

Lemma parts_near p d h b x : Forall2 (balls p) b x -> Forall2 (balls p) (map (part d h) b) (map (part d h) x).
Proof. induction 1; simpl; constructor; auto using part_near. Qed.

Theorem attention_near p q heads d query keys values biases b kb vb y :
  (0 <= p <= 80)%Z -> (0 <= q)%Z -> (1 <= d)%nat ->
  balls p b query -> Forall2 (balls p) kb keys -> Forall2 (balls p) vb values ->
  attention q heads d query keys values biases y -> balls p (attention_bound p q heads d b kb vb biases) y.
Proof.
  intros Hp Hq Hd Hb Hk Hv (ys & -> & each). unfold attention_bound. revert each. generalize (seq 0 heads).
    intros hs each.
  induction each as [|h v hs vs one _ IH]; simpl; [constructor|]. apply Forall2_app; [|exact IH].
  apply (attends_near p q d (part d h query) (map (part d h) keys) (nth h biases []) (map (part d h) values));
    auto using part_near, parts_near.
Qed.

(** * What implementations do is allowed

    Of scores that are scaled after they are summed, and of mixtures by weights; what two taps are mixed by is left out. *)

Lemma tiny_is_tiny : tiny <= / 16777216.
Proof. replace (/ 16777216) with u by reflexivity. apply bpow_le. lia. Qed.

(** A sum, scaled by what is within 2 u of 1 / √d, and a bias added. *)
Lemma scaled_after q d query tap taps c t s v :
  (1 <= d <= 2000)%nat -> (length (combine query (fst tap)) <= d)%nat -> In tap taps ->
  sum (combine query (fst tap)) t -> Rabs (c - / sqrt (INR d)) <= 2 * u * / sqrt (INR d) ->
  rounded (t * c) s -> rounded (s + real q (snd tap)) v ->
  Rabs (v - score q d query tap) <= (INR d + 16) * u * largest q d query taps + little.
Proof.
  intros Hd few known Ht Hc Hs Hv.
  assert (score_size q d query tap <= largest q d query taps) as most.
  { clear -known. induction taps as [|k taps IH]; [easy|]. simpl. destruct known as [->|later]; [apply Rmax_l|].
    eapply Rle_trans; [now apply IH|apply Rmax_r]. }
  pose proof u_positive as U0. assert (u = / 16777216) as U by reflexivity. pose proof tiny_positive as T.
  assert (1 <= INR d <= 2000) as D.
  { split; [apply (le_INR 1); lia|]. rewrite INR_IZR_INZ. apply IZR_le. lia. }
  apply Rle_trans with ((INR d + 16) * u * score_size q d query tap + little);
    [|apply Rplus_le_compat_r, Rmult_le_compat_l; [apply Rmult_le_pos; lra|exact most]].
  clear most known taps. set (l := combine query (fst tap)) in *. unfold score, score_size, little. fold l.
  set (b := real q (snd tap)) in *. pose proof (size_positive l) as S. pose proof (exact_within_size l) as X.
  pose proof (sum_error l t Ht) as E. pose proof (off_at_most (length l) (size l) ltac:(lia) S) as O.
  assert (0 <= INR (length l) <= INR d) as L by (split; [apply pos_INR|apply le_INR; exact few]).
  assert (Rabs (t - exact l) <= (INR d + 1) * u * size l + 8000 * tiny) as Et.
  { assert ((INR (length l) + 1) * u * size l <= (INR d + 1) * u * size l).
    { apply Rmult_le_compat_r; [exact S|]. apply Rmult_le_compat_r; lra. }
    assert (4 * INR (length l) * tiny <= 8000 * tiny) by (apply Rmult_le_compat_r; lra). lra. }
  unfold Rdiv. assert (0 < / sqrt (INR d) <= 1) as I.
  { assert (1 <= sqrt (INR d)) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; lra).
    split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
  set (i := / sqrt (INR d)) in *. clearbody i l b. clear few O E L Ht.
  set (x := exact l) in *. set (z := size l) in *. clearbody x z. set (n := INR d) in *. clearbody n.
  unfold rounded in Hs, Hv.
  assert (Rabs c <= i + 2 * u * i) as C.
  { replace c with ((c - i) + i) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq i) by lra. lra. }
  (* the product before it is rounded *)
  assert (Rabs (t * c - x * i) <= ((n + 1) * u * z + 8000 * tiny) * (i + 2 * u * i) + z * (2 * u * i)) as P.
  { replace (t * c - x * i) with ((t - x) * c + x * (c - i)) by ring. eapply Rle_trans; [apply Rabs_triang|].
    rewrite !Rabs_mult. apply Rplus_le_compat; apply Rmult_le_compat; auto using Rabs_pos. }
  assert (Rabs (t * c) <= z * i + Rabs (t * c - x * i)) as P'.
  { replace (t * c) with (x * i + (t * c - x * i)) at 1 by ring. eapply Rle_trans; [apply Rabs_triang|].
    apply Rplus_le_compat_r. rewrite Rabs_mult, (Rabs_pos_eq i) by lra. apply Rmult_le_compat_r; lra. }
  assert (0 <= z * i) as A by (apply Rmult_le_pos; lra).
  assert (n * (z * i) <= 2000 * (z * i)) as NA by (apply Rmult_le_compat_r; lra).
  assert (0 <= n * (z * i)) as NA0 by (apply Rmult_le_pos; lra).
  assert (0 <= tiny * i <= tiny) as TI by (split; nra).
  assert (Rabs (t * c - x * i) <= (n + 4) * u * (z * i) + 8001 * tiny) as Q.
  { eapply Rle_trans; [exact P|]. set (a := z * i) in *.
    replace (((n + 1) * u * z + 8000 * tiny) * (i + 2 * u * i) + z * (2 * u * i))
      with ((n + 1) * u * a * (1 + 2 * u) + 2 * u * a + 8000 * (tiny * i) * (1 + 2 * u)) by (unfold a; ring).
    rewrite U in *. nra. }
  assert (Rabs (s - x * i) <= (n + 6) * u * (z * i) + 8003 * tiny) as Es.
  { pose proof (by_way_of s (t * c) (x * i) _ _ Hs (Rle_refl _)) as W. rewrite U in *. set (a := z * i) in *. lra. }
  assert (Rabs (s + b) <= z * i + Rabs b + ((n + 6) * u * (z * i) + 8003 * tiny)) as B.
  { replace (s + b) with ((x * i + b) + (s - x * i)) by ring. eapply Rle_trans; [apply Rabs_triang|].
    apply Rplus_le_compat; [|exact Es]. eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat_r.
    rewrite Rabs_mult, (Rabs_pos_eq i) by lra. apply Rmult_le_compat_r; lra. }
  assert (Rabs (s + b - (x * i + b)) <= (n + 6) * u * (z * i) + 8003 * tiny) as W
    by (replace (s + b - (x * i + b)) with (s - x * i) by ring; exact Es).
  pose proof (by_way_of v (s + b) (x * i + b) _ _ Hv W) as F. pose proof (Rabs_pos b).
  rewrite U in *. set (a := z * i) in *. assert (0 <= n * Rabs b) by (apply Rmult_le_pos; lra). lra.
Qed.

(** Weights within (C + 160) u of those of the softmax, as C exponentials within 32 ulps give them, and the sum of their
    products with the values. *)
Lemma mixed_by_weights s values i w y :
  (1 <= length values <= 1000)%nat -> length s = length values ->
  Forall2 (fun a b => Rabs (a - b) <= (INR (length values) + 160) * u * b + tiny) w (softmax s) ->
  sum (combine w (column i values)) y -> mixed s values i y.
Proof.
  intros Hc Ls near_ Hy. unfold mixed. set (n := INR (length values)) in *. set (v := column i values) in *.
  assert (length v = length values) as Lv by (unfold v, column; apply map_length).
  pose proof u_positive as U0. assert (u = / 16777216) as U by reflexivity. pose proof tiny_positive as T.
  assert (tiny <= u) as Tu by (apply bpow_le; lia).
  assert (1 <= n <= 1000) as N.
  { unfold n. split; [apply (le_INR 1); lia|]. rewrite INR_IZR_INZ. apply IZR_le. lia. }
  assert (Forall (fun b => 0 <= b <= 1) (softmax s)) as unit.
  { rewrite softmax_is. apply Forall_forall. intros b Hb. apply in_map_iff in Hb as (j & <- & Hj). apply in_seq in Hj.
    assert (1 <= total_to (nth j s 0) s) by (apply total_to_own, nth_In; lia).
    split; [left; apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
  assert (length (combine w v) <= length values)%nat as few by (rewrite combine_length; lia).
  assert (forall v, Rabs (exact (combine w v) - exact (combine (softmax s) v)) <= (n + 161) * u * sizes v /\
                    size (combine w v) <= (1 + / 1000) * sizes v) as all.
  { clear -near_ unit N U U0 T Tu. revert unit. induction near_ as [|a b w ws one _ IH]; intros unit v.
    - simpl. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity.
      assert (0 <= sizes v) by (induction v as [|x v IH]; simpl; [lra|]; pose proof (Rabs_pos x); lra).
      assert (0 <= (n + 161) * u) by (apply Rmult_le_pos; lra). split; [now apply Rmult_le_pos|lra].
    - inversion unit as [|? ? Hb rest]; subst. destruct v as [|x v].
      { simpl. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. lra. }
      destruct (IH rest v) as [D Z]. simpl. pose proof (Rabs_pos x) as X.
      assert ((n + 160) * u * b <= (n + 160) * u * 1) as W by (apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra]).
      assert (Rabs (a - b) <= (n + 161) * u) as A by lra.
      assert (Rabs (a * x - b * x) <= (n + 161) * u * Rabs x) as E.
      { rewrite <- Rmult_minus_distr_r, Rabs_mult. apply Rmult_le_compat_r; assumption. }
      assert (Rabs a <= 1 + / 1000) as A2.
      { replace a with (b + (a - b)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq b) by lra.
        assert ((n + 161) * u <= / 1000) by (rewrite U; lra). lra. }
      split.
      + replace (a * x + exact (combine w v) - (b * x + exact (combine ws v)))
          with ((a * x - b * x) + (exact (combine w v) - exact (combine ws v))) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. lra.
      + rewrite Rabs_mult. assert (Rabs a * Rabs x <= (1 + / 1000) * Rabs x) by (apply Rmult_le_compat_r; lra). lra. }
  destruct (all v) as [Dv Zv].
  clear all near_ unit. pose proof (sum_error _ y Hy) as E.
  pose proof (off_at_most (length (combine w v)) (size (combine w v)) ltac:(lia) (size_positive _)) as O.
  assert (0 <= INR (length (combine w v)) <= n) as L by (split; [apply pos_INR|apply le_INR; exact few]).
  set (z := sizes v) in *. set (k := size (combine w v)) in *. assert (0 <= k) as K by apply size_positive.
  assert (0 <= z) as P.
  { unfold z. clear. induction v as [|x v IH]; simpl; [lra|]. pose proof (Rabs_pos x). lra. }
  assert ((INR (length (combine w v)) + 1) * u * k <= (n + 1) * u * ((1 + / 1000) * z)).
  { apply Rmult_le_compat; [apply Rmult_le_pos; lra|exact K|apply Rmult_le_compat_r; lra|exact Zv]. }
  assert (4 * INR (length (combine w v)) * tiny <= 16000 * tiny) by (apply Rmult_le_compat_r; lra).
  pose proof (by_way_of y (exact (combine w v)) _ _ _ E Dv) as F. unfold little.
  assert (n * z <= 1000 * z) by (apply Rmult_le_compat_r; lra). rewrite U in *. lra.
Qed.
