"""Segments: what the tokens say about their ends is what a reader of the text counts."""

import re
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lengthwise import Error
from lengthwise.positions.multilevel import Bilevel
from lengthwise.text import corpora, level_ends, segment_ends, tokenizers, tokens_of

TEXT = """He left. "She came." (Why?) It is 3 o'clock...

    A new one!  Then: nothing,
it said "so." Who? J. Smith (1.5 m).

def f(x):

    return x


def g():
    pass
"""
LETTERS = sorted({*TEXT, *"abcdefghijklmnopqrstuvwxyz", "é", "。"})
END = "<|endoftext|>"


def byte_level(words, size=600):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = words
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=[END], show_progress=False)
    made.train_from_iterator([TEXT] * 3, trainer)
    return made


def word_piece():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # so that pieces such as "##." come to be
    made.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=[END, "[UNK]"], show_progress=False)
    made.train_from_iterator([TEXT], trainer)
    return made


def words():
    made = Tokenizer(models.WordLevel({}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+|[^\w\s]|\n|[ \t]+"), "isolated")
    made.train_from_iterator([TEXT], trainers.WordLevelTrainer(special_tokens=[END, "[UNK]"], show_progress=False))
    return made


def characters():
    ids = {END: 0, "[UNK]": 1, **{letter: 2 + i for i, letter in enumerate(LETTERS)}}
    made = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    return made


def llama_like():
    """Spaces as ▁, one before the text, and bytes such as <0x0A> where a letter is unknown."""
    merges = [("▁", "n"), (".", ")"), (".", '"'), (".", "."), ("..", "."), ("▁", "."), ("r", "e"), ("!", "▁")]
    vocabulary = [END, "<unk>", *(f"<0x{i:02X}>" for i in range(256)), "▁", *sorted({*LETTERS} - {"\n", " ", "é"})]
    vocabulary += [one + other for one, other in merges]
    ids = {token: id for id, token in enumerate(vocabulary)}
    made = Tokenizer(models.BPE(ids, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    return made


OURS = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(tokenizers.WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
MADE = {
    "ours": lambda: byte_level(OURS),
    "ours-small": lambda: byte_level(OURS, 280),
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "word-piece": word_piece,
    "words": words,
    "characters": characters,
    "llama": llama_like,
}


@pytest.fixture(scope="module", params=list(MADE))
def tokenizer(request):
    return PreTrainedTokenizerFast(tokenizer_object=MADE[request.param](), eos_token=END)


def ends_sentence(token: str) -> bool:
    """A reader's eye, letter by letter from behind."""
    read = list(token)
    while read and read[-1].isspace():
        read.pop()
    while read and read[-1] in "\"'”’»)]}*_`":
        read.pop()
    return (bool(read) and read[-1] in ".!?…。！？") or token.rstrip(" \t").endswith("\n")


READERS = {
    "sentence": ends_sentence,
    "line": lambda token: token.rstrip(" \t").endswith("\n"),
    "paragraph": lambda token: token[len(token.rstrip()) :].count("\n") > 1,
    "function": lambda token: token[len(token.rstrip()) :].count("\n") > 2,
}


def spans(tokenizer, text):
    """The tokens of a text, and the piece of the text each was read from."""
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return read["input_ids"], [text[a:b] for a, b in read["offset_mapping"]]


@pytest.mark.filterwarnings("ignore:Segments by")
@pytest.mark.parametrize("by", list(READERS))
def test_ids_count_the_segments_that_a_reader_counts(tokenizer, by):
    ends = set(segment_ends(tokenizer, by))
    ids, read = spans(tokenizer, TEXT)
    assert [id in ends for id in ids] == [READERS[by](piece) for piece in read]


@pytest.mark.filterwarnings("ignore:Segments by")
@given(text=st.text(st.sampled_from("ab .!?\n\"')é"), max_size=40))
@settings(max_examples=60)
def test_of_any_text_too(tokenizer, text):
    ends = set(segment_ends(tokenizer, "sentence"))
    # An unknown word has no letters, and the space before a text is none of its own.
    nothing = set(tokenizer.convert_tokens_to_ids(["[UNK]", "<unk>", "▁"]))
    pairs = [(id, piece) for id, piece in zip(*spans(tokenizer, text), strict=True) if id not in nothing]
    assert [id in ends for id, _ in pairs] == [ends_sentence(piece) for _, piece in pairs]


def test_letters_are_counted_as_letters():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters(), eos_token=END)
    ids = tokenizer.encode(TEXT)
    for by, marks in (("sentence", ".!?\n"), ("line", "\n"), (["o", "a"], "oa")):
        assert sum(id in segment_ends(tokenizer, by) for id in ids) == sum(TEXT.count(mark) for mark in marks)
    # BiPE's own ids agree: the segment index of the last token is the number of ends before it.
    bilevel = Bilevel(
        8, 2, inside={"name": "learned", "rows": 64}, between={"name": "rope"}, ends=segment_ends(tokenizer)
    )
    assert [len(each) for each in bilevel.ends] == [len(set(".!?\n。")) + 1]


def test_the_end_of_a_text_ends_all(tokenizer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert all(tokenizer.eos_token_id in ends for ends in level_ends(tokenizer))
    assert segment_ends(tokenizer, "document") == [tokenizer.eos_token_id]


def test_two_ids_are_those_of_the_released_code():
    ours = PreTrainedTokenizerFast(tokenizer_object=byte_level(OURS), eos_token=END)
    assert [ours.decode([id]) for id in segment_ends(ours, "two-ids")] == [".", "\n"]
    missed = {ours.decode([id]) for id in set(segment_ends(ours)) - set(segment_ends(ours, "two-ids"))}
    assert {"?", "!", "\n\n"} <= missed


def test_a_text_without_ends_is_one_segment_and_a_warning_says_so():
    pieces = PreTrainedTokenizerFast(tokenizer_object=word_piece(), eos_token=END)
    with pytest.warns(
        UserWarning, match="Segments by line: this tokenizer has no token that ends one, so a whole text"
    ):
        assert segment_ends(pieces, "line") == [pieces.eos_token_id]
    gpt2 = PreTrainedTokenizerFast(tokenizer_object=MADE["gpt2"](), eos_token=END)
    with pytest.warns(UserWarning, match="writes every newline as a token of its own"):
        segment_ends(gpt2, "paragraph")
    digits = Tokenizer(models.WordLevel({"1": 0, "+": 1, "?": 2}, unk_token="?"))
    digits = PreTrainedTokenizerFast(tokenizer_object=digits, unk_token="?")
    for by in ("sentence", "two-ids"):
        with pytest.warns(UserWarning, match=f"Segments by {by}"):
            assert segment_ends(digits, by) == []
    with pytest.raises(Error, match="Documents are told apart by"):
        segment_ends(digits, "document")
    with pytest.raises(Error, match="Unknown rule of segments 'sentences'"):
        segment_ends(digits, "sentences")
    for nothing in ([], [""], ["=", ""], [3]):
        with pytest.raises(Error, match="Segments end at marks of at least one character, got"):
            segment_ends(digits, nothing)


def test_a_trained_tokenizer_tells_paragraphs(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT * 5)
    corpus = corpora.open([tmp_path / "a.txt"], held_out=0)
    tokenizer = tokenizers.load(tokenizers.train(corpus, 400, root=tmp_path))
    tokens = tokens_of(corpus, tokenizer, root=tmp_path).train.tokens.long()
    sentence, paragraph, document = (torch.isin(tokens, torch.tensor(ends)).sum() for ends in level_ends(tokenizer))
    assert document == 1
    assert paragraph == 1 + 5 * len(re.findall(r"\n\n+", TEXT))
    assert sentence > paragraph
