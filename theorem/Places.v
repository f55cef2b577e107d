(** Sets of states of which each leads into one that is named, for every symbol: what Words.v needs, as it is checked. *)

From Coq Require Import List Bool Arith Lia.
From Lengthwise Require Import Words Machine.
Import ListNotations.

Section Places.

Variables place state : Type.
Variable m : machine.
Variable of_state : place -> nat.
(** The machine's state at a place. *)
Variable empty : place.
Variable at_place : place -> state -> Prop.
Variable first : state.
Variable step : nat -> state -> state -> Prop.

Variable begins : place -> bool.
Variable enters : place -> nat -> place -> bool.
Variables (places : list place) (targets : list (list nat)).

(** [targets] names for each place and each symbol the place that it leads to. *)
Definition closes : bool :=
  existsb (fun r => (of_state r =? start m)%nat && begins r) places &&
  all2 (fun r row =>
          forallb (fun s => enters r s (nth (nth s row 0%nat) places empty) &&
                            (nth s row 0%nat <? length places)%nat) (seq 0 (symbols m)))
       places targets.

Hypothesis closed : closes = true.
Hypothesis begun : forall r, In r places -> begins r = true -> at_place r first.
Hypothesis entered : forall r s to x y,
  In r places -> In to places -> (s < symbols m)%nat -> enters r s to = true -> at_place r x -> step s x y ->
  of_state to = next m (of_state r) s /\ at_place to y.

Definition known (q : nat) (x : state) : Prop := exists r, In r places /\ of_state r = q /\ at_place r x.

(** A place that a symbol led to. *)
Definition led_to (q : nat) (x : state) : Prop :=
  exists from s r, In from places /\ In r places /\ (s < symbols m)%nat /\ enters from s r = true /\
                   of_state r = q /\ at_place r x.

Lemma somewhere r s : In r places -> (s < symbols m)%nat -> exists to, In to places /\ enters r s to = true.
Proof.
  intros In_r Hs. pose proof closed as parts. apply andb_prop in parts as [_ moves].
  apply all2_holds in moves. destruct (first_of_pair _ _ _ r moves In_r) as (row & K).
  rewrite forallb_forall in K. specialize (K s ltac:(apply in_seq; lia)).
  apply andb_prop in K as [K L]. apply Nat.ltb_lt in L.
  exists (nth (nth s row 0%nat) places empty). split; [now apply nth_In|exact K].
Qed.

Lemma a_symbol_leads q s x y : (s < symbols m)%nat -> known q x -> step s x y -> led_to (next m q s) y.
Proof.
  intros Hs (r & In_r & <- & Hx) Hstep. destruct (somewhere r s In_r Hs) as (to & In_to & K).
  destruct (entered r s to x y In_r In_to Hs K Hx Hstep). exists r, s, to. repeat split; auto.
Qed.

Theorem every_word_is_known w x :
  Forall (fun s => (s < symbols m)%nat) w -> after nat state first step w x -> known (run nat nat (start m) (next m) w) x.
Proof.
  apply (every_word nat state first step nat (start m) (next m)).
  - pose proof closed as parts. apply andb_prop in parts as [found _].
    apply existsb_exists in found as (r & Hr & E). apply andb_prop in E as [Hq Hz]. apply Nat.eqb_eq in Hq.
    exists r. auto.
  - intros q t c d Ht Hc Hcd. destruct (a_symbol_leads q t c d Ht Hc Hcd) as (f & v & r & ? & ? & ? & ? & ? & ?).
    exists r. auto.
Qed.

Theorem every_word_leads w x :
  word m w -> after nat state first step w x -> led_to (run nat nat (start m) (next m) w) x.
Proof.
  intros [some letters] reached. destruct reached as [|w s a b before one]; [easy|].
  apply Forall_app in letters as [letters last]. rewrite run_one_more.
  apply (a_symbol_leads _ s a); [now inversion last|now apply every_word_is_known|exact one].
Qed.

End Places.
