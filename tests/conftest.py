"""One torch thread: small tensors gain nothing from more, and on a busy machine threads wait for one another."""

import torch

torch.set_num_threads(1)
