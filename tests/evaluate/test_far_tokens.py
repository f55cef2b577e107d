"""Facts in long prompts: what the prompts hold, readers that know all answers or none, and two ways to read a model."""

import re
from random import Random
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lengthwise import Error, evaluate
from lengthwise.errors import LengthError
from lengthwise.evaluate import Needle, Variables
from lengthwise.evaluate.far_tokens import haystack
from lengthwise.evaluate.far_tokens.answers import log_likelihoods, ranked
from lengthwise.models import LengthwiseForCausalLM, presets

TEXT = (
    "Once upon a time a king had three daughters. They were fair! Who was the fairest?\nNobody could say, for all {}. "
)
DOCUMENTS = ["".join(TEXT.format(f"{a} years of it ({b})") for a in ("one", "two", "three", "four")) for b in "abcde"]


def byte_level(size, **special):
    """Bytes, and as many merges as there is room for."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["[END]", "[BEGIN]"], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator([*DOCUMENTS, *map(str, range(1000))], trainer)
    if "bos_token" in special:
        bpe.post_processor = processors.TemplateProcessing(
            single="[BEGIN] $A", pair="[BEGIN] $A $B", special_tokens=[("[BEGIN]", 1)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="[END]", **special)


@pytest.fixture(scope="module")
def letters():
    """A token is a byte, so that the readers below need no tokenizer."""
    return byte_level(258)


@pytest.fixture(scope="module")
def words():
    return byte_level(400, bos_token="[BEGIN]")


KINDS = {
    "one": Needle(),
    "keys": Needle(keys=3, queries=2),
    "values": Needle(values=3),
    "repeated": Needle(haystack="repeated"),
    "needles": Needle(keys=2, values=2, haystack="needles"),
    "variables": Variables(chains=2, hops=2),
    "one chain": Variables(chains=1, hops=0),
}
every = pytest.mark.parametrize("kind", KINDS)


def known(text):
    """What a prompt says of what its last line asks: the answers, read from the text alone."""
    before, _, line = text.rpartition("\n")
    if asked := re.fullmatch(r"The secret number of (\S+) is|All the secret numbers of (\S+) are", line):
        return re.findall(rf"^The secret number of {asked[1] or asked[2]} is (\d+)\.$", before, re.M)
    value = re.fullmatch(r"The names set to (\d+) are", line)[1]
    found = [value]
    for name in found:
        found += re.findall(rf"^Set (\w+) to {name}\.$", before, re.M)
    return found[1:]


class Reader(nn.Module):
    """Holds likely what it knows of its prompt, token by token, and all else unlikely; `says` is what it knows."""

    def __init__(self, tokenizer, says=known):
        super().__init__()
        self.tokenizer, self.says, self.weight = tokenizer, says, nn.Parameter(torch.zeros(()))

    def likely(self, text):
        """The characters that may follow. The prompt ends where a line asks, the answer begins with a space."""
        head, tail = re.fullmatch(r"(?s)(.*\n(?:The (?:secret )?n|All the)[^\n]* (?:is|are))([^\n]*)", text).groups()
        return {
            (" " + word)[len(tail)] for word in self.says(head) if (" " + word).startswith(tail) and tail != " " + word
        }

    def forward(self, input_ids, use_cache=False, logits_to_keep=0):
        logits = torch.full((*input_ids.shape, len(self.tokenizer)), -20.0)
        for b, row in enumerate(input_ids.tolist()):
            for t in range(len(row) - logits_to_keep, len(row)):
                for letter in self.likely(self.tokenizer.decode(row[: t + 1])):
                    logits[b, t, self.tokenizer.encode(letter)[0]] = 0.0
        return SimpleNamespace(logits=logits[:, -logits_to_keep:])

    def generate(self, input_ids, max_new_tokens, **_):
        prompts = self.tokenizer.batch_decode(input_ids)
        texts = [(" " + ", ".join(self.says(prompt)).lower()).ljust(max_new_tokens) for prompt in prompts]
        return torch.cat([input_ids, torch.tensor([self.tokenizer.encode(t[:max_new_tokens]) for t in texts])], 1)


class Constant(Reader):
    def likely(self, text):
        return set()

    def generate(self, input_ids, max_new_tokens, **_):
        return torch.cat([input_ids, input_ids[:, :max_new_tokens]], 1)


def score(model, tokenizer, question, **options):
    options = {"lengths": [600, 900], "depths": [0, 0.6, 1], "samples": 2, "choices": 4} | options
    return evaluate.score_far_tokens(model, tokenizer, DOCUMENTS, question, **options)


@every
def test_a_reader_that_knows_scores_one_and_one_that_knows_nothing_the_baseline(kind, letters):
    question = KINDS[kind]
    right, none = score(Reader(letters), letters, question), score(Constant(letters), letters, question)
    assert right.depths == ((0, 0.6, 1) if kind not in ("variables", "one chain") else ())
    assert right.scores == ((1.0,) * max(1, len(right.depths)),) * 2
    assert right.by_length == {600: 1.0, 900: 1.0}
    assert none.baseline == 0.25
    assert all(share == pytest.approx(0.25, abs=1e-12) for row in none.scores for share in row)


@every
def test_what_it_writes_is_scored_by_the_answers_it_contains(kind, letters):
    question, options = KINDS[kind], {"scoring": "generation", "budget": 40, "lengths": [640]}
    assert score(Reader(letters), letters, question, **options).by_length == {640: 1.0}
    half = Reader(letters, says=lambda text: known(text)[: len(known(text)) // 2])
    expected = question.right // 2 / question.right
    assert score(half, letters, question, **options).by_length[640] == pytest.approx(expected)
    assert score(Constant(letters), letters, question, **options).by_length == {640: 0.0}


def test_a_reader_of_the_wrong_fact_is_not_right(letters):
    """The nearest number, the first name: wrong answers of the prompt itself are among those that are ranked."""
    nearest = Reader(letters, says=lambda text: re.findall(r"is (\d+)\.", text)[-1:])
    found = score(nearest, letters, Needle(keys=4), depths=[0], samples=6, lengths=[700])
    assert found.by_length[700] < 0.5
    others = Reader(letters, says=lambda text: sorted(set(re.findall(r"Set (\w+)", text)) - set(known(text))))
    assert score(others, letters, Variables(), lengths=[900]).by_length == {900: 0.0}
    # Names that are set to the value itself, and not those that have it by another name.
    direct = Reader(letters, says=lambda text: known(text)[:1])
    found = score(direct, letters, Variables(hops=3, chains=2), lengths=[900]).by_length[900]
    assert 0.25 <= found < 0.5


@every
@pytest.mark.parametrize("tokenizer", ["letters", "words"])
def test_a_prompt_has_its_tokens_and_says_its_fact_once(kind, tokenizer, request):
    tokenizer, question = request.getfixturevalue(tokenizer), KINDS[kind]
    source = question.source(haystack.Encoder(tokenizer), DOCUMENTS, 2000, writes=False)
    for seed, tokens in enumerate([500, 501, 700, 997]):
        drawn = source.draw(tokens, 0.5, 4 * question.right, Random(seed))
        assert len(drawn) == getattr(question, "queries", 1)
        for each in drawn:
            assert len(each.prompt) == tokens
            assert (each.prompt[0] == tokenizer.bos_token_id) is (tokenizer.bos_token is not None)
            text = tokenizer.decode(each.prompt, skip_special_tokens=True)
            assert sorted(known(text)) == sorted(each.answers)
            assert len({len(word) for word in each.right + each.wrong}) == 1
            assert [tokenizer.decode(word).strip() for word in each.right] == each.answers
            wrong = [tokenizer.decode(word).strip() for word in each.wrong]
            assert len({*wrong, *each.answers}) == 4 * question.right
            for answer in each.answers if isinstance(question, Needle) else ():
                assert text.count(answer) == 1


class Listening(Constant):
    """Knows nothing, and notes how many tokens it is given."""

    def forward(self, input_ids, **more):
        self.widths.add(input_ids.shape[1])
        return super().forward(input_ids, **more)

    def generate(self, input_ids, max_new_tokens, **more):
        self.widths.add(input_ids.shape[1] + max_new_tokens)
        return super().generate(input_ids, max_new_tokens)


@pytest.mark.parametrize("kind", ["one", "variables"])
def test_a_length_counts_the_prompt_and_its_answer(kind, letters):
    model = Listening(letters)
    model.widths = set()
    score(model, letters, KINDS[kind], lengths=[500], depths=[0.5], samples=1)
    assert max(model.widths) == 499  # the last token of an answer is only predicted
    model.widths = set()
    score(model, letters, KINDS[kind], lengths=[500], depths=[0.5], samples=1, scoring="generation", budget=30)
    assert model.widths == {500}


def test_wrong_answers_of_the_prompt_come_first(letters):
    source = Needle(keys=3).source(haystack.Encoder(letters), DOCUMENTS, 2000, writes=False)
    (question,) = source.draw(700, 0.5, 6, Random(1))
    text = letters.decode(question.prompt)
    assert [letters.decode(word).strip() in text for word in question.wrong] == [True, True, False, False, False]


def test_a_needle_lies_between_sentences_nearest_to_its_depth(letters):
    source = Needle().source(haystack.Encoder(letters), DOCUMENTS, 4000, writes=False)
    for depth in (0.0, 0.3, 0.5, 0.9, 1.0):
        (question,) = source.draw(1500, depth, 4, Random(3))
        text = letters.decode(question.prompt)
        needle = re.search(r"\nThe secret number of \S+ is \d+\.\n", text)
        hay = text[: needle.start()] + text[needle.end() : text.rindex("\nThe secret")]
        ends = [0, *(m.end() for m in re.finditer(r"[.!?\n)]", hay)), len(hay)]
        nearest = min(abs(end - depth * len(hay)) for end in ends)
        assert abs(needle.start() - depth * len(hay)) <= nearest + 3  # a sentence's last token holds a bracket too
        assert needle.start() == 0 or hay[needle.start() - 1] in ".!?\n" or needle.start() == len(hay)


def test_pieces_are_the_text_again():
    ours = byte_level(300)
    encode = haystack.Encoder(ours)
    pieces = haystack.pieces_of(DOCUMENTS, encode, 10**6)
    assert ours.decode([token for piece in pieces for token in piece]) == "".join(
        document.rstrip() + "\n" for document in DOCUMENTS
    )
    assert all(ours.decode(piece)[-1] in ".!?\n)" for piece in pieces)
    some = haystack.pieces_of(DOCUMENTS, encode, 100)
    assert some == pieces[: len(some)]
    assert sum(map(len, some)) >= 100
    tokens = torch.tensor([token for piece in pieces for token in piece])
    assert haystack.pieces_of(tokens, encode, 10**6) == pieces
    assert sum(map(len, haystack.pieces_of(tokens, encode, 100))) == 100


def test_questions_are_a_function_of_their_seed(words):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(presets.transformer(len(words), width=8, heads=2, layers=1))
    options = {"lengths": [150], "depths": [0.5], "samples": 4}
    first = score(model, words, Needle(), **options)
    assert score(model, words, Needle(), **options) == first
    assert score(model, words, Needle(), **options, tokens_at_once=1) == first
    both = score(model, words, Needle(), **{**options, "lengths": [120, 150], "depths": [0.2, 0.5]})
    assert both.scores[1][1] == first.scores[0][0]
    assert {score(model, words, Needle(), **options, seed=seed).scores for seed in range(8)} != {first.scores}


@pytest.mark.parametrize("name", ["llama", "transformer", "bipe", "regular_gpt", "lstm"])
def test_reading_a_prompt_once_is_reading_it_for_every_answer(name):
    torch.manual_seed(1)
    if name == "llama":
        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=50, **sizes))
    else:
        options = {"ends": [3]} if name == "bipe" else {}
        options |= {} if name in ("regular_gpt", "lstm") else {"heads": 2}
        model = LengthwiseForCausalLM(getattr(presets, name)(50, width=16, **options))
    model = model.eval().double()
    for P, L in ((1, 1), (7, 1), (7, 2), (30, 5)):
        prompts, answers = torch.randint(50, (3, P)), torch.randint(50, (3, 4, L))
        found = log_likelihoods(model, prompts, answers)
        whole = log_likelihoods(model, prompts, answers, cached=False)
        torch.testing.assert_close(found, whole, atol=1e-10, rtol=0)
        for b in range(3):
            for c in range(4):
                row = torch.cat([prompts[b], answers[b, c]])[None]
                p = model(input_ids=row[:, :-1]).logits.log_softmax(-1)
                expected = sum(p[0, P - 1 + i, row[0, P + i]] for i in range(L))
                torch.testing.assert_close(found[b, c], expected, atol=1e-10, rtol=0)


def test_likelihoods_that_are_not_finite_are_wrong():
    assert ranked([float("nan"), -1.0], 1) == 0
    assert ranked([0.0, float("nan")], 1) == 0
    assert ranked([-1.0, -1.0, -2.0, -3.0], 1) == 0.5
    assert ranked([-1.0, -2.0, -2.0, -2.0], 2) == pytest.approx((1 + 1 / 3) / 2)


def test_what_cannot_be_asked_is_refused(letters):
    model = Constant(letters)
    with pytest.raises(LengthError, match=r"must hold its facts and its question, here \d+ tokens, and has 32"):
        score(model, letters, Needle(), lengths=[40])
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 1}
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=len(letters), n_positions=64, **sizes))
    with pytest.raises(LengthError, match="places for 64 tokens, got length 300"):
        score(gpt2, letters, Needle(), lengths=[300])
    with pytest.raises(Error, match=r"got 3 of 2\. Use keys=3"):
        Needle(keys=2, queries=3)
    with pytest.raises(Error, match="needle: haystack must be 'text', 'repeated' or 'needles', got 'essay'"):
        Needle(haystack="essay")
    with pytest.raises(Error, match=r"depths must be .* in 0\.\.1, got \[2"):
        score(model, letters, Needle(), depths=[2])
    with pytest.raises(Error, match="choices must be a whole number in 2"):
        score(model, letters, Needle(), choices=1)
    with pytest.raises(Error, match="must be text, and there is none"):
        evaluate.score_far_tokens(model, letters, [], lengths=[300])


def test_text_that_says_what_is_hidden_is_refused(letters):
    """Every name of three letters stands in the text, so no chain can be hidden in it."""
    chains = Variables(chains=1, hops=0)
    source = chains.source(haystack.Encoder(letters), ["Set 12345 to nothing. " * 50], 2000, writes=False)
    source.numbers.draw = lambda random: "12345"
    assert source.draw(400, None, 4, Random(0)) == []


def test_a_tokenizer_that_cannot_write_numbers_is_refused():
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, ".": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    with pytest.raises(Error, match="the tokenizer cannot write them"):
        score(Constant(tokenizer), tokenizer, Needle(), lengths=[100])
