(** A GRU of one layer is right after every word.

        r, z = sigmoid(W x + b + U h + c),   each with weights of its own
        n = tanh(W x + b + r (U h + c)),     h' = (1 - z) n + z h,     h = 0 before the first symbol,   logits = V h + d

    An evaluation is allowed if every sum is one of Rounding.v and sigmoid and tanh are off by at most 32 u. Under the
    tanh are two sums, W x + b and U h + c; h' may be computed as it stands here, or as n + z (h - n). The check is that of
    Recurrence.v; what follows the sums is bounded by intervals. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Interval.Interval Interval.Float_full Real.Xreal.
From Lengthwise Require Import Words Rounding Dyadic Tanh Places.
From Lengthwise Require Export Gates.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

(** Each gate is the network of Recurrence.v that its weights would be; their heads are the same. *)
Record gru := Gru { resets : network; updates : network; offers : network }.

(** * What the network may compute *)

(** The two sums under the tanh, as rows. *)
Definition of_input (n : network) : list (list Z * Z) := map (fun v => (reads v, bias v)) (units n).
Definition of_state (n : network) : list (list Z * Z) := map (fun v => (keeps v, other_bias v)) (units n).

(** [allows] is the arithmetic of products and sums. *)
Definition mixed_in (allows : R -> R -> Prop) (z n h y : R) : Prop :=
  (exists o, allows (1 - z) o /\ sum_in allows [(o, n); (z, h)] y) \/
  (exists d, allows (h - n) d /\ sum_in allows [(n, 1); (z, d)] y).

(** Of r, z, W x + b, U h + c and h. *)
Definition cell_in (allows : R -> R -> Prop) (e : ((R * R) * (R * R)) * R) (y : R) : Prop :=
  let '(((r, z), (a, q)), h) := e in
  exists t n, sum_in allows [(r, q); (a, 1)] t /\ near tanh t n /\ mixed_in allows z n h y.

Definition gru_step_in (allows : R -> R -> Prop) (g : gru) (s : nat) (h h' : list R) : Prop :=
  let p := scale (offers g) in
  exists r z a q,
    Forall2 (gate_in allows sigmoid (resets g) s h) (units (resets g)) r /\
    Forall2 (gate_in allows sigmoid (updates g) s h) (units (updates g)) z /\
    affine_in allows p (of_input (offers g)) (map (real p) (embedding (offers g) s)) a /\
    affine_in allows p (of_state (offers g)) h q /\
    Forall2 (cell_in allows) (combine (combine (combine r z) (combine a q)) h) h' /\
    length h' = length (units (offers g)).

Definition gru_after_in (allows : R -> R -> Prop) (g : gru) : list nat -> list R -> Prop :=
  after nat (list R) (zeros (offers g)) (gru_step_in allows g).

Definition gru_right_in (allows : R -> R -> Prop) (g : gru) (m : machine) : Prop :=
  forall w h l, word m w -> gru_after_in allows g w h -> logits_in allows (offers g) h l ->
  right (answer m (run nat nat (start m) (next m) w)) l.

Definition mixed := mixed_in rounded.
Definition cell := cell_in rounded.
Definition gru_step := gru_step_in rounded.
Definition gru_after := gru_after_in rounded.

(** No product and no sum of a step, taken in whatever order, is too large for binary32. *)
Definition cell_fits (e : ((R * R) * (R * R)) * R) : Prop :=
  let '(((r, z), (a, q)), h) := e in
  fits [(r, q); (a, 1)] /\ forall t n, sum [(r, q); (a, 1)] t -> near tanh t n ->
  (forall o, rounded (1 - z) o -> moderate o /\ fits [(o, n); (z, h)]) /\
  (forall d, rounded (h - n) d -> moderate d /\ fits [(n, 1); (z, d)]).

Definition gru_overflows_nowhere (g : gru) (m : machine) : Prop :=
  forall w h, Forall (fun s => (s < symbols m)%nat) w -> gru_after g w h ->
  (forall s, (s < symbols m)%nat ->
     let p := scale (offers g) in let e := map (real p) (embedding (offers g) s) in
     (forall k v, In k [resets g; updates g] -> In v (units k) -> fits (terms k s h v)) /\
     (forall row, In row (of_input (offers g)) -> fits (row_terms p e row)) /\
     (forall row, In row (of_state (offers g)) -> fits (row_terms p h row)) /\
     (forall r z a q,
        Forall2 (gate sigmoid (resets g) s h) (units (resets g)) r ->
        Forall2 (gate sigmoid (updates g) s h) (units (updates g)) z ->
        affine p (of_input (offers g)) e a -> affine p (of_state (offers g)) h q ->
        Forall cell_fits (combine (combine (combine r z) (combine a q)) h))) /\
  (forall row, w <> [] -> In row (head (offers g)) -> fits (row_terms (scale (offers g)) h row)).

(** The claim: in every arithmetic that is as good as [rounded]. *)
Definition gru_right_at_every_length : gru -> machine -> Prop := gru_right_in rounded.

(** * Bounds *)

(** (1 - z) n + z h for z in [ends]: it is linear in z, so its extremes are at the ends of z. *)
Definition at_end (p k : Z) (n h : I.type) : I.type :=
  plus (times_i (I.sub digits (I.fromZ digits 1) (spot p k)) n) (times_i (spot p k) h).
Definition between (p : Z) (ends : Z * Z) (n h : I.type) : I.type := I.join (at_end p (fst ends) n h) (at_end p (snd ends) n h).

Definition mixed_i (p : Z) (ends : Z * Z) (n h : I.type) : I.type :=
  let one_and_z := plus (I.fromZ digits 1) (I.abs (interval p ends)) in
  let size := times_i one_and_z (plus (I.abs n) (I.abs h)) in
  around (between p ends n h)
         (plus (times_i (times_i (I.fromZ digits 5) u_i) size)
               (times_i (times_i (I.fromZ digits 16) tiny_i) (plus one_and_z (I.abs n)))).

Lemma between_holds p ends z ni n hi h :
  within p ends z -> holds ni n -> holds hi h -> holds (between p ends ni hi) ((1 - z) * n + z * h).
Proof.
  intros [Hl Hh] Hn Hhi. unfold between.
  assert (E : forall k, holds (at_end p k ni hi) ((1 - real p k) * n + real p k * h)).
  { intros k. apply plus_holds; apply times_holds; auto using spot_holds.
    apply (I.sub_correct digits _ _ (Xreal 1) (Xreal (real p k))); [apply whole_holds|apply spot_holds]. }
  set (j := I.join _ _).
  assert (A : holds j ((1 - real p (fst ends)) * n + real p (fst ends) * h)) by (apply I.join_correct; left; apply E).
  assert (B : holds j ((1 - real p (snd ends)) * n + real p (snd ends) * h)) by (apply I.join_correct; right; apply E).
  clearbody j. clear E.
  set (low := real p (fst ends)) in *. set (high := real p (snd ends)) in *.
  destruct (Rle_dec n h) as [up|down].
  - apply (contains_connected (I.convert j) _ _ A B).
    pose proof (Rmult_le_compat_r (h - n) _ _ ltac:(lra) Hl). pose proof (Rmult_le_compat_r (h - n) _ _ ltac:(lra) Hh). lra.
  - apply (contains_connected (I.convert j) _ _ B A).
    pose proof (Rmult_le_compat_r (n - h) _ _ ltac:(lra) Hl). pose proof (Rmult_le_compat_r (n - h) _ _ ltac:(lra) Hh). lra.
Qed.

Lemma mixed_error z n h y :
  mixed z n h y ->
  Rabs (y - ((1 - z) * n + z * h)) <=
    5 * u * ((1 + Rabs z) * (Rabs n + Rabs h)) + 16 * tiny * (1 + Rabs z + Rabs n).
Proof.
  assert (U : u = / 16777216) by reflexivity. pose proof tiny_positive as T.
  assert (T1 : tiny <= / 16777216) by (rewrite <- U; apply bpow_le; lia).
  pose proof (Rabs_pos z) as C. pose proof (Rabs_pos n) as A. pose proof (Rabs_pos h) as B.
  pose proof (Rmult_le_pos _ _ C A) as CA. pose proof (Rmult_le_pos _ _ C B) as CB.
  pose proof (Rmult_le_pos _ _ (Rlt_le _ _ T) A) as TA. pose proof (Rmult_le_pos _ _ (Rlt_le _ _ T) C) as TC.
  replace ((1 + Rabs z) * (Rabs n + Rabs h)) with (Rabs n + Rabs h + Rabs z * Rabs n + Rabs z * Rabs h) by ring.
  replace (16 * tiny * (1 + Rabs z + Rabs n)) with (16 * tiny + 16 * (tiny * Rabs z) + 16 * (tiny * Rabs n)) by ring.
  intros [(o & Ho & Hy)|(d & Hd & Hy)].
  - pose proof (sum_error _ _ Hy) as E. pose proof (off_at_most 2 (size [(o, n); (z, h)]) ltac:(lia) (size_positive _)) as O.
    simpl in E, O. rewrite !Rplus_0_r in *. unfold rounded in Ho.
    pose proof (abs_sum y (o * n + z * h) ((1 - z) * n + z * h)) as K.
    replace (o * n + z * h - ((1 - z) * n + z * h)) with ((o - (1 - z)) * n) in K by ring. rewrite !Rabs_mult in *.
    pose proof (Rabs_triang 1 (- z)) as S. rewrite Rabs_Ropp, Rabs_R1 in S. fold (1 - z) in S.
    assert (D : Rabs (o - (1 - z)) <= u * (1 + Rabs z) + tiny) by (rewrite U in *; lra).
    assert (Oo : Rabs o <= 1 + Rabs z + u * (1 + Rabs z) + tiny).
    { replace o with ((o - (1 - z)) + (1 - z)) by ring. pose proof (Rabs_triang (o - (1 - z)) (1 - z)). lra. }
    pose proof (Rmult_le_compat_r _ _ _ A D) as D1. pose proof (Rmult_le_compat_r _ _ _ A Oo) as D2.
    replace ((u * (1 + Rabs z) + tiny) * Rabs n) with (u * Rabs n + u * (Rabs z * Rabs n) + tiny * Rabs n) in D1 by ring.
    replace ((1 + Rabs z + u * (1 + Rabs z) + tiny) * Rabs n)
      with (Rabs n + Rabs z * Rabs n + u * Rabs n + u * (Rabs z * Rabs n) + tiny * Rabs n) in D2 by ring.
    rewrite U in *. lra.
  - pose proof (sum_error _ _ Hy) as E. pose proof (off_at_most 2 (size [(n, 1); (z, d)]) ltac:(lia) (size_positive _)) as O.
    simpl in E, O. rewrite !Rplus_0_r, !Rmult_1_r in *. unfold rounded in Hd.
    pose proof (abs_sum y (n + z * d) ((1 - z) * n + z * h)) as K.
    replace (n + z * d - ((1 - z) * n + z * h)) with (z * (d - (h - n))) in K by ring. rewrite !Rabs_mult in *.
    pose proof (Rabs_triang h (- n)) as S. rewrite Rabs_Ropp in S. fold (h - n) in S.
    assert (D : Rabs (d - (h - n)) <= u * (Rabs h + Rabs n) + tiny) by (rewrite U in *; lra).
    assert (Dd : Rabs d <= Rabs h + Rabs n + u * (Rabs h + Rabs n) + tiny).
    { replace d with ((d - (h - n)) + (h - n)) by ring. pose proof (Rabs_triang (d - (h - n)) (h - n)). lra. }
    pose proof (Rmult_le_compat_l _ _ _ C D) as D1. pose proof (Rmult_le_compat_l _ _ _ C Dd) as D2.
    replace (Rabs z * (u * (Rabs h + Rabs n) + tiny))
      with (u * (Rabs z * Rabs h) + u * (Rabs z * Rabs n) + tiny * Rabs z) in D1 by ring.
    replace (Rabs z * (Rabs h + Rabs n + u * (Rabs h + Rabs n) + tiny))
      with (Rabs z * Rabs h + Rabs z * Rabs n + u * (Rabs z * Rabs h) + u * (Rabs z * Rabs n) + tiny * Rabs z) in D2 by ring.
    rewrite U in *. lra.
Qed.

Lemma mixed_holds p ends z ni n hi h y :
  within p ends z -> holds ni n -> holds hi h -> mixed z n h y -> holds (mixed_i p ends ni hi) y.
Proof.
  intros Hz Hn Hh Hy. unfold mixed_i. cbv zeta.
  assert (One : holds (plus (I.fromZ digits 1) (I.abs (interval p ends))) (1 + Rabs z)).
  { apply plus_holds; [apply whole_holds|]. apply abs_holds. now apply interval_holds. }
  pose proof (abs_holds _ _ Hn) as An. pose proof (abs_holds _ _ Hh) as Ah.
  pose proof (whole_holds 5) as W5. pose proof (whole_holds 16) as W16.
  apply (around_holds _ _ ((1 - z) * n + z * h) _
           (5 * u * ((1 + Rabs z) * (Rabs n + Rabs h)) + 16 * tiny * (1 + Rabs z + Rabs n)));
    [now apply between_holds| |now apply mixed_error].
  apply plus_holds.
  - apply times_holds; [apply times_holds; [exact W5|apply u_holds]|]. apply times_holds; [exact One|].
    now apply plus_holds.
  - apply times_holds; [apply times_holds; [exact W16|apply tiny_holds]|]. now apply plus_holds.
Qed.

(** * The check *)

(** A state of the machine, and a box of h in which the network may be meanwhile. *)
Definition place := (nat * list (Z * Z))%type.

Definition moves_into (p : Z) (e : ((I.type * I.type) * ((Z * Z) * (Z * Z))) * (Z * Z)) (to : Z * Z) : bool :=
  let '(((r, z), (a, q)), h) := e in
  match outward p z with
  | Some ends =>
      let n := around (tanh_of (sum_of_two (times_i r (interval p q)) (interval p a))) near_off in
      I.subset (mixed_i p ends n (interval p h)) (interval p to)
  | None => false
  end.

Definition gru_formed (g : gru) (m : machine) : bool :=
  let n := offers g in
  forallb (fun k => well_formed k m && (scale k =? scale n)%Z && (length (units k) =? length (units n))%nat)
          [resets g; updates g; n] &&
  forallb (fun s => fit (length (embedding n s)) (of_input n)) (seq 0 (symbols m)) && fit (length (units n)) (of_state n).

Definition gru_enters (g : gru) (m : machine) (from : place) (s : nat) (to : place) : bool :=
  let p := scale (offers g) in
  let under k := sums k s (snd from) in let r := under (resets g) in let z := under (updates g) in
  (fst to =? next m (fst from) s)%nat &&
  (if forallb (calm p) [r; z; under (offers g)]
   then all2 (moves_into p)
             (combine (combine (combine (squashed sigmoid_of (ranges (resets g) s r))
                                        (squashed sigmoid_of (ranges (updates g) s z)))
                               (combine (affine_of p (of_input (offers g)) (map point (embedding (offers g) s)))
                                        (affine_of p (of_state (offers g)) (snd from))))
                      (snd from))
             (snd to)
   else false) &&
  right_on (offers g) (answer m (fst to)) (snd to).

Definition at_zero (r : place) : bool := forallb holds_zero (snd r).

Definition gru_check (g : gru) (m : machine) (places : list place) (targets : list (list nat)) : bool :=
  gru_formed g m &&
  forallb (fun r => (length (snd r) =? length (units (offers g)))%nat && forallb (close (scale (offers g))) (snd r)) places &&
  closes place m fst (0%nat, []) at_zero (gru_enters g m) places targets.

(** * Soundness *)

Section GruSound.

Variables (g : gru) (m : machine) (places : list place) (targets : list (list nat)).
Hypothesis checked : gru_check g m places targets = true.

Let p := scale (offers g).

Definition in_place (r : place) (h : list R) : Prop := Forall2 (within p) (snd r) h.

Lemma gru_facts :
  (forall k, In k [resets g; updates g; offers g] ->
     well_formed k m = true /\ scale k = p /\ length (units k) = length (units (offers g))) /\
  (forall s, (s < symbols m)%nat -> fit (length (embedding (offers g) s)) (of_input (offers g)) = true) /\
  fit (length (units (offers g))) (of_state (offers g)) = true /\
  (forall r, In r places -> length (snd r) = length (units (offers g))) /\
  closes place m fst (0%nat, []) at_zero (gru_enters g m) places targets = true /\
  (forall r, In r places -> forallb (close p) (snd r) = true).
Proof.
  pose proof checked as parts. unfold gru_check in parts. rewrite !andb_true_iff in parts.
  destruct parts as [[formed sizes] all]. unfold gru_formed in formed. cbv zeta in formed. rewrite !andb_true_iff in formed.
  destruct formed as [[nets inputs] states]. rewrite forallb_forall in nets, inputs, sizes.
  split; [|split; [|split; [exact states|split; [|split; [exact all|]]]]].
  - intros k Hk. specialize (nets k Hk). rewrite !andb_true_iff in nets. destruct nets as [[A B] C].
    split; [exact A|]. split; [now apply Z.eqb_eq|now apply Nat.eqb_eq].
  - intros s Hs. apply inputs, in_seq. lia.
  - intros r Hr. specialize (sizes r Hr). apply andb_prop in sizes as [L _]. now apply Nat.eqb_eq.
  - intros r Hr. specialize (sizes r Hr). now apply andb_prop in sizes.
Qed.

Lemma gru_begins r : In r places -> at_zero r = true -> in_place r (zeros (offers g)).
Proof.
  intros In_r Hz. destruct gru_facts as (_ & _ & _ & Hsize & _). pose proof (Hsize r In_r) as L.
  unfold at_zero in Hz. unfold in_place, zeros. clear -L Hz. revert L Hz.
  generalize (units (offers g)) as vs. induction (snd r) as [|b bs IH]; intros [|v vs]; simpl; try discriminate;
    [constructor|].
  intros [= L] Hz. apply andb_prop in Hz as [H0 Hz]. constructor; [now apply zero_within|now apply IH].
Qed.

Lemma gru_entered r s to x y :
  In r places -> In to places -> (s < symbols m)%nat -> gru_enters g m r s to = true -> in_place r x ->
  gru_step g s x y -> fst to = next m (fst r) s /\ in_place to y.
Proof.
  intros In_r In_to Hs E Hb (vr & vz & va & vq & Hr & Hz & Ha & Hq & Hcells & _).
  destruct gru_facts as (Hnets & Hin & Hst & Hsize & _). unfold gru_enters in E. cbv zeta in E.
  rewrite !andb_true_iff in E. destruct E as [[Hto Hmoves] _]. apply Nat.eqb_eq in Hto. split; [exact Hto|].
  apply both_hold in Hmoves as [_ Hmoves]. apply all2_holds in Hmoves. unfold in_place in *. fold p in Hmoves, Ha, Hq |- *.
  assert (Lb : length (snd r) = length (units (offers g))) by now apply Hsize.
  assert (Lx : length x = length (units (offers g))) by (rewrite <- Lb; symmetry; now apply same_length in Hb).
  assert (Gates : forall k ys, In k [resets g; updates g; offers g] -> Forall2 (gate sigmoid k s x) (units k) ys ->
            Forall2 holds (squashed sigmoid_of (ranges k s (sums k s (snd r)))) ys).
  { intros k ys Hk Hys. destruct (Hnets k Hk) as (formed & Hp & Hlen).
    apply (gates_hold m k sigmoid sigmoid_of s (snd r) x);
      [exact formed|exact Hs|exact sigmoid_holds|rewrite Hp; exact Hb|lia|exact Hys]. }
  destruct (Hnets (offers g) ltac:(simpl; auto)) as (formed & _).
  destruct (formed_facts (offers g) m formed) as (Hp & _). fold p in Hp.
  pose proof (Gates (resets g) vr ltac:(simpl; auto) Hr) as I1.
  pose proof (Gates (updates g) vz ltac:(simpl; auto) Hz) as I2.
  assert (I3 : Forall2 (within p) (affine_of p (of_input (offers g)) (map point (embedding (offers g) s))) va).
  { apply (affine_holds p _ _ (map (real p) (embedding (offers g) s))); auto using points_within.
    rewrite map_length. now apply Hin. }
  assert (I4 : Forall2 (within p) (affine_of p (of_state (offers g)) (snd r)) vq).
  { apply (affine_holds p _ _ x); auto. now rewrite Lx. }
  pose proof (combine_holds _ _ _ _ _ _ (combine_holds _ _ _ _ _ _ (combine_holds _ _ _ _ _ _ I1 I2)
    (combine_holds _ _ _ _ _ _ I3 I4)) Hb) as All.
  revert Hmoves Hcells All. generalize (snd to) as bs.
  generalize (combine (combine (combine vr vz) (combine va vq)) x) as values.
  match goal with |- forall values bs, Forall2 _ ?a _ -> _ => generalize a as from end.
  intros from values bs Hmoves Hcells. revert from bs Hmoves.
  induction Hcells as [|v n vs ns Hcell _ IH]; intros from bs Hmoves All;
    inversion All as [E1 E2|X V Xs Vs Hone Hrest E1 E2]; subst.
  - inversion Hmoves. constructor.
  - inversion Hmoves as [|? b ? bs' Hm Hms]; subst. constructor; [|eapply IH; eassumption].
    destruct X as [[[xr xz] [xa xq]] xh], v as [[[wr wz] [wa wq]] wh]. simpl in *.
    destruct Hone as [[[A B] [C D]] G]. destruct Hcell as (t & k & Hsum & Hk & Hmix).
    destruct (outward p xz) as [ends|] eqn:O; [|discriminate]. apply interval_holds.
    eapply I.subset_correct; [|exact Hm]. apply (mixed_holds p ends wz _ k _ wh); auto.
    + eapply outward_holds; eassumption.
    + apply (near_holds _ tanh t); [|exact Hk]. apply tanh_of_correct.
      apply (sum_of_two_holds _ _ wr wq wa 1); [| |exact Hsum].
      * apply times_holds; [exact A|]. now apply interval_holds.
      * rewrite Rmult_1_r. now apply interval_holds.
    + now apply interval_holds.
Qed.

Theorem gru_right_everywhere : gru_right_at_every_length g m.
Proof.
  intros w x y Hw reached Hy. destruct gru_facts as (Hnets & _ & _ & Hsize & closed & _).
  destruct (Hnets (offers g) ltac:(simpl; auto)) as (formed & _).
  destruct (every_word_leads place (list R) m fst (0%nat, []) in_place (zeros (offers g)) (gru_step g) at_zero
    (gru_enters g m) places targets closed gru_begins gru_entered w x Hw reached)
    as (from & s & r & _ & In_r & _ & E & Hq & Hb).
  unfold gru_enters in E. cbv zeta in E. rewrite !andb_true_iff in E. destruct E as [_ Hright]. rewrite Hq in Hright.
  eapply (right_on_correct _ m formed); [exact Hright|exact Hb|now apply Hsize|exact Hy].
Qed.

(** Of a gate whose terms are small, those of W x + b are, and those of U h + c. *)
Lemma terms_in_two n s h v :
  size (row_terms (scale n) (map (real (scale n)) (embedding n s)) (reads v, bias v)) +
  size (row_terms (scale n) h (keeps v, other_bias v)) = size (terms n s h v).
Proof. unfold row_terms, terms. rewrite !size_app. cbn [fst snd size fold_right]. ring. Qed.

Lemma small_rows rows x y :
  (length x + 1 <= 4000)%nat ->
  (forall row, In row rows -> length (fst row) = length x /\ size (row_terms p x row) <= bpow radix2 16) ->
  affine p rows x y -> Forall (fun v => Rabs v <= bpow radix2 18) y.
Proof.
  intros short small Hy. unfold affine, affine_in in Hy. induction Hy as [|row v rows y Hv _ IH]; constructor.
  - destruct (small row (or_introl eq_refl)) as [L S].
    pose proof (sum_is_small _ _ Hv ltac:(rewrite row_count by exact L; exact short)).
    pose proof (a_power 16 ltac:(lia)). change 18%Z with (2 + 16)%Z. rewrite bpow_plus. change (bpow radix2 2) with 4. lra.
  - apply IH. intros. apply small. now right.
Qed.

Lemma rows_fit rows x row :
  (length x + 1 <= 4000)%nat ->
  (forall row, In row rows -> length (fst row) = length x /\ size (row_terms p x row) <= bpow radix2 16) ->
  In row rows -> fits (row_terms p x row).
Proof.
  intros short small Hrow. destruct (small row Hrow) as [L S]. apply fits_where_small; [now rewrite row_count|].
  eapply Rle_trans; [exact S|]. apply bpow_le. lia.
Qed.

Theorem gru_excludes_overflow : gru_overflows_nowhere g m.
Proof.
  intros w h letters reached. destruct gru_facts as (Hnets & Hin & Hst & Hsize & closed & Hclose).
  destruct (Hnets (offers g) ltac:(simpl; auto)) as (formed & _). destruct (formed_facts _ _ formed) as (Hp & short & _ & Hhead & _).
  split.
  - intros s Hs. cbv zeta. fold p.
    destruct (every_word_is_known place (list R) m fst (0%nat, []) in_place (zeros (offers g)) (gru_step g) at_zero
      (gru_enters g m) places targets closed gru_begins gru_entered w h letters reached) as (r & In_r & _ & Hb).
    destruct (somewhere place m fst (0%nat, []) at_zero (gru_enters g m) places targets closed r s In_r Hs) as (to & _ & E).
    unfold gru_enters in E. cbv zeta in E. rewrite !andb_true_iff in E. destruct E as [[_ E] _].
    apply both_hold in E as [quiet _]. rewrite forallb_forall in quiet. fold p in quiet.
    assert (Lb := Hsize r In_r). assert (Lh : length h = length (units (offers g))) by (rewrite <- Lb; symmetry; now apply same_length in Hb).
    assert (Parts : forall v, In v (units (offers g)) ->
      size (row_terms p (map (real p) (embedding (offers g) s)) (reads v, bias v)) +
      size (row_terms p h (keeps v, other_bias v)) <= bpow radix2 16).
    { intros v Hv. unfold p at 1 2 3. rewrite terms_in_two.
      apply (calm_is_small m (offers g) s (snd r) h v); auto. apply quiet. simpl; auto. }
    specialize (Hin s Hs). apply andb_prop in Hin as [shortx Lx]. apply andb_prop in Hst as [shorth Lk].
    apply Nat.leb_le in shortx, shorth. rewrite forallb_forall in Lx, Lk.
    assert (Inputs : forall row, In row (of_input (offers g)) -> length (fst row) = length (map (real p) (embedding (offers g) s)) /\
              size (row_terms p (map (real p) (embedding (offers g) s)) row) <= bpow radix2 16).
    { intros row Hrow. rewrite map_length. split; [now apply Nat.eqb_eq, Lx|]. apply in_map_iff in Hrow as (v & <- & Hv).
      specialize (Parts v Hv). pose proof (size_positive (row_terms p h (keeps v, other_bias v))). lra. }
    assert (States : forall row, In row (of_state (offers g)) -> length (fst row) = length h /\
              size (row_terms p h row) <= bpow radix2 16).
    { intros row Hrow. rewrite Lh. split; [now apply Nat.eqb_eq, Lk|]. apply in_map_iff in Hrow as (v & <- & Hv).
      specialize (Parts v Hv).
      pose proof (size_positive (row_terms p (map (real p) (embedding (offers g) s)) (reads v, bias v))). lra. }
    split; [|split; [|split]].
    + intros k v Hk Hv. destruct (Hnets k ltac:(simpl in Hk |- *; intuition)) as (formed_k & Hpk & Hlen).
      apply (calm_fits m k s (snd r)); auto; rewrite ?Hpk, ?Hlen; auto. apply quiet. simpl in Hk |- *. intuition (subst; auto).
    + intros row. apply rows_fit; [now rewrite map_length|exact Inputs].
    + intros row. apply rows_fit; [now rewrite Lh|exact States].
    + intros vr vz va vq Hr Hz Ha Hq.
      assert (C : Forall (fun c => Rabs c <= bpow radix2 16) h).
      { specialize (Hclose r In_r). rewrite forallb_forall in Hclose. unfold in_place in Hb. clear -Hb Hclose Hp.
        fold p in Hp. induction Hb as [|b y bs ys Hc _ IH]; simpl; constructor.
        - apply (close_is_small p b); auto. apply Hclose. now left.
        - apply IH. intros c Hc'. apply Hclose. now right. }
      pose proof (gates_are_small _ _ _ _ _ sigmoid_is_small Hr) as Sr. pose proof (gates_are_small _ _ _ _ _ sigmoid_is_small Hz) as Sz.
      pose proof (small_rows _ _ _ ltac:(rewrite map_length; exact shortx) Inputs Ha) as Sa.
      pose proof (small_rows _ _ _ ltac:(rewrite Lh; exact shorth) States Hq) as Sq.
      pose proof (combine_all _ _ _ _ (combine_all _ _ _ _ (combine_all _ _ _ _ Sr Sz) (combine_all _ _ _ _ Sa Sq)) C) as All.
      apply Forall_impl with (2 := All). intros [[[r1 z1] [a1 q1]] h1] [[[A B] [D E]] F]. cbn [fst snd] in *.
      assert (One : moderate 1) by (apply two_is_moderate; rewrite Rabs_R1; lra).
      assert (B' := two_is_moderate _ B).
      assert (D' : moderate a1) by (apply (small_is_moderate 18); [lia|exact D]).
      assert (E' : moderate q1) by (apply (small_is_moderate 18); [lia|exact E]).
      split; [apply two_products_fit; auto using two_is_moderate|].
      intros t n _ Ht. apply (near_is_small tanh t n (tanh_is_small t)) in Ht. assert (Ht' := two_is_moderate _ Ht).
      assert (F' : moderate h1) by (apply (small_is_moderate 16); [lia|exact F]).
      pose proof (a_power 16 ltac:(lia)) as P. assert (P30 : bpow radix2 30 = bpow radix2 14 * bpow radix2 16) by (rewrite <- bpow_plus; reflexivity).
      change (bpow radix2 14) with 16384 in P30. pose proof (Rabs_triang 1 (- z1)) as T1. pose proof (Rabs_triang h1 (- n)) as T2.
      rewrite Rabs_Ropp in T1, T2. rewrite Rabs_R1 in T1. unfold Rminus. split.
      * intros o Ho. apply rounded_is_moderate in Ho; [|rewrite P30; lra]. split; [exact Ho|now apply two_products_fit].
      * intros d Hd. apply rounded_is_moderate in Hd; [|rewrite P30; lra]. split; [exact Hd|now apply two_products_fit].
  - intros row some Hrow.
    destruct (every_word_leads place (list R) m fst (0%nat, []) in_place (zeros (offers g)) (gru_step g) at_zero
      (gru_enters g m) places targets closed gru_begins gru_entered w h (conj some letters) reached)
      as (from & s & r & _ & In_r & _ & E & _ & Hb).
    unfold gru_enters in E. cbv zeta in E. rewrite !andb_true_iff in E. destruct E as [_ ok].
    apply fits_where_small.
    + rewrite row_count; rewrite ?Hhead by exact Hrow; rewrite <- (same_length _ _ _ Hb), (Hsize r In_r); lia.
    + now apply (head_terms_are_small (offers g) m formed _ (snd r) _ row ok).
Qed.

End GruSound.

Theorem gru_check_is_sound g m places targets :
  gru_check g m places targets = true -> gru_right_at_every_length g m.
Proof. apply gru_right_everywhere. Qed.

Theorem gru_check_excludes_overflow g m places targets :
  gru_check g m places targets = true -> gru_overflows_nowhere g m.
Proof. apply gru_excludes_overflow. Qed.

(** So it is in binary32, rounded to nearest. *)
Theorem gru_right_in_binary32 g m : gru_right_at_every_length g m -> gru_right_in is_binary32 g m.
Proof.
  intros claim w x y Hw Hx Hy. apply (claim w x y Hw); [|now apply binary32_affine].
  clear -Hx. induction Hx as [|w s a b _ IH one]; [constructor|]. apply after_one_more with a; [exact IH|].
  destruct one as (r & z & i & q & Hr & Hz & Hi & Hq & Hc & L). exists r, z, i, q.
  repeat (split; [now apply binary32_gates || now apply binary32_affine|]). split; [|exact L].
  apply weaker with (2 := Hc). intros [[[vr vz] [va vq]] h] n (t & k & A & B & C). exists t, k.
  split; [now apply binary32_sum|]. split; [exact B|].
  destruct C as [(o & D & E)|(d & D & E)]; [left; exists o|right; exists d];
    (split; [now apply binary32_rounded|now apply binary32_sum]).
Qed.

(** The claim is not empty: after every word there is an evaluation that is allowed. *)
Definition exact_cell (e : ((R * R) * (R * R)) * R) : R :=
  let '(((r, z), (a, q)), h) := e in exact [((1 - z), tanh (exact [(r, q); (a, 1)])); (z, h)].

Lemma exact_cells_are_allowed all : Forall2 cell all (map exact_cell all).
Proof.
  induction all as [|[[[r z] [a q]] h] all IH]; simpl; constructor; [|exact IH].
  exists (exact [(r, q); (a, 1)]), (tanh (exact [(r, q); (a, 1)])). split; [now apply every_list_has_a_sum|].
  split; [apply exactly_near|]. left. exists (1 - z). split; [apply exact_is_rounded|].
  exact (every_list_has_a_sum [((1 - z), tanh (exact [(r, q); (a, 1)])); (z, h)] ltac:(discriminate)).
Qed.

Theorem gru_every_word_has_a_state g m w :
  gru_formed g m = true -> exists h, gru_after g w h /\ length h = length (units (offers g)).
Proof.
  intros formed. unfold gru_formed in formed. cbv zeta in formed. simpl in formed. rewrite !andb_true_iff in formed.
  destruct formed as [[[[_ A] [[_ B] _]] _] _]. apply Nat.eqb_eq in A, B.
  induction w as [|s w [h [Hh Lh]]] using rev_ind.
  { exists (zeros (offers g)). unfold zeros. rewrite map_length. split; [constructor|reflexivity]. }
  set (p := scale (offers g)).
  set (a := map (fun row => exact (row_terms p (map (real p) (embedding (offers g) s)) row)) (of_input (offers g))).
  set (q := map (fun row => exact (row_terms p h row)) (of_state (offers g))).
  set (all := combine (combine (combine (exact_gate sigmoid (resets g) s h) (exact_gate sigmoid (updates g) s h))
                               (combine a q)) h).
  assert (L : length (map exact_cell all) = length (units (offers g))).
  { unfold all, exact_gate, a, q, of_input, of_state. rewrite map_length, !combine_length, !map_length. lia. }
  exists (map exact_cell all). split; [|exact L]. apply after_one_more with h; [exact Hh|].
  exists (exact_gate sigmoid (resets g) s h), (exact_gate sigmoid (updates g) s h), a, q.
  repeat (split; [apply exact_gate_is_allowed || apply exact_affine_is_allowed|]).
  split; [apply exact_cells_are_allowed|exact L].
Qed.
