"""A Llama trained by DeepSpeed's ZeRO-3 engine: parameters, gradients and optimizer states are cut
over all ranks. Defaults are the shapes of Llama-2 13B."""
import argparse
import os
import time

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=5120)
    parser.add_argument("--ffn", type=int, default=13824)
    parser.add_argument("--heads", type=int, default=40)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--seq-len", type=int, default=4096)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    return parser.parse_args()


def engine_config(args):
    return {
        "train_micro_batch_size_per_gpu": args.micro_batch,
        "gradient_accumulation_steps": args.accumulate,
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 3, "overlap_comm": True, "contiguous_gradients": True},
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 3e-4, "betas": [0.9, 0.95], "torch_adam": True, "fused": True},
        },
    }


def main():
    args = arguments()
    start = time.perf_counter()
    deepspeed.init_distributed("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    config = engine_config(args)
    llama = LlamaConfig(
        hidden_size=args.hidden, intermediate_size=args.ffn, num_hidden_layers=args.layers,
        num_attention_heads=args.heads, num_key_value_heads=args.heads, vocab_size=args.vocab,
        max_position_embeddings=args.seq_len, use_cache=False,
    )
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = LlamaForCausalLM(llama)
    model.gradient_checkpointing_enable()
    engine, _, _, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    rank = torch.distributed.get_rank()
    print(f"rank {rank}: start-up {time.perf_counter() - start:.1f} s", flush=True)
    for step in range(args.steps):
        start = time.perf_counter()
        for _ in range(args.accumulate):
            tokens = torch.randint(args.vocab, (args.micro_batch, args.seq_len), device="cuda")
            loss = engine(input_ids=tokens, labels=tokens).loss
            engine.backward(loss)
            engine.step()
        torch.cuda.synchronize()
        print(f"rank {rank}: step {step} loss {loss.item():.3f} norm "
              f"{engine.get_global_grad_norm():.3f} {time.perf_counter() - start:.3f} s",
              flush=True)


if __name__ == "__main__":
    main()
