(* Goes through conditions, in one process or in several, and says how many hold: an extracted program, not Coq's kernel. *)

exception Fails of string

let text file =
  let channel = open_in_bin file in
  Fun.protect ~finally:(fun () -> close_in channel) (fun () -> really_input_string channel (in_channel_length channel))

let said fmt = Printf.ksprintf (fun line -> prerr_endline line) fmt

(* Every [jobs]th condition from the [first] on; what it returns is how many hold. *)
let share conditions first jobs report =
  let count = ref 0 in
  Array.iteri
    (fun i (name, holds) ->
      if i mod jobs = first then (
        if not (holds ()) then raise (Fails name);
        incr count;
        report !count))
    conditions;
  !count

(* A process of its own for a share: its last line is a number, or the name of what does not hold. *)
let apart conditions first jobs =
  let from, into = Unix.pipe () in
  match Unix.fork () with
  | 0 ->
      let channel = Unix.out_channel_of_descr into in
      let line = try string_of_int (share conditions first jobs ignore) with Fails name -> "fails: " ^ name in
      output_string channel line;
      close_out channel;
      exit 0
  | _ ->
      Unix.close into;
      Unix.in_channel_of_descr from

let shared conditions jobs =
  let each = List.init jobs (fun first -> apart conditions first jobs) in
  let result channel =
    let line = try input_line channel with End_of_file -> "a process came to no end" in
    match int_of_string_opt line with Some count -> count | None -> raise (Fails line)
  in
  List.fold_left (fun sum channel -> sum + result channel) 0 each

let seconds () = Unix.gettimeofday ()

(* [read] makes conditions of definitions; the program's arguments are --jobs N and the files with these. *)
let main read =
  let jobs, files =
    match List.tl (Array.to_list Sys.argv) with
    | "--jobs" :: n :: files -> (max 1 (int_of_string n), files)
    | files -> (1, files)
  in
  try
    let begun = seconds () in
    let conditions = Array.of_list (read (List.concat_map (fun file -> Read.definitions (text file)) files)) in
    let all, last = (Array.length conditions, ref begun) in
    said "%d conditions to go through, in %d process%s" all jobs (if jobs = 1 then "" else "es");
    let report count =
      if seconds () -. !last > 10. then (
        last := seconds ();
        said "%d of %d conditions hold" count all)
    in
    let count = if jobs = 1 then share conditions 0 1 report else shared conditions jobs in
    if count <> all then raise (Fails "not every condition was gone through");
    Printf.printf "extracted, not kernel: all %d conditions hold (%.1f s)\n" all (seconds () -. begun)
  with
  | Fails name -> Printf.printf "extracted, not kernel: rejected, for this does not hold: %s\n" name; exit 1
  | Read.Refused why -> Printf.printf "extracted, not kernel: rejected, for %s\n" why; exit 1
  | Not_found -> Printf.printf "extracted, not kernel: rejected, for a definition is missing\n"; exit 1
