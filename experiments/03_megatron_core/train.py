"""GPT-3 with megatron-core as it comes from PyPI: tensor, pipeline and data parallel, distributed
optimizer, gradient clipping, gloo groups (made by default). Defaults are the 175 B model."""
import argparse
import os
import time
from functools import partial

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from megatron.core.utils import get_model_config


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tp", type=int, default=8)
    parser.add_argument("--pp", type=int, default=16)
    parser.add_argument("--layers", type=int, default=96)
    parser.add_argument("--hidden", type=int, default=12288)
    parser.add_argument("--heads", type=int, default=96)
    parser.add_argument("--vocab", type=int, default=51200)
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--global-batch", type=int, default=1536)
    parser.add_argument("--steps", type=int, default=8)
    return parser.parse_args()


def build(args):
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=args.tp,
        pipeline_model_parallel_size=args.pp,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    config = TransformerConfig(
        num_layers=args.layers,
        hidden_size=args.hidden,
        num_attention_heads=args.heads,
        tensor_model_parallel_size=args.tp,
        pipeline_model_parallel_size=args.pp,
        sequence_parallel=False,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        use_cpu_initialization=False,
    )
    model = GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_layer_local_spec(),
        vocab_size=args.vocab,
        max_sequence_length=args.seq_len,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
    ).cuda().bfloat16()
    ddp = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=True
    )
    model = DistributedDataParallel(config, ddp, model)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16,
            use_distributed_optimizer=True, clip_grad=1.0,
        ),
        [model],
    )
    return model, optimizer


def forward_step(args, _, model):
    tokens = torch.randint(args.vocab, (1, args.seq_len), device="cuda")
    positions = torch.arange(args.seq_len, device="cuda").unsqueeze(0)
    mask = torch.ones(1, 1, args.seq_len, args.seq_len, dtype=torch.bool, device="cuda").triu(1)
    output = model(tokens, positions, mask, labels=tokens)
    return output, lambda losses: (losses.mean(), {"loss": losses.mean().detach()})


def main():
    args = arguments()
    start = time.perf_counter()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model, optimizer = build(args)
    get_model_config(model).finalize_model_grads_func = finalize_model_grads
    get_model_config(model).grad_scale_func = optimizer.scale_loss
    microbatches = args.global_batch // parallel_state.get_data_parallel_world_size()
    rank = dist.get_rank()
    count = sum(p.numel() for p in model.parameters())
    print(f"rank {rank}: {count} parameters, {microbatches} micro-batches, "
          f"start-up {time.perf_counter() - start:.1f} s", flush=True)
    for step in range(args.steps):
        start = time.perf_counter()
        model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=partial(forward_step, args),
            data_iterator=iter(int, 1),
            model=[model],
            num_microbatches=microbatches,
            seq_length=args.seq_len,
            micro_batch_size=1,
        )
        _, norm, _ = optimizer.step()
        torch.cuda.synchronize()
        elapsed = time.perf_counter() - start
        if parallel_state.is_pipeline_last_stage() and losses:
            loss = losses[0]["loss"].item()
            print(f"step {step} loss {loss:.3f} norm {norm:.3f} {elapsed:.3f} s", flush=True)
        elif rank == 0:
            print(f"step {step} norm {norm:.3f} {elapsed:.3f} s", flush=True)


if __name__ == "__main__":
    main()
