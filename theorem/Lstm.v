(** An LSTM of one layer is right after every word.

        i, f, o = sigmoid(W x + b + U h + c),   g = tanh(W x + b + U h + c),   each with weights of its own
        c' = f c + i g,   h' = o tanh c',       both 0 before the first symbol,       logits = V h + d

    An evaluation is allowed if every sum is one of Rounding.v, sigmoid and tanh are off by at most 32 u, and o tanh c' is
    rounded. The check is that of Recurrence.v, with boxes of h and c; what follows the sums is bounded by intervals. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Float.Specific_ops Interval.Interval Interval.Float_full Real.Xreal.
From Lengthwise Require Import Words Rounding Dyadic Tanh Places.
From Lengthwise Require Export Gates.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

(** Each gate is the network of Recurrence.v that its weights would be; their heads are the same. *)
Record lstm := Lstm { opens : network; keeps_on : network; offers : network; shows : network }.

Definition state := (list (R * R))%type.
(** h and c of every unit. *)

(** * What the network may compute *)

(** [allows] is the arithmetic of products and sums. *)
Definition cell_in (allows : R -> R -> Prop) (gates : (R * R) * (R * R)) (c : R) (next : R * R) : Prop :=
  let '((i, f), (g, o)) := gates in
  exists t, sum_in allows [(f, c); (i, g)] (snd next) /\ near tanh (snd next) t /\ allows (o * t) (fst next).

Definition lstm_step_in (allows : R -> R -> Prop) (l : lstm) (s : nat) (x y : state) : Prop :=
  exists i f g o,
    Forall2 (gate_in allows sigmoid (opens l) s (map fst x)) (units (opens l)) i /\
    Forall2 (gate_in allows sigmoid (keeps_on l) s (map fst x)) (units (keeps_on l)) f /\
    Forall2 (gate_in allows tanh (offers l) s (map fst x)) (units (offers l)) g /\
    Forall2 (gate_in allows sigmoid (shows l) s (map fst x)) (units (shows l)) o /\
    Forall2 (fun a next => cell_in allows (fst a) (snd a) next)
            (combine (combine (combine i f) (combine g o)) (map snd x)) y /\
    length y = length (units (opens l)).

Definition lstm_after_in (allows : R -> R -> Prop) (l : lstm) : list nat -> state -> Prop :=
  after nat state (map (fun _ => (0, 0)) (units (opens l))) (lstm_step_in allows l).

Definition lstm_right_in (allows : R -> R -> Prop) (l : lstm) (m : machine) : Prop :=
  forall w x y, word m w -> lstm_after_in allows l w x -> logits_in allows (shows l) (map fst x) y ->
  right (answer m (run nat nat (start m) (next m) w)) y.

Definition cell := cell_in rounded.
Definition lstm_step := lstm_step_in rounded.
Definition lstm_after := lstm_after_in rounded.

(** No product and no sum of a step, taken in whatever order, is too large for binary32. *)
Definition cell_fits (a : ((R * R) * (R * R)) * R) : Prop :=
  let '(((i, f), (g, o)), c) := a in
  fits [(f, c); (i, g)] /\ forall d t, sum [(f, c); (i, g)] d -> near tanh d t -> fits [(o, t)].

Definition lstm_overflows_nowhere (l : lstm) (m : machine) : Prop :=
  forall w x, Forall (fun s => (s < symbols m)%nat) w -> lstm_after l w x ->
  (forall s, (s < symbols m)%nat ->
     (forall n v, In n [opens l; keeps_on l; offers l; shows l] -> In v (units n) -> fits (terms n s (map fst x) v)) /\
     (forall i f g o,
        Forall2 (gate sigmoid (opens l) s (map fst x)) (units (opens l)) i ->
        Forall2 (gate sigmoid (keeps_on l) s (map fst x)) (units (keeps_on l)) f ->
        Forall2 (gate tanh (offers l) s (map fst x)) (units (offers l)) g ->
        Forall2 (gate sigmoid (shows l) s (map fst x)) (units (shows l)) o ->
        Forall cell_fits (combine (combine (combine i f) (combine g o)) (map snd x)))) /\
  (forall row, w <> [] -> In row (head (shows l)) -> fits (row_terms (scale (shows l)) (map fst x) row)).

(** The claim: in every arithmetic that is as good as [rounded]. *)
Definition lstm_right_at_every_length : lstm -> machine -> Prop := lstm_right_in rounded.

(** * Bounds *)

(** c' and h' of a unit. *)
Definition new_c (i f g : I.type) (c : I.type) : I.type :=
  sum_of_two (times_i f c) (times_i i g).
Definition new_h (o c : I.type) : I.type :=
  rounded_i (times_i o (around (tanh_of c) near_off)).

Lemma new_c_holds i f g c a b d e y :
  contains (I.convert i) (Xreal a) -> contains (I.convert f) (Xreal b) -> contains (I.convert g) (Xreal d) ->
  contains (I.convert c) (Xreal e) -> sum [(b, e); (a, d)] y -> contains (I.convert (new_c i f g c)) (Xreal y).
Proof.
  intros Hi Hf Hg Hc. apply sum_of_two_holds; now apply times_holds.
Qed.

Lemma new_h_holds o c a x t y :
  contains (I.convert o) (Xreal a) -> contains (I.convert c) (Xreal x) -> near tanh x t -> rounded (a * t) y ->
  contains (I.convert (new_h o c)) (Xreal y).
Proof.
  intros Ho Hc Ht. apply rounded_holds, times_holds; [exact Ho|]. apply (near_holds _ tanh x); [|exact Ht].
  now apply tanh_of_correct.
Qed.

(** * The check *)

(** Boxes of h and of c in which the network may be while the machine is in [at_state]. *)
Record place := Place { at_state : nat; boxes : list ((Z * Z) * (Z * Z)) }.

Definition quads {A} (i f g o : list A) : list ((A * A) * (A * A)) := combine (combine i f) (combine g o).

Definition moves_into (p : Z) (from : ((I.type * I.type) * (I.type * I.type)) * I.type) (to : (Z * Z) * (Z * Z)) : bool :=
  let '(((i, f), (g, o)), c) := from in
  let c' := new_c i f g c in
  I.subset c' (interval p (snd to)) && I.subset (new_h o c') (interval p (fst to)).

