#!/bin/sh
# Writes theorems about these networks (folders with a certificate) below a folder, and lets Coq check each:
#     theorem/all.sh LENGTHWISE BUILD NETWORK...
# What was accepted stays so until the network or the development changes; so it may be stopped, and run again. The
# development is compiled once. Of trees the extracted program goes through the conditions as well.
set -eu
lengthwise=$1 build=$2
shift 2
kept=$build/development
mkdir -p "$kept"
count=0
for network in "$@"; do
    count=$((count + 1))
    name=$(basename "$network") out=$build/$(basename "$network")
    said="$name ($count of $#)"
    if [ -f "$out/accepted" ] &&
        [ -z "$(find theorem src/lengthwise/verify/theorem "$network" -type f -newer "$out/accepted" ! -path '*__pycache__*' | head -n 1)" ]; then
        echo "$said: accepted before"
        continue
    fi
    begun=$(date +%s)
    rm -rf "$out"
    echo "$said: checking the certificate and writing the theorem"
    "$lengthwise" certify --check "$network/certificate.json" --model "$network" --theorem "$out" >/dev/null
    for file in "$out"/*.v; do
        same=$kept/$(basename "$file")
        if cmp -s "$file" "$same" && [ -f "${same}o" ]; then cp "${same}o" "$out"; fi
    done
    touch "$out/begun"
    for file in "$out"/*.vo; do if [ -f "$file" ]; then touch -r "$out/begun" "$file"; fi; done
    echo "$said: Coq checks the theorem"
    make --no-print-directory -s -C "$out" >"$out/said"
    for file in theorem/*.v; do
        read=$out/$(basename "$file")
        if [ -f "${read}o" ]; then cp "$read" "${read}o" "$kept"; fi
    done
    echo "$said: accepted by Coq's kernel, $(($(date +%s) - begun)) s"
    if [ -f "$out/Extract.v" ]; then
        if ocamlfind query zarith >/dev/null 2>&1; then make --no-print-directory -s -C "$out" extracted; else
            echo "$said: not extracted, for OCaml's zarith is not installed"; fi
    fi
    touch "$out/accepted"
done
