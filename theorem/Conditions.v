(** The conditions of the check of a RegularGPT, one by one, each with its name: for a program that is extracted, which counts
    them and says which does not hold. If all hold, so does the check, and the network is right. *)

From Coq Require Import ZArith List Bool.
From Lengthwise Require Import Machine RegularGpt.
Import ListNotations.

Inductive about :=
| form  (** shapes and sizes, and which states are heeded *)
| head_on (set : nat)
| node_of_symbols (symbols : list nat)
| node_of_sets (sets : list nat).

Definition condition : Type := about * (unit -> bool).
Definition holds (c : condition) : bool := snd c tt.

Definition numbered {A} (l : list A) : list (nat * A) := combine (seq 0 (length l)) l.

Section Conditions.

Variables (p : Z) (n : gpt) (m : machine) (asked heeded : list bool) (listed : list (list nat * list nat)).

Definition of_tuples (name : list nat -> about) (pad : option tap) (each : list (list nat * tap)) : list condition :=
  flat_map (fun k => flat_map (fun es =>
    let nodes := map snd es in
    if needed n m heeded (length nodes) (product_of m (map fst nodes))
    then [(name (map fst es), fun _ => lands p n m listed pad nodes)]
    else []) (tuples k (numbered each))) (seq 1 (chunk n)).

Definition gpt_conditions : list condition :=
  let pad := pad_tap p n in
  (form, fun _ => gpt_well_formed p n m && heeds_enough n m asked heeded) ::
  map (fun e => (head_on (fst e), fun _ => right_on p n m asked (snd e))) (numbered listed) ++
  of_tuples node_of_symbols pad (leaf_taps p n m) ++ of_tuples node_of_sets pad (node_taps p n listed).

Lemma every_is_all {A} (f : A -> bool) l : every f l = true <-> forall x, In x l -> f x = true.
Proof.
  split; [intros all x known; exact (every_one f l x all known)|].
  induction l as [|x l IH]; simpl; intros all; [reflexivity|]. rewrite (all x (or_introl eq_refl)). auto.
Qed.

Lemma numbered_is {A} (l : list A) : map snd (numbered l) = l.
Proof.
  unfold numbered. generalize 0. induction l as [|x l IH]; intros k; simpl; [reflexivity|]. now rewrite IH.
Qed.

Lemma tuples_of_map {A B} (f : A -> B) k l : tuples k (map f l) = map (map f) (tuples k l).
Proof.
  induction k as [|k IH]; simpl; [reflexivity|]. rewrite IH, !flat_map_concat_map, concat_map, !map_map.
  f_equal. apply map_ext. intros x. rewrite !map_map. reflexivity.
Qed.

Lemma of_tuples_is_closed name pad each :
  (forall c, In c (of_tuples name pad each) -> holds c = true) -> closed_under p n m heeded listed pad each = true.
Proof.
  intros all. unfold closed_under. apply every_is_all. intros k Hk. apply every_is_all. intros nodes Hn.
  rewrite <- (numbered_is each), tuples_of_map in Hn. apply in_map_iff in Hn as (es & <- & Hes).
  unfold lands_if_needed. destruct (needed n m heeded _ _) eqn:E; [|reflexivity].
  apply (all (name (map fst es), fun _ => lands p n m listed pad (map snd es))). unfold of_tuples.
  apply in_flat_map. exists k. split; [assumption|]. apply in_flat_map. exists es. split; [assumption|].
  cbv zeta. rewrite E. now left.
Qed.

Theorem gpt_conditions_are_enough :
  every holds gpt_conditions = true -> gpt_check_where p n m asked heeded listed = true.
Proof.
  rewrite every_is_all. unfold gpt_conditions, gpt_check_where. cbv zeta. intros all.
  rewrite (all (form, _) (or_introl eq_refl)) at 1 || (pose proof (all _ (or_introl eq_refl)) as F; unfold holds in F;
    cbn [snd] in F; rewrite F). simpl andb.
  assert (every (right_on p n m asked) listed = true) as ->.
  { apply every_is_all. intros e He. rewrite <- (numbered_is listed) in He. apply in_map_iff in He as (f & <- & Hf).
    apply (all (head_on (fst f), fun _ => right_on p n m asked (snd f))). right. apply in_or_app. left.
    apply in_map_iff. now exists f. }
  rewrite (of_tuples_is_closed node_of_symbols), (of_tuples_is_closed node_of_sets); [reflexivity| |];
    intros c Hc; apply all; right; apply in_or_app; right; apply in_or_app; auto.
Qed.

Theorem gpt_conditions_are_sound : every holds gpt_conditions = true -> gpt_right_where_asked n m asked.
Proof. intros all. exact (gpt_check_where_is_sound p n m asked heeded listed (gpt_conditions_are_enough all)). Qed.

End Conditions.