Definition lstm_formed (l : lstm) (m : machine) : bool :=
  let p := scale (opens l) in let d := length (units (opens l)) in
  forallb (fun n => well_formed n m && (scale n =? p)%Z && (length (units n) =? d)%nat)
          [opens l; keeps_on l; offers l; shows l].

Definition lstm_enters (l : lstm) (m : machine) (from : place) (s : nat) (to : place) : bool :=
  let p := scale (opens l) in
  let under n := sums n s (map fst (boxes from)) in
  let i := under (opens l) in let f := under (keeps_on l) in let g := under (offers l) in let o := under (shows l) in
  (at_state to =? next m (at_state from) s)%nat &&
  (if forallb (calm p) [i; f; g; o]
   then all2 (moves_into p)
             (combine (quads (squashed sigmoid_of (ranges (opens l) s i)) (squashed sigmoid_of (ranges (keeps_on l) s f))
                             (squashed tanh_of (ranges (offers l) s g)) (squashed sigmoid_of (ranges (shows l) s o)))
                      (map (fun b => interval p (snd b)) (boxes from)))
             (boxes to)
   else false) &&
  right_on (shows l) (answer m (at_state to)) (map fst (boxes to)).

Definition at_zero (r : place) : bool := forallb (fun b => holds_zero (fst b) && holds_zero (snd b)) (boxes r).

Definition lstm_check (l : lstm) (m : machine) (places : list place) (targets : list (list nat)) : bool :=
  lstm_formed l m &&
  forallb (fun r => (length (boxes r) =? length (units (opens l)))%nat &&
                    forallb (fun b => close (scale (opens l)) (fst b) && close (scale (opens l)) (snd b)) (boxes r)) places &&
  closes place m at_state (Place 0 []) at_zero (lstm_enters l m) places targets.

(** * Soundness *)

Section LstmSound.

