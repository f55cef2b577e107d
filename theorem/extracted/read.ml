(* Reads the definitions of Network.v, Claim.v and Theorem.v: the terms that stand there, and nothing that Coq computes of
   them. A term is a whole number, a list, a tuple, a record or a constructor with its arguments. Whatever else stands in a
   definition is refused; sentences that are no definitions are passed over. *)

type term = Whole of Z.t | List of term list | Tuple of term list | Made of string * term list

exception Refused of string

let refuse fmt = Printf.ksprintf (fun said -> raise (Refused said)) fmt

type token = Number of Z.t | Name of string | Mark of string | Stop | End

let is_letter c = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c = '_'
let is_digit c = c >= '0' && c <= '9'

(* The tokens of a text, each when it is asked for. A stop is a full stop before white space. *)
let tokens_of text =
  let n = String.length text in
  let at k = if k < n then text.[k] else ' ' in
  let rec span k holds = if k < n && holds text.[k] then span (k + 1) holds else k in
  let rec comment k depth =
    if k >= n then refuse "a comment has no end"
    else if at k = '*' && at (k + 1) = ')' then if depth = 1 then k + 2 else comment (k + 2) (depth - 1)
    else if at k = '(' && at (k + 1) = '*' then comment (k + 2) (depth + 1)
    else comment (k + 1) depth
  in
  let place = ref 0 in
  let upto k found = place := k; found in
  let rec next () =
    let k = !place in
    if k >= n then End
    else
      match at k with
      | ' ' | '\n' | '\t' | '\r' -> place := k + 1; next ()
      | '(' when at (k + 1) = '*' -> place := comment (k + 2) 1; next ()
      | '%' when at (k + 1) = 'Z' -> place := k + 2; next ()
      | '.' when List.mem (at (k + 1)) [ ' '; '\n'; '\t'; '\r' ] -> upto (k + 1) Stop
      | c when is_digit c || (c = '-' && is_digit (at (k + 1))) ->
          let e = span (k + 1) is_digit in
          upto e (Number (Z.of_string (String.sub text k (e - k))))
      | c when is_letter c ->
          let e = span k (fun c -> is_letter c || is_digit c || c = '\'') in
          upto e (Name (String.sub text k (e - k)))
      | c ->
          let two = Printf.sprintf "%c%c" c (at (k + 1)) in
          if List.mem two [ ":="; "{|"; "|}" ] then upto (k + 2) (Mark two) else upto (k + 1) (Mark (String.make 1 c))
  in
  next

(* The definitions of a text, by name. *)
let definitions text =
  let next = tokens_of text in
  let here = ref (next ()) in
  let move () = here := next () in
  let expect mark = if !here = Mark mark then move () else refuse "%s was to stand in a term" mark in
  let rec several parse separator close =
    if !here = Mark close then (move (); [])
    else
      let first = parse () in
      if !here = Mark separator then (move (); first :: several parse separator close)
      else (expect close; [ first ])
  in
  let rec term () =
    match !here with
    | Name name -> move (); Made (name, arguments ())
    | _ -> atom ()
  and arguments () =
    match !here with
    | Name _ | Number _ | Mark ("(" | "[") -> let first = atom () in first :: arguments ()
    | _ -> []
  and atom () =
    match !here with
    | Number k -> move (); Whole k
    | Name name -> move (); Made (name, [])
    | Mark "[" -> move (); List (several term ";" "]")
    | Mark "(" -> (
        move ();
        match several term "," ")" with
        | [ one ] -> one
        | many -> Tuple many)
    | Mark "{|" -> move (); Made ("{|", several field ";" "|}")
    | _ -> refuse "there is a term that is no number, list, tuple, record or constructor"
  and field () =
    match !here with
    | Name name -> move (); expect ":="; Made (name, [ term () ])
    | _ -> refuse "a field has no name"
  in
  let rec pass () = match !here with Stop -> move () | End -> () | _ -> move (); pass () in
  let rec sort () = match !here with Mark ":=" -> move () | Stop | End -> refuse "a definition has no term" | _ -> move (); sort () in
  let rec all found =
    match !here with
    | End -> List.rev found
    | Name "Definition" -> (
        move ();
        match !here with
        | Name name ->
            sort ();
            let value = term () in
            if !here <> Stop then refuse "the definition of %s does not end where its term does" name;
            move ();
            if List.mem_assoc name found then refuse "%s is defined twice" name;
            all ((name, value) :: found)
        | _ -> refuse "a definition has no name")
    | _ -> pass (); all found
  in
  all []

(* What a term is, as the type that is asked of it. *)
let whole = function Whole k -> k | _ -> refuse "a whole number was to stand there"

let count term =
  let k = whole term in
  if Z.sign k < 0 || Z.gt k (Z.of_int 1_000_000) then refuse "a count was to stand there, and not %s" (Z.to_string k);
  Z.to_int k

let list each = function List l -> List.map each l | _ -> refuse "a list was to stand there"
let pair one two = function Tuple [ a; b ] -> (one a, two b) | _ -> refuse "a pair was to stand there"
let option each = function
  | Made ("None", []) -> None
  | Made ("Some", [ a ]) -> Some (each a)
  | _ -> refuse "Some or None was to stand there"
let truth = function
  | Made ("true", []) -> true
  | Made ("false", []) -> false
  | _ -> refuse "true or false was to stand there"

let made name size = function
  | Made (other, parts) when other = name && List.length parts = size -> Array.of_list parts
  | _ -> refuse "%s with %d parts was to stand there" name size

(* The fields of a record, which must be these, by name. *)
let record names = function
  | Made ("{|", fields) ->
      let one = function Made (name, [ value ]) -> (name, value) | _ -> refuse "a field has no value" in
      let found = List.map one fields in
      if List.map fst found <> names then refuse "a record has not the fields that it is to have";
      found
  | _ -> refuse "a record was to stand there"
