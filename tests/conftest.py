"""One torch thread, here and in the processes that tests start: small tensors gain nothing from more, and on a busy
machine threads wait for one another. Results are bit for bit the same only between processes of as many threads.

LENGTHWISE_TEST_THREADS=2 asks for another number, to see that no test depends on it.
"""

import os

import torch

THREADS = os.environ.get("LENGTHWISE_TEST_THREADS", "1")
os.environ["OMP_NUM_THREADS"] = THREADS
torch.set_num_threads(int(THREADS))