Variables (l : lstm) (m : machine) (places : list place) (targets : list (list nat)).
Hypothesis checked : lstm_check l m places targets = true.

Let p := scale (opens l).

Definition in_box (b : (Z * Z) * (Z * Z)) (x : R * R) : Prop := within p (fst b) (fst x) /\ within p (snd b) (snd x).
Definition in_place (r : place) (x : state) : Prop := Forall2 in_box (boxes r) x.
Definition zero_state : state := map (fun _ => (0, 0)) (units (opens l)).

Lemma lstm_facts :
  (forall n, In n [opens l; keeps_on l; offers l; shows l] ->
     well_formed n m = true /\ scale n = p /\ length (units n) = length (units (opens l))) /\
  (forall r, In r places -> length (boxes r) = length (units (opens l))) /\
  closes place m at_state (Place 0 []) at_zero (lstm_enters l m) places targets = true /\
  (forall r, In r places -> forallb (fun b => close p (fst b) && close p (snd b)) (boxes r) = true).
Proof.
  pose proof checked as parts. unfold lstm_check in parts. rewrite !andb_true_iff in parts.
  destruct parts as [[formed sizes] all]. unfold lstm_formed in formed. cbv zeta in formed.
  rewrite forallb_forall in formed, sizes. repeat split.
  1-3: specialize (formed n H); rewrite !andb_true_iff in formed; destruct formed as [[A B] C].
  - exact A.
  - now apply Z.eqb_eq.
  - now apply Nat.eqb_eq.
  - intros r Hr. specialize (sizes r Hr). apply andb_prop in sizes as [L _]. now apply Nat.eqb_eq.
  - exact all.
  - intros r Hr. specialize (sizes r Hr). now apply andb_prop in sizes.
Qed.

Lemma gates_of_hold f f_of n s b h ys :
  In n [opens l; keeps_on l; offers l; shows l] -> (s < symbols m)%nat ->
  (forall x y, holds x y -> holds (f_of x) (f y)) ->
  Forall2 (within p) b h -> length b = length (units (opens l)) ->
  Forall2 (gate f n s h) (units n) ys ->
  Forall2 holds (squashed f_of (ranges n s (sums n s b))) ys.
Proof.
  intros Hn Hs Hf Hb Lb Hys. destruct lstm_facts as (Hnets & _). destruct (Hnets n Hn) as (formed & Hp & Hlen).
  apply (gates_hold m n f f_of s b h); auto; [now rewrite Hp|lia].
Qed.

Lemma lstm_begins r : In r places -> at_zero r = true -> in_place r zero_state.
Proof.
  intros In_r Hz. destruct lstm_facts as (_ & Hsize & _). pose proof (Hsize r In_r) as L.
  unfold at_zero in Hz. unfold in_place, zero_state. clear -L Hz. revert L Hz.
  generalize (units (opens l)) as vs. induction (boxes r) as [|b bs IH]; intros [|v vs]; simpl; try discriminate;
    [constructor|].
  intros [= L] Hz. apply andb_prop in Hz as [H0 Hz]. constructor; [|now apply IH].
  apply andb_prop in H0 as [A B]. split; now apply zero_within.
Qed.

Lemma lstm_entered r s to x y :
  In r places -> In to places -> (s < symbols m)%nat -> lstm_enters l m r s to = true -> in_place r x ->
  lstm_step l s x y -> at_state to = next m (at_state r) s /\ in_place to y.
