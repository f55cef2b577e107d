"""What tests of engines listen with, and hold against one process."""


class Watch:
    """Calls `then` once, when a first run has told how far it is; knows what it heard, in order, and the steps told."""

    def __init__(self, then=None):
        self.then, self.heard, self.steps = then, [], {}

    def begin(self, experiment):
        self.heard.append(("begin", experiment.hash))

    def advance(self, progress):
        self.steps.setdefault(progress.what, []).append(progress.step)
        then, self.then = self.then, None
        if then:
            then()

    def waiting(self, experiment):
        self.heard.append(("waiting", experiment.hash))

    def end(self, experiment, outcome):
        self.heard.append(("end", experiment.hash))

    def of(self, kind):
        """The runs of which it heard that they began, wait or ended."""
        return [hash for each, hash in self.heard if each == kind]


def same(some, others):
    assert [o.error for o in some] == [None] * len(some)
    for a, b in zip(some, others, strict=True):
        one, other = a.run.tensors(), b.run.tensors()
        assert all((one[name] == other[name]).all() for name in other)
        assert a.run.result["checkpoints"] == b.run.result["checkpoints"]
