"""Models are listened to where they are."""

import pytest
import torch

from lengthwise import insight, models, tasks


class Arrived(Exception):
    pass


def arrived(module, args):
    raise Arrived(args[0].device.type)


@pytest.mark.parametrize(
    "look",
    [
        insight.find_clusters,
        insight.measure_receptive_field,
        lambda classifier, tokens: insight.find_links(classifier, tasks.get("parity"), tokens),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_tokens_are_brought_to_the_model(look, device):
    classifier = models.build("transformer", vocab_size=2, num_outputs=2, width=8, heads=2, layers=1).to(device)
    classifier.register_forward_pre_hook(arrived)
    with pytest.raises(Arrived, match=device):
        look(classifier, torch.zeros(1, 5, dtype=torch.long))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["transformer", "chacal", "regular-gpt"])
def test_what_is_seen_on_a_gpu_is_what_is_seen_here(name):
    torch.manual_seed(0)
    classifier = models.build(name, vocab_size=2, num_outputs=2, width=8, heads=2)
    task = tasks.get("parity")
    tokens = insight.probe_strings(task, 20, 2)

    def seen():
        clusters = insight.find_clusters(classifier, tokens, task=task)
        field = insight.measure_receptive_field(classifier, tokens)
        links = insight.find_links(classifier, task, tokens).layers if name != "regular-gpt" else ()
        return clusters.sizes, field.cumulative, [layer.weights for layer in links]

    here = seen()
    classifier.to("cuda")
    torch.testing.assert_close(seen(), here, atol=1e-4, rtol=1e-4)
