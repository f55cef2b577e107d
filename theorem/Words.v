(** Induction over words.

    A system reads a word symbol by symbol; its state after a symbol is one of those that [step] allows. If finitely
    many sets are closed under every symbol, then after every word, of any length, the state lies in a set of the state
    that the machine is in. *)

From Coq Require Import List.
Import ListNotations.

Section Words.

Variables symbol state : Type.
Variable first : state.
Variable step : symbol -> state -> state -> Prop.

(** The states that are allowed after a word. *)
Inductive after : list symbol -> state -> Prop :=
| after_nothing : after [] first
| after_one_more w s x y : after w x -> step s x y -> after (w ++ [s]) y.

Variable machine_state : Type.
Variable start : machine_state.
Variable delta : machine_state -> symbol -> machine_state.

(** The machine's state after a word. *)
Definition run (w : list symbol) : machine_state := fold_left delta w start.

Lemma run_one_more w s : run (w ++ [s]) = delta (run w) s.
Proof. unfold run. now rewrite fold_left_app. Qed.

Variable valid : symbol -> Prop.
Variable together : machine_state -> state -> Prop.
(** Holds of a machine's state and the system's where the latter lies in a listed set of the former. *)

Hypothesis begins : together start first.
Hypothesis closed : forall q s x y, valid s -> together q x -> step s x y -> together (delta q s) y.

Theorem every_word w x : Forall valid w -> after w x -> together (run w) x.
Proof.
  intros letters reached. induction reached as [|w s x y _ known one].
  - exact begins.
  - apply Forall_app in letters as [letters last]. rewrite run_one_more.
    apply (closed _ _ x); auto. now inversion last.
Qed.

End Words.
