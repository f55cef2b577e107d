(** An LSTM of one layer is right after every word.

        i, f, o = sigmoid(W x + b + U h + c),   g = tanh(W x + b + U h + c),   each with weights of its own
        c' = f c + i g,   h' = o tanh c',       both 0 before the first symbol,       logits = V h + d

    An evaluation is allowed if every sum is one of Rounding.v, sigmoid and tanh are off by at most 32 u, and o tanh c' is
    rounded. The check is that of Recurrence.v, with boxes of h and c; what follows the sums is bounded by intervals. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Float.Specific_ops Interval.Interval Interval.Float_full Real.Xreal.
From Lengthwise Require Import Words Rounding Dyadic Tanh Recurrence.
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

Definition sigmoid (x : R) : R := / (1 + exp (- x)).
Definition near (f : R -> R) (x y : R) : Prop := Rabs (y - f x) <= 32 * u.
Definition gate (f : R -> R) (n : network) (s : nat) (h : list R) (v : unit) (y : R) : Prop :=
  exists z, sum (terms n s h v) z /\ near f z y.

Definition cell (gates : (R * R) * (R * R)) (c : R) (next : R * R) : Prop :=
  let '((i, f), (g, o)) := gates in
  exists t, sum [(f, c); (i, g)] (snd next) /\ near tanh (snd next) t /\ rounded (o * t) (fst next).

Definition lstm_step (l : lstm) (s : nat) (x y : state) : Prop :=
  exists i f g o,
    Forall2 (gate sigmoid (opens l) s (map fst x)) (units (opens l)) i /\
    Forall2 (gate sigmoid (keeps_on l) s (map fst x)) (units (keeps_on l)) f /\
    Forall2 (gate tanh (offers l) s (map fst x)) (units (offers l)) g /\
    Forall2 (gate sigmoid (shows l) s (map fst x)) (units (shows l)) o /\
    Forall2 (fun a next => cell (fst a) (snd a) next)
            (combine (combine (combine i f) (combine g o)) (map snd x)) y /\
    length y = length (units (opens l)).

Definition lstm_after (l : lstm) : list nat -> state -> Prop :=
  after nat state (map (fun _ => (0, 0)) (units (opens l))) (lstm_step l).

Definition lstm_right_at_every_length (l : lstm) (m : machine) : Prop :=
  forall w x y, word m w -> lstm_after l w x -> logits (shows l) (map fst x) y ->
  right (answer m (run nat nat (start m) (next m) w)) y.

(** * Intervals *)

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

Definition ranges (n : network) (s : nat) (x kept : list ((Z * Z) * Z)) : list I.type :=
  map (fun pair => interval (2 * scale n) (computed (scale n) (count n s) (both (fst pair) (snd pair)))) (combine x kept).
Definition squashed (f : I.type -> I.type) (l : list I.type) : list I.type := map (fun x => around (f x) near_off) l.
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
  let h := map fst (boxes from) in
  let gates f n := squashed f (ranges n s (of_symbol n s) (of_box n h)) in
  (at_state to =? next m (at_state from) s)%nat &&
  all2 (moves_into p)
       (combine (quads (gates sigmoid_of (opens l)) (gates sigmoid_of (keeps_on l)) (gates tanh_of (offers l))
                       (gates sigmoid_of (shows l)))
                (map (fun b => interval p (snd b)) (boxes from)))
       (boxes to) &&
  right_on (shows l) (answer m (at_state to)) (map fst (boxes to)).

Definition lstm_check (l : lstm) (m : machine) (places : list place) (targets : list (list nat)) : bool :=
  lstm_formed l m &&
  forallb (fun r => length (boxes r) =? length (units (opens l)))%nat places &&
  existsb (fun r => (at_state r =? start m)%nat &&
                    forallb (fun b => holds_zero (fst b) && holds_zero (snd b)) (boxes r)) places &&
  all2 (fun r row =>
          forallb (fun s => lstm_enters l m r s (nth (nth s row 0%nat) places (Place 0 [])) &&
                            (nth s row 0%nat <? length places)%nat) (seq 0 (symbols m)))
       places targets.

(** * Soundness *)

Section LstmSound.

Variables (l : lstm) (m : machine) (places : list place) (targets : list (list nat)).
Hypothesis checked : lstm_check l m places targets = true.

Let p := scale (opens l).

Definition in_box (b : (Z * Z) * (Z * Z)) (x : R * R) : Prop := within p (fst b) (fst x) /\ within p (snd b) (snd x).
Definition at_place (q : nat) (x : state) : Prop :=
  exists r, In r places /\ at_state r = q /\ Forall2 in_box (boxes r) x.
Definition right_place (q : nat) (x : state) : Prop :=
  exists r, In r places /\ at_state r = q /\ Forall2 in_box (boxes r) x /\
            right_on (shows l) (answer m q) (map fst (boxes r)) = true.

Lemma lstm_facts :
  (forall n, In n [opens l; keeps_on l; offers l; shows l] ->
     well_formed n m = true /\ scale n = p /\ length (units n) = length (units (opens l))) /\
  (forall r, In r places -> length (boxes r) = length (units (opens l))) /\
  (exists r, In r places /\ at_state r = start m /\
     forallb (fun b => holds_zero (fst b) && holds_zero (snd b)) (boxes r) = true) /\
  (forall r s, In r places -> (s < symbols m)%nat -> exists to, In to places /\ lstm_enters l m r s to = true).
Proof.
  pose proof checked as parts. unfold lstm_check in parts. rewrite !andb_true_iff in parts.
  destruct parts as [[[formed sizes] first] moves]. unfold lstm_formed in formed. cbv zeta in formed.
  rewrite forallb_forall in formed, sizes. repeat split.
  1-3: specialize (formed n H); rewrite !andb_true_iff in formed; destruct formed as [[A B] C].
  - exact A.
  - now apply Z.eqb_eq.
  - now apply Nat.eqb_eq.
  - intros r Hr. now apply Nat.eqb_eq, sizes.
  - apply existsb_exists in first as (r & Hr & Hz). apply andb_prop in Hz as [Hq Hz]. apply Nat.eqb_eq in Hq. eauto.
  - intros r s Hr Hs. apply all2_holds in moves. destruct (first_of_pair _ _ _ r moves Hr) as (row & K).
    rewrite forallb_forall in K. specialize (K s ltac:(apply in_seq; lia)).
    apply andb_prop in K as [K L]. apply Nat.ltb_lt in L. eexists. split; [|exact K]. now apply nth_In.
Qed.

Lemma gates_hold f f_of n s b h ys :
  In n [opens l; keeps_on l; offers l; shows l] -> (s < symbols m)%nat ->
  (forall x y, holds x y -> holds (f_of x) (f y)) ->
  Forall2 (within p) b h -> length b = length (units (opens l)) ->
  Forall2 (gate f n s h) (units n) ys ->
  Forall2 holds (squashed f_of (ranges n s (of_symbol n s) (of_box n b))) ys.
Proof.
  intros Hn Hs Hf Hb Lb Hys. destruct lstm_facts as (Hnets & _). destruct (Hnets n Hn) as (formed & Hp & Hlen).
  unfold squashed, ranges, of_symbol, of_box. rewrite Hp.
  assert (K : Forall (fun v => In v (units n)) (units n)) by now apply Forall_forall.
  revert Hys K. generalize (units n) at 1 3 4 5 as vs.
  intros vs Hys. induction Hys as [|v y vs ys (z & Hz & Hy) _ IH]; intros K; simpl; [constructor|].
  inversion K as [|? ? Hv K']; subst. constructor; [|now apply IH].
  apply (near_holds _ f z); [|exact Hy]. apply Hf, interval_holds.
  pose proof (terms_within n m formed s h b v Hs Hv) as W. rewrite Hp in W. apply W; auto. lia.
Qed.

Lemma lstm_begins : at_place (start m) (map (fun _ => (0, 0)) (units (opens l))).
Proof.
  destruct lstm_facts as (_ & Hsize & (r & In_r & Hq & Hz) & _). exists r. repeat split; auto.
  pose proof (Hsize r In_r) as L. clear -L Hz. revert L Hz.
  generalize (units (opens l)) as vs. induction (boxes r) as [|b bs IH]; intros [|v vs]; simpl; try discriminate;
    [constructor|].
  intros [= L] Hz. apply andb_prop in Hz as [H0 Hz]. constructor; [|now apply IH].
  apply andb_prop in H0 as [A B]. unfold holds_zero in A, B. apply andb_prop in A as [A1 A2], B as [B1 B2].
  apply Z.leb_le in A1, A2, B1, B2. apply (real_le p) in A1, A2, B1, B2. rewrite real_0 in *.
  repeat split; assumption.
Qed.

Lemma lstm_closed q s x y : (s < symbols m)%nat -> at_place q x -> lstm_step l s x y -> right_place (next m q s) y.
Proof.
  intros Hs (r & In_r & Hq & Hb) (i & f & g & o & Hi & Hf & Hg & Ho & Hcells & _).
  destruct lstm_facts as (_ & Hsize & _ & Henters). destruct (Henters r s In_r Hs) as (to & In_to & E).
  unfold lstm_enters in E. cbv zeta in E. rewrite !andb_true_iff in E. destruct E as [[Hto Hmoves] Hright].
  apply Nat.eqb_eq in Hto. rewrite Hq in Hto. rewrite Hto in Hright. exists to. repeat split; auto.
  apply all2_holds in Hmoves. fold p in Hmoves.
  assert (Bh : Forall2 (within p) (map fst (boxes r)) (map fst x))
    by (apply map_holds, weaker with (2 := Hb); intros a b [A _]; exact A).
  assert (Bc : Forall2 holds (map (fun b => interval p (snd b)) (boxes r)) (map snd x))
    by (apply map_holds, weaker with (2 := Hb); intros a b [_ B]; now apply interval_holds).
  assert (Lb : length (map fst (boxes r)) = length (units (opens l))) by (rewrite map_length; now apply Hsize).
  assert (I1 := gates_hold sigmoid sigmoid_of (opens l) s _ _ i ltac:(simpl; auto) Hs sigmoid_holds Bh Lb Hi).
  assert (I2 := gates_hold sigmoid sigmoid_of (keeps_on l) s _ _ f ltac:(simpl; auto) Hs sigmoid_holds Bh Lb Hf).
  assert (I3 := gates_hold tanh tanh_of (offers l) s _ _ g ltac:(simpl; auto) Hs tanh_of_correct Bh Lb Hg).
  assert (I4 := gates_hold sigmoid sigmoid_of (shows l) s _ _ o ltac:(simpl; auto 6) Hs sigmoid_holds Bh Lb Ho).
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
  intros w x y [some letters] reached Hy. destruct lstm_facts as (Hnets & Hsize & _).
  destruct (Hnets (shows l) ltac:(simpl; auto 6)) as (formed & Hp & Hlen).
  assert (K : right_place (run nat nat (start m) (next m) w) x).
  { destruct reached as [|w s a b known one]; [easy|]. apply Forall_app in letters as [letters last].
    rewrite run_one_more. apply (lstm_closed _ s a); [now inversion last| |exact one].
    apply (every_word nat state (map (fun _ => (0, 0)) (units (opens l))) (lstm_step l) nat (start m) (next m)
             (fun s => (s < symbols m)%nat) at_place); auto.
    - exact lstm_begins.
    - intros q t c d Ht Hc Hcd. destruct (lstm_closed q t c d Ht Hc Hcd) as (r & ? & ? & ? & _). exists r. auto. }
  destruct K as (r & In_r & _ & Hb & Hright). eapply (right_on_correct _ m formed); [exact Hright| | |exact Hy].
  - rewrite Hp. apply map_holds, weaker with (2 := Hb). intros a b [A _]. exact A.
  - rewrite map_length, Hlen. now apply Hsize.
Qed.

End LstmSound.

Theorem lstm_check_is_sound l m places targets :
  lstm_check l m places targets = true -> lstm_right_at_every_length l m.
Proof. apply lstm_right_everywhere. Qed.

(** The claim is not empty: after every word there is an evaluation that is allowed. *)
Definition exact_gate (f : R -> R) (n : network) (s : nat) (h : list R) : list R :=
  map (fun v => f (exact (terms n s h v))) (units n).
Definition exact_cell (a : ((R * R) * (R * R)) * R) : R * R :=
  let '(((i, f), (g, o)), c) := a in let c' := exact [(f, c); (i, g)] in (o * tanh c', c').

Lemma exactly_near f x : near f x (f x).
Proof. unfold near. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. pose proof u_positive. lra. Qed.

Lemma exact_gate_is_allowed f n s h : Forall2 (gate f n s h) (units n) (exact_gate f n s h).
Proof.
  unfold exact_gate. induction (units n) as [|v vs IH]; simpl; constructor; [|exact IH].
  exists (exact (terms n s h v)). split; [|apply exactly_near]. apply every_list_has_a_sum. unfold terms.
  intros none. apply app_eq_nil in none as [_ none]. now apply app_eq_nil in none as [_ none].
Qed.

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
