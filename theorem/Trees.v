(** Induction over aligned trees.

    A word is a row of leaves. A group of layers makes one node of every [chunk] nodes of a row, counted from the end of
    the row, so that only the first node may be made of fewer. A word of T symbols passes max(1, ⌈log_chunk T⌉) groups,
    and the last node of the last row answers it.
      If finitely many sets of nodes are closed under what a node may be made
    of, then that node lies in a set of the word's value, however long the word is. *)

From Coq Require Import List Arith Lia.
Import ListNotations.

Section Trees.

Variables symbol node : Type.
Variable chunk : nat.
Hypothesis chunk_is_more_than_one : 2 <= chunk.
Variable leaf : symbol -> node -> Prop.
Variable made : list node -> node -> Prop.
(** Of up to [chunk] nodes, oldest first; those that are missing stand before the first symbol. *)

(** One group: from a row, oldest first, to the next. *)
Inductive group : list node -> list node -> Prop :=
| beginning l y : l <> [] -> length l <= chunk -> made l y -> group l [y]
| further xs ys l y : group xs ys -> length l = chunk -> made l y -> group (xs ++ l) (ys ++ [y]).

Inductive groups : nat -> list node -> list node -> Prop :=
| no_group xs : groups 0 xs xs
| one_more_group k xs ys zs : groups k xs ys -> group ys zs -> groups (S k) xs zs.

(** [k] is max(1, ⌈log_chunk T⌉). *)
Definition depth (T k : nat) : Prop := 1 <= k /\ T <= chunk ^ k /\ (k = 1 \/ chunk ^ (k - 1) < T).

(** The nodes that may answer a word. *)
Definition root (w : list symbol) (y : node) : Prop :=
  exists xs k before, Forall2 leaf w xs /\ depth (length w) k /\ groups k xs (before ++ [y]).

(** * How many nodes a row has *)

Lemma group_length xs ys : group xs ys -> chunk * (length ys - 1) < length xs <= chunk * length ys /\ 1 <= length ys.
Proof.
  induction 1 as [l y some short _|xs ys l y _ IH whole _].
  - destruct l; [easy|]. simpl in *. lia.
  - rewrite !app_length. simpl. nia.
Qed.

Lemma groups_length k xs ys :
  groups k xs ys -> 1 <= length xs -> chunk ^ k * (length ys - 1) < length xs <= chunk ^ k * length ys /\
    1 <= length ys.
Proof.
  induction 1 as [xs|k xs ys zs _ IH one]; intros some; simpl; [lia|]. specialize (IH some).
  apply group_length in one. set (c := chunk ^ k) in *. nia.
Qed.

(** * Induction

    In the tree of one word, [whole], every node covers a part of it that ends a multiple of [chunk] symbols before its
    end, and only a node of the beginning may be made of fewer than [chunk]. *)

Variable whole : list symbol.
Variable together : list symbol -> node -> Prop.
(** Holds of a part of the word and a node that lies in a listed set of it. *)

Definition is_leaf (w : list symbol) (x : node) : Prop := exists s, w = [s] /\ leaf s x.
Definition part (u w v : list symbol) : Prop := u ++ w ++ v = whole /\ Nat.divide chunk (length v).

Definition closed_over (below : list symbol -> node -> Prop) : Prop := forall u ws xs v y,
  part u (concat ws) v -> (length xs < chunk -> u = []) -> xs <> [] -> length xs <= chunk ->
  Forall2 below ws xs -> made xs y -> together (concat ws) y.

Hypothesis leaves_closed : closed_over is_leaf.
Hypothesis closed : closed_over together.

(** [chunk] of these that follow others cover a multiple of [chunk] symbols; as they do where each but the first does. *)
Definition even (ws : list (list symbol)) : Prop := forall us ts rest,
  us <> [] -> ws = us ++ ts ++ rest -> length ts = chunk -> Nat.divide chunk (length (concat ts)).
Definition each_even (ws : list (list symbol)) : Prop := Forall (fun w => Nat.divide chunk (length w)) (tl ws).

Lemma each_is_enough ws : each_even ws -> even ws.
Proof.
  intros each us ts rest some -> _. destruct us as [|u us]; [easy|]. unfold each_even in each. simpl in each.
  apply Forall_app in each as [_ each]. apply Forall_app in each as [each _]. clear -each.
  induction each as [|t ts one _ IH]; simpl; [apply Nat.divide_0_r|]. rewrite app_length. now apply Nat.divide_add_r.
Qed.

Lemma leaves_are_even w : even (map (fun s => [s]) w).
Proof.
  intros us ts rest _ E L. assert (Forall (fun t => length t = 1) ts) as one.
  { assert (Forall (fun t : list symbol => length t = 1) (map (fun s => [s]) w)) as all.
    { apply Forall_forall. intros t Ht. apply in_map_iff in Ht as (s & <- & _). reflexivity. }
    rewrite E in all. apply Forall_app in all as [_ all]. now apply Forall_app in all as [all _]. }
  replace (length (concat ts)) with chunk; [apply Nat.divide_refl|]. rewrite <- L. clear -one.
  induction one as [|t ts H _ IH]; simpl; [reflexivity|]. rewrite app_length. lia.
Qed.

Lemma group_covers below xs ys :
  closed_over below -> group xs ys -> forall ws v, Forall2 below ws xs -> even ws -> part [] (concat ws) v ->
  exists vs, concat vs = concat ws /\ Forall2 together vs ys /\ each_even vs.
Proof.
  intros step. induction 1 as [l y some short one|xs ys l y up IH full one]; intros ws v each even_ at_.
  - exists [concat ws]. simpl. rewrite app_nil_r. split; [reflexivity|]. split; [|constructor].
    constructor; [now apply (step [] ws l v)|constructor].
  - apply Forall2_app_inv_r in each as (us & ts & first & last & ->). rewrite concat_app in at_.
    destruct (group_length _ _ up) as [[some _] least]. destruct at_ as [E D].
    assert (length us = length xs) as Lu by (clear -first; induction first; simpl; auto).
    assert (length ts = length l) as Lt by (clear -last; induction last; simpl; auto).
    assert (Nat.divide chunk (length (concat ts))) as Dt.
    { apply (even_ us ts []); [|now rewrite app_nil_r|lia]. intros ->. simpl in Lu. lia. }
    destruct (IH us (concat ts ++ v) first) as (vs & same & all & evens).
    { intros a b rest some_ -> L. apply (even_ a b (rest ++ ts)); auto. now rewrite <- !app_assoc. }
    { split; [simpl in *; now rewrite <- app_assoc in E|]. rewrite app_length. now apply Nat.divide_add_r. }
    exists (vs ++ [concat ts]). rewrite !concat_app. simpl. rewrite app_nil_r, same. split; [reflexivity|]. split.
    + apply Forall2_app; [assumption|]. constructor; [|constructor]. apply (step (concat us) ts l v); auto; [|lia| |lia].
      * split; [simpl in *; now rewrite <- app_assoc in E|assumption].
      * intros ->. simpl in full. lia.
    + destruct vs as [|w vs]; [inversion all; subst; simpl in least; lia|]. unfold each_even in *. simpl in *.
      apply Forall_app. split; [assumption|]. constructor; [assumption|constructor].
Qed.

Lemma groups_cover k xs zs :
  groups k xs zs -> 1 <= k -> Forall2 is_leaf (map (fun s => [s]) whole) xs ->
  exists vs, concat vs = whole /\ Forall2 together vs zs /\ each_even vs.
Proof.
  intros up some leaves. induction up as [xs|k xs ys zs up IH one]; [lia|].
  assert (forall ws, concat ws = whole -> part [] (concat ws) []) as all_of_it.
  { intros ws E. split; [simpl; now rewrite app_nil_r|apply Nat.divide_0_r]. }
  assert (concat (map (fun s : symbol => [s]) whole) = whole) as same by (clear; induction whole; simpl; congruence).
  destruct k as [|k].
  - inversion up; subst. destruct (group_covers is_leaf ys zs leaves_closed one _ [] leaves) as (vs & E & all).
    + apply leaves_are_even.
    + now apply all_of_it.
    + exists vs. rewrite E, same. now split.
  - destruct (IH ltac:(lia) leaves) as (us & E & all & evens).
    destruct (group_covers together ys zs closed one us [] all) as (vs & E' & all').
    + now apply each_is_enough.
    + now apply all_of_it.
    + exists vs. rewrite E', E. now split.
Qed.

Theorem every_word y : whole <> [] -> root whole y -> together whole y.
Proof.
  intros some (xs & k & before & leaves & (atleast & enough & _) & up).
  assert (length xs = length whole) as L by (symmetry; clear -leaves; induction leaves; simpl; auto).
  assert (1 <= length xs) as L1 by (rewrite L; destruct whole; [easy|simpl; lia]).
  destruct (groups_length _ _ _ up L1) as [[few _] _]. rewrite app_length in few. simpl in few.
  assert (before = []) as ->.
  { destruct before; [reflexivity|]. simpl in few. exfalso. set (c := chunk ^ k) in *. nia. }
  assert (Forall2 is_leaf (map (fun s => [s]) whole) xs) as each.
  { clear -leaves. induction leaves; simpl; constructor; [now exists x|assumption]. }
  destruct (groups_cover _ _ _ up atleast each) as (vs & same & all & _). simpl in all.
  inversion all as [|v ? vs' ? one none]; subst. inversion none; subst. simpl in same.
  rewrite app_nil_r in same. now rewrite <- same.
Qed.

(** * Every word has an answer, if every leaf and every node has *)

Hypothesis some_leaf : forall s, exists x, leaf s x.
Hypothesis some_node : forall xs, xs <> [] -> exists y, made xs y.

Lemma every_row_has_a_next n : forall xs, length xs <= n -> xs <> [] -> exists ys, group xs ys.
Proof.
  induction n as [|n IH]; intros xs short some; [destruct xs; simpl in *; [easy|lia]|].
  destruct (le_lt_dec (length xs) chunk) as [few|many].
  - destruct (some_node xs some) as [y made_]. exists [y]. now constructor.
  - set (cut := length xs - chunk).
    destruct (IH (firstn cut xs)) as [ys up]; [rewrite firstn_length; lia| |].
    { intros none. apply (f_equal (@length node)) in none. rewrite firstn_length in none. simpl in none. lia. }
    destruct (some_node (skipn cut xs)) as [y made_].
    { intros none. apply (f_equal (@length node)) in none. rewrite skipn_length in none. simpl in none. lia. }
    exists (ys ++ [y]).
    rewrite <- (firstn_skipn cut xs). constructor; auto. rewrite skipn_length. lia.
Qed.

Lemma every_row_climbs k xs : xs <> [] -> exists ys, groups k xs ys /\ ys <> [].
Proof.
  intros some. induction k as [|k (ys & up & some')]; [exists xs; split; [constructor|assumption]|].
  destruct (every_row_has_a_next (length ys) ys (le_n _) some') as [zs one]. exists zs. split.
  - now apply (one_more_group k xs ys).
  - apply group_length in one. intros ->. simpl in one. lia.
Qed.

Lemma every_length_has_a_depth T : exists k, depth T k.
Proof.
  assert (forall n, T <= chunk ^ n -> exists k, depth T k) as down.
  { induction n as [|n IH]; intros enough.
    - exists 1. unfold depth. simpl in *. lia.
    - destruct (le_lt_dec T (chunk ^ n)) as [less|more]; [now apply IH|]. exists (S n). unfold depth.
      replace (S n - 1) with n by lia. lia. }
  apply (down T). pose proof (Nat.pow_gt_lin_r chunk T). lia.
Qed.

Theorem every_word_has_a_root w : w <> [] -> exists y, root w y.
Proof.
  intros some. assert (exists xs, Forall2 leaf w xs) as [xs leaves].
  { clear some. induction w as [|s w [xs IH]]; [exists []; constructor|].
    destruct (some_leaf s) as [x one]. exists (x :: xs). now constructor. }
  destruct (every_length_has_a_depth (length w)) as [k deep]. destruct (every_row_climbs k xs) as (ys & up & some').
  { intros ->. inversion leaves. now subst. }
  destruct (exists_last some') as (before & y & ->). now exists y, xs, k, before.
Qed.

End Trees.
