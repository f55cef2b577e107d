(** Intervals whose ends are floating-point numbers of Interval, where whole numbers do not do: for division, square roots
    and exp. Their operations are proved correct there; what is unbounded holds everything, so no operation fails. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
From Flocq Require Import Core.
From Interval Require Import Float.Basic Float.Generic_proof Float.Specific_ops Float.Specific_stdz
  Interval.Interval Interval.Float Interval.Float_full Real.Xreal.
From Lengthwise Require Import Rounding Dyadic.
Import ListNotations.
Local Open Scope R_scope.

Module F := SpecificFloat StdZRadix2.
Module I := FloatIntervalFull F.

Definition digits : F.precision := 44%Z.

Definition interval (p : Z) (ends : Z * Z) : I.type := I.bnd (Float (fst ends) (- p)%Z) (Float (snd ends) (- p)%Z).

Lemma float_is_real p k : F.toX (Float k (- p)%Z) = Xreal (real p k).
Proof.
  unfold F.toX, real. destruct k as [|k|k]; simpl; [f_equal; ring| |];
  rewrite FtoR_split; unfold F2R; simpl; reflexivity.
Qed.

Lemma interval_holds p ends x : contains (I.convert (interval p ends)) (Xreal x) <-> within p ends x.
Proof.
  unfold interval. rewrite I.bnd_correct by reflexivity.
  change I.F.toX with F.toX. rewrite !float_is_real. reflexivity.
Qed.

(** [k 2^-p] itself. *)
Definition spot (p k : Z) : I.type := interval p (k, k).
Definition plus := I.add digits.
Definition times_i := I.mul digits.
Definition around (x off : I.type) : I.type := plus x (times_i (interval 0 (-1, 1)%Z) off).

Lemma spot_holds p k : contains (I.convert (spot p k)) (Xreal (real p k)).
Proof. apply interval_holds. unfold within. simpl. lra. Qed.

Lemma plus_holds a b x y :
  contains (I.convert a) (Xreal x) -> contains (I.convert b) (Xreal y) -> contains (I.convert (plus a b)) (Xreal (x + y)).
Proof. apply (I.add_correct digits a b (Xreal x) (Xreal y)). Qed.

Lemma times_holds a b x y :
  contains (I.convert a) (Xreal x) -> contains (I.convert b) (Xreal y) ->
  contains (I.convert (times_i a b)) (Xreal (x * y)).
Proof. apply (I.mul_correct digits a b (Xreal x) (Xreal y)). Qed.

Lemma abs_holds a x : contains (I.convert a) (Xreal x) -> contains (I.convert (I.abs a)) (Xreal (Rabs x)).
Proof. apply (I.abs_correct a (Xreal x)). Qed.

Lemma around_holds a b x y off :
  contains (I.convert a) (Xreal x) -> contains (I.convert b) (Xreal off) -> Rabs (y - x) <= off ->
  contains (I.convert (around a b)) (Xreal y).
Proof.
  intros Ha Hb near. set (d := if Req_EM_T off 0 then 0 else (y - x) / off).
  assert (D : -1 <= d <= 1 /\ y = x + d * off).
  { unfold d. pose proof (Rabs_pos (y - x)). destruct (Req_EM_T off 0) as [E|E].
    - rewrite E in *. split; [lra|]. assert (Rabs (y - x) = 0) as Z by lra.
      destruct (Req_dec (y - x) 0) as [N|N]; [lra|]. now apply Rabs_no_R0 in N.
    - assert (0 < off) by lra. apply Rabs_le_inv in near. split; [|field; lra].
      split; apply (Rmult_le_reg_r off); try assumption; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra. }
  clearbody d. destruct D as [[low high] E]. rewrite E. apply plus_holds; [exact Ha|]. apply times_holds; [|exact Hb].
  apply interval_holds. unfold within, real. simpl. lra.
Qed.

(** 32 u, u, and 2^-100. *)
Definition near_off : I.type := spot 19 1.
Definition u_i : I.type := spot 24 1.
Definition tiny_i : I.type := spot 100 1.

Lemma u_holds : contains (I.convert u_i) (Xreal u).
Proof. replace u with (real 24 1); [apply spot_holds|]. unfold real, u. simpl. lra. Qed.

Lemma tiny_holds : contains (I.convert tiny_i) (Xreal tiny).
Proof. replace tiny with (real 100 1); [apply spot_holds|]. unfold real, tiny. rewrite Rmult_1_l. reflexivity. Qed.

Definition holds (x : I.type) (y : R) : Prop := contains (I.convert x) (Xreal y).

Lemma whole_holds k : holds (I.fromZ digits k) (IZR k).
Proof. apply I.fromZ_correct. Qed.

(** Where the exact operation is undefined its interval holds everything. *)
Lemma nowhere_defined a x : contains (I.convert a) Xnan -> holds a x.
Proof. unfold holds. destruct (I.convert a); [easy|]. simpl. easy. Qed.

Lemma over_holds a b x y : holds a x -> holds b y -> holds (I.div digits a b) (x / y).
Proof.
  intros Ha Hb. pose proof (I.div_correct digits a b (Xreal x) (Xreal y) Ha Hb) as K. simpl in K. unfold Xdiv' in K.
  destruct (is_zero y); [now apply nowhere_defined|exact K].
Qed.

Lemma square_holds a x : holds a x -> holds (I.sqr digits a) (x * x).
Proof. apply (I.sqr_correct digits a (Xreal x)). Qed.

Lemma root_holds a x : holds a x -> holds (I.inv digits (I.sqrt digits a)) (/ sqrt x).
Proof.
  intros Ha. pose proof (I.inv_correct digits _ _ (I.sqrt_correct digits a (Xreal x) Ha)) as K. simpl in K.
  unfold Xsqrt', Xinv' in K. simpl in K. destruct (is_zero (sqrt x)); [now apply nowhere_defined|exact K].
Qed.

(** A result of the arithmetic, where the exact one is held. *)
Definition rounded_i (x : I.type) : I.type := around x (plus (times_i u_i (I.abs x)) tiny_i).

Lemma rounded_holds a x y : holds a x -> rounded x y -> holds (rounded_i a) y.
Proof.
  intros Ha Hy. apply (around_holds _ _ x _ (u * Rabs x + tiny)); [exact Ha| |exact Hy].
  apply plus_holds; [|apply tiny_holds]. apply times_holds; [apply u_holds|]. now apply abs_holds.
Qed.

(** A sum of two products, of which [x] and [y] are the exact ones. *)
Definition sum_of_two (x y : I.type) : I.type :=
  around (plus x y) (plus (times_i (times_i (spot 0 3) u_i) (plus (I.abs x) (I.abs y))) (times_i (spot 0 8) tiny_i)).

Lemma sum_of_two_holds x y a b c d z :
  holds x (a * b) -> holds y (c * d) -> sum [(a, b); (c, d)] z -> holds (sum_of_two x y) z.
Proof.
  intros Hx Hy Hz. unfold sum_of_two.
  apply (around_holds _ _ (a * b + c * d) _ (real 0 3 * u * (Rabs (a * b) + Rabs (c * d)) + real 0 8 * tiny)).
  - now apply plus_holds.
  - apply plus_holds; apply times_holds; auto using spot_holds, tiny_holds.
    + apply times_holds; auto using spot_holds, u_holds.
    + apply plus_holds; now apply abs_holds.
  - pose proof (sum_error _ _ Hz) as E. pose proof (off_at_most 2 (size [(a, b); (c, d)]) ltac:(lia) (size_positive _)) as O.
    simpl in E, O. rewrite !Rplus_0_r in *. unfold real. simpl.
    replace (1 + 1 + 1) with 3 in O by ring. replace (4 * (1 + 1)) with 8 in O by ring. lra.
Qed.

(** * Back to numbers k 2^-p, rounded outwards *)

Definition floor_at (p m e : Z) : Z := if (0 <=? e + p)%Z then (m * 2 ^ (e + p))%Z else (m / 2 ^ - (e + p))%Z.

Definition outward (p : Z) (x : I.type) : option (Z * Z) :=
  match x with
  | Float.Ibnd (Float a e) (Float b f) => Some (floor_at p a e, - floor_at p (- b) f)%Z
  | _ => None
  end.

Lemma floor_below p m e : real p (floor_at p m e) <= real (- e) m.
Proof.
  unfold floor_at. destruct (Z.leb_spec 0 (e + p)) as [up|down]; unfold real.
  - rewrite mult_IZR, power_of_two, Rmult_assoc, <- bpow_plus by assumption.
    right. do 2 f_equal. lia.
  - set (k := (- (e + p))%Z). replace (- - e)%Z with (k + (- k + e))%Z by lia.
    replace (- p)%Z with (k + e)%Z by lia.
    assert (Hk : (0 < 2 ^ k)%Z) by (apply Z.pow_pos_nonneg; lia).
    pose proof (Z.mul_div_le m (2 ^ k) Hk) as D. apply IZR_le in D. rewrite mult_IZR, power_of_two in D by lia.
    rewrite bpow_plus, <- Rmult_assoc. replace (k + (- k + e))%Z with e by lia.
    apply Rmult_le_compat_r; [apply bpow_ge_0|]. rewrite (Rmult_comm (IZR _)). exact D.
Qed.

Lemma outward_holds p a ends x : outward p a = Some ends -> holds a x -> within p ends x.
Proof.
  unfold outward, holds. destruct a as [|[|a e] [|b f]]; try discriminate. intros [= <-] H. simpl in H.
  pose proof (float_is_real (- e) a) as A. pose proof (float_is_real (- f) b) as B. rewrite !Z.opp_involutive in A, B.
  change I.F.toX with F.toX in H.
  change StdZRadix2.exponent_type with Z in H. rewrite A, B in H. unfold within. simpl. destruct H as [Hl Hh].
  pose proof (floor_below p a e). pose proof (floor_below p (- b) f) as K.
  assert (N : forall q k, real q (- k) = - real q k) by (intros; unfold real; rewrite opp_IZR; ring).
  rewrite N in K |- *. lra.
Qed.
