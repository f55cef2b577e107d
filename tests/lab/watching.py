"""What tests of clusters listen with, and hold against one process."""

from lengthwise.lab import Listener


class Watch(Listener):
    """Calls `then` once, when a first run has told how far it is; knows the steps that were told and what has ended."""

    def __init__(self, then=None):
        self.then, self.steps, self.ends = then, {}, []

    def advance(self, progress):
        self.steps.setdefault(progress.what, []).append(progress.step)
        then, self.then = self.then, None
        if then:
            then()

    def end(self, experiment, outcome):
        self.ends.append(experiment.hash)


def same(some, others):
    assert [o.error for o in some] == [None] * len(some)
    for a, b in zip(some, others, strict=True):
        one, other = a.run.tensors(), b.run.tensors()
        assert all((one[name] == other[name]).all() for name in other)
        assert a.run.result["checkpoints"] == b.run.result["checkpoints"]
