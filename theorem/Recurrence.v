(** A recurrence of one tanh layer is right after every word: what that means, and a check that decides it.

        h' = tanh (W x_s + b + U h + c),      h = 0 before the first symbol,      logits = V h + d

    An evaluation is allowed if every sum is one of Rounding.v and every tanh is off by at most 32 u. The check is given
    boxes of h for every state of the machine, and decides on whole numbers that they are closed and the head is right on
    them. [check_is_sound] says that then every allowed evaluation answers every word as the machine does. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Lengthwise Require Import Words Rounding Dyadic Tanh.
From Lengthwise Require Export Machine Affine.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

(** The weights of one number of the state: a row of W and of U, and its entries of b and c. All are k 2^-scale. *)
Record unit := Unit { reads : list Z; keeps : list Z; bias : Z; other_bias : Z }.
Record network := Network {
  scale : Z;
  embeddings : list (list Z);
  units : list unit;
  head : list (list Z * Z) }.

(** * What the network may compute *)

Definition embedding (n : network) (s : nat) : list Z := nth s (embeddings n) [].

(** The terms of the sum under a tanh. *)
Definition terms (n : network) (s : nat) (h : list R) (v : unit) : list (R * R) :=
  products (scale n) (reads v) (map (real (scale n)) (embedding n s)) ++
  products (scale n) (keeps v) h ++ [one (scale n) (bias v); one (scale n) (other_bias v)].

Definition zeros (n : network) : list R := map (fun _ => 0) (units n).

(** [allows] is the arithmetic of products and sums. *)
Definition step_in (allows : R -> R -> Prop) (n : network) (s : nat) (h h' : list R) : Prop :=
  Forall2 (fun v y => exists z, sum_in allows (terms n s h v) z /\ near_tanh z y) (units n) h'.
Definition logits_in (allows : R -> R -> Prop) (n : network) : list R -> list R -> Prop :=
  affine_in allows (scale n) (head n).

(** The states that are possible after a word. *)
Definition state_after_in (allows : R -> R -> Prop) (n : network) : list nat -> list R -> Prop :=
  after nat (list R) (zeros n) (step_in allows n).

Definition step := step_in rounded.
Definition logits := logits_in rounded.
Definition state_after := state_after_in rounded.

Definition right_in (allows : R -> R -> Prop) (n : network) (m : machine) : Prop :=
  forall w h l, word m w -> state_after_in allows n w h -> logits_in allows n h l ->
  right (answer m (run nat nat (start m) (next m) w)) l.

(** The claim: in every arithmetic that is as good as [rounded]. *)
Definition right_at_every_length : network -> machine -> Prop := right_in rounded.

(** * The check *)

(** A box of h in which the network may be while the machine is in [state]. It holds every tanh of what is in [drive],
    which is empty where no symbol leads to the box. *)
Record region := Region { state : nat; drive : list (Z * Z); box : list (Z * Z) }.

(** Terms of at most this size overflow nowhere: 2^100. *)
Definition huge (p : Z) : Z := (2 ^ (2 * p + 100))%Z.
Definition inside (inner outer : Z * Z) : bool := (fst outer <=? fst inner)%Z && (snd inner <=? snd outer)%Z.

Definition of_symbol (n : network) (s : nat) : list ((Z * Z) * Z) :=
  map (fun v => both (times (reads v) (map point (embedding n s)))
                     (both (constant (scale n) (bias v)) (constant (scale n) (other_bias v)))) (units n).
Definition of_box (n : network) (b : list (Z * Z)) : list ((Z * Z) * Z) := map (fun v => times (keeps v) b) (units n).

(** How many terms the sums of a step have. *)
Definition count (n : network) (s : nat) : nat := (length (embedding n s) + (length (units n) + 2))%nat.

Definition right_on (n : network) (a : nat) (b : list (Z * Z)) : bool :=
  ahead a (map (row_of (scale n) b) (head n)) &&
  forallb (fun row => snd (both (times (fst row) b) (constant (scale n) (snd row))) <=? huge (scale n))%Z (head n).

Definition well_formed (n : network) (m : machine) : bool :=
  (0 <=? scale n)%Z && (length (units n) + 1 <=? 4000)%nat &&
  forallb (fun v => length (keeps v) =? length (units n))%nat (units n) &&
  forallb (fun row => length (fst row) =? length (units n))%nat (head n) &&
  forallb (fun s => (count n s <=? 4000)%nat &&
                    forallb (fun v => length (reads v) =? length (embedding n s))%nat (units n)) (seq 0 (symbols m)).

(** Whether a symbol of which [x] are the terms leads from the image of a box to a region of the next state. *)
Definition enters (n : network) (m : machine) (q : nat) (image : list ((Z * Z) * Z)) (s : nat)
    (x : list ((Z * Z) * Z)) (to : region) : bool :=
  (state to =? next m q s)%nat &&
  all2 (fun z d => inside (computed (scale n) (count n s) z) (lifted (scale n) (fst d), lifted (scale n) (snd d)) &&
                   (snd z <=? huge (scale n))%Z)
       (map (fun pair => both (fst pair) (snd pair)) (combine x image)) (drive to) &&
  right_on n (answer m (state to)) (box to).

Definition holds_zero (b : Z * Z) : bool := (fst b <=? 0)%Z && (0 <=? snd b)%Z.

(** [targets] names for each region and each symbol the region that it leads to. *)
Definition check (n : network) (m : machine) (regions : list region) (targets : list (list nat)) : bool :=
  let of_symbols := map (of_symbol n) (seq 0 (symbols m)) in
  well_formed n m &&
  forallb (fun r => all2 (leads (scale n)) (drive r) (box r) && (length (box r) =? length (units n))%nat) regions &&
  existsb (fun r => (state r =? start m)%nat && forallb holds_zero (box r)) regions &&
  all2 (fun r row =>
          let image := of_box n (box r) in
          (length row =? symbols m)%nat &&
          forallb (fun s => enters n m (state r) image s (nth s of_symbols [])
                                   (nth (nth s row 0%nat) regions (Region 0 [] []))
                            && (nth s row 0%nat <? length regions)%nat) (seq 0 (symbols m)))
       regions targets.

(** * Soundness *)

Lemma zero_within p b : holds_zero b = true -> within p b 0.
Proof.
  unfold holds_zero. intros [Hl Hh]%andb_prop. apply Z.leb_le in Hl, Hh. apply (real_le p) in Hl, Hh.
  rewrite real_0 in *. now split.
Qed.

Section Sound.

Variables (n : network) (m : machine).
Hypothesis formed : well_formed n m = true.

Let p := scale n.

Lemma formed_facts :
  (0 <= p)%Z /\ (length (units n) + 1 <= 4000)%nat /\
  (forall v, In v (units n) -> length (keeps v) = length (units n)) /\
  (forall row, In row (head n) -> length (fst row) = length (units n)) /\
  (forall s, (s < symbols m)%nat -> (count n s <= 4000)%nat /\
     forall v, In v (units n) -> length (reads v) = length (embedding n s)).
Proof.
  unfold well_formed in formed. repeat (apply andb_prop in formed as [formed ?]).
  rewrite forallb_forall in *. repeat split.
  - now apply Z.leb_le.
  - now apply Nat.leb_le.
  - intros v Hv. now apply Nat.eqb_eq, H1.
  - intros r Hr. now apply Nat.eqb_eq, H0.
  - assert (In s (seq 0 (symbols m))) by (apply in_seq; lia). specialize (H s H4).
    apply andb_prop in H as [H _]. now apply Nat.leb_le.
  - intros v Hv. assert (In s (seq 0 (symbols m))) by (apply in_seq; lia). specialize (H s H4).
    apply andb_prop in H as [_ H]. rewrite forallb_forall in H. now apply Nat.eqb_eq, H.
Qed.

Lemma huge_is : real (2 * p) (huge p) = bpow radix2 100.
Proof.
  destruct formed_facts as (Hp & _). unfold huge, real. rewrite power_of_two by lia. rewrite <- bpow_plus. f_equal. lia.
Qed.

Lemma terms_count s h v :
  (s < symbols m)%nat -> In v (units n) -> length h = length (units n) -> length (terms n s h v) = count n s.
Proof.
  intros Hs Hv Lh. destruct formed_facts as (_ & _ & Hkeeps & _ & Hsym). destruct (Hsym s Hs) as [_ Hreads].
  specialize (Hkeeps v Hv). specialize (Hreads v Hv). unfold terms, count.
  rewrite !app_length, products_length, products_length, map_length by (rewrite ?map_length; lia). simpl. lia.
Qed.

Lemma terms_size s h b v :
  In v (units n) -> Forall2 (within p) b h ->
  size (terms n s h v) <= real (2 * p) (snd (both (both (times (reads v) (map point (embedding n s)))
    (both (constant p (bias v)) (constant p (other_bias v)))) (times (keeps v) b))).
Proof.
  intros Hv Hb. destruct formed_facts as (Hp & _).
  replace (size (terms n s h v))
    with (size (products p (reads v) (map (real p) (embedding n s))) +
          (size [one p (bias v)] + size [one p (other_bias v)]) + size (products p (keeps v) h))
    by (unfold terms; rewrite !size_app; simpl; fold p; ring).
  unfold both, times. cbn [snd fst]. rewrite !real_plus.
  repeat apply Rplus_le_compat; auto using reach_within, points_within; now apply constant_size.
Qed.

Lemma terms_within s h b v :
  (s < symbols m)%nat -> In v (units n) -> Forall2 (within p) b h -> length b = length (units n) ->
  let x := both (both (times (reads v) (map point (embedding n s)))
                      (both (constant p (bias v)) (constant p (other_bias v)))) (times (keeps v) b) in
  forall z, sum (terms n s h v) z -> within (2 * p) (computed p (count n s) x) z.
Proof.
  intros Hs Hv Hb Lb x z Hz. destruct formed_facts as (Hp & _ & _ & _ & Hsym). destruct (Hsym s Hs) as [short _].
  pose proof (same_length _ _ _ Hb) as Lh. pose proof (terms_count s h v Hs Hv ltac:(lia)) as L.
  apply (widened_within _ _ _ (exact (terms n s h v))).
  - replace (exact (terms n s h v))
      with (exact (products p (reads v) (map (real p) (embedding n s))) +
            (exact [one p (bias v)] + exact [one p (other_bias v)]) + exact (products p (keeps v) h))
      by (unfold terms; rewrite !exact_app; simpl; fold p; ring).
    repeat apply both_within; simpl; auto using dot_within, points_within;
    now apply (constant_within p _ Hp).
  - rewrite <- L. apply noise_is_enough; auto; [rewrite L; exact short|]. now apply terms_size.
Qed.

Lemma right_on_correct a b h l :
  right_on n a b = true -> Forall2 (within p) b h -> length b = length (units n) -> logits n h l -> right a l.
Proof.
  unfold right_on. intros [above _]%andb_prop Hb Lb Hl. apply (ahead_is_right (2 * p) _ _ _ above).
  destruct formed_facts as (Hp & short & _ & Hhead & _). pose proof (same_length _ _ _ Hb) as Lh.
  unfold logits, logits_in, affine_in in Hl. fold p in Hl |- *. clear above. revert Hhead.
  induction Hl as [|row y rows ys Hy _ IH]; intros Hhead; simpl; constructor.
  - apply (row_within p b h); auto; [lia|]. rewrite Hhead; [lia|now left].
  - apply IH. intros r Hr. apply Hhead. now right.
Qed.

Lemma head_terms_are_small a b h row :
  right_on n a b = true -> Forall2 (within p) b h -> In row (head n) ->
  size (row_terms p h row) <= bpow radix2 100.
Proof.
  unfold right_on. intros [_ small]%andb_prop Hb Hrow. rewrite forallb_forall in small.
  specialize (small row Hrow). apply Z.leb_le in small. destruct formed_facts as (Hp & _).
  eapply Rle_trans; [exact (row_size p b h row Hp Hb)|]. rewrite <- huge_is. now apply real_le.
Qed.

Variables (regions : list region) (targets : list (list nat)).
Hypothesis checked : check n m regions targets = true.

(** A state lies in a region of the machine's state; and the head is right there. *)
Definition together (q : nat) (h : list R) : Prop :=
  exists r, In r regions /\ state r = q /\ Forall2 (within p) (box r) h.
Definition answered (q : nat) (h : list R) : Prop :=
  exists r, In r regions /\ state r = q /\ Forall2 (within p) (box r) h /\ right_on n (answer m q) (box r) = true.

Lemma checked_facts :
  (forall r, In r regions -> all2 (leads p) (drive r) (box r) = true /\ length (box r) = length (units n)) /\
  (exists r, In r regions /\ state r = start m /\ forallb holds_zero (box r) = true) /\
  (forall r s, In r regions -> (s < symbols m)%nat ->
     exists to, In to regions /\ enters n m (state r) (of_box n (box r)) s (of_symbol n s) to = true).
Proof.
  pose proof checked as parts. unfold check in parts. cbv zeta in parts. rewrite !andb_true_iff in parts.
  destruct parts as [[[_ boxes] first] moves]. rewrite forallb_forall in boxes. repeat split.
  - specialize (boxes r H). now apply andb_prop in boxes.
  - specialize (boxes r H). apply andb_prop in boxes as [_ L]. now apply Nat.eqb_eq.
  - apply existsb_exists in first as (r & Hr & Hz). apply andb_prop in Hz as [Hq Hz]. apply Nat.eqb_eq in Hq. eauto.
  - intros r s Hr Hs. apply all2_holds in moves.
    destruct (first_of_pair _ _ _ r moves Hr) as (row & K). apply andb_prop in K as [_ K].
    rewrite forallb_forall in K. specialize (K s ltac:(apply in_seq; lia)).
    apply andb_prop in K as [K L]. apply Nat.ltb_lt in L.
    exists (nth (nth s row 0%nat) regions (Region 0 [] [])). split; [now apply nth_In|].
    rewrite (nth_indep _ _ (of_symbol n 0%nat)) in K by now rewrite map_length, seq_length.
    rewrite map_nth, seq_nth in K by assumption. exact K.
Qed.

Lemma begins : together (start m) (zeros n).
Proof.
  destruct checked_facts as (Hr & (r & In_r & Hq & Hz) & _). exists r. repeat split; auto.
  destruct (Hr r In_r) as [_ L]. clear -L Hz. unfold zeros. revert L Hz.
  generalize (units n) as vs. induction (box r) as [|[low high] b IH]; intros [|v vs]; simpl; try discriminate; [constructor|].
  intros [= L] Hz. apply andb_prop in Hz as [H0 Hz]. constructor; [|now apply IH].
  now apply zero_within.
Qed.

Lemma closed q s h h' : (s < symbols m)%nat -> together q h -> step n s h h' -> answered (next m q s) h'.
Proof.
  intros Hs (r & In_r & Hq & Hb) Hstep. destruct checked_facts as (Hregions & _ & Henters).
  destruct (Henters r s In_r Hs) as (to & In_to & E). destruct (Hregions r In_r) as [_ L].
  destruct (Hregions to In_to) as [Hleads _]. rewrite Hq in E. clear Henters Hregions.
  unfold enters in E. apply andb_prop in E as [E Hright]. apply andb_prop in E as [Hto Hdrive].
  apply Nat.eqb_eq in Hto. rewrite Hto in Hright. exists to. repeat split; auto.
  apply all2_holds in Hdrive. apply all2_holds in Hleads.
  assert (K : Forall (fun v => In v (units n)) (units n)) by now apply Forall_forall.
  unfold of_symbol, of_box, step, step_in in *. fold p in Hdrive.
  revert Hleads Hdrive Hstep K. generalize (units n) at 1 2 3 5 as vs. generalize (drive to) as ds.
  generalize (box to) as bs. revert h'.
  intros h' bs ds vs Hleads Hdrive Hstep. revert bs ds Hleads Hdrive.
  induction Hstep as [|v y vs ys (z & Hz & Hy) _ IH]; intros bs ds Hleads Hdrive K.
  - simpl in Hdrive. inversion Hdrive; subst. inversion Hleads; subst. constructor.
  - simpl in Hdrive. inversion Hdrive as [|? d ? ds' Hd Hds]; subst. inversion Hleads as [|? b ? bs' Hlead Hleads']; subst.
    inversion K as [|? ? Hv K']; subst. constructor; [|now apply (IH bs' ds')].
    apply (leads_correct p d b z); auto.
    pose proof (terms_within s h (box r) v Hs Hv Hb L z Hz) as W. simpl in Hd, W.
    apply andb_prop in Hd as [Hd _]. apply andb_prop in Hd as [Hl Hh]. apply Z.leb_le in Hl, Hh. simpl in Hl, Hh.
    apply (real_le (2 * p)) in Hl, Hh. destruct formed_facts as (Hp & _).
    rewrite real_lifted in Hl, Hh by assumption. destruct W as [Wl Wh]. split; eapply Rle_trans; eassumption.
Qed.

Lemma always_together w h :
  Forall (fun s => (s < symbols m)%nat) w -> state_after n w h -> together (run nat nat (start m) (next m) w) h.
Proof.
  apply (every_word nat (list R) (zeros n) (step n) nat (start m) (next m)); [exact begins|].
  intros q t a b Ht Ha Hab. destruct (closed q t a b Ht Ha Hab) as (r & ? & ? & ? & _). exists r. auto.
Qed.

Lemma after_a_symbol w h : word m w -> state_after n w h -> answered (run nat nat (start m) (next m) w) h.
Proof.
  intros [some letters] reached. destruct reached as [|w s x y known one]; [easy|].
  apply Forall_app in letters as [letters last]. rewrite run_one_more.
  apply (closed _ s x); [now inversion last|now apply always_together|assumption].
Qed.

Lemma terms_are_small q h s v :
  together q h -> (s < symbols m)%nat -> In v (units n) -> size (terms n s h v) <= bpow radix2 100.
Proof.
  intros (r & In_r & _ & Hb) Hs Hv. destruct checked_facts as (_ & _ & Henters).
  destruct (Henters r s In_r Hs) as (to & _ & E). unfold enters in E.
  apply andb_prop in E as [E _]. apply andb_prop in E as [_ Hdrive]. apply all2_holds in Hdrive.
  unfold of_symbol, of_box in Hdrive.
  set (x := both (both (times (reads v) (map point (embedding n s)))
                       (both (constant (scale n) (bias v)) (constant (scale n) (other_bias v)))) (times (keeps v) (box r))).
  assert (K : exists d, inside (computed (scale n) (count n s) x) (lifted (scale n) (fst d), lifted (scale n) (snd d)) &&
                        (snd x <=? huge (scale n))%Z = true).
  { apply (first_of_pair _ _ _ x Hdrive). apply in_map_iff. eexists (_, _). split; [reflexivity|].
    clear -Hv. induction (units n) as [|w ws IH]; [easy|]. destruct Hv as [->|Hv]; simpl; auto. }
  destruct K as (d & K). apply andb_prop in K as [_ K]. apply Z.leb_le in K. fold p in K.
  eapply Rle_trans; [now apply (terms_size s h (box r))|]. fold x. rewrite <- huge_is. now apply real_le.
Qed.

Theorem right_everywhere : right_at_every_length n m.
Proof.
  intros w h l Hw Hh Hl. destruct (after_a_symbol w h Hw Hh) as (r & In_r & _ & Hb & Hright).
  destruct checked_facts as (Hregions & _). destruct (Hregions r In_r) as [_ L].
  now apply (right_on_correct _ (box r) h).
Qed.

End Sound.

Theorem check_is_sound n m regions targets : check n m regions targets = true -> right_at_every_length n m.
Proof.
  intros checked. apply (right_everywhere n m) with regions targets; [|assumption].
  unfold check in checked. cbv zeta in checked. rewrite !andb_true_iff in checked. tauto.
Qed.

Lemma binary32_state n w h : state_after_in is_binary32 n w h -> state_after n w h.
Proof.
  induction 1 as [|w s x y _ IH one]; [constructor|]. apply after_one_more with x; [exact IH|].
  apply weaker with (2 := one). intros v y' (t & Ht & near). exists t. split; [now apply binary32_sum|exact near].
Qed.

(** So it is in binary32, rounded to nearest. *)
Theorem right_in_binary32 n m : right_at_every_length n m -> right_in is_binary32 n m.
Proof.
  intros claim w h l Hw Hh Hl. apply (claim w h l Hw); [now apply binary32_state|].
  apply weaker with (2 := Hl). intros row y. apply binary32_sum.
Qed.

(** And nothing overflows: no product and no partial sum, in whatever order, after any word. *)
Definition overflows_nowhere (n : network) (m : machine) : Prop :=
  forall w h, Forall (fun s => (s < symbols m)%nat) w -> state_after n w h ->
  (forall s v, (s < symbols m)%nat -> In v (units n) -> fits (terms n s h v)) /\
  (forall row, w <> [] -> In row (head n) -> fits (row_terms (scale n) h row)).

Theorem check_excludes_overflow n m regions targets : check n m regions targets = true -> overflows_nowhere n m.
Proof.
  intros checked w h letters reached.
  assert (formed : well_formed n m = true).
  { unfold check in checked. cbv zeta in checked. rewrite !andb_true_iff in checked. tauto. }
  pose proof (always_together n m formed regions targets checked w h letters reached) as T.
  assert (L : length h = length (units n)).
  { destruct T as (r & In_r & _ & Hb). destruct (checked_facts n m regions targets checked) as (Hr & _).
    destruct (Hr r In_r) as [_ Lb]. apply same_length in Hb. lia. }
  destruct (formed_facts n m formed) as (_ & short & _ & Hhead & Hsym). split.
  - intros s v Hs Hv. destruct (Hsym s Hs) as [few _]. apply fits_where_small.
    + rewrite (terms_count n m formed s h v Hs Hv L). exact few.
    + eapply terms_are_small; eassumption.
  - intros row some Hrow. apply fits_where_small.
    + rewrite row_count; [lia|]. now rewrite Hhead.
    + destruct (after_a_symbol n m formed regions targets checked w h (conj some letters) reached) as (r & _ & _ & Hb & ok).
      now apply (head_terms_are_small n m formed (answer m (run nat nat (start m) (next m) w)) (box r)).
Qed.

(** The claim is not empty: after every word there is an evaluation that is allowed. *)
Theorem every_word_has_a_state n w : exists h, state_after n w h.
Proof.
  induction w as [|s w [h Hh]] using rev_ind; [exists (zeros n); constructor|].
  exists (map (fun v => tanh (exact (terms n s h v))) (units n)). apply after_one_more with h; [exact Hh|].
  unfold step_in. induction (units n) as [|v vs IH]; simpl; constructor; [|exact IH].
  exists (exact (terms n s h v)). split.
  - apply every_list_has_a_sum. unfold terms. intros none. apply app_eq_nil in none as [_ none].
    now apply app_eq_nil in none as [_ none].
  - unfold near_tanh. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. pose proof u_positive. lra.
Qed.
