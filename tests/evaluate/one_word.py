"""A saved model that says one word to everything, for lm-eval."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lengthwise.models import LengthwiseForCausalLM, presets

WORDS = ["[END]", "is", "even", "odd", "?", "yes", "no", *"123456"]
TASK = """
task: parity
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: [" yes", " no"]
doc_to_target: right
metric_list: [{metric: acc}]
"""


def save(folder, words=WORDS, said="yes"):
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[END]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="[END]").save_pretrained(folder)
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(presets.transformer(len(words), width=8, heads=2, layers=1))
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
        model.head.bias[words.index(said)] = 1.0
    model.save_pretrained(folder)
    return folder
