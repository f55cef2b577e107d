"""A corpus of a few kilobytes, for tests that train language models on it."""

import torch

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
