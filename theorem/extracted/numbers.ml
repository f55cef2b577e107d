(* What stands in Whole.v in place of functions that go bit by bit. *)

let is_odd = Z.is_odd
let power x y = if Z.sign y < 0 then Z.zero else Z.pow x (Z.to_int y)

let quotient_and_remainder x y =
  if Z.sign y = 0 then (Z.zero, x)
  else
    let q = Z.fdiv x y in
    (q, Z.sub x (Z.mul q y))

let bits_and m k = Z.add k (Z.of_int (Z.numbits m - 1))
let shifted m d = if Z.sign d > 0 then Z.shift_left m (Z.to_int d) else Z.one

(* m / 2^d rounded down, the highest bit that was cut off, and whether one below it is 1; nothing where m < 2^d. *)
let cut m d =
  let d = if Z.sign d > 0 then Z.to_int d else 0 in
  if d = 0 || Z.numbits m <= d then None
  else Some (Z.shift_right m d, Z.testbit m (d - 1), Z.trailing_zeros m < d - 1)
