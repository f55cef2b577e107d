(** LayerNorm: what the arithmetic may give for it, and bounds over a box.

        y = (x - μ) ρ w + b,      μ = Σ x / n,      ρ = 1 / sqrt(Σ (x - μ)² / n + 10^-5)

    [normed p weights x y]: y is allowed. [weights] has w and b of every entry, numbers k 2^-p. Allowed is

        any mean          within (n + 5) u Σ|x| / n + 2^-100
        any variance      within 4 (n + 9) u Σ x² / n + 2^-100: two passes, Σ x² / n - μ², Welford's updates
        10^-5, and its sum with the variance, rounded
        any ρ             within 32 u of 1 / sqrt of that sum, relatively: a square root and a division of 4 ulps each
        (x - μ) ρ         each operation rounded; or x ρ - μ ρ, as a sum of two products of which μ ρ was rounded
        · w + b           a sum of products as in Rounding.v

    Of the mean, the variance and ρ this is a hypothesis about the implementation. [norm_of p weights box] bounds every
    entry, or fails; [norm_holds] says so, and [every_vector_has_a_norm] that something is allowed. Boxes may be wide: of
    each entry 1 - 1/n enters its own difference from the mean. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Real.Xreal.
From Lengthwise Require Import Rounding Dyadic Intervals Machine Affine.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

(** * What is allowed *)

Definition total (x : list R) : R := fold_right Rplus 0 x.
Definition count_of (x : list R) : R := IZR (Z.of_nat (length x)).
Definition mean (x : list R) : R := total x / count_of x.
Definition variance (x : list R) : R := mean (map (fun a => (a - mean x) * (a - mean x)) x).
Definition epsilon : R := 1 / 100000.

Definition mean_off (x : list R) : R := IZR (Z.of_nat (length x) + 5) * u * mean (map Rabs x) + tiny.
Definition variance_off (x : list R) : R :=
  IZR (4 * (Z.of_nat (length x) + 9)) * u * mean (map (fun a => a * a) x) + tiny.

Definition near_inverse_root (t r : R) : Prop := Rabs (r - / sqrt t) <= 32 * u * Rabs (/ sqrt t).

(** (x - m) r, in the two ways in which it is computed. [allows] is the arithmetic of products and sums. *)
Definition centred_in (allows : R -> R -> Prop) (m r x z : R) : Prop :=
  (exists d, allows (x - m) d /\ allows (d * r) z) \/
  (exists c, allows (- (m * r)) c /\ sum_in allows [(x, r); (c, 1)] z).
Definition scaled_in (allows : R -> R -> Prop) (p : Z) (m r : R) (weight : Z * Z) (x y : R) : Prop :=
  exists z, centred_in allows m r x z /\ sum_in allows [(z, real p (fst weight)); one p (snd weight)] y.

Definition normed_in (allows : R -> R -> Prop) (p : Z) (weights : list (Z * Z)) (x y : list R) : Prop :=
  exists m v e t r,
    Rabs (m - mean x) <= mean_off x /\ Rabs (v - variance x) <= variance_off x /\
    allows epsilon e /\ allows (v + e) t /\ near_inverse_root t r /\
    Forall2 (fun each y => scaled_in allows p m r (fst each) (snd each) y) (combine weights x) y.

Definition centred := centred_in rounded.
Definition scaled := scaled_in rounded.
Definition normed := normed_in rounded.

(** * Bounds *)

Definition total_of (box : list (Z * Z)) : Z * Z :=
  fold_right (fun b s => (fst b + fst s, snd b + snd s)%Z) (0, 0)%Z box.

(** n x - Σ x, of an entry of which [b] are the ends, and all of which [s] bounds the sum. *)
Definition spread (n : Z) (s b : Z * Z) : Z * Z :=
  ((n - 1) * fst b - (snd s - snd b), (n - 1) * snd b - (fst s - fst b))%Z.

Definition sum_i (l : list I.type) : I.type := fold_right plus (I.fromZ digits 0) l.
Definition mean_i (n : I.type) (l : list I.type) : I.type := I.div digits (sum_i l) n.

Definition off_of (factor : Z) (x : I.type) : I.type := plus (times_i (times_i (I.fromZ digits factor) u_i) x) tiny_i.

Definition scaled_i (p : Z) (m off r : I.type) (weight : Z * Z) (b : Z * Z) (d : I.type) : I.type :=
  let size := times_i (plus (I.abs (interval p b)) (I.abs m)) (I.abs r) in
  let beyond := plus (plus (times_i (times_i (I.fromZ digits 5) u_i) size) (times_i (I.fromZ digits 10) tiny_i))
                     (times_i (times_i (I.fromZ digits 2) tiny_i) (I.abs r)) in
  let z := around (times_i (around d off) r) beyond in
  sum_of_two (times_i z (spot p (fst weight))) (spot p (snd weight)).

Fixpoint all_of {A} (l : list (option A)) : option (list A) :=
  match l with
  | [] => Some []
  | Some x :: l => match all_of l with Some l => Some (x :: l) | None => None end
  | None :: _ => None
  end.

Definition norm_of (p : Z) (weights box : list (Z * Z)) : option (list (Z * Z)) :=
  let k := Z.of_nat (length box) in
  let n := I.fromZ digits k in
  let s := total_of box in
  let x := map (interval p) box in
  let ds := map (fun b => I.div digits (interval p (spread k s b)) n) box in
  let off := off_of (k + 5) (mean_i n (map I.abs x)) in
  let m := around (I.div digits (interval p s) n) off in
  let v := around (mean_i n (map (I.sqr digits) ds)) (off_of (4 * (k + 9)) (mean_i n (map (I.sqr digits) x))) in
  let e := rounded_i (I.div digits (I.fromZ digits 1) (I.fromZ digits 100000)) in
  let root := I.inv digits (I.sqrt digits (rounded_i (plus v e))) in
  let r := around root (times_i near_off (I.abs root)) in
  all_of (map (fun each => outward p (scaled_i p m off r (fst each) (fst (snd each)) (snd (snd each))))
              (combine weights (combine box ds))).

(** * Soundness *)

Lemma total_within p box x : Forall2 (within p) box x -> within p (total_of box) (total x).
Proof.
  induction 1 as [|b y box x [Hl Hh] _ [IHl IHh]]; unfold within; simpl; [rewrite real_0; lra|].
  rewrite !real_plus. lra.
Qed.

(** The sum of all others. *)
Lemma rest_within p box x :
  Forall2 (within p) box x ->
  Forall2 (fun b y => real p (fst (total_of box) - fst b) <= total x - y <= real p (snd (total_of box) - snd b)) box x.
Proof.
  induction 1 as [|b y box x Hb H IH]; constructor.
  - pose proof (total_within _ _ _ H) as [Tl Th]. simpl. rewrite !real_minus, !real_plus. lra.
  - apply weaker with (2 := IH). intros c z. destruct Hb as [Hl Hh]. simpl. rewrite !real_minus, !real_plus. lra.
Qed.

Lemma differences_hold p box x :
  Forall2 (within p) box x ->
  Forall2 (fun b y => holds (I.div digits (interval p (spread (Z.of_nat (length box)) (total_of box) b))
                                   (I.fromZ digits (Z.of_nat (length box)))) (y - mean x)) box x.
Proof.
  intros H. pose proof (rest_within _ _ _ H) as Rest. pose proof (same_length _ _ _ H) as L.
  assert (N : box <> [] -> 1 <= count_of x).
  { intros some. unfold count_of. apply (IZR_le 1). destruct box; [easy|]. simpl in L. lia. }
  assert (All : Forall2 (fun b y => within p b y /\ box <> []) box x).
  { destruct box; [inversion H; constructor|]. apply weaker with (2 := H). now intros. }
  assert (Both : Forall2 (fun b y => (within p b y /\ box <> []) /\
            real p (fst (total_of box) - fst b) <= total x - y <= real p (snd (total_of box) - snd b)) box x).
  { clear -All Rest. revert All Rest. generalize (total_of box) (total x) (box <> []).
    intros t s P All. induction All; intros Rest; inversion Rest; subst; constructor; auto. }
  apply weaker with (2 := Both). intros b y [[[Hl Hh] some] [Rl Rh]]. specialize (N some).
  replace (y - mean x) with (((count_of x - 1) * y - (total x - y)) / count_of x) by (unfold mean; field; lra).
  apply over_holds; [|unfold count_of; rewrite <- L; apply whole_holds].
  apply interval_holds. unfold within, spread. cbn [fst snd]. rewrite L.
  assert (M : forall k, real p ((Z.of_nat (length x) - 1) * k) = (count_of x - 1) * real p k).
  { intros k. unfold real, count_of. rewrite mult_IZR, minus_IZR. ring. }
  rewrite !real_minus, !M. rewrite !real_minus in Rl, Rh.
  pose proof (Rmult_le_compat_l (count_of x - 1) _ _ ltac:(lra) Hl).
  pose proof (Rmult_le_compat_l (count_of x - 1) _ _ ltac:(lra) Hh). lra.
Qed.

Lemma sum_holds l x : Forall2 holds l x -> holds (sum_i l) (total x).
Proof. induction 1; simpl; [apply whole_holds|]. now apply plus_holds. Qed.

Lemma mean_holds k l x : k = Z.of_nat (length x) -> Forall2 holds l x -> holds (mean_i (I.fromZ digits k) l) (mean x).
Proof. intros -> H. apply over_holds; [now apply sum_holds|apply whole_holds]. Qed.

Lemma off_holds k a x : holds a x -> holds (off_of k a) (IZR k * u * x + tiny).
Proof.
  intros H. apply plus_holds; [|apply tiny_holds]. apply times_holds; [|exact H].
  apply times_holds; [apply whole_holds|apply u_holds].
Qed.

Lemma boxes_hold p box x : Forall2 (within p) box x -> Forall2 holds (map (interval p) box) x.
Proof. induction 1; simpl; constructor; auto. now apply interval_holds. Qed.

Lemma centred_error m r x z :
  centred m r x z ->
  Rabs (z - (x - m) * r) <= 5 * u * ((Rabs x + Rabs m) * Rabs r) + 10 * tiny + 2 * tiny * Rabs r.
Proof.
  assert (U : u = / 16777216) by reflexivity. pose proof tiny_positive as T.
  pose proof (Rabs_pos x) as X. pose proof (Rabs_pos m) as M. pose proof (Rabs_pos r) as Rr.
  set (B := Rabs x + Rabs m). pose proof (Rmult_le_pos _ _ X Rr) as XR. pose proof (Rmult_le_pos _ _ M Rr) as MR.
  assert (BR : B * Rabs r = Rabs x * Rabs r + Rabs m * Rabs r) by (unfold B; ring).
  intros [(d & Hd & Hz)|(c & Hc & Hz)].
  - unfold rounded in Hd, Hz. pose proof (Rabs_triang x (- m)) as A. rewrite Rabs_Ropp in A. fold (x - m) in A. fold B in A.
    pose proof (abs_sum z (d * r) ((x - m) * r)) as K.
    replace (d * r - (x - m) * r) with ((d - (x - m)) * r) in K by ring. rewrite Rabs_mult in K, Hz.
    assert (D : Rabs (d - (x - m)) <= u * B + tiny) by (rewrite U in *; lra).
    assert (Dd : Rabs d <= B + u * B + tiny).
    { replace d with ((d - (x - m)) + (x - m)) by ring. pose proof (Rabs_triang (d - (x - m)) (x - m)). lra. }
    pose proof (Rmult_le_compat_r _ _ _ Rr D) as D1. pose proof (Rmult_le_compat_r _ _ _ Rr Dd) as D2.
    replace ((u * B + tiny) * Rabs r) with (u * (B * Rabs r) + tiny * Rabs r) in D1 by ring.
    replace ((B + u * B + tiny) * Rabs r) with (B * Rabs r + u * (B * Rabs r) + tiny * Rabs r) in D2 by ring.
    pose proof (Rmult_le_pos _ _ (Rlt_le _ _ T) Rr). rewrite U in *. lra.
  - pose proof (sum_error _ _ Hz) as E. pose proof (off_at_most 2 (size [(x, r); (c, 1)]) ltac:(lia) (size_positive _)) as O.
    simpl in E, O. rewrite !Rplus_0_r, !Rmult_1_r in *. unfold rounded in Hc.
    pose proof (abs_sum z (x * r + c) ((x - m) * r)) as K.
    replace (x * r + c - (x - m) * r) with (c - - (m * r)) in K by ring.
    pose proof (Rabs_triang (c - - (m * r)) (- (m * r))) as C. replace (c - - (m * r) + - (m * r)) with c in C by ring.
    rewrite Rabs_Ropp, Rabs_mult in *. pose proof (Rabs_pos c).
    pose proof (Rmult_le_pos _ _ (Rlt_le _ _ T) Rr). rewrite BR. rewrite U in *. lra.
Qed.

Lemma scaled_holds p m r w b x y mi offi ri di mu off :
  holds mi m -> holds offi off -> holds ri r -> within p b x -> holds di (x - mu) -> Rabs (m - mu) <= off ->
  scaled p m r w x y -> holds (scaled_i p mi offi ri w b di) y.
Proof.
  intros Hm Ho Hr Hb Hd near (z & Hz & Hy). unfold scaled_i. unfold one in Hy.
  apply (sum_of_two_holds _ _ z (real p (fst w)) (real p (snd w)) 1); [| |exact Hy].
  - apply times_holds; [|apply spot_holds].
    apply (around_holds _ _ ((x - m) * r) _
             (5 * u * ((Rabs x + Rabs m) * Rabs r) + 10 * tiny + 2 * tiny * Rabs r)); [| |now apply centred_error].
    + apply times_holds; [|exact Hr]. apply (around_holds _ _ (x - mu) _ off); auto.
      replace (x - m - (x - mu)) with (- (m - mu)) by ring. now rewrite Rabs_Ropp.
    + pose proof (whole_holds 5) as W5. pose proof (whole_holds 10) as W10. pose proof (whole_holds 2) as W2.
      pose proof (abs_holds _ _ Hr) as Ar.
      assert (Ax : holds (plus (I.abs (interval p b)) (I.abs mi)) (Rabs x + Rabs m))
        by (apply plus_holds; apply abs_holds; [now apply interval_holds|exact Hm]).
      apply plus_holds; [apply plus_holds|].
      * apply times_holds; apply times_holds; auto using u_holds.
      * apply times_holds; auto using tiny_holds.
      * apply times_holds; [apply times_holds|]; auto using tiny_holds.
  - rewrite Rmult_1_r. apply spot_holds.
Qed.

Lemma all_of_is {A} (l : list (option A)) out : all_of l = Some out -> Forall2 (fun x y => x = Some y) l out.
Proof.
  revert out. induction l as [|[x|] l IH]; simpl; intros out; [intros [= <-]; constructor| |discriminate].
  destruct (all_of l) as [rest|]; [|discriminate]. intros [= <-]. constructor; auto.
Qed.

Lemma sides_hold {A B C D} (P : A -> B -> Prop) (f : A -> C) (Q : C -> D -> Prop) (g : B -> D) a b :
  Forall2 P a b -> (forall x y, P x y -> Q (f x) (g y)) -> Forall2 Q (map f a) (map g b).
Proof. induction 1; simpl; constructor; auto. Qed.

Lemma beside_holds {A B C} (P : A -> B -> Prop) (Q : C -> B -> Prop) (f : A -> C) a b :
  Forall2 P a b -> Forall2 (fun x y => Q (f x) y) a b ->
  Forall2 (fun x y => P (fst x) y /\ Q (snd x) y) (combine a (map f a)) b.
Proof. induction 1; intros K; inversion K; subst; simpl; constructor; auto. Qed.

Theorem norm_holds p weights box x y out :
  norm_of p weights box = Some out -> Forall2 (within p) box x -> normed p weights x y -> Forall2 (within p) out y.
Proof.
  intros found Hb (m & v & e & t & r & Hm & Hv & He & Ht & Hr & Hy).
  pose proof (same_length _ _ _ Hb) as L. pose proof (differences_hold _ _ _ Hb) as D.
  pose proof (boxes_hold _ _ _ Hb) as X. unfold norm_of in found. cbv zeta in found. rewrite L in found, D.
  set (k := Z.of_nat (length x)) in *. set (s := total_of box) in *. set (n := I.fromZ digits k) in *.
  set (difference := fun b => I.div digits (interval p (spread k s b)) n) in *.
  assert (Ds : Forall2 holds (map difference box) (map (fun a => a - mean x) x)).
  { apply sides_hold with (1 := D). auto. }
  set (ds := map difference box) in *.
  set (off := off_of (k + 5) (mean_i n (map I.abs (map (interval p) box)))) in *.
  assert (Hoff : holds off (mean_off x)).
  { apply off_holds, mean_holds; [now rewrite map_length|]. apply sides_hold with (1 := X). intros. now apply abs_holds. }
  set (mi := around (I.div digits (interval p s) n) off) in *.
  assert (Hmi : holds mi m).
  { apply (around_holds _ _ (mean x) _ (mean_off x)); auto. apply over_holds; [|apply whole_holds].
    apply interval_holds. now apply total_within. }
  match type of found with context [rounded_i (plus ?a _)] => set (vv := a) in * end.
  assert (Hvi : holds vv v).
  { apply (around_holds _ _ (variance x) _ (variance_off x)); auto.
    - apply mean_holds; [now rewrite map_length|]. rewrite <- (map_map (fun a => a - mean x) (fun d => d * d)).
      apply sides_hold with (1 := Ds). intros. now apply square_holds.
    - apply off_holds, mean_holds; [now rewrite map_length|]. apply sides_hold with (1 := X).
      intros. now apply square_holds. }
  match type of found with context [around ?a (times_i near_off _)] => set (root := a) in * end.
  assert (Hroot : holds root (/ sqrt t)).
  { apply root_holds, (rounded_holds _ (v + e)); [|exact Ht]. apply plus_holds; [exact Hvi|].
    apply (rounded_holds _ epsilon); [|exact He]. apply over_holds; apply whole_holds. }
  set (ri := around root (times_i near_off (I.abs root))) in *.
  assert (Hri : holds ri r).
  { apply (around_holds _ _ (/ sqrt t) _ (32 * u * Rabs (/ sqrt t))); auto. apply times_holds; [|now apply abs_holds].
    replace (32 * u) with (real 19 1); [apply spot_holds|]. unfold real, u. simpl. lra. }
  apply all_of_is in found. clearbody ri mi off. clear root Hroot vv Hvi.
  assert (Pairs : Forall2 (fun b a => within p (fst b) a /\ holds (snd b) (a - mean x)) (combine box ds) x).
  { apply (beside_holds (within p) (fun d a => holds d (a - mean x)) difference); assumption. }
  clear D X Ds Hb. clearbody ds difference. revert out found y Hy.
  revert weights Pairs. generalize (combine box ds) as each. clear -Hm Hmi Hoff Hri.
  generalize (mean x) (mean_off x) Hm Hoff. clear Hm Hoff. intros mu o Hm Hoff each weights Pairs. revert weights.
  induction Pairs as [|b a each x [Hb Hd] _ IH]; intros [|w weights] out found y Hy; simpl in *;
    inversion Hy; subst; inversion found; subst; constructor; eauto.
  simpl in *. eapply outward_holds; [eassumption|]. eapply scaled_holds; eauto.
Qed.

(** * Something is allowed *)

Lemma mean_not_negative x : Forall (Rle 0) x -> 0 <= mean x.
Proof.
  intros H. unfold mean. apply Rmult_le_pos.
  - induction H; simpl; lra.
  - unfold count_of. destruct x; simpl length; [change (Z.of_nat 0) with 0%Z; rewrite Rinv_0; lra|].
    apply Rlt_le, Rinv_0_lt_compat, (IZR_lt 0). lia.
Qed.

Lemma exactly_near x off : 0 <= off -> Rabs (x - x) <= off.
Proof. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. auto. Qed.

Theorem every_vector_has_a_norm p weights x :
  exists y, normed p weights x y /\ length y = length (combine weights x).
Proof.
  set (r := / sqrt (variance x + epsilon)).
  exists (map (fun each => exact [((snd each - mean x) * r, real p (fst (fst each))); one p (snd (fst each))])
              (combine weights x)).
  split; [|apply map_length]. pose proof u_positive. pose proof tiny_positive.
  exists (mean x), (variance x), epsilon, (variance x + epsilon), r.
  split; [|split; [|split; [apply exact_is_rounded|split; [apply exact_is_rounded|split]]]].
  - apply exactly_near. unfold mean_off. apply Rplus_le_le_0_compat; [|lra].
    apply Rmult_le_pos; [apply Rmult_le_pos; [apply (IZR_le 0); lia|lra]|]. apply mean_not_negative, Forall_map, Forall_forall.
    intros. apply Rabs_pos.
  - apply exactly_near. unfold variance_off. apply Rplus_le_le_0_compat; [|lra].
    apply Rmult_le_pos; [apply Rmult_le_pos; [apply (IZR_le 0); lia|lra]|]. apply mean_not_negative, Forall_map, Forall_forall.
    intros a _. pose proof (Rle_0_sqr a). exact H1.
  - apply exactly_near. repeat apply Rmult_le_pos; try lra. apply Rabs_pos.
  - induction (combine weights x) as [|each l IH]; simpl; constructor; [|exact IH].
    exists ((snd each - mean x) * r). split; [|now apply every_list_has_a_sum].
    left. exists (snd each - mean x). split; apply exact_is_rounded.
Qed.

(** What binary32 gives, rounded to nearest, is allowed. *)
Lemma binary32_norm p weights x y : normed_in is_binary32 p weights x y -> normed p weights x y.
Proof.
  assert (near : forall a b, is_binary32 a b -> rounded a b) by (intros a b ->; apply binary32_is_rounded).
  intros (m & v & e & t & r & Hm & Hv & He & Ht & Hr & Hy). exists m, v, e, t, r.
  split; [exact Hm|split; [exact Hv|split; [now apply near|split; [now apply near|split; [exact Hr|]]]]].
  apply weaker with (2 := Hy). intros each z (c & Hc & Hz). exists c. split; [|now apply binary32_sum].
  destruct Hc as [(d & A & B)|(d & A & B)]; [left|right]; exists d.
  - split; now apply near.
  - split; [now apply near|now apply binary32_sum].
Qed.
