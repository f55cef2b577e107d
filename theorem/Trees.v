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

(** * Induction *)

Variable value : Type.
Variable of_word : list symbol -> value.
Variable valid : symbol -> Prop.
Variable together : value -> node -> Prop.
(** Holds of a value and a node that lies in a listed set of it. *)

Definition covers (w : list symbol) (x : node) : Prop := w <> [] /\ Forall valid w /\ together (of_word w) x.
Definition is_leaf (w : list symbol) (x : node) : Prop := exists s, w = [s] /\ valid s /\ leaf s x.

Hypothesis leaves_closed : forall ws xs y,
  xs <> [] -> length xs <= chunk -> Forall2 is_leaf ws xs -> made xs y -> covers (concat ws) y.
Hypothesis closed : forall ws xs y,
  xs <> [] -> length xs <= chunk -> Forall2 covers ws xs -> made xs y -> covers (concat ws) y.

Lemma group_covers (below : list symbol -> node -> Prop) xs ys :
  (forall ws l y, l <> [] -> length l <= chunk -> Forall2 below ws l -> made l y -> covers (concat ws) y) ->
  group xs ys -> forall ws, Forall2 below ws xs -> exists vs, concat vs = concat ws /\ Forall2 covers vs ys.
Proof.
  intros step. induction 1 as [l y some short one|xs ys l y _ IH whole one]; intros ws each.
  - exists [concat ws]. simpl. rewrite app_nil_r. split; [reflexivity|].
    constructor; [now apply (step ws l)|constructor].
  - apply Forall2_app_inv_r in each as (us & vs & first & last & ->). destruct (IH us first) as (ts & same & all).
    exists (ts ++ [concat vs]). rewrite !concat_app. simpl. rewrite app_nil_r, same. split; [reflexivity|].
    apply Forall2_app; [assumption|]. constructor; [|constructor]. apply (step vs l); auto; [|lia].
    intros ->. simpl in whole. lia.
Qed.

Lemma groups_cover k xs zs w :
  groups k xs zs -> 1 <= k -> Forall2 is_leaf (map (fun s => [s]) w) xs ->
  exists vs, concat vs = w /\ Forall2 covers vs zs.
Proof.
  intros up some leaves. induction up as [xs|k xs ys zs up IH one]; [lia|].
  assert (concat (map (fun s : symbol => [s]) w) = w) as whole by (clear; induction w; simpl; congruence).
  destruct k as [|k].
  - inversion up; subst. destruct (group_covers is_leaf ys zs leaves_closed one _ leaves) as (vs & same & all).
    exists vs. now rewrite same, whole.
  - destruct (IH ltac:(lia) leaves) as (us & same & all).
    destruct (group_covers covers ys zs closed one us all) as (vs & same' & all'). exists vs. now rewrite same', same.
Qed.

Theorem every_word w y : w <> [] -> Forall valid w -> root w y -> together (of_word w) y.
Proof.
  intros some letters (xs & k & before & leaves & (atleast & enough & _) & up).
  assert (length xs = length w) as L by (symmetry; clear -leaves; induction leaves; simpl; auto).
  assert (1 <= length xs) as L1 by (rewrite L; destruct w; [easy|simpl; lia]).
  destruct (groups_length _ _ _ up L1) as [[few _] _]. rewrite app_length in few. simpl in few.
  assert (before = []) as ->.
  { destruct before; [reflexivity|]. simpl in few. exfalso. set (c := chunk ^ k) in *. nia. }
  assert (Forall2 is_leaf (map (fun s => [s]) w) xs) as each.
  { clear -letters leaves. revert letters. induction leaves; intros letters; simpl; constructor; inversion letters;
    subst.
    - now exists x.
    - auto. }
  destruct (groups_cover _ _ _ w up atleast each) as (vs & same & all). simpl in all.
  inversion all as [|v ? vs' ? [_ [_ one]] none]; subst. inversion none; subst. simpl. now rewrite app_nil_r.
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
