"""Models from outside, each with one habit that the insight room must cope with."""

import torch
from torch import nn


class Window(nn.Module):
    """The answer is a sum over the newest `window` tokens alone: a receptive field of exactly that many."""

    def __init__(self, vocab_size: int = 2, window: int = 7):
        super().__init__()
        self.window = window
        self.positions = nn.Embedding(1000, 4)  # called before the tokens', with other numbers
        self.embedding = nn.Embedding(vocab_size, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, tokens):
        p = self.positions(torch.arange(tokens.shape[1]))
        x = (self.embedding(tokens) + p).cumsum(1)
        before = torch.cat([torch.zeros_like(x[:, : self.window]), x], 1)[:, : x.shape[1]]
        return self.head(x - before)


class OneHot(nn.Module):
    """No embedding."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, tokens):
        return self.head(self.body(nn.functional.one_hot(tokens, 2).float()).tanh())


class Experts(nn.Module):
    """Blocks in a list, and in every block a longer list of experts, each of which gives one vector a token too."""

    def __init__(self, vocab_size: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 6)
        self.blocks = nn.ModuleList(ExpertsBlock() for _ in range(3))
        self.spare = nn.ModuleList(nn.Linear(6, 6) for _ in range(9))  # never called
        self.head = nn.Linear(6, 2)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x, _ = block(x)
        return self.head(x)


class ExpertsBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))

    def forward(self, x):
        return x + sum(expert(x) for expert in self.experts).tanh(), None


class Recurrent(nn.Module):
    """No list: the children are the blocks, of which one returns a tuple."""

    def __init__(self, vocab_size: int = 2, widths: tuple[int, int] = (6, 6)):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, widths[0])
        self.lstm = nn.LSTM(widths[0], widths[0], batch_first=True)
        self.mix = nn.Linear(widths[0], widths[1])
        self.head = nn.Linear(widths[1], 2)

    def forward(self, tokens):
        return self.head(self.mix(self.lstm(self.embedding(tokens))[0]).tanh())


class Chatty(Recurrent):
    def forward(self, tokens):
        print("I am thinking")
        return super().forward(tokens)


class Bare(nn.Module):
    """Nothing but an embedding that gives logits."""

    def __init__(self, vocab_size: int = 2):
        super().__init__()
        self.table = nn.Embedding(vocab_size, 2)

    def forward(self, tokens):
        return self.table(tokens)
