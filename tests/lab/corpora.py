"""A corpus of a few kilobytes, for tests that train language models on it, and their experiments."""

import torch

from lengthwise import lab

WORDS = ["the", "cat", "and", "dog", "saw", "a", "bird", "in", "tree", "on", "hill", "by", "lake"]


def write(folder, documents=24, sentences=12):
    """A folder of documents in which every word but the first of a sentence follows from the one before it."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = torch.Generator().manual_seed(0)
    for i in range(documents):
        starts = torch.randint(len(WORDS), (sentences, 2), generator=draw).tolist()
        text = [" ".join(WORDS[(a + k * (1 + b % 3)) % len(WORDS)] for k in range(7)) for a, b in starts]
        (folder / f"{i:03d}.txt").write_text(". ".join(text) + ".\n")
    return folder


QUICK = {
    "training.steps": 12,
    "training.batch": 8,
    "training.lr": 1e-2,
    "training.validate_every": 4,
    "training.validation_samples": 8,
    "training.checkpoint_every": 5,
    "text.held_out": 0.3,
    "model.width": 16,
}


def plan(corpus, store, *models, settings=None, train_length=16, test_lengths="16,32", **options):
    """Experiments of a dozen steps on a corpus, whose tokens are kept in `store`."""
    settings = {**QUICK, **(settings or {})}
    lengths = {"train_length": train_length, "test_lengths": test_lengths}
    how = {"vocabulary": 280, "settings": settings, "store": store}
    return lab.plan_language_models(corpus, list(models), **lengths, **how, **options)
