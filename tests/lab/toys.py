"""Small models to bring to the lab: right ones, and ones that go wrong in each way a brought model can."""

import os

import torch
from torch import nn


class Tiny(nn.Module):
    """A one-layer LSTM."""

    def __init__(self, vocab_size, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab_size)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class Dropping(Tiny):
    """One which draws random numbers in training."""

    def forward(self, tokens):
        return self.head(nn.functional.dropout(self.lstm(self.embedding(tokens))[0], 0.2, self.training))


class Odd(nn.Module):
    """One with what trips a checkpoint: a transposed weight, two in one storage, running statistics, a frozen part."""

    def __init__(self, vocab_size, width=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.norm = nn.BatchNorm1d(width)
        self.transposed = nn.Parameter(torch.randn(vocab_size, width).T)
        both = torch.randn(2, width)
        self.first, self.second = nn.Parameter(both[0]), nn.Parameter(both[1])
        self.frozen = nn.Parameter(torch.ones(width), requires_grad=False)

    def forward(self, tokens):
        x = self.norm(self.embedding(tokens).transpose(1, 2)).transpose(1, 2)
        return (x * self.first * self.frozen + self.second).cumsum(1) @ self.transposed


class Flat(Tiny):
    """One which forgets the places."""

    def forward(self, tokens):
        return super().forward(tokens)[:, 0]


class Narrow(nn.Module):
    """One whose vocabulary is always 1."""

    def forward(self, tokens):
        return torch.zeros(*tokens.shape, 1)


class Blind(nn.Module):
    """One which always answers 0; nothing it has is trained."""

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size = vocab_size
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, tokens):
        answer = torch.zeros(*tokens.shape, self.vocab_size)
        answer[..., 0] = 1
        return answer + 0 * self.unused


class NotANumber(Tiny):
    """One whose training goes wrong at length 7."""

    def forward(self, tokens):
        return super().forward(tokens) * (float("nan") if self.training and tokens.shape[1] == 7 else 1.0)


class Raises(Tiny):
    def forward(self, tokens):
        if self.training:
            raise RuntimeError("the toy broke")
        return super().forward(tokens)


class Dies(Tiny):
    def forward(self, tokens):
        if self.training:
            os.kill(os.getpid(), 9)
        return super().forward(tokens)
