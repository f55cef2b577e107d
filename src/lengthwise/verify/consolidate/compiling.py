"""A machine made into a network, by teaching a network the machine's algebra: no string is ever seen.

compiled        from random weights, with a structured code for each element
consolidated    from a model that learned its machine from strings, with the code that it gave each element most often;
                where hardly a product of these holds it takes structured codes instead, and is compiled

Both descend on the closure conditions (closure.py) alone. `Made` says which it was, and a folder keeps it beside the
weights.
"""

from __future__ import annotations

import copy
import errno
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from torch import nn

from ...automata import Semiautomaton
from ...errors import Error, RecordError
from ...files import canonical, digest_of, read_json, whole_folder
from ...lab import Run
from ...lab.collection import FILE as NETWORK
from ...models import LengthwiseConfig, LengthwiseForCausalLM, TokenClassifier, presets, pretrained
from ...models.depth import Adaptive
from ...models.pretrained import quiet
from ...seeds import derive
from ...tasks import Task
from ...train.state import untouched_random
from .. import certificate as certificates
from ..algebra import MachineAlgebra, in_time
from ..checker import Rejected
from ..checker.check import check_kept
from ..claim import Claim, claim_of, minimal, without_start
from ..prove.codes import prove_codes
from ..subject import KeptShare, subject_of
from .canonical_codes import canonical_codes
from .closure import Closure, ClosureNetwork, close, refusal
from .element_codes import structured_codes
from .gate import checked_to_have_learned

WEIGHTS = "model.safetensors"
FILE = "made.json"
"""Says beside a model's weights how it was made."""
WAYS_MADE = ("compiled", "consolidated", "settled", "learned")
ROUNDS = (2000, 4000, 8000, 16000)
"""Steps of descent; the rate falls to zero in each round, and the next begins where it ended."""
OWN_CODES = 0.5
"""The share of conditions that must hold of a trained model's own codes; else they say nothing of the algebra."""
Hear = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """A model, and how it was made."""

    model: LengthwiseForCausalLM
    made: Literal["compiled", "consolidated"]
    claim: Claim
    elements: int
    gap: np.ndarray
    """That of every closure condition, as `Closure.look` says it."""
    seconds: float
    own: int = 0
    """Of how many elements the code is the one that a trained model gave them."""
    asked: dict[str, Any] | None = None
    """The options it was compiled with."""
    right: float | None = None
    """The share of held-out words that it answered right, before it was taught; None where no string was seen."""

    @property
    def closed(self) -> bool:
        """True if all conditions hold, as far as the model's own numbers say. `certify` says it for sure."""
        return self.wrong == 0

    @property
    def wrong(self) -> int:
        """The number of conditions that fail."""
        return int((~(self.gap > 0)).sum())

    def __str__(self) -> str:
        wrong, all_of_them = self.wrong, len(self.gap)
        held = (
            f"all {all_of_them:,} conditions hold" if self.closed else f"{wrong:,} of {all_of_them:,} conditions fail"
        )
        sizes = f"{self.elements:,} elements, {self.seconds:.1f} s"
        made = self.made if self.closed else f"not {self.made}"
        share = f", keeping {self.kept}" if self.kept else ""
        return f"{made}: {held}, least margin {self.gap.min():.2f}, {sizes}{share}"

    @property
    def kept(self) -> KeptShare | None:
        """The part of a trained model that is its own; None where no string was seen."""
        return None if self.right is None else KeptShare(self.own, self.elements, "codes", round(self.right, 4))

    def to_json(self) -> dict[str, Any]:
        return {
            "made": self.made,
            **({"kept": self.kept.to_json()} if self.kept else {}),
            **({"asked": self.asked} if self.asked else {}),
            "claim": self.claim.to_json(),
            "elements": self.elements,
            "conditions": len(self.gap),
            "wrong": self.wrong,
            "margin": float(self.gap.min()),
            "seconds": round(self.seconds, 1),
        }

    def save(self, folder: Path | str) -> Path:
        """A folder that transformers, and this library, loads as any checkpoint; it must be new or empty."""
        return save(self.model, folder, self.to_json())


