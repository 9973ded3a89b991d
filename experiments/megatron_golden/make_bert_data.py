#!/usr/bin/env python3
"""Writes a vocabulary of 30,522 words (as many as BERT's) and a small indexed data set of sentences.

  make_bert_data.py FOLDER

FOLDER then has documents.bin and documents.idx, made by Megatron's own builder, whose checkout must
be in PYTHONPATH, and bert-large-uncased/, which transformers takes for the tokenizer of that name
when FOLDER is the working directory. Sentences are drawn by a seed; how long they are decides nothing but
where padding begins.
"""

import json
import pathlib
import random
import sys

import numpy
import torch
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

WORDS = 30522
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DOCUMENTS = 2000  # the test set has a thousandth of them
SENTENCES = 12
TOKENS = 30  # of a sentence


def main():
    folder = pathlib.Path(sys.argv[1])
    words = SPECIAL + [f"word{i}" for i in range(WORDS - len(SPECIAL))]
    tokenizer = folder / "bert-large-uncased"
    tokenizer.mkdir()
    (tokenizer / "vocab.txt").write_text("\n".join(words) + "\n")
    (tokenizer / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tokenizer / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    draw = random.Random(1)
    builder = IndexedDatasetBuilder(str(folder / "documents.bin"),
                                    dtype=DType.optimal_dtype(WORDS))
    for _ in range(DOCUMENTS):
        for _ in range(SENTENCES):
            sentence = [draw.randrange(len(SPECIAL), WORDS) for _ in range(TOKENS)]
            builder.add_item(torch.from_numpy(numpy.array(sentence)))
        builder.end_document()
    builder.finalize(str(folder / "documents.idx"))


main()
