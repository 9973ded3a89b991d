"""Hugging Face Trainer on a Llama built from a config object: no weights, no data set to fetch."""
import argparse

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(Dataset):
    def __init__(self, vocab, seq_len):
        self.vocab, self.seq_len = vocab, seq_len

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(self.vocab, (self.seq_len,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--ffn", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    config = LlamaConfig(
        hidden_size=args.hidden, intermediate_size=args.ffn, num_hidden_layers=args.layers,
        num_attention_heads=args.heads, num_key_value_heads=args.kv_heads, vocab_size=args.vocab,
        max_position_embeddings=args.seq_len, tie_word_embeddings=True, use_cache=False,
    )
    model = LlamaForCausalLM(config)
    Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="trainer-out", max_steps=args.steps, per_device_train_batch_size=1,
            bf16=True, logging_strategy="no", save_strategy="no", report_to=[],
            dataloader_num_workers=args.workers, optim="adamw_torch_fused",
        ),
        train_dataset=Tokens(args.vocab, args.seq_len),
    ).train()


if __name__ == "__main__":
    main()