def new_folder(folder: Path | str) -> Path:
    """The folder, if a model can be saved there without loss of what another left."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Error(f"{folder}: there is something already. Name a new folder.")
    return folder


def save(model: LengthwiseForCausalLM, folder: Path | str, made: dict[str, Any]) -> Path:
    """A model, and beside it how it was made."""
    folder = new_folder(folder)
    try:
        _write(model, folder, made)
    except (RecordError, SafetensorError) as error:
        if not _full(error):
            raise
        refuge = Path(tempfile.mkdtemp(prefix="lengthwise-")) / folder.name
        _write(model, refuge, made)
        raise Error(f"{folder}: its disk is full. The model is kept at {refuge}: move it.") from error
    return folder


def _write(model: LengthwiseForCausalLM, folder: Path, made: dict[str, Any]) -> None:
    with whole_folder(folder) as beside:
        with quiet():
            model.save_pretrained(beside)
        (beside / FILE).write_bytes(canonical({**made, "weights": digest_of(beside / WEIGHTS)}))


def _full(error: Exception) -> bool:
    number = getattr(error.__cause__, "errno", None)
    return number in (errno.ENOSPC, errno.EDQUOT) or f"os error {errno.ENOSPC}" in str(error)


def compiled_before(folder: Path | str, task: Task, *, width: int | None, seed: int) -> bool:
    """True if the folder holds, unchanged, what `compile_machine` makes of this task with these options."""
    asked = {"width": width, "chunk": 2, "seed": seed}
    return _holds(Path(folder), {"asked": asked, "claim": minimal(claim_of(task)).to_json()})


def saved_before(folder: Path | str, made: dict[str, Any]) -> TokenClassifier | None:
    """The model in the folder, if it is unchanged and says that it was made like this."""
    if not _holds(Path(folder), made):
        return None
    return pretrained.as_classifier(pretrained.find(str(folder)).model(), str(folder)).eval()


def _holds(folder: Path, made: dict[str, Any]) -> bool:
    """True if the folder holds a whole model that was made like this."""
    if not (folder / FILE).is_file() or not (folder / WEIGHTS).is_file():
        return False
    there = read_json(folder / FILE)
    made = {**made, "weights": digest_of(folder / WEIGHTS)}
    return isinstance(there, dict) and all(canonical(there.get(key)) == canonical(made[key]) for key in made)


def made_of(folder: Path | str) -> str | None:
    """Returns what the folder of a model, or one of the zoo, says of how it was made; None where it says nothing."""
    file = next((file for name in (FILE, NETWORK) if (file := Path(folder) / name).is_file()), None)
    if file is None:
        return None
    content = read_json(file)
    made = content.get("made") if isinstance(content, dict) else None
    if made not in WAYS_MADE:
        raise Error(f"{file}: `made` must be {' or '.join(WAYS_MADE)}, got {made!r:.60}. Mend the file, or remove it.")
    return made


def kept_of(folder: Path | str) -> KeptShare | None:
    """Returns what the folder of a model says it kept of its own; None where it says nothing, as those of old."""
    if not (Path(folder) / FILE).is_file() or "kept" not in (content := read_json(Path(folder) / FILE)):
        return None
    try:
        check_kept(content["kept"], made_of(folder) or "")
    except Rejected as reason:
        raise Error(f"{Path(folder) / FILE}: {reason} Mend the file, or remove it.") from None
    return KeptShare(**content["kept"])


def compile_machine(
    source: Task | Semiautomaton | Claim,
    *,
    width: int | None = None,
    chunk: int = 2,
    seed: int = 0,
    seconds: float = 3600.0,
    hear: Hear | None = None,
) -> Made:
    """A RegularGPT that is the machine, from random weights, without a string.

    `width`: None: by the number of conditions. `hear` is told how many conditions still fail.

    >>> from lengthwise import tasks
    >>> made = compile_machine(tasks.get("parity"))
    >>> made.closed, made.model(torch.tensor([[1, 0, 1] * 1000])).logits[0, -1].argmax().item()
    (True, 0)
    """
    began = time.perf_counter()
    ends = began + seconds
    claim = minimal(source if isinstance(source, Claim) else claim_of(source), lambda: in_time(ends))
    algebra = MachineAlgebra(claim, chunk, ends)
    codes = torch.from_numpy(structured_codes(algebra))
    closure = Closure(algebra, codes, algebra.conditions(), hear=hear)
    config = presets.regular_gpt(
        claim.machine.num_symbols,
        claim.outputs,
        width=width or width_for(closure),
        chunk=chunk,
        activation="relu",
        nodes="discrete",
        groups=codes.shape[1],
        codes=max(2, int(codes.max()) + 1),
    )
    with untouched_random(torch.device("cpu")):
        torch.manual_seed(derive("compile", seed))
        model = LengthwiseForCausalLM(config)
    left = seconds - (time.perf_counter() - began)
    gap = close(model, closure, rounds=ROUNDS, lr=1e-3, seed=seed, seconds=left)
    asked = {"width": width, "chunk": chunk, "seed": seed}
    return Made(model, "compiled", claim, len(algebra), gap, time.perf_counter() - began, asked=asked)


def consolidate_run(
    model_or_run: nn.Module | Run,
    source: Task | Semiautomaton | Claim | None = None,
    *,
    seed: int = 0,
    seconds: float = 3600.0,
    hear: Hear | None = None,
) -> Made:
    """A trained RegularGPT of discrete nodes, taught the algebra of its machine by its own codes.

    `source`: None: the task of the run. The model that is given stays as it is. One that has not learned its machine
    is refused (gate.py).
    """
    subject = subject_of("consolidate_run", model_or_run, source)
    inner = getattr(subject.model, "inner", subject.model)
    if why := refusal(inner):
        raise Error(f"consolidate_run: this model has no codes: {why}.")
    assert isinstance(inner, LengthwiseForCausalLM)
    right = checked_to_have_learned(subject.model, subject.claim, subject.lengths)
    return replace(teach_codes(inner, subject.claim, seed=seed, seconds=seconds, hear=hear), right=right)


def teach_codes(
    inner: LengthwiseForCausalLM,
    claim: Claim,
    *,
    seed: int = 0,
    seconds: float = 3600.0,
    hear: Hear | None = None,
) -> Made:
    """A copy of such a model: "compiled", where its own codes say too little and it took structured ones."""
    began = time.perf_counter()
    assert isinstance(inner.config, LengthwiseConfig)
    assert isinstance(inner.depth, Adaptive)
    ends = began + seconds
    claim = minimal(without_start(minimal(claim, lambda: in_time(ends))))
    with untouched_random(torch.device("cpu")):
        model = LengthwiseForCausalLM(copy.deepcopy(inner.config)).eval()
    model.load_state_dict(inner.state_dict())
    algebra = MachineAlgebra(claim, inner.depth.chunk, ends)
    conditions = algebra.conditions()
    codes, own = canonical_codes(model, algebra, conditions, seed)
    closure = Closure(algebra, codes, conditions, hear=hear)
    nodes: Any = inner.depth.layers[0].nodes
    if (closure.look(ClosureNetwork(model, codes)) > 0).mean() < OWN_CODES:
        structured = fitted(structured_codes(algebra), nodes.groups, nodes.codes)
        if structured is not None:
            closure = Closure(algebra, torch.from_numpy(structured), conditions, hear=hear)
            own = torch.zeros_like(own)
    count, rate = int(own.sum()), 5e-4
    how = "consolidated" if count else "compiled"
    while True:
        left = seconds - (time.perf_counter() - began)
        gap = close(model, closure, rounds=ROUNDS, lr=rate, seed=seed, seconds=left)
        made = Made(model, how, claim, len(algebra), gap, time.perf_counter() - began, count)
        if not made.closed or made.seconds > seconds or provable(made, seconds - made.seconds):
            return made
        closure.wide, rate = max(closure.wide, gap.min()) + 1, 2e-4
        if hear:
            hear(f"rounding leaves no proof at margin {gap.min():.2f}: on to {closure.wide:.2f}")


def provable(made: Made, seconds: float) -> bool:
    """True if every choice is decided beyond rounding, to the prover and to the checker."""
    proof = prove_codes(made.model, made.claim, seconds)
    if not isinstance(proof, dict):
        return False
    try:
        certificates.accepted(made.model, made.claim, proof, made.made)
    except Rejected:
        return False
    return True


def fitted(codes: np.ndarray, groups: int, choices: int) -> np.ndarray | None:
    """These codes (N,g) as words of so many groups of so many choices; None where they have more. Groups that are left
    over repeat the others.
    """
    if codes.shape[1] > groups or codes.max() >= choices:
        return None
    return codes[:, np.arange(groups) % codes.shape[1]]


def width_for(closure: Closure) -> int:
    """32, 64 or 128: wider where there is more to learn."""
    return next(width for width, most in ((32, 1000), (64, 16_000), (128, np.inf)) if len(closure.taps) <= most)
