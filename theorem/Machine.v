(** A finite machine, its words, and what it is to answer as it does. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Lengthwise Require Import Dyadic.
Import ListNotations.
Local Open Scope R_scope.

Record machine := Machine { start : nat; symbols : nat; delta : list (list nat); answers : list nat }.

Definition next (m : machine) (q s : nat) : nat := nth s (nth q (delta m) []) 0%nat.
Definition answer (m : machine) (q : nat) : nat := nth q (answers m) 0%nat.

(** The logit of the right answer is above every other. *)
Definition right (a : nat) (l : list R) : Prop :=
  (a < length l)%nat /\ forall j, (j < length l)%nat -> j <> a -> nth j l 0 < nth a l 0.

Definition word (m : machine) (w : list nat) : Prop := w <> [] /\ Forall (fun s => (s < symbols m)%nat) w.

(** * Lists of which each entry has a bound *)

Fixpoint all2 {A B} (f : A -> B -> bool) (a : list A) (b : list B) : bool :=
  match a, b with
  | [], [] => true
  | x :: a, y :: b => if f x y then all2 f a b else false
  | _, _ => false
  end.

Lemma all2_holds {A B} (f : A -> B -> bool) a b : all2 f a b = true -> Forall2 (fun x y => f x y = true) a b.
Proof.
  revert b. induction a as [|x a IH]; intros [|y b]; simpl; try discriminate; constructor;
  destruct (f x y) eqn:E; auto; discriminate.
Qed.

Lemma same_length {A B} (P : A -> B -> Prop) a b : Forall2 P a b -> length a = length b.
Proof. induction 1; simpl; auto. Qed.

Lemma weaker {A B} (P Q : A -> B -> Prop) a b : (forall x y, P x y -> Q x y) -> Forall2 P a b -> Forall2 Q a b.
Proof. induction 2; constructor; auto. Qed.

Lemma first_of_pair {A B} (P : A -> B -> Prop) a b x : Forall2 P a b -> In x a -> exists y, P x y.
Proof. induction 1 as [|? y ? ? H _ IH]; [easy|]. intros [->|K]; eauto. Qed.

Lemma combine_holds {A B C D} (P : A -> B -> Prop) (Q : C -> D -> Prop) a b c d :
  Forall2 P a b -> Forall2 Q c d ->
  Forall2 (fun x y => P (fst x) (fst y) /\ Q (snd x) (snd y)) (combine a c) (combine b d).
Proof.
  intros H. revert c d. induction H; intros c d K; simpl; [constructor|]. destruct K; constructor; auto.
Qed.

Lemma combine_all {A B} (P : A -> Prop) (Q : B -> Prop) a b :
  Forall P a -> Forall Q b -> Forall (fun e => P (fst e) /\ Q (snd e)) (combine a b).
Proof. intros H. revert b. induction H; intros b K; simpl; [constructor|]. destruct K; constructor; auto. Qed.

Lemma map_holds {A B C D} (P : C -> D -> Prop) (f : A -> C) (g : B -> D) a b :
  Forall2 (fun x y => P (f x) (g y)) a b -> Forall2 P (map f a) (map g b).
Proof. induction 1; simpl; constructor; auto. Qed.

Lemma nth_within p bounds l i : Forall2 (within p) bounds l -> within p (nth i bounds (0, 0)%Z) (nth i l 0).
Proof.
  intros H. revert i. induction H; intros [|i]; simpl; auto; unfold within; simpl; rewrite real_0; lra.
Qed.

(** Whether entry [a] of what has these bounds is above every other. *)
Definition ahead (a : nat) (bounds : list (Z * Z)) : bool :=
  let least := fst (nth a bounds (0, 0)%Z) in
  (a <? length bounds)%nat &&
  forallb (fun j => (j =? a)%nat || (snd (nth j bounds (0, 0)%Z) <? least)%Z) (seq 0 (length bounds)).

Lemma ahead_is_right p a bounds l : ahead a bounds = true -> Forall2 (within p) bounds l -> right a l.
Proof.
  intros [known above]%andb_prop H. apply Nat.ltb_lt in known. rewrite forallb_forall in above.
  pose proof (same_length _ _ _ H) as L. split; [lia|]. intros j Hj other. rewrite <- L in Hj.
  specialize (above j ltac:(apply in_seq; lia)). apply orb_prop in above as [same|below].
  - apply Nat.eqb_eq in same. lia.
  - apply Z.ltb_lt, (real_lt p) in below.
    pose proof (nth_within p bounds l j H) as [_ Hh]. pose proof (nth_within p bounds l a H) as [Hl _]. lra.
Qed.
