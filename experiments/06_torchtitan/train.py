"""torchtitan's trainer as it comes from PyPI. What it would download, tokenizer and texts, is made
here: one token a byte, and a row of 16 KiB for each of many data-parallel ranks."""
import json
import os
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers

ROWS = 1024
ROW_BYTES = 16384


def write_assets(folder):
    special = ["<|begin_of_text|>", "<|end_of_text|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(special + alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(special)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as config:
        json.dump({"bos_token": special[0], "eos_token": special[1]}, config)
    text = "the quick brown fox jumps over the lazy dog. "
    row = json.dumps({"text": (text * ROW_BYTES)[:ROW_BYTES]}) + "\n"
    os.mkdir(os.path.join(folder, "c4_test"))
    with open(os.path.join(folder, "c4_test", "data.jsonl"), "w") as data:
        data.writelines([row] * ROWS)


def main():
    with tempfile.TemporaryDirectory() as folder:
        write_assets(folder)
        os.environ["HF_DATASETS_CACHE"] = folder
        sys.argv += [
            f"--model.hf_assets_path={folder}",
            f"--training.dataset_path={folder}/c4_test",
            f"--job.dump_folder={folder}",
        ]
        from torchtitan.train import Trainer, main as train

        train(Trainer)


if __name__ == "__main__":
    main()
