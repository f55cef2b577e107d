"""One torch thread, here and in the processes that tests start: small tensors gain nothing from more, and on a busy
machine threads wait for one another. Results are bit for bit the same only between processes of as many threads.

LENGTHWISE_TEST_THREADS=2 asks for another number, to see that no test depends on it. No example of a property has a
deadline, which a busy machine would miss.
"""

import os

import torch
from hypothesis import settings

THREADS = os.environ.get("LENGTHWISE_TEST_THREADS", "1")
os.environ["OMP_NUM_THREADS"] = THREADS
torch.set_num_threads(int(THREADS))

settings.register_profile("lengthwise", deadline=None)
settings.load_profile("lengthwise")
