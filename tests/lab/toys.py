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


class Part(nn.Module):
    """One whose weight is a part of a larger tensor."""

    def __init__(self, vocab_size):
        super().__init__()
        self.register_buffer("whole", torch.randn(vocab_size, 2 * vocab_size))
        self.weight = nn.Parameter(self.whole[:, :vocab_size])

    def forward(self, tokens):
        return self.weight[tokens].cumsum(1)


class Projected(nn.Module):
    """One with a fixed random buffer: its own in every seed."""

    def __init__(self, vocab_size, width=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.register_buffer("projection", torch.randn(width, vocab_size))

    def forward(self, tokens):
        return self.embedding(tokens).cumsum(1) @ self.projection


class Shared(nn.Module):
    """One layer with a buffer, used twice."""

    def __init__(self, vocab_size):
        super().__init__()
        norm = nn.BatchNorm1d(vocab_size)
        self.embedding, self.norms = nn.Embedding(vocab_size, vocab_size), nn.ModuleList([norm, norm])

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        for norm in self.norms:
            x = norm(x)
        return x.transpose(1, 2)


class Unstable(Shared):
    """One whose running statistics go bad in the step that goes bad, after which its weights would follow."""

    def forward(self, tokens):
        if self.training and tokens.shape[1] == 7:
            self.norms[0](torch.full((2, self.embedding.num_embeddings), float("nan")))
        return super().forward(tokens)


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


class Drifting(nn.Module):
    """Parity by one number that training only raises: right while it is below 0.15, then 0 to everything."""

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size = vocab_size
        self.number = nn.Parameter(torch.zeros(()))

    def forward(self, tokens):
        truth = nn.functional.one_hot(tokens.cumsum(1) % 2, self.vocab_size).float()
        if self.training:
            return truth * self.number
        return truth if self.number < 0.15 else torch.tensor([1.0, 0.0]).expand_as(truth)


class Bursting(Drifting):
    """One whose logits overflow on strings of 16 tokens that begin with 1."""

    def forward(self, tokens):
        burst = (tokens[:, 0] == 1) & (tokens.shape[1] == 16)
        return super().forward(tokens).masked_fill(burst[:, None, None], torch.inf)


class Moody(nn.Module):
    """Parity, right when asked and wrong while trained; notes the random numbers it meets in training."""

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size = vocab_size
        self.unused = nn.Parameter(torch.zeros(1))
        self.draws = []

    def forward(self, tokens):
        if self.training:
            self.draws.append(torch.rand(()).item())
        answer = (tokens.cumsum(1) + self.training) % 2
        return nn.functional.one_hot(answer, self.vocab_size) + 0 * self.unused


class Steep(Tiny):
    """One whose loss is finite and whose gradient is not: a square root at 0."""

    def __init__(self, vocab_size, width=16):
        super().__init__(vocab_size, width)
        self.zero = nn.Parameter(torch.zeros(1))

    def forward(self, tokens):
        return super().forward(tokens) * (1 + self.zero.sqrt())
