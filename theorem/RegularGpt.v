(** RegularGPT of discrete nodes is right after every word: what that means, and a check that decides it.

    A group of one layer makes a node of up to C nodes, x_0 the newest, as the Transformer's block with the norm last
      does:

        s = q(x_0) · k(x_j) / √d + r_j,    y = out (Σ_j softmax(s)_j v(x_j)),    h = norm (x_0 + y)
        o = norm (h + down (relu (up h))),    a_g = argmax of choose_g(o),        node = Σ_g E_g[a_g]

    Before the first symbol stands a learned vector, or nothing. The check is given a code a = (a_g)
      for each of finitely
    many maps of the machine's states, and decides that each tuple of leaves, and each of nodes of these codes, makes a
    node whose choices are those of the product of their maps, and that the head is right on each. Where a machine is
    not asked after every word, tuples that stand in no word that is asked about are left out. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Lengthwise Require Import Words Trees Rounding Dyadic Intervals Machine Affine Norm Balls Attention.
Import ListNotations.
Local Open Scope R_scope.

Record gpt := Gpt {
  unit_of_weights : Z;  (** q: every weight is k 2^-q *)
  chunk : nat;
  heads : nat;
  embedded : list (list Z);
  before_the_first : option (list Z);
  queries : list (list Z * Z);
  keys : list (list Z * Z);
  values : list (list Z * Z);
  tap_biases : list (list Z);  (** of a head, by tap, the newest first *)
  outs : list (list Z * Z);
  mixer_norm : list (Z * Z);
  ups : list (list Z * Z);
  downs : list (list Z * Z);
  feed_norm : list (Z * Z);
  choices : list (list (list Z * Z));  (** of a group *)
  codebook : list (list (list Z));  (** of a group, and its choice *)
  answering : list (list Z * Z) }.

(** * What the network may compute *)

Section Network.

Variable n : gpt.
Let q := unit_of_weights n.

Definition width : nat := length (outs n).
Definition head_width : nat := (length (queries n) / heads n)%nat.

Definition leaf (s : nat) (x : list R) : Prop := x = map (real q) (nth s (embedded n) []).

(** What a node reads: its taps, and what stands for those that are missing. *)
Definition completed (taps : list (list R)) : list (list R) :=
  match before_the_first n with
  | Some v => taps ++ repeat (map (real q) v) (chunk n - length taps)
  | None => taps
  end.

(** A greatest of these. *)
Definition chosen (l : list R) (a : nat) : Prop := (a < length l)%nat /\ forall j, (j < length l)%nat ->
  nth j l 0 <= nth a l 0.

(** The vectors of a code, and their sum: an affine map of ones.
  (A product with 0, where an implementation multiplies by
    what is 1 at the choice and 0 elsewhere, adds nothing.) *)
Definition picked (code : list nat) : list (list Z) := map (fun choice => nth (snd choice) (fst choice) [])
  (combine (codebook n) code).
Definition sums (code : list nat) : list (list Z * Z) :=
  map (fun i => (map (fun v => nth i v 0%Z) (picked code), 0%Z)) (seq 0 width).
Definition node_of (code : list nat) (x : list R) : Prop := affine q (sums code) (map (fun _ => 1) (picked code)) x.

(** A node of [xs], oldest first. *)
Definition made (xs : list (list R)) (x : list R) : Prop :=
  let taps := rev xs in
  let own := hd [] taps in
  exists query ks vs y z t h a b t' o logits code,
    affine q (queries n) own query /\
    Forall2 (affine q (keys n)) (completed taps) ks /\
    Forall2 (affine q (values n)) (completed taps) vs /\
    attention q (heads n) head_width query ks vs (tap_biases n) y /\
    affine q (outs n) y z /\ added own z t /\ normed q (mixer_norm n) t h /\
    affine q (ups n) h a /\ affine q (downs n) (map relu a) b /\ added h b t' /\ normed q (feed_norm n) t' o /\
    Forall2 (fun group l => affine q group o l) (choices n) logits /\
    Forall2 chosen logits code /\ node_of code x.

(** The logits that are possible after a word: of the last node of the last group. *)
Definition answers_to (w : list nat) (l : list R) : Prop :=
  exists x, root nat (list R) (chunk n) leaf made w x /\ affine q (answering n) x l.

End Network.

Definition gpt_right_at_every_length (n : gpt) (m : machine) : Prop :=
  forall w l, word m w -> answers_to n w l -> right (answer m (run nat nat (start m) (next m) w)) l.

(** Of a list of what holds of each state: of those beyond its end, true. So of an empty list everything is asked. *)
Definition said (each : list bool) (s : nat) : bool := nth s each true.

(** The same of words after which the machine is asked. *)
Definition gpt_right_where_asked (n : gpt) (m : machine) (asked : list bool) : Prop :=
  forall w l, word m w -> said asked (run nat nat (start m) (next m) w) = true ->
  answers_to n w l -> right (answer m (run nat nat (start m) (next m) w)) l.

(** * The check *)

(** The ends of a ball; also in units of 2^-q, p <= q; and a ball of what lies between ends k 2^-q. *)
Definition ends (b : ball) : Z * Z := (fst b - snd b, fst b + snd b)%Z.
Definition to_ends (p q : Z) (b : ball) : Z * Z := (fst (ends b) * 2 ^ (q - p), snd (ends b) * 2 ^ (q - p))%Z.
Definition of_ends (p q : Z) (e : Z * Z) : ball :=
  let low := (fst e / 2 ^ (q - p))%Z in
  let high := (snd e / 2 ^ (q - p) + 1)%Z in
  ((low + high) / 2, high - (low + high) / 2)%Z.

Definition norm_bound (p q : Z) (weights : list (Z * Z)) (b : list ball) : option (list ball) :=
  match norm_of q weights (map (to_ends p q) b) with
  | Some each => Some (map (of_ends p q) each)
  | None => None
  end.

(** The choice that is surely made, if one is. *)
Definition decided (b : list ball) : option nat :=
  let each := map ends b in find (fun a => ahead a each) (seq 0 (length b)).

(** A tap: what the network makes of a vector before it meets others. *)
Record tap := Tap { own_of : list ball; query_of : list ball; key_of : list ball; value_of : list ball }.

Section Check.

Variable p : Z.
Variable n : gpt.
Variable m : machine.
Variables asked heeded : list bool.
(** Which states are asked about, and from which a multiple of [chunk] symbols may lead to one that is. *)
Let q := unit_of_weights n.

Definition tap_of (b : list ball) : tap :=
  Tap b (affine_bound p q (queries n) b) (affine_bound p q (keys n) b) (affine_bound p q (values n) b).

(** Weights k 2^-q as balls in units of 2^-p. *)
Definition rounded_weight (k : Z) : ball := (k * 2 ^ p / 2 ^ q, 1)%Z.

Definition missing (some : nat) (pad : option tap) : list tap :=
  match pad with Some t => repeat t (chunk n - some) | None => [] end.

(** The code that a node of these taps surely has, the newest first. *)
Definition code_of (pad : option tap) (taps : list tap) : option (list nat) :=
  let own := hd (Tap [] [] [] []) taps in
  let all := taps ++ missing (length taps) pad in
  let y := attention_bound p q (heads n) (head_width n) (query_of own) (map key_of all) (map value_of all)
    (tap_biases n) in
  let t := add_bounds (own_of own) (affine_bound p q (outs n) y) in
  match norm_bound p q (mixer_norm n) t with
  | None => None
  | Some h =>
      let b := affine_bound p q (downs n) (map relu_bound (affine_bound p q (ups n) h)) in
      match norm_bound p q (feed_norm n) (add_bounds h b) with
      | None => None
      | Some o => all_of (map (fun group => decided (affine_bound p q group o)) (choices n))
      end
  end.

(** Maps of the states: where each goes. *)
Definition states : list nat := seq 0 (length (delta m)).
Definition acts (w : list nat) : list nat := map (fun s => fold_left (next m) w s) states.
Definition product (e f : list nat) : list nat := map (fun s => nth s f 0%nat) e.
Definition product_of (es : list (list nat)) : list nat := fold_left product es states.

Fixpoint same (a b : list nat) : bool :=
  match a, b with
  | [], [] => true
  | x :: a, y :: b => (x =? y)%nat && same a b
  | _, _ => false
  end.

(** Whether a property holds of each: that of no other is computed after one of which it does not. *)
Fixpoint every {A} (f : A -> bool) (l : list A) : bool :=
  match l with
  | [] => true
  | x :: l => if f x then every f l else false
  end.

Fixpoint tuples {A} (k : nat) (l : list A) : list (list A) :=
  match k with
  | O => [[]]
  | S k => flat_map (fun x => map (cons x) (tuples k l)) l
  end.

(** Whether a node of these, oldest first, has a listed code of the product of their maps. *)
Definition lands (listed : list (list nat * list nat)) (pad : option tap) (each : list (list nat * tap)) : bool :=
  match code_of pad (map snd (rev each)) with
  | None => false
  | Some code => existsb (fun entry => same (fst entry) (product_of (map fst each)) && same (snd entry) code) listed
  end.

(** Whether a node of this map stands in a word that is asked about; of fewer than [chunk], at its beginning. *)
Definition needed (k : nat) (e : list nat) : bool :=
  if (k <? chunk n)%nat then said heeded (nth (start m) e 0%nat) else existsb (fun s => said heeded (nth s e 0%nat)) states.

Definition lands_if_needed (listed : list (list nat * list nat)) (pad : option tap) (each : list (list nat * tap))
  : bool :=
  if needed (length each) (product_of (map fst each)) then lands listed pad each else true.

Definition closed_under (listed : list (list nat * list nat)) (pad : option tap) (each : list (list nat * tap))
  : bool :=
  every (fun k => every (lands_if_needed listed pad) (tuples k each)) (seq 1 (chunk n)).

(** Whether no state that is not heeded is asked about, or leads by [chunk] symbols to one that is heeded. *)
Definition heeds_enough : bool :=
  forallb (fun s => said heeded s ||
    (negb (said asked s) && forallb (fun w => negb (said heeded (fold_left (next m) w s)))
                                    (tuples (chunk n) (seq 0 (symbols m))))) states.

Definition node_bound (code : list nat) : list ball :=
  affine_bound p q (sums n code) (map (fun _ => exactly (2 ^ p)) (picked n code)).

Definition right_on (entry : list nat * list nat) : bool :=
  negb (said asked (nth (start m) (fst entry) 0%nat)) ||
  ahead (answer m (nth (start m) (fst entry) 0%nat)) (map ends (affine_bound p q (answering n)
    (node_bound (snd entry)))).

Definition gpt_well_formed : bool :=
  (0 <=? p)%Z && (p <=? 80)%Z && (p <=? q)%Z && (2 <=? chunk n)%nat && (1 <=? head_width n)%nat &&
  slim (queries n) && slim (keys n) && slim (values n) && slim (outs n) && slim (ups n) && slim (downs n) &&
  forallb slim (choices n) && slim (answering n) && forallb (fun group => 1 <=? length group)%nat (choices n)
    && (length (codebook n) + 1 <=? 4000)%nat &&
  (start m <? length (delta m))%nat && forallb (forallb (fun s => s <? length (delta m))%nat) (delta m).

Definition pad_tap : option tap :=
  match before_the_first n with Some v => Some (tap_of (map rounded_weight v)) | None => None end.
Definition leaf_taps : list (list nat * tap) :=
  map (fun s => (acts [s], tap_of (map rounded_weight (nth s (embedded n) [])))) (seq 0 (symbols m)).
Definition node_taps (listed : list (list nat * list nat)) : list (list nat * tap) :=
  map (fun entry => (fst entry, tap_of (node_bound (snd entry)))) listed.

Definition gpt_check_where (listed : list (list nat * list nat)) : bool :=
  let pad := pad_tap in
  if gpt_well_formed && heeds_enough && every right_on listed
  then if closed_under listed pad leaf_taps then closed_under listed pad (node_taps listed) else false
  else false.

End Check.

Definition gpt_check (p : Z) (n : gpt) (m : machine) : list (list nat * list nat) -> bool :=
  gpt_check_where p n m [] [].

(** * Soundness *)

Lemma ends_within p b x : near p b x -> within p (ends b) x.
Proof. unfold near, within, ends. cbn [fst snd]. rewrite real_minus, real_plus. intros inside.
  apply Rabs_le_inv in inside. lra. Qed.

Lemma to_ends_within p q b x : (p <= q)%Z -> near p b x -> within q (to_ends p q b) x.
Proof.
  intros Hq inside. apply ends_within in inside. assert (forall k, real q (k * 2 ^ (q - p)) = real p k) as E.
  { intros k. replace q with (p + (q - p))%Z at 1 by lia. apply real_scaled. lia. }
  unfold within, to_ends in *. cbn [fst snd] in *. now rewrite !E.
Qed.

Lemma of_ends_near p q e x : (p <= q)%Z -> within q e x -> near p (of_ends p q e) x.
Proof.
  intros Hq [low high]. unfold near, of_ends. cbn [fst snd].
  pose proof (real_over p (q - p) (fst e) ltac:(lia)) as [L _].
  pose proof (real_over p (q - p) (snd e) ltac:(lia)) as [_ H].
  replace (p + (q - p))%Z with q in L, H by lia.
  set (l := (fst e / 2 ^ (q - p))%Z) in *. set (h := (snd e / 2 ^ (q - p) + 1)%Z) in *. clearbody l h.
  set (c := ((l + h) / 2)%Z). rewrite real_minus.
  assert (real p c - real p l <= real p h - real p c) as C.
  { rewrite <- !real_minus. apply real_le. unfold c. pose proof (Z.mul_div_le (l + h) 2 ltac:(lia)). lia. }
  apply Rabs_le. lra.
Qed.

Lemma norm_bound_near p q weights b h x y :
  (p <= q)%Z -> norm_bound p q weights b = Some h -> balls p b x -> normed q weights x y -> balls p h y.
Proof.
  intros Hq found Hb Hy. unfold norm_bound in found. destruct (norm_of q weights (map (to_ends p q) b))
    as [e|] eqn:E; [|easy].
  injection found as <-. assert (Forall2 (within q) e y) as inside.
  { apply (norm_holds q weights (map (to_ends p q) b) x); auto. clear -Hb Hq. induction Hb; simpl; constructor; auto.
    now apply to_ends_within. }
  clear -Hq inside. induction inside; simpl; constructor; auto. now apply of_ends_near.
Qed.

Lemma ends_are_within p b x : balls p b x -> Forall2 (within p) (map ends b) x.
Proof. induction 1; simpl; constructor; auto. now apply ends_within. Qed.

Lemma decided_is_chosen p b l a c : balls p b l -> decided b = Some a -> chosen l c -> c = a.
Proof.
  intros Hb found [known most]. unfold decided in found. cbv zeta in found. apply find_some in found as [_ first].
  destruct (ahead_is_right p a _ l first (ends_are_within p b l Hb)) as [Ha above].
  destruct (Nat.eq_dec c a) as [|other]; [assumption|].
  specialize (above c known other). specialize (most a Ha). lra.
Qed.

Lemma same_is_equal a b : same a b = true -> a = b.
Proof.
  revert b. induction a as [|x a IH]; intros [|y b]; simpl; try easy. intros [one rest]%andb_prop.
  apply Nat.eqb_eq in one. rewrite one. f_equal. now apply IH.
Qed.

Lemma every_one {A} (f : A -> bool) l x : every f l = true -> In x l -> f x = true.
Proof.
  induction l as [|y l IH]; [easy|]. simpl. destruct (f y) eqn:E; [|easy]. intros all [<-|later]; auto.
Qed.

Lemma all_three (a b c : bool) :
  (if a then if b then c else false else false) = true -> a = true /\ b = true /\ c = true.
Proof. now destruct a, b. Qed.

Lemma every_tuple {A} k (l each : list A) : length each = k -> Forall (fun x => In x l) each -> In each (tuples k l).
Proof.
  revert each. induction k as [|k IH]; intros [|x each] L known; simpl in *; try easy; [now left|].
  inversion known; subst. apply in_flat_map. exists x. split; [assumption|]. apply in_map, IH; auto.
Qed.

Lemma reversed {A B} (P : A -> B -> Prop) a b : Forall2 P a b -> Forall2 P (rev a) (rev b).
Proof. induction 1; simpl; [constructor|]. apply Forall2_app; [assumption|]. now constructor. Qed.

Lemma through {A B C D} (T : A -> B -> Prop) (P : B -> C -> Prop) (Q : D -> C -> Prop) (f : A -> D) ts xs ys :
  Forall2 T ts xs -> Forall2 P xs ys -> (forall t x y, T t x -> P x y -> Q (f t) y) -> Forall2 Q (map f ts) ys.
Proof.
  intros H. revert ys. induction H; intros ys K each; inversion K; subst; simpl; constructor; eauto.
Qed.

Section Sound.

Variables (p : Z) (n : gpt) (m : machine).
Hypothesis formed : gpt_well_formed p n m = true.
Local Notation q := (unit_of_weights n).

Lemma gpt_formed_facts :
  (0 <= p <= 80)%Z /\ (p <= q)%Z /\ (2 <= chunk n)%nat /\ (1 <= head_width n)%nat /\
  (slim (queries n) = true /\ slim (keys n) = true /\ slim (values n) = true /\ slim (outs n) = true /\
   slim (ups n) = true /\ slim (downs n) = true /\ forallb slim (choices n) = true /\ slim (answering n) = true) /\
  (length (codebook n) + 1 <= 4000)%nat /\
  (start m < length (delta m))%nat /\
  forallb (forallb (fun s => s <? length (delta m))%nat) (delta m) = true.
Proof.
  unfold gpt_well_formed in formed. rewrite !andb_true_iff in formed.
  rewrite !Z.leb_le, !Nat.leb_le, !Nat.ltb_lt in formed. intuition lia.
Qed.

(** A tap holds a vector, and what the network may make of it. *)
Definition tap_holds (t : tap) (x : list R) : Prop :=
  balls p (own_of t) x /\ (forall y, affine q (queries n) x y -> balls p (query_of t) y) /\
  (forall y, affine q (keys n) x y -> balls p (key_of t) y) /\
  (forall y, affine q (values n) x y -> balls p (value_of t) y).

Lemma tap_of_holds b x : balls p b x -> tap_holds (tap_of p n b) x.
Proof.
  intros Hb. destruct gpt_formed_facts as (Hp & Hq & _ & _ & (Sq & Sk & Sv & _) & _).
  unfold tap_of, tap_holds. cbn. repeat split; auto; intros y Hy;
  apply (affine_near p q _ b x); auto; lia.
Qed.

Definition pad_holds (pad : option tap) : Prop :=
  match before_the_first n, pad with
  | Some v, Some t => tap_holds t (map (real q) v)
  | None, None => True
  | _, _ => False
  end.

Lemma completed_holds pad taps xs :
  pad_holds pad -> Forall2 tap_holds taps xs -> Forall2 tap_holds (taps ++ missing n (length taps) pad)
    (completed n xs).
Proof.
  intros Hpad each. unfold completed, missing, pad_holds in *. rewrite (same_length _ _ _ each).
  destruct (before_the_first n) as [v|], pad as [t|]; try easy; [|now rewrite app_nil_r].
  apply Forall2_app; [assumption|]. generalize (chunk n - length xs)%nat. intros k. induction k; simpl; constructor;
    auto.
Qed.

Lemma code_of_is_made pad taps xs x code :
  pad_holds pad -> xs <> [] -> Forall2 tap_holds taps (rev xs) -> code_of p n pad taps = Some code -> made n xs x ->
  node_of n code x.
Proof.
  intros Hpad some each found (query & ks & vs & y & z & t & h & a & b & t' & o & logits & code' & M).
  destruct M as (Mq & Mk & Mv & My & Mz & Mt & Mh & Ma & Mb & Mt' & Mo & Ml & Mc & Mx).
  destruct gpt_formed_facts as (Hp & Hq & _ & Hd & (_ & _ & _ & So & Su & Sd & Sc & _) & _).
  assert (rev xs <> []) as some' by (intros none; apply some; now rewrite <- (rev_involutive xs), none).
  unfold code_of in found. cbv zeta in found.
  set (ys := rev xs) in *. clearbody ys. set (own := hd (Tap [] [] [] []) taps) in *.
  assert (tap_holds own (hd [] ys)) as (Ho & Hquery & _) by (destruct each; easy).
  clearbody own. pose proof (completed_holds pad taps ys Hpad each) as all.
  set (ts := taps ++ missing n (length taps) pad) in *. clearbody ts.
  assert (Forall2 (balls p) (map key_of ts) ks) as Hk.
  { apply (through tap_holds (affine q (keys n)) _ _ _ _ _ all Mk). intros t0 x0 y0 (_ & _ & K & _). apply K. }
  assert (Forall2 (balls p) (map value_of ts) vs) as Hv.
  { apply (through tap_holds (affine q (values n)) _ _ _ _ _ all Mv). intros t0 x0 y0 (_ & _ & _ & V). apply V. }
  pose proof (attention_near p q _ _ query ks vs (tap_biases n) _ _ _ y Hp ltac:(lia) Hd (Hquery query Mq) Hk Hv My)
    as Hy.
  pose proof (affine_near p q (outs n) _ y z Hp ltac:(lia) So Hy Mz) as Hz.
  pose proof (added_near p _ _ _ z t ltac:(lia) Ho Hz Mt) as Ht.
  destruct (norm_bound p q (mixer_norm n) _) as [hb|] eqn:E in found; [|easy].
  pose proof (norm_bound_near p q _ _ hb t h Hq E Ht Mh) as Hh.
  pose proof (affine_near p q (ups n) _ h a Hp ltac:(lia) Su Hh Ma) as Ha.
  assert (balls p (map relu_bound (affine_bound p q (ups n) hb)) (map relu a)) as Hr.
  { clear -Ha. induction Ha; simpl; constructor; auto using relu_near. }
  pose proof (affine_near p q (downs n) _ _ b Hp ltac:(lia) Sd Hr Mb) as Hb.
  pose proof (added_near p _ _ h b t' ltac:(lia) Hh Hb Mt') as Ht'.
  destruct (norm_bound p q (feed_norm n) _) as [ob|] eqn:E' in found; [|easy].
  pose proof (norm_bound_near p q _ _ ob t' o Hq E' Ht' Mo) as Hob.
  apply all_of_is in found. assert (code' = code) as ->; [|exact Mx]. clear Mx.
   rewrite forallb_forall in Sc. revert code code' found Mc. clear -Hp Hq Hob Ml Sc.
  induction Ml as [|group l groups ls one _ IH]; intros code code' found Mc; inversion Mc; subst; inversion found;
    subst; [reflexivity|].
  f_equal.
  - apply (decided_is_chosen p (affine_bound p q group ob) l); auto.
    apply (affine_near p q group ob o l); auto; [lia|]. apply Sc. now left.
  - apply IH; auto. intros g later. apply Sc. now right.
Qed.

Lemma node_bound_near code x : node_of n code x -> balls p (node_bound p n code) x.
Proof.
  intros Hx. destruct gpt_formed_facts as (Hp & Hq & _ & _ & _ & Sb & _). unfold node_bound, node_of in *.
  apply (affine_near p q _ _ (map (fun _ => 1) (picked n code))); auto; [lia| |].
  - unfold slim, sums. apply forallb_forall. intros w Hw. apply in_map_iff in Hw as (i & <- & _). cbn [fst].
    apply Nat.leb_le. rewrite map_length. unfold picked. rewrite map_length, combine_length. lia.
  - assert (real p (2 ^ p) = 1) as E.
    { unfold real. rewrite power_of_two, <- bpow_plus, Z.add_opp_diag_r by lia. reflexivity. }
    rewrite <- E. clear. induction (picked n code) as [|v l IH]; [constructor|]. apply Forall2_cons;
      [apply exactly_near|exact IH].
Qed.

Lemma rounded_weights_near v : balls p (map (rounded_weight p n) v) (map (real q) v).
Proof.
  destruct gpt_formed_facts as (Hp & Hq & _). induction v as [|k v IH]; [constructor|]. apply Forall2_cons; [|exact IH].
  unfold near, rounded_weight. cbn [fst snd]. pose proof (biased p q k ltac:(lia) ltac:(lia)) as [L H].
  rewrite real_plus in H. apply Rabs_le. lra.
Qed.

(** * Maps of the states *)

Lemma states_stay w s : (s < length (delta m))%nat -> (fold_left (next m) w s < length (delta m))%nat.
Proof.
  destruct gpt_formed_facts as (_ & _ & _ & _ & _ & _ & _ & table). rewrite forallb_forall in table.
  revert s. induction w as [|a w IH]; intros s Hs; simpl; [assumption|]. apply IH. unfold next.
  assert (In (nth s (delta m) []) (delta m)) as there by (apply nth_In; exact Hs).
  specialize (table _ there). rewrite forallb_forall in table.
  destruct (le_lt_dec (length (nth s (delta m) [])) a) as [beyond|within_].
  - rewrite nth_overflow by assumption. lia.
  - apply Nat.ltb_lt, table, nth_In, within_.
Qed.

Lemma acts_nth w s : (s < length (delta m))%nat -> nth s (acts m w) 0%nat = fold_left (next m) w s.
Proof.
  intros Hs. unfold acts, states. rewrite (nth_indep _ _ (fold_left (next m) w 0%nat))
    by (now rewrite map_length, seq_length).
  rewrite (map_nth (fun s => fold_left (next m) w s)), seq_nth by assumption. reflexivity.
Qed.

Lemma product_acts u v : product (acts m u) (acts m v) = acts m (u ++ v).
Proof.
  change (acts m (u ++ v)) with (map (fun s => fold_left (next m) (u ++ v) s) (states m)).
  unfold product. change (acts m u) with (map (fun s => fold_left (next m) u s) (states m)). rewrite map_map.
  apply map_ext_in. intros s Hs. unfold states in Hs. apply in_seq in Hs.
  rewrite acts_nth by (apply states_stay; lia). now rewrite fold_left_app.
Qed.

Lemma product_of_acts ws : product_of m (map (acts m) ws) = acts m (concat ws).
Proof.
  unfold product_of. replace (states m) with (acts m []) by (unfold acts; simpl; apply map_id).
  enough (forall u, fold_left product (map (acts m) ws) (acts m u) = acts m (u ++ concat ws)) as E by apply E.
  induction ws as [|w ws IH]; intros u; simpl; [now rewrite app_nil_r|]. now rewrite product_acts, IH, app_assoc.
Qed.

(** * Every word *)

Variables asked heeded : list bool.
Hypothesis enough : heeds_enough n m asked heeded = true.

(** A state that is not heeded leads to no question by a multiple of [chunk] symbols. *)
Lemma unheeded_is_unasked k v s :
  (s < length (delta m))%nat -> said heeded s = false -> length v = (k * chunk n)%nat ->
  Forall (fun a => (a < symbols m)%nat) v -> said asked (fold_left (next m) v s) = false.
Proof.
  pose proof enough as all. unfold heeds_enough in all. rewrite forallb_forall in all.
  revert v s. induction k as [|k IH]; intros v s Hs none L letters.
  - destruct v; [|easy]. simpl. specialize (all s ltac:(apply in_seq; lia)). rewrite none in all. simpl in all.
    apply andb_prop in all as [all _]. now apply negb_true_iff.
  - rewrite <- (firstn_skipn (chunk n) v), fold_left_app.
    rewrite <- (firstn_skipn (chunk n) v) in letters. apply Forall_app in letters as [first last].
    apply IH; auto.
    + now apply states_stay.
    + specialize (all s ltac:(apply in_seq; lia)). rewrite none in all. simpl in all. apply andb_prop in all as [_ all].
      rewrite forallb_forall in all. apply negb_true_iff, all, every_tuple; [rewrite firstn_length; simpl in L; lia|].
      apply Forall_forall. intros a Ha. rewrite Forall_forall in first. apply in_seq. specialize (first a Ha). lia.
    + rewrite skipn_length. simpl in L. lia.
Qed.

Variable listed : list (list nat * list nat).
Let pad := pad_tap p n.
Hypothesis leaves_land : closed_under p n m heeded listed pad (leaf_taps p n m) = true.
Hypothesis nodes_land : closed_under p n m heeded listed pad (node_taps p n listed) = true.

Variable whole : list nat.
Hypothesis letters : Forall (fun s => (s < symbols m)%nat) whole.
Hypothesis is_asked : said asked (run nat nat (start m) (next m) whole) = true.

Definition together (w : list nat) (x : list R) : Prop := exists code, In (acts m w, code) listed /\ node_of n code x.

Lemma pad_is_held : pad_holds pad.
Proof.
  unfold pad_holds, pad, pad_tap. destruct (before_the_first n); [|exact I]. apply tap_of_holds, rounded_weights_near.
Qed.

(** A part of the word is needed. *)
Lemma part_is_needed u w v k :
  Trees.part nat (chunk n) whole u w v -> ((k < chunk n)%nat -> u = []) -> needed n m heeded k (acts m w) = true.
Proof.
  intros [E [c Hc]] beginning. destruct gpt_formed_facts as (_ & _ & _ & _ & _ & _ & Hs & _).
  pose proof (states_stay u (start m) Hs) as Hu. pose proof (states_stay w _ Hu) as Hw.
  assert (said heeded (fold_left (next m) w (fold_left (next m) u (start m))) = true) as heard.
  { destruct (said heeded _) eqn:none; [reflexivity|].
    rewrite <- E in is_asked, letters. unfold run in is_asked. rewrite !fold_left_app in is_asked.
    apply Forall_app in letters as [_ rest]. apply Forall_app in rest as [_ rest].
    rewrite (unheeded_is_unasked c v _ Hw none Hc rest) in is_asked. easy. }
  unfold needed. destruct (Nat.ltb_spec k (chunk n)) as [few|many].
  - rewrite acts_nth by exact Hs. now rewrite (beginning few) in heard.
  - apply existsb_exists. exists (fold_left (next m) u (start m)). split; [apply in_seq; lia|].
    now rewrite acts_nth.
Qed.

Lemma lands_together each es u ws xs v x :
  closed_under p n m heeded listed pad each = true ->
  Trees.part nat (chunk n) whole u (concat ws) v -> ((length xs < chunk n)%nat -> u = []) ->
  xs <> [] -> (length xs <= chunk n)%nat ->
  map fst es = map (acts m) ws -> Forall (fun t => In t each) es -> Forall2 (fun t v => tap_holds (snd t) v) es xs ->
  made n xs x -> together (concat ws) x.
Proof.
  intros closed at_ beginning some short same_ known hold one. unfold closed_under in closed.
  pose proof (same_length _ _ _ hold) as L.
  assert (1 <= length xs)%nat as least by (destruct xs; [easy|simpl; lia]).
  assert (In (length es) (seq 1 (chunk n))) as count by (apply in_seq; lia).
  pose proof (every_one _ _ _ closed count) as these.
  pose proof (every_one _ _ es these (every_tuple _ _ _ eq_refl known)) as lands_. clear closed these.
  unfold lands_if_needed in lands_. rewrite same_, product_of_acts, L in lands_.
  rewrite (part_is_needed u _ v _ at_ beginning) in lands_. unfold lands in lands_.
  destruct (code_of p n pad (map snd (rev es))) as [code|] eqn:E; [|easy].
  apply existsb_exists in lands_ as ([e c] & listed_ & [same_e same_c]%andb_prop). cbn [fst snd] in *.
  rewrite same_, product_of_acts in same_e.
  apply same_is_equal in same_e, same_c. subst e c. exists code. split; [assumption|].
  apply (code_of_is_made pad (map snd (rev es)) xs); auto using pad_is_held.
  rewrite map_rev. apply reversed. clear -hold. induction hold; simpl; constructor; auto.
Qed.

(** Parts that nodes cover, and the listed nodes of their maps. *)
Lemma listed_nodes ws xs :
  Forall2 together ws xs ->
  exists es, map fst es = map (acts m) ws /\ Forall (fun t => In t (node_taps p n listed)) es /\
    Forall2 (fun t v => tap_holds (snd t) v) es xs.
Proof.
  induction 1 as [|w x ws xs (code & known & is) _ (es & same_ & all & hold)]; [now exists []|].
  exists ((acts m w, tap_of p n (node_bound p n code)) :: es). simpl. rewrite same_. repeat split; constructor; auto.
  - unfold node_taps. apply in_map_iff. exists (acts m w, code). now split.
  - cbn [snd]. now apply tap_of_holds, node_bound_near.
Qed.

Lemma leaf_nodes ws xs :
  Forall (fun s => (s < symbols m)%nat) (concat ws) -> Forall2 (is_leaf nat (list R) (leaf n)) ws xs ->
  exists es, map fst es = map (acts m) ws /\ Forall (fun t => In t (leaf_taps p n m)) es /\
    Forall2 (fun t v => tap_holds (snd t) v) es xs.
Proof.
  intros valid H. revert valid.
  induction H as [|w x ws xs (s & -> & shape) _ IH]; intros valid; [now exists []|].
  inversion valid as [|? ? small rest]; subst. destruct (IH rest) as (es & same_ & all & hold).
  unfold leaf in shape. subst x.
  exists ((acts m [s], tap_of p n (map (rounded_weight p n) (nth s (embedded n) []))) :: es). simpl. rewrite same_.
  repeat split; constructor; auto.
  - unfold leaf_taps. apply in_map_iff. exists s. split; [reflexivity|]. apply in_seq. lia.
  - cbn [snd]. apply tap_of_holds, rounded_weights_near.
Qed.

Lemma every_answer_is_together x :
  whole <> [] -> root nat (list R) (chunk n) (leaf n) (made n) whole x -> together whole x.
Proof.
  destruct gpt_formed_facts as (_ & _ & Hc & _). intros some.
  apply (every_word nat (list R) (chunk n) Hc (leaf n) (made n) whole together); [| |exact some].
  - intros u ws xs v y at_ beginning some_ short H one. destruct (leaf_nodes ws xs) as (es & same_ & known & hold); auto.
    { destruct at_ as [E _]. clear -letters E. rewrite <- E in letters. apply Forall_app in letters as [_ rest].
      now apply Forall_app in rest as [rest _]. }
    now apply (lands_together (leaf_taps p n m) es u ws xs v).
  - intros u ws xs v y at_ beginning some_ short H one. destruct (listed_nodes ws xs H) as (es & same_ & known & hold).
    now apply (lands_together (node_taps p n listed) es u ws xs v).
Qed.

End Sound.

Theorem gpt_check_where_is_sound p n m asked heeded listed :
  gpt_check_where p n m asked heeded listed = true -> gpt_right_where_asked n m asked.
Proof.
  unfold gpt_check_where. cbv zeta.
  intros checked. apply all_three in checked as ([[formed enough]%andb_prop heads_]%andb_prop & leaves_ & nodes_).
  intros w l [some letters] question (x & Hroot & Hl).
  destruct (every_answer_is_together p n m formed asked heeded enough listed leaves_ nodes_ w letters question x some
    Hroot) as (code & known & is).
  destruct (gpt_formed_facts p n m formed) as (Hp & Hq & _ & _ & (_ & _ & _ & _ & _ & _ & _ & Sa) & _ & Hs & _).
  pose proof (every_one _ _ _ heads_ known) as ahead_. unfold right_on in ahead_.
  cbn [fst snd] in ahead_. rewrite acts_nth in ahead_ by exact Hs. unfold run in question.
  rewrite question in ahead_. simpl in ahead_.
  apply (ahead_is_right p _ _ l ahead_), ends_are_within.
  apply (affine_near p (unit_of_weights n) _ _ x); auto; [lia|]. now apply (node_bound_near p n m).
Qed.

Lemma everything_is_said s : said [] s = true.
Proof. now destruct s. Qed.

Lemma asked_everywhere n m : gpt_right_where_asked n m [] -> gpt_right_at_every_length n m.
Proof. intros right_ w l Hw. apply (right_ w l Hw), everything_is_said. Qed.

Theorem gpt_check_is_sound p n m listed : gpt_check p n m listed = true -> gpt_right_at_every_length n m.
Proof. intros checked. exact (asked_everywhere n m (gpt_check_where_is_sound p n m [] [] listed checked)). Qed.

(** * Something is allowed *)

Lemma every_affine q W x : exists y, affine q W x y.
Proof.
  exists (map (fun w => exact (row_terms q x w)) W). unfold affine, affine_in. induction W as [|w W IH]; simpl;
    constructor; auto.
  apply every_list_has_a_sum. unfold row_terms. intros none. apply app_eq_nil in none. easy.
Qed.

Lemma each_has {A B} (P : A -> B -> Prop) l : (forall x, In x l -> exists y, P x y) -> exists ys, Forall2 P l ys.
Proof.
  induction l as [|x l IH]; intros each; [exists []; constructor|].
  destruct (each x (or_introl eq_refl)) as [y one]. destruct IH as [ys all]; [intros z later; apply each; now right|].
  exists (y :: ys). now constructor.
Qed.

Lemma every_sum_of_vectors x y : exists z, added x y z.
Proof. apply each_has. intros pair _. exists (fst pair + snd pair). apply exact_is_rounded. Qed.

Lemma no_off x off : 0 <= off -> Rabs (x - x) <= off.
Proof. rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. auto. Qed.

Lemma sizes_positive x : 0 <= sizes x.
Proof. induction x as [|v x IH]; simpl; [lra|]. pose proof (Rabs_pos v). lra. Qed.

Lemma largest_positive q d query taps : 0 <= largest q d query taps.
Proof. induction taps as [|t taps IH]; simpl; [lra|]. eapply Rle_trans; [exact IH|apply Rmax_r]. Qed.

Lemma little_positive : 0 <= little.
Proof. unfold little. pose proof tiny_positive. lra. Qed.

Lemma every_attention q heads d query keys values biases : exists y, attention q heads d query keys values biases y.
Proof.
  pose proof u_positive as U. pose proof little_positive as T.
  destruct (each_has (fun h => attends q d (part d h query) (map (part d h) keys) (nth h biases []) (map (part d h)
    values))
                     (seq 0 heads)) as [ys all]; [|exists (concat ys); now exists ys].
  intros h _. unfold attends. set (qh := part d h query). set (taps := combine _ _). set (vs := map _ values).
  destruct (each_has (fun i => mixed (map (score q d qh) taps) vs i) (seq 0 d)) as [y each].
  - intros i _. eexists. unfold mixed. apply no_off. apply Rplus_le_le_0_compat; [|exact T].
    apply Rmult_le_pos; [|apply sizes_positive]. apply Rmult_le_pos; [|lra]. pose proof (pos_INR (length vs)). lra.
  - exists y, (map (score q d qh) taps). split; [|exact each]. clear each. unfold scores.
    generalize (largest_positive q d qh taps). generalize (largest q d qh taps). intros most M.
    induction taps as [|t taps IH]; simpl; [constructor|]. constructor; [|exact IH]. apply no_off.
    apply Rplus_le_le_0_compat; [|exact T]. apply Rmult_le_pos; [|exact M]. apply Rmult_le_pos; [|lra].
      pose proof (pos_INR d). lra.
Qed.

Lemma some_is_greatest l : l <> [] -> exists a, chosen l a.
Proof.
  induction l as [|x l IH]; [easy|]. intros _. destruct l as [|y l].
  - exists 0%nat. split; [simpl; lia|]. intros [|j] Hj; simpl in *; [lra|lia].
  - destruct (IH ltac:(easy)) as (a & known & most). destruct (Rle_lt_dec x (nth a (y :: l) 0)) as [less|more].
    + exists (S a). split; [simpl in *; lia|]. intros [|j] Hj; [exact less|]. apply (most j). simpl in *. lia.
    + exists 0%nat. split; [simpl; lia|]. intros [|j] Hj; [simpl; lra|]. specialize (most j ltac:(simpl in *; lia)).
      change (nth (S j) (x :: y :: l) 0) with (nth j (y :: l) 0). change (nth 0 (x :: y :: l) 0) with x. lra.
Qed.

Lemma every_node_is_made n xs : Forall (fun group => group <> []) (choices n) -> exists x, made n xs x.
Proof.
  intros some. unfold made. set (taps := rev xs). set (own := hd [] taps). set (q := unit_of_weights n).
  destruct (every_affine q (queries n) own) as [query Mq].
  destruct (each_has (affine q (keys n)) (completed n taps)) as [ks Mk]; [intros; apply every_affine|].
  destruct (each_has (affine q (values n)) (completed n taps)) as [vs Mv]; [intros; apply every_affine|].
  destruct (every_attention q (heads n) (head_width n) query ks vs (tap_biases n)) as [y My].
  destruct (every_affine q (outs n) y) as [z Mz]. destruct (every_sum_of_vectors own z) as [t Mt].
  destruct (every_vector_has_a_norm q (mixer_norm n) t) as (h & Mh & _).
  destruct (every_affine q (ups n) h) as [a Ma]. destruct (every_affine q (downs n) (map relu a)) as [b Mb].
  destruct (every_sum_of_vectors h b) as [t' Mt']. destruct (every_vector_has_a_norm q (feed_norm n) t')
    as (o & Mo & _).
  destruct (each_has (fun group l => affine q group o l) (choices n)) as [logits Ml]; [intros; apply every_affine|].
  destruct (each_has chosen logits) as [code Mc].
  { intros l Hl. apply some_is_greatest. clear -some Ml Hl. induction Ml as [|g l' gs ls one _ IH]; [easy|].
    inversion some; subst. destruct Hl as [->|later]; [|now apply IH]. intros ->. inversion one; subst. easy. }
  destruct (every_affine q (sums n code) (map (fun _ => 1) (picked n code))) as [x Mx].
  exists x, query, ks, vs, y, z, t, h, a, b, t', o, logits, code. repeat (split; [assumption|]). exact Mx.
Qed.

(** The claim is not empty: for every word there are logits that the arithmetic allows. *)
Theorem every_word_has_an_answer p n m asked heeded listed w :
  gpt_check_where p n m asked heeded listed = true -> w <> [] -> exists l, answers_to n w l.
Proof.
  intros checked some. assert ((2 <= chunk n)%nat /\ Forall (fun group => group <> []) (choices n)) as [Hc Hg].
  { unfold gpt_check_where in checked. cbv zeta in checked. apply all_three in checked as [checked _].
    apply andb_prop in checked as [checked _]. apply andb_prop in checked as [formed _]. unfold gpt_well_formed in formed. rewrite !andb_true_iff in formed.
    split; [apply Nat.leb_le; tauto|]. assert (forallb (fun group => 1 <=? length group)%nat (choices n) = true)
      as G by tauto.
    rewrite forallb_forall in G. apply Forall_forall. intros group Hin. specialize (G group Hin). intros ->. easy. }
  destruct (every_word_has_a_root nat (list R) (chunk n) Hc (leaf n) (made n)) with (w := w) as [x Hx]; auto.
  - intros s. eexists. reflexivity.
  - intros xs _. now apply every_node_is_made.
  - destruct (every_affine (unit_of_weights n) (answering n) x) as [l Hl]. now exists l, x.
Qed.
