(** Automata stacked on one another are right after every word.

        z = norm x,   M = W relu(V z + b) + c,   column j of block i is one-hot at its argmax,   state' = M state
        y = state', or an affine map of it; and x + y where the layer is residual

    x is the token's embedding, and then what the layer before gives; the first state is learned. A matrix of one-hot columns
    moves entries, and its products are exact. So a layer remembers where each entry of its first state has been moved to;
    what stands at a place is a sum of the entries that are there, in any order, or 0. This is so step by step, and where
    the matrices of a whole word are multiplied first.

    An evaluation is allowed if every sum is one of Rounding.v, every norm one of Norm.v, and every argmax is an entry that
    no other exceeds. The check is given all places that are reached, beside the machine's state. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Lengthwise Require Import Words Rounding Dyadic Intervals Machine Affine Norm.
Import ListNotations.
Local Open Scope R_scope.
Local Arguments Z.mul : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

Definition rows := list (list Z * Z).
(** W and b, as in Affine.v. *)

Record layer := Layer {
  before : option (list (Z * Z));  (** the norm's w and b *)
  transition : list rows;  (** affine maps, with relu between them *)
  blocks : nat;
  places : nat;  (** in a block *)
  entries : list (nat * Z);  (** of the first state, those that are not 0: the block, and the value *)
  readout : option rows;
  residual : bool }.

(** [first]: for each layer the places of its entries before the first symbol. *)
Record stack := Stack {
  scale : Z;
  embeddings : list (list Z);
  layers : list layer;
  first : list (list nat);
  last : option (list (Z * Z));
  head : list rows }.

(** * What the network may compute *)

(** [allows] is the arithmetic of products and sums. *)
Definition normed_if_in (allows : R -> R -> Prop) (p : Z) (weights : option (list (Z * Z))) (x y : list R) : Prop :=
  match weights with Some weights => normed_in allows p weights x y | None => y = x end.

(** Affine maps, and max(0, x) between them. *)
Fixpoint through_in (allows : R -> R -> Prop) (p : Z) (maps : list rows) (x y : list R) : Prop :=
  match maps with
  | [] => y = x
  | [one_map] => affine_in allows p one_map x y
  | one_map :: maps => exists z, affine_in allows p one_map x z /\ through_in allows p maps (map (Rmax 0) z) y
  end.

(** M is a list of blocks, a block of rows, a row of numbers. *)
Definition at_row (w block place r : nat) : nat := (block * w * w + r * w + place)%nat.
Definition chosen (w : nat) (M : list R) (block place to : nat) : Prop :=
  (to < w)%nat /\ forall r, (r < w)%nat -> nth (at_row w block place r) M 0 <= nth (at_row w block place to) M 0.

(** The entries that stand at place i of all blocks. *)
Definition there (l : layer) (at_ : list nat) (i : nat) : list Z :=
  map (fun e => snd (fst e)) (filter (fun e => fst (fst e) * places l + snd e =? i)%nat (combine (entries l) at_)).
Definition stands_in (allows : R -> R -> Prop) (p : Z) (values : list Z) (y : R) : Prop :=
  match values with [] => y = 0 | _ => sum_in allows (map (one p) values) y end.

Definition read_in (allows : R -> R -> Prop) (p : Z) (l : layer) (x : list R) (at_ : list nat) (y : list R) : Prop :=
  exists o o',
    Forall2 (stands_in allows p) (map (there l at_) (seq 0 (blocks l * places l))) o /\
    match readout l with Some maps => affine_in allows p maps o o' | None => o' = o end /\
    if residual l then Forall2 (fun e y => allows (fst e + snd e) y) (combine x o') y else y = o'.

(** A symbol's step of a layer that is given x: from places to places, and what it gives. *)
Definition layer_step_in (allows : R -> R -> Prop) (p : Z) (l : layer) (x : list R) (from to : list nat) (y : list R) : Prop :=
  exists z M,
    normed_if_in allows p (before l) x z /\ through_in allows p (transition l) z M /\
    Forall2 (fun e to => chosen (places l) M (fst (fst e)) (snd e) to) (combine (entries l) from) to /\
    read_in allows p l x to y.

Fixpoint pass_in (allows : R -> R -> Prop) (p : Z) (ls : list layer) (x : list R) (from to : list (list nat)) (y : list R) :
    Prop :=
  match ls, from, to with
  | [], [], [] => y = x
  | l :: ls, a :: from, b :: to => exists z, layer_step_in allows p l x a b z /\ pass_in allows p ls z from to y
  | _, _, _ => False
  end.

(** The places of all layers, and what the last layer gives. *)
Definition state := (list (list nat) * list R)%type.
Definition embedding (n : stack) (s : nat) : list Z := nth s (embeddings n) [].
Definition step_in (allows : R -> R -> Prop) (n : stack) (s : nat) (a b : state) : Prop :=
  pass_in allows (scale n) (layers n) (map (real (scale n)) (embedding n s)) (fst a) (fst b) (snd b).
Definition state_after_in (allows : R -> R -> Prop) (n : stack) : list nat -> state -> Prop :=
  after nat state (first n, []) (step_in allows n).

Definition logits_in (allows : R -> R -> Prop) (n : stack) (x l : list R) : Prop :=
  exists z, normed_if_in allows (scale n) (last n) x z /\ through_in allows (scale n) (head n) z l.

Definition stack_right_in (allows : R -> R -> Prop) (n : stack) (m : machine) : Prop :=
  forall w a l, word m w -> state_after_in allows n w a -> logits_in allows n (snd a) l ->
  right (answer m (run nat nat (start m) (next m) w)) l.

(** The claim: in every arithmetic that is as good as [rounded]. *)
Definition stack_right_at_every_length : stack -> machine -> Prop := stack_right_in rounded.

Notation normed_if := (normed_if_in rounded).
Notation through := (through_in rounded).
Notation stands := (stands_in rounded).
Notation read := (read_in rounded).
Notation layer_step := (layer_step_in rounded).
Notation pass := (pass_in rounded).
Notation step := (step_in rounded).
Notation state_after := (state_after_in rounded).

(** * The check *)

Definition box := list (Z * Z).

Definition normed_of (p : Z) (weights : option (list (Z * Z))) (b : box) : option box :=
  match weights with Some weights => norm_of p weights b | None => Some b end.

Definition relu_of (b : Z * Z) : Z * Z := (Z.max 0 (fst b), Z.max 0 (snd b)).

Fixpoint through_of (p : Z) (maps : list rows) (b : box) : option box :=
  match maps with
  | [] => Some b
  | one_map :: maps =>
      if fit (length b) one_map
      then match maps with
           | [] => Some (affine_of p one_map b)
           | _ => through_of p maps (map relu_of (affine_of p one_map b))
           end
      else None
  end.

Definition decided (w : nat) (M : box) (block place : nat) : option nat :=
  find (fun to => let least := fst (nth (at_row w block place to) M (0, 0)%Z) in
                  forallb (fun r => (r =? to)%nat || (snd (nth (at_row w block place r) M (0, 0)%Z) <? least)%Z) (seq 0 w))
       (seq 0 w).

(** Where each place of each block goes, where that is decided. *)
Definition table := list (list (option nat)).
Definition table_of (p : Z) (l : layer) (x : box) : table :=
  match normed_of p (before l) x with
  | Some z =>
      match through_of p (transition l) z with
      | Some M => map (fun i => map (decided (places l) M i) (seq 0 (places l))) (seq 0 (blocks l))
      | None => []
      end
  | None => []
  end.

Definition moved (l : layer) (t : table) (from : list nat) : option (list nat) :=
  all_of (map (fun e => nth (snd e) (nth (fst (fst e)) t []) None) (combine (entries l) from)).

Definition stands_of (p : Z) (values : list Z) : Z * Z :=
  match values with
  | [] => (0, 0)%Z
  | _ => lowered p (computed p (length values) (times values (map (fun _ => point (2 ^ p)%Z) values)))
  end.

Definition added (p : Z) (x y : Z * Z) : option (Z * Z) := outward p (rounded_i (plus (interval p x) (interval p y))).

Definition read_of (p : Z) (l : layer) (x : box) (at_ : list nat) : option box :=
  let o := map (fun i => stands_of p (there l at_ i)) (seq 0 (blocks l * places l)) in
  match match readout l with
        | Some maps => if fit (length o) maps then Some (affine_of p maps o) else None
        | None => Some o
        end with
  | Some o => if residual l then all_of (map (fun e => added p (fst e) (snd e)) (combine x o)) else Some o
  | None => None
  end.

Definition enter (p : Z) (l : layer) (x : box) (t : table) (from : list nat) : option (list nat * box) :=
  match moved l t from with
  | Some to => match read_of p l x to with Some y => Some (to, y) | None => None end
  | None => None
  end.

Fixpoint pass_of (p : Z) (ls : list layer) (x : box) (from : list (list nat)) : option (list (list nat) * box) :=
  match ls, from with
  | [], [] => Some ([], x)
  | l :: ls, a :: from =>
      match enter p l x (table_of p l x) a with
      | Some (b, z) => match pass_of p ls z from with Some (to, y) => Some (b :: to, y) | None => None end
      | None => None
      end
  | _, _ => None
  end.

(** The first layer's table depends on the symbol alone, and is computed once. *)
Definition of_symbol (n : stack) (s : nat) : box * table :=
  let x := map point (embedding n s) in
  (x, match layers n with l :: _ => table_of (scale n) l x | [] => [] end).
Definition advance (n : stack) (symbol : box * table) (from : list (list nat)) : option (list (list nat) * box) :=
  match layers n, from with
  | l :: ls, a :: from =>
      match enter (scale n) l (fst symbol) (snd symbol) a with
      | Some (b, z) => match pass_of (scale n) ls z from with Some (to, y) => Some (b :: to, y) | None => None end
      | None => None
      end
  | _, _ => pass_of (scale n) (layers n) (fst symbol) from
  end.

Definition right_on (n : stack) (a : nat) (b : box) : bool :=
  match normed_of (scale n) (last n) b with
  | Some z => match through_of (scale n) (head n) z with Some l => ahead a l | None => false end
  | None => false
  end.

Definition tuple := (nat * list (list nat))%type.
(** A state of the machine, and the places of all layers. *)

Definition listed (c : tuple) (tuples : list tuple) : bool :=
  existsb (fun d => (fst c =? fst d)%nat && all2 (all2 Nat.eqb) (snd c) (snd d)) tuples.

Definition stack_formed (n : stack) : bool :=
  (0 <=? scale n)%Z && (length (first n) =? length (layers n))%nat &&
  forallb (fun l => (1 <=? places l)%nat && (length (entries l) <=? 4000)%nat) (layers n).

Definition stack_check (n : stack) (m : machine) (tuples : list tuple) : bool :=
  let symbols_of := map (of_symbol n) (seq 0 (symbols m)) in
  stack_formed n && listed (start m, first n) tuples &&
  forallb (fun c =>
    forallb (fun s => match advance n (nth s symbols_of ([], [])) (snd c) with
                      | Some (to, y) => let q := next m (fst c) s in
                                        listed (q, to) tuples && right_on n (answer m q) y
                      | None => false
                      end) (seq 0 (symbols m))) tuples.

(** * Soundness *)

Lemma normed_of_holds p weights b x y out :
  normed_of p weights b = Some out -> Forall2 (within p) b x -> normed_if p weights x y -> Forall2 (within p) out y.
Proof. destruct weights; simpl; [apply norm_holds|]. now intros [= <-] H ->. Qed.

Lemma relu_holds p b x : Forall2 (within p) b x -> Forall2 (within p) (map relu_of b) (map (Rmax 0) x).
Proof.
  intros H. apply map_holds, weaker with (2 := H). clear. intros b x [Hl Hh]. unfold within, relu_of. cbn [fst snd].
  pose proof (real_0 p) as Z0.
  destruct (Z.max_spec 0 (fst b)) as [[A ->]|[A ->]], (Z.max_spec 0 (snd b)) as [[B ->]|[B ->]];
    apply (real_le p) in B || apply (real_lt p) in B; apply (real_le p) in A || apply (real_lt p) in A;
    rewrite Z0 in *; unfold Rmax; destruct Rle_dec; lra.
Qed.

Lemma through_of_holds p maps b x y out :
  (0 <= p)%Z -> through_of p maps b = Some out -> Forall2 (within p) b x -> through p maps x y ->
  Forall2 (within p) out y.
Proof.
  intros Hp. revert b x. induction maps as [|one_map maps IH]; intros b x; simpl; [now intros [= <-] H ->|].
  destruct (fit (length b) one_map) eqn:F; [|discriminate].
  intros found Hb. rewrite (same_length _ _ _ Hb) in F.
  destruct maps as [|another maps].
  - injection found as <-. now apply affine_holds.
  - intros (z & Hz & Hy). apply (IH _ _ found) with (2 := Hy). apply relu_holds. now apply (affine_holds p one_map b x z).
Qed.

Lemma decided_is_chosen p w M X block place t to :
  decided w M block place = Some t -> Forall2 (within p) M X -> chosen w X block place to -> to = t.
Proof.
  unfold decided. cbv zeta. intros found H [known most]. apply find_some in found as [known' above].
  apply in_seq in known'. rewrite forallb_forall in above. specialize (above to ltac:(apply in_seq; lia)).
  apply orb_prop in above as [same|below]; [now apply Nat.eqb_eq in same|].
  apply Z.ltb_lt, (real_lt p) in below. specialize (most t ltac:(lia)).
  pose proof (nth_within p M X (at_row w block place to) H) as [_ A].
  pose proof (nth_within p M X (at_row w block place t) H) as [B _]. lra.
Qed.

Lemma nth_of_seq {A} (f : nat -> A) n i d x : nth i (map f (seq 0 n)) d = x -> x <> d -> f i = x.
Proof.
  intros E other. destruct (Nat.lt_ge_cases i n) as [small|large].
  - rewrite (nth_indep _ d (f 0%nat)) in E by now rewrite map_length, seq_length.
    now rewrite map_nth, seq_nth in E.
  - rewrite nth_overflow in E by now rewrite map_length, seq_length. now symmetry in E.
Qed.

Lemma table_holds p l b x z M i j t to :
  (0 <= p)%Z -> nth j (nth i (table_of p l b) []) None = Some t -> Forall2 (within p) b x ->
  normed_if p (before l) x z -> through p (transition l) z M -> chosen (places l) M i j to -> to = t.
Proof.
  intros Hp found Hb Hz HM Hto. unfold table_of in found.
  destruct (normed_of p (before l) b) as [zb|] eqn:N; [|destruct i, j; discriminate].
  destruct (through_of p (transition l) zb) as [Mb|] eqn:T; [|destruct i, j; discriminate].
  assert (E : map (decided (places l) Mb i) (seq 0 (places l)) =
              nth i (map (fun i => map (decided (places l) Mb i) (seq 0 (places l))) (seq 0 (blocks l))) []).
  { apply (nth_of_seq (fun i => map (decided (places l) Mb i) (seq 0 (places l))) (blocks l) i []); [reflexivity|].
    intros none. rewrite none in found. destruct j; discriminate. }
  rewrite <- E in found. apply nth_of_seq in found; [|discriminate].
  eapply decided_is_chosen; [exact found| |exact Hto].
  apply (through_of_holds p (transition l) zb z M Mb Hp T); [|exact HM]. now apply (normed_of_holds p (before l) b x).
Qed.

Lemma moved_holds p l b x z M from to out :
  (0 <= p)%Z -> moved l (table_of p l b) from = Some out -> Forall2 (within p) b x ->
  normed_if p (before l) x z -> through p (transition l) z M ->
  Forall2 (fun e to => chosen (places l) M (fst (fst e)) (snd e) to) (combine (entries l) from) to -> to = out.
Proof.
  intros Hp found Hb Hz HM Hto. unfold moved in found. apply all_of_is in found.
  revert out found. induction Hto as [|e t es to Ht _ IH]; intros out found; inversion found; subst; f_equal; auto.
  eapply table_holds; eauto.
Qed.

Lemma ones_are_products p values : map (one p) values = products p values (map (fun _ => 1) values).
Proof. induction values as [|v values IH]; simpl; [reflexivity|]. rewrite IH. reflexivity. Qed.

Lemma stands_of_holds p values y :
  (0 <= p)%Z -> (length values <= 4000)%nat -> stands p values y -> within p (stands_of p values) y.
Proof.
  intros Hp short Hy. destruct values as [|v values].
  { simpl in *. subst. unfold within. simpl. rewrite real_0. lra. }
  cbn [stands_in stands_of] in *. set (all := v :: values) in *. clearbody all. apply lowered_within; [exact Hp|].
  assert (Ones : Forall2 (within p) (map (fun _ => point (2 ^ p)%Z) all) (map (fun _ => 1) all)).
  { clear -Hp. induction all; simpl; constructor; auto. unfold within, point, real. cbn [fst snd].
    rewrite power_of_two, <- bpow_plus, Z.add_opp_diag_r by assumption. simpl. lra. }
  apply (widened_within _ _ _ (exact (map (one p) all))).
  - rewrite ones_are_products. now apply dot_within.
  - rewrite <- (map_length (one p) all). apply noise_is_enough; auto; [now rewrite map_length|].
    rewrite ones_are_products. now apply reach_within.
Qed.

Lemma there_is_short l at_ i : (length (there l at_ i) <= length (entries l))%nat.
Proof.
  unfold there. rewrite map_length. eapply Nat.le_trans; [|apply (Nat.le_min_l _ (length at_))].
  rewrite <- combine_length. induction (combine (entries l) at_) as [|e es IH]; simpl; [lia|].
  destruct (_ =? i)%nat; simpl; lia.
Qed.

Lemma added_holds p b c x y z out : added p b c = Some out -> within p b x -> within p c y -> rounded (x + y) z -> within p out z.
Proof.
  intros found Hx Hy Hz. apply (outward_holds _ _ _ _ found). apply (rounded_holds _ (x + y)); [|exact Hz].
  apply plus_holds; now apply interval_holds.
Qed.

Lemma read_of_holds p l b x at_ out y :
  (0 <= p)%Z -> (length (entries l) <= 4000)%nat -> read_of p l b at_ = Some out -> Forall2 (within p) b x ->
  read p l x at_ y -> Forall2 (within p) out y.
Proof.
  intros Hp short found Hb (o & o' & Ho & Ho' & Hy). unfold read_of in found. cbv zeta in found.
  assert (O : Forall2 (within p) (map (fun i => stands_of p (there l at_ i)) (seq 0 (blocks l * places l))) o).
  { clear -Hp short Ho. revert o Ho. induction (seq 0 (blocks l * places l)) as [|i s IH]; intros o Ho;
      inversion Ho; subst; simpl; constructor; auto. apply stands_of_holds; auto. pose proof (there_is_short l at_ i). lia. }
  set (ob := map (fun i => stands_of p (there l at_ i)) (seq 0 (blocks l * places l))) in *. clearbody ob.
  match type of found with match ?a with _ => _ end = _ => destruct a as [b'|] eqn:E; [|discriminate] end.
  assert (O' : Forall2 (within p) b' o').
  { destruct (readout l) as [maps|]; [|injection E as <-; now subst].
    destruct (fit (length ob) maps) eqn:F; [|discriminate]. injection E as <-. rewrite (same_length _ _ _ O) in F.
    now apply (affine_holds p maps ob o). }
  destruct (residual l); [|injection found as <-; now subst].
  apply all_of_is in found. pose proof (combine_holds _ _ _ _ _ _ Hb O') as Both. clear -found Both Hy.
  revert out found y Hy. induction Both as [|e a es as_ [Hx Ho] _ IH]; intros out found y Hy;
    inversion found; inversion Hy; subst; constructor; auto. eapply added_holds; eauto.
Qed.

Lemma enter_holds p l b x from to y to' yb :
  (0 <= p)%Z -> (length (entries l) <= 4000)%nat -> enter p l b (table_of p l b) from = Some (to', yb) ->
  Forall2 (within p) b x -> layer_step p l x from to y -> to = to' /\ Forall2 (within p) yb y.
Proof.
  intros Hp short found Hb (z & M & Hz & HM & Hto & Hread). unfold enter in found.
  destruct (moved l (table_of p l b) from) as [t|] eqn:E; [|discriminate].
  destruct (read_of p l b t) as [o|] eqn:Ro; [|discriminate]. injection found as <- <-.
  assert (to = t) as -> by (eapply moved_holds; eauto). split; [reflexivity|]. eapply read_of_holds; eauto.
Qed.

Lemma pass_of_holds p ls b x from to y to' yb :
  (0 <= p)%Z -> Forall (fun l => length (entries l) <= 4000)%nat ls -> pass_of p ls b from = Some (to', yb) ->
  Forall2 (within p) b x -> pass p ls x from to y -> to = to' /\ Forall2 (within p) yb y.
Proof.
  intros Hp short. revert b x from to to'. induction short as [|l ls Hl _ IH]; intros b x [|a from] [|c to] to' found Hb Hpass;
    simpl in *; try discriminate; try easy.
  - injection found as <- <-. now subst.
  - destruct (enter p l b (table_of p l b) a) as [[c' zb]|] eqn:E; [|discriminate].
    destruct (pass_of p ls zb from) as [[t yb']|] eqn:K; [|discriminate]. injection found as <- <-.
    destruct Hpass as (z & Hstep & Hpass). destruct (enter_holds _ _ _ _ _ _ _ _ _ Hp Hl E Hb Hstep) as [-> Hz].
    destruct (IH _ _ _ _ _ K Hz Hpass) as [-> Hy]. auto.
Qed.

Lemma equal_numbers a b : all2 Nat.eqb a b = true -> a = b.
Proof.
  intros H. apply all2_holds in H. induction H as [|x y a b E _ IH]; [reflexivity|]. apply Nat.eqb_eq in E. now subst.
Qed.

Lemma listed_is c tuples : listed c tuples = true -> In c tuples.
Proof.
  intros H. apply existsb_exists in H as (d & Hd & E). apply andb_prop in E as [E F]. apply Nat.eqb_eq in E.
  replace c with d; [exact Hd|]. destruct c, d. simpl in *. clear Hd. subst. f_equal. symmetry.
  apply all2_holds in F. induction F as [|x y a b K _ IH]; [reflexivity|]. apply equal_numbers in K. now subst.
Qed.

Section StackSound.

Variables (n : stack) (m : machine) (tuples : list tuple).
Hypothesis checked : stack_check n m tuples = true.

Let p := scale n.

Lemma stack_facts :
  (0 <= p)%Z /\ Forall (fun l => length (entries l) <= 4000)%nat (layers n) /\ In (start m, first n) tuples /\
  (forall c s, In c tuples -> (s < symbols m)%nat ->
     exists to y, advance n (of_symbol n s) (snd c) = Some (to, y) /\ In (next m (fst c) s, to) tuples /\
                  right_on n (answer m (next m (fst c) s)) y = true).
Proof.
  pose proof checked as parts. unfold stack_check in parts. cbv zeta in parts. rewrite !andb_true_iff in parts.
  destruct parts as [[formed begins] all]. unfold stack_formed in formed. rewrite !andb_true_iff in formed.
  destruct formed as [[Hp _] short]. rewrite forallb_forall in short, all. repeat split.
  - now apply Z.leb_le.
  - apply Forall_forall. intros l Hl. specialize (short l Hl). apply andb_prop in short as [_ short]. now apply Nat.leb_le.
  - now apply listed_is.
  - intros c s Hc Hs. specialize (all c Hc). rewrite forallb_forall in all. specialize (all s ltac:(apply in_seq; lia)).
    rewrite (nth_indep _ _ (of_symbol n 0%nat)) in all by now rewrite map_length, seq_length.
    rewrite map_nth, seq_nth in all by assumption. change (0 + s)%nat with s in all.
    destruct (advance n (of_symbol n s) (snd c)) as [[to y]|]; [|discriminate].
    apply andb_prop in all as [known ok]. apply listed_is in known. eauto.
Qed.

Lemma advance_holds s from to y to' yb :
  advance n (of_symbol n s) from = Some (to', yb) ->
  pass p (layers n) (map (real p) (embedding n s)) from to y -> to = to' /\ Forall2 (within p) yb y.
Proof.
  destruct stack_facts as (Hp & short & _). pose proof (points_within p (embedding n s)) as Hb.
  intros found. assert (K : pass_of p (layers n) (map point (embedding n s)) from = Some (to', yb)).
  { unfold advance, of_symbol in found. cbn [fst snd] in found. fold p in found.
    destruct (layers n) as [|l ls]; [exact found|]. destruct from; [exact found|]. exact found. }
  now apply (pass_of_holds p (layers n) (map point (embedding n s))).
Qed.

Definition together (q : nat) (a : state) : Prop := In (q, fst a) tuples.
Definition answered (q : nat) (a : state) : Prop :=
  together q a /\ exists y, right_on n (answer m q) y = true /\ Forall2 (within p) y (snd a).

Lemma closed q s a b : (s < symbols m)%nat -> together q a -> step n s a b -> answered (next m q s) b.
Proof.
  intros Hs Ha Hstep. destruct stack_facts as (_ & _ & _ & all).
  destruct (all _ s Ha Hs) as (to & y & found & known & ok). simpl in *.
  destruct (advance_holds _ _ _ _ _ _ found Hstep) as [E Hy]. split; [unfold together; now rewrite E|eauto].
Qed.

Theorem stack_right_everywhere : stack_right_at_every_length n m.
Proof.
  intros w a l [some letters] reached (z & Hz & Hl). destruct stack_facts as (Hp & _ & begins & _).
  assert (K : answered (run nat nat (start m) (next m) w) a).
  { destruct reached as [|w s b c known one]; [easy|]. apply Forall_app in letters as [letters last].
    rewrite run_one_more. apply (closed _ s b); [now inversion last| |exact one].
    apply (every_word nat state (first n, []) (step n) nat (start m) (next m)
             (fun s => (s < symbols m)%nat) together); auto.
    intros q t c' d Ht Hc Hcd. now destruct (closed q t c' d Ht Hc Hcd). }
  destruct K as (_ & y & ok & Hy). unfold right_on in ok. fold p in ok.
  destruct (normed_of p (last n) y) as [zb|] eqn:N; [|discriminate].
  destruct (through_of p (head n) zb) as [lb|] eqn:T; [|discriminate].
  apply (ahead_is_right p _ lb); [exact ok|].
  apply (through_of_holds p (head n) zb z l lb Hp T); [|exact Hl]. now apply (normed_of_holds p (last n) y (snd a)).
Qed.

End StackSound.

Theorem stack_check_is_sound n m tuples : stack_check n m tuples = true -> stack_right_at_every_length n m.
Proof. apply stack_right_everywhere. Qed.

(** * In binary32, rounded to nearest *)

Lemma binary32_normed p weights x y : normed_if_in is_binary32 p weights x y -> normed_if p weights x y.
Proof. destruct weights; [apply binary32_norm|easy]. Qed.

Lemma binary32_affine p maps x y : affine_in is_binary32 p maps x y -> affine_in rounded p maps x y.
Proof. apply weaker. intros row z. apply binary32_sum. Qed.

Lemma binary32_through p maps x y : through_in is_binary32 p maps x y -> through p maps x y.
Proof.
  revert x. induction maps as [|one_map maps IH]; intros x; [easy|]. destruct maps as [|another maps].
  - apply binary32_affine.
  - intros (z & Hz & Hy). exists z. split; [now apply binary32_affine|now apply IH].
Qed.

Lemma binary32_read p l x at_ y : read_in is_binary32 p l x at_ y -> read p l x at_ y.
Proof.
  intros (o & o' & Ho & Ho' & Hy). exists o, o'. split; [|split].
  - apply weaker with (2 := Ho). intros [|v values] z; [easy|]. apply binary32_sum.
  - destruct (readout l); [now apply binary32_affine|exact Ho'].
  - destruct (residual l); [|exact Hy]. apply weaker with (2 := Hy). intros e z ->. apply binary32_is_rounded.
Qed.

Lemma binary32_pass p ls x from to y : pass_in is_binary32 p ls x from to y -> pass p ls x from to y.
Proof.
  revert x from to. induction ls as [|l ls IH]; intros x [|a from] [|b to]; try easy.
  intros (z & (v & M & Hv & HM & Hto & Hread) & Hy). exists z. split; [|now apply IH].
  exists v, M. split; [now apply binary32_normed|]. split; [now apply binary32_through|].
  split; [exact Hto|now apply binary32_read].
Qed.

Theorem stack_right_in_binary32 n m : stack_right_at_every_length n m -> stack_right_in is_binary32 n m.
Proof.
  intros claim w a l Hw Ha (z & Hz & Hl). apply (claim w a l Hw).
  - clear -Ha. induction Ha as [|w s b c _ IH one]; [constructor|]. apply after_one_more with b; [exact IH|].
    now apply binary32_pass.
  - exists z. split; [now apply binary32_normed|now apply binary32_through].
Qed.

(** * The claim is not empty: after every word there is an evaluation that is allowed *)

Lemma some_norm p weights x : exists y, normed_if p weights x y.
Proof. destruct weights as [weights|]; simpl; [|eauto]. destruct (every_vector_has_a_norm p weights x) as (y & H & _). eauto. Qed.

Lemma some_way_through p maps x : exists y, through p maps x y.
Proof.
  revert x. induction maps as [|one_map maps IH]; intros x; [now exists x|].
  pose proof (exact_affine_is_allowed p one_map x) as E. destruct maps as [|another maps]; [eexists; exact E|].
  edestruct IH as (y & Hy). exists y. simpl. eexists. split; [exact E|exact Hy].
Qed.

Lemma some_most (f : nat -> R) w : (1 <= w)%nat -> exists to, (to < w)%nat /\ forall r, (r < w)%nat -> f r <= f to.
Proof.
  induction w as [|w IH]; [lia|]. intros _. destruct w as [|w].
  { exists 0%nat. split; [lia|]. intros r Hr. replace r with 0%nat by lia. lra. }
  destruct (IH ltac:(lia)) as (to & Hto & most). destruct (Rle_dec (f (S w)) (f to)) as [below|above].
  - exists to. split; [lia|]. intros r Hr. destruct (Nat.eq_dec r (S w)) as [->|]; [exact below|]. apply most. lia.
  - exists (S w). split; [lia|]. intros r Hr. destruct (Nat.eq_dec r (S w)) as [->|]; [lra|].
    specialize (most r ltac:(lia)). lra.
Qed.

Lemma some_argmax w M block place : (1 <= w)%nat -> exists to, chosen w M block place to.
Proof. apply (some_most (fun r => nth (at_row w block place r) M 0)). Qed.

Lemma for_each {A B} (P : A -> B -> Prop) l : (forall x, exists y, P x y) -> exists l', Forall2 P l l'.
Proof.
  intros H. induction l as [|x l (l' & IH)]; [exists []; constructor|]. destruct (H x) as (y & Hy). exists (y :: l'). auto.
Qed.

Lemma some_layer_step p l x from : (1 <= places l)%nat -> exists to y, layer_step p l x from to y.
Proof.
  intros some. destruct (some_norm p (before l) x) as (z & Hz). destruct (some_way_through p (transition l) z) as (M & HM).
  destruct (for_each (fun e to => chosen (places l) M (fst (fst e)) (snd e) to) (combine (entries l) from)) as (to & Hto).
  { intros e. now apply some_argmax. }
  destruct (for_each (stands p) (map (there l to) (seq 0 (blocks l * places l)))) as (o & Ho).
  { intros values. destruct values as [|v values]; [now exists 0|]. eexists. now apply every_list_has_a_sum. }
  assert (exists o', match readout l with Some maps => affine p maps o o' | None => o' = o end) as (o' & Ho').
  { destruct (readout l); [eexists; apply exact_affine_is_allowed|eauto]. }
  assert (exists y, if residual l then Forall2 (fun e y => rounded (fst e + snd e) y) (combine x o') y else y = o') as (y & Hy).
  { destruct (residual l); [|eauto]. apply for_each. intros e. eexists. apply exact_is_rounded. }
  exists to, y, z, M. repeat split; auto. exists o, o'. auto.
Qed.

Theorem stack_every_word_has_a_state n w :
  stack_formed n = true -> exists a, state_after n w a /\ length (fst a) = length (layers n).
Proof.
  intros formed. unfold stack_formed in formed. rewrite !andb_true_iff in formed. destruct formed as [[_ L] some].
  apply Nat.eqb_eq in L. rewrite forallb_forall in some.
  induction w as [|s w ([from x] & known & Lf)] using rev_ind; [exists (first n, []); split; [constructor|exact L]|].
  simpl in Lf. assert (exists to y, pass (scale n) (layers n) (map (real (scale n)) (embedding n s)) from to y /\
                                    length to = length (layers n)) as (to & y & Hpass & Lt).
  { clear known L x. generalize (map (real (scale n)) (embedding n s)). revert from Lf some.
    induction (layers n) as [|l ls IH]; intros [|a from]; simpl; try discriminate; intros Lf some x; [now exists [], x|].
    assert (1 <= places l)%nat as one_place.
    { specialize (some l (or_introl eq_refl)). apply andb_prop in some as [some _]. now apply Nat.leb_le. }
    destruct (some_layer_step (scale n) l x a one_place) as (b & z & Hz).
    destruct (IH from ltac:(lia) ltac:(intros; apply some; now right) z) as (to & y & Hy & Lt).
    exists (b :: to), y. simpl. rewrite Lt. eauto. }
  exists (to, y). split; [|exact Lt]. now apply after_one_more with (from, x).
Qed.