Proof.
  intros In_r In_to Hs E Hb (i & f & g & o & Hi & Hf & Hg & Ho & Hcells & _).
  destruct lstm_facts as (_ & Hsize & _). unfold lstm_enters in E. cbv zeta in E. rewrite !andb_true_iff in E.
  destruct E as [[Hto Hmoves] _]. apply Nat.eqb_eq in Hto. split; [exact Hto|]. unfold in_place in *.
  apply both_hold in Hmoves as [_ Hmoves]. apply all2_holds in Hmoves. fold p in Hmoves.
  assert (Bh : Forall2 (within p) (map fst (boxes r)) (map fst x))
    by (apply map_holds, weaker with (2 := Hb); intros a b [A _]; exact A).
  assert (Bc : Forall2 holds (map (fun b => interval p (snd b)) (boxes r)) (map snd x))
    by (apply map_holds, weaker with (2 := Hb); intros a b [_ B]; now apply interval_holds).
  assert (Lb : length (map fst (boxes r)) = length (units (opens l))) by (rewrite map_length; now apply Hsize).
  assert (I1 := gates_of_hold sigmoid sigmoid_of (opens l) s _ _ i ltac:(simpl; auto) Hs sigmoid_holds Bh Lb Hi).
  assert (I2 := gates_of_hold sigmoid sigmoid_of (keeps_on l) s _ _ f ltac:(simpl; auto) Hs sigmoid_holds Bh Lb Hf).
  assert (I3 := gates_of_hold tanh tanh_of (offers l) s _ _ g ltac:(simpl; auto) Hs tanh_of_correct Bh Lb Hg).
  assert (I4 := gates_of_hold sigmoid sigmoid_of (shows l) s _ _ o ltac:(simpl; auto 6) Hs sigmoid_holds Bh Lb Ho).
  pose proof (combine_holds _ _ _ _ _ _ (combine_holds _ _ _ _ _ _ (combine_holds _ _ _ _ _ _ I1 I2)
    (combine_holds _ _ _ _ _ _ I3 I4)) Bc) as All.
  unfold quads in Hmoves. revert Hmoves Hcells All.
  generalize (boxes to) as bs.
  generalize (combine (combine (combine i f) (combine g o)) (map snd x)) as values.
  match goal with |- forall values bs, Forall2 _ ?a _ -> _ => generalize a as from end.
  intros from values bs Hmoves Hcells. revert from bs Hmoves.
  induction Hcells as [|v n vs ns Hcell _ IH]; intros from bs Hmoves All; inversion All as [E1 E2|X V Xs Vs Hone Hrest E1 E2]; subst.
  - inversion Hmoves. constructor.
  - inversion Hmoves as [|? b ? bs' Hm Hms]; subst. constructor; [|eapply IH; eassumption].
    destruct X as [[[xi xf] [xg xo]] xc], v as [[[vi vf] [vg vo]] vc]. simpl in *.
    destruct Hone as [[[A B] [C D]] G]. destruct Hcell as (t & Hsum & Ht & Hh).
    apply andb_prop in Hm as [M1 M2].
    pose proof (new_c_holds _ _ _ _ _ _ _ _ _ A B C G Hsum) as Nc.
    split; apply interval_holds.
    + eapply I.subset_correct; [|exact M2]. now apply (new_h_holds xo _ vo (snd n) t).
    + eapply I.subset_correct; [|exact M1]. exact Nc.
Qed.

Theorem lstm_right_everywhere : lstm_right_at_every_length l m.
Proof.
  intros w x y Hw reached Hy. destruct lstm_facts as (Hnets & Hsize & closed & _).
  destruct (Hnets (shows l) ltac:(simpl; auto 6)) as (formed & Hp & Hlen).
  destruct (every_word_leads place state m at_state (Place 0 []) in_place zero_state (lstm_step l) at_zero
    (lstm_enters l m) places targets closed lstm_begins lstm_entered w x Hw reached)
    as (from & s & r & _ & In_r & _ & E & Hq & Hb).
  unfold lstm_enters in E. cbv zeta in E. rewrite !andb_true_iff in E. destruct E as [_ Hright]. rewrite Hq in Hright.
  eapply (right_on_correct _ m formed); [exact Hright| | |exact Hy].
  - rewrite Hp. apply map_holds, weaker with (2 := Hb). intros a b [A _]. exact A.
  - rewrite map_length, Hlen. now apply Hsize.
Qed.

Lemma places_hold_h r x : in_place r x -> Forall2 (within p) (map fst (boxes r)) (map fst x).
Proof. intros Hb. apply map_holds, weaker with (2 := Hb). now intros a b [A _]. Qed.

Lemma cells_fit r s x i f g o :
  In r places -> in_place r x ->
  Forall2 (gate sigmoid (opens l) s (map fst x)) (units (opens l)) i ->
  Forall2 (gate sigmoid (keeps_on l) s (map fst x)) (units (keeps_on l)) f ->
  Forall2 (gate tanh (offers l) s (map fst x)) (units (offers l)) g ->
  Forall2 (gate sigmoid (shows l) s (map fst x)) (units (shows l)) o ->
  Forall cell_fits (combine (combine (combine i f) (combine g o)) (map snd x)).
Proof.
  intros In_r Hb Hi Hf Hg Ho. destruct lstm_facts as (Hnets & _ & _ & Hclose).
  destruct (Hnets (opens l) ltac:(simpl; auto)) as (formed & _). destruct (formed_facts _ _ formed) as (Hp & _). fold p in Hp.
  assert (C : Forall (fun c => Rabs c <= bpow radix2 16) (map snd x)).
  { specialize (Hclose r In_r). rewrite forallb_forall in Hclose. unfold in_place in Hb. clear -Hb Hclose Hp.
    induction Hb as [|b y bs ys [_ Hc] _ IH]; simpl; constructor.
    - specialize (Hclose b (or_introl eq_refl)). apply andb_prop in Hclose as [_ K]. now apply (close_is_small p (snd b)).
    - apply IH. intros c Hin. apply Hclose. now right. }
  pose proof (gates_are_small _ _ _ _ _ sigmoid_is_small Hi) as Si. pose proof (gates_are_small _ _ _ _ _ sigmoid_is_small Hf) as Sf.
  pose proof (gates_are_small _ _ _ _ _ tanh_is_small Hg) as Sg. pose proof (gates_are_small _ _ _ _ _ sigmoid_is_small Ho) as So.
  pose proof (combine_all _ _ _ _ (combine_all _ _ _ _ (combine_all _ _ _ _ Si Sf) (combine_all _ _ _ _ Sg So)) C) as All.
  apply Forall_impl with (2 := All). intros [[[vi vf] [vg vo]] c] [[[A B] [D E]] F]. simpl in *.
  apply two_is_moderate in A, B, D, E. apply (small_is_moderate 16) in F; [|lia]. split; [now apply two_products_fit|].
  intros d t _ Ht. apply one_product_fits; [exact E|]. apply two_is_moderate. now apply (near_is_small tanh d), Ht; apply tanh_is_small.
Qed.

Theorem lstm_excludes_overflow : lstm_overflows_nowhere l m.
Proof.
  intros w x letters reached. destruct lstm_facts as (Hnets & Hsize & closed & _). split.
  - intros s Hs.
    destruct (every_word_is_known place state m at_state (Place 0 []) in_place zero_state (lstm_step l) at_zero
      (lstm_enters l m) places targets closed lstm_begins lstm_entered w x letters reached) as (r & In_r & _ & Hb).
    destruct (somewhere place m at_state (Place 0 []) at_zero (lstm_enters l m) places targets closed r s In_r Hs) as (to & _ & E).
    split; [|intros; now apply (cells_fit r s)]. intros n v Hn Hv. destruct (Hnets n Hn) as (formed & Hp & Hlen).
    unfold lstm_enters in E. cbv zeta in E. rewrite !andb_true_iff in E. destruct E as [[_ E] _].
    apply both_hold in E as [quiet _]. rewrite forallb_forall in quiet. fold p in quiet.
    apply (calm_fits m n s (map fst (boxes r))); auto.
    + rewrite Hp. apply quiet. simpl in Hn |- *. intuition (subst; auto).
    + rewrite Hp. now apply places_hold_h.
    + rewrite map_length, Hlen. now apply Hsize.
  - intros row some Hrow. destruct (Hnets (shows l) ltac:(simpl; auto 6)) as (formed & Hp & Hlen).
    destruct (every_word_leads place state m at_state (Place 0 []) in_place zero_state (lstm_step l) at_zero
      (lstm_enters l m) places targets closed lstm_begins lstm_entered w x (conj some letters) reached)
      as (from & s & r & _ & In_r & _ & E & _ & Hb).
    unfold lstm_enters in E. cbv zeta in E. rewrite !andb_true_iff in E. destruct E as [_ ok].
    apply fits_where_small.
    + destruct (formed_facts _ _ formed) as (_ & short & _ & Hhead & _). rewrite row_count; rewrite ?Hhead by exact Hrow;
        rewrite <- (same_length _ _ _ (places_hold_h r x Hb)), map_length, (Hsize r In_r), <- Hlen; lia.
    + apply (head_terms_are_small (shows l) m formed _ (map fst (boxes r)) _ row ok); [rewrite Hp; now apply places_hold_h|exact Hrow].
Qed.

End LstmSound.

Theorem lstm_check_is_sound l m places targets :
  lstm_check l m places targets = true -> lstm_right_at_every_length l m.
Proof. apply lstm_right_everywhere. Qed.

Theorem lstm_check_excludes_overflow l m places targets :
  lstm_check l m places targets = true -> lstm_overflows_nowhere l m.
Proof. apply lstm_excludes_overflow. Qed.

(** So it is in binary32, rounded to nearest. *)
Theorem lstm_right_in_binary32 l m : lstm_right_at_every_length l m -> lstm_right_in is_binary32 l m.
Proof.
  intros claim w x y Hw Hx Hy. apply (claim w x y Hw); [|now apply binary32_affine].
  clear -Hx. induction Hx as [|w s a b _ IH one]; [constructor|]. apply after_one_more with a; [exact IH|].
  destruct one as (i & f & g & o & Hi & Hf & Hg & Ho & Hc & L). exists i, f, g, o.
  repeat (split; [now apply binary32_gates|]). split; [|exact L]. apply weaker with (2 := Hc).
  intros [[[vi vf] [vg vo]] c] n (t & A & B & C). exists t.
  split; [now apply binary32_sum|]. split; [exact B|now apply binary32_rounded].
Qed.

(** The claim is not empty: after every word there is an evaluation that is allowed. *)
Definition exact_cell (a : ((R * R) * (R * R)) * R) : R * R :=
  let '(((i, f), (g, o)), c) := a in let c' := exact [(f, c); (i, g)] in (o * tanh c', c').

Lemma exact_cells_are_allowed all : Forall2 (fun a next => cell (fst a) (snd a) next) all (map exact_cell all).
Proof.
  induction all as [|[[[i f] [g o]] c] all IH]; simpl; constructor; [|exact IH].
  exists (tanh (exact [(f, c); (i, g)])). split; [now apply every_list_has_a_sum|].
  split; [apply exactly_near|apply exact_is_rounded].
Qed.

Theorem lstm_every_word_has_a_state l m w :
  lstm_formed l m = true -> exists x, lstm_after l w x /\ length x = length (units (opens l)).
Proof.
  intros formed. unfold lstm_formed in formed. cbv zeta in formed. simpl in formed. rewrite !andb_true_iff in formed.
  destruct formed as ([_ A] & [_ B] & [_ C] & [_ D] & _). apply Nat.eqb_eq in A, B, C, D.
  induction w as [|s w [x [Hx Lx]]] using rev_ind.
  { exists (map (fun _ => (0, 0)) (units (opens l))). rewrite map_length. split; [constructor|reflexivity]. }
  set (h := map fst x).
  set (all := combine (combine (combine (exact_gate sigmoid (opens l) s h) (exact_gate sigmoid (keeps_on l) s h))
                               (combine (exact_gate tanh (offers l) s h) (exact_gate sigmoid (shows l) s h))) (map snd x)).
  assert (L : length (map exact_cell all) = length (units (opens l))).
  { unfold all, exact_gate. rewrite map_length, !combine_length, !map_length. lia. }
  exists (map exact_cell all). split; [|exact L]. apply after_one_more with x; [exact Hx|].
  exists (exact_gate sigmoid (opens l) s h), (exact_gate sigmoid (keeps_on l) s h),
         (exact_gate tanh (offers l) s h), (exact_gate sigmoid (shows l) s h).
  repeat (split; [apply exact_gate_is_allowed|]). split; [apply exact_cells_are_allowed|exact L].
Qed.
