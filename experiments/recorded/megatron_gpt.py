"""GPT of Megatron-LM's functional tests with megatron-core as it comes from PyPI: local layers, no distributed
optimizer, gradients reduced after the backward pass. Defaults are the tests' model: 12 layers of 512, 8 heads. With
--fp32 and other sizes it is what accelerate had Megatron-LM train for NeuSight's runs."""
import argparse
import os
import time
from functools import partial

import megatron.core.optimizer
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
from megatron.core.optimizer import OptimizerConfig, clip_grads, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from megatron.core.utils import get_model_config

VOCAB = 50304


def fused_adam(params, adam_w_mode, **options):
    kind = torch.optim.AdamW if adam_w_mode else torch.optim.Adam
    return kind(params, fused=True, **options)


def norm_of_list(_, __, lists, *___):
    return torch.stack(torch._foreach_norm(lists[0])).norm().reshape(1), None


# Without apex and Transformer Engine Megatron has kernels for each pass over a tensor, and waits for each one's norm.
if megatron.core.optimizer.USING_PYTORCH_OPTIMIZER:
    megatron.core.optimizer.USING_PYTORCH_OPTIMIZER = False
    megatron.core.optimizer.Adam = fused_adam
    clip_grads.l2_norm_impl = norm_of_list


def build(args):
    dtype = torch.float32 if args.fp32 else torch.bfloat16
    config = TransformerConfig(
        num_layers=args.layers,
        hidden_size=args.hidden,
        num_attention_heads=args.heads,
        tensor_model_parallel_size=args.tp,
        pipeline_model_parallel_size=args.pp,
        bf16=not args.fp32,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        hidden_dropout=0.1,
        attention_dropout=0.1,
        apply_query_key_layer_scaling=True,
        attention_softmax_in_fp32=True,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        deterministic_mode=False,
        use_cpu_initialization=False,
    )
    model = GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_layer_local_spec(),
        vocab_size=VOCAB + (-VOCAB) % (128 * args.tp),
        max_sequence_length=args.seq,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
    ).cuda().to(dtype)
    ddp = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=args.distributed,
        overlap_param_gather=args.distributed,
        use_distributed_optimizer=args.distributed,
    )
    model = DistributedDataParallel(config, ddp, model)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam", lr=1.5e-4, bf16=not args.fp32, params_dtype=dtype, clip_grad=1.0,
            use_distributed_optimizer=args.distributed, overlap_param_gather=args.distributed,
        ),
        [model],
    )
    return model, optimizer


def forward_step(args, _, model):
    tokens = torch.randint(VOCAB, (args.micro, args.seq + 1))
    text, labels = tokens[:, :-1].cuda(non_blocking=True), tokens[:, 1:].cuda(non_blocking=True)
    positions = torch.arange(args.seq, device="cuda").unsqueeze(0)
    mask = torch.ones(1, 1, args.seq, args.seq, dtype=torch.bool, device="cuda").triu(1)
    output = model(text, positions, mask, labels=labels)
    return output, lambda losses: (losses.mean(), {"loss": losses.mean().detach()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--pp", type=int, default=1)
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--fp32", action="store_true")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--micro", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32, help="global")
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=args.tp, pipeline_model_parallel_size=args.pp,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    model, optimizer = build(args)
    get_model_config(model).finalize_model_grads_func = finalize_model_grads
    get_model_config(model).grad_scale_func = optimizer.scale_loss
    for step in range(args.steps):
        start = time.perf_counter()
        model.zero_grad_buffer()
        optimizer.zero_grad()
        get_forward_backward_func()(
            forward_step_func=partial(forward_step, args),
            data_iterator=iter(int, 1),
            model=[model],
            num_microbatches=args.batch // args.micro // parallel_state.get_data_parallel_world_size(),
            seq_length=args.seq,
            micro_batch_size=args.micro,
        )
        _, norm, _ = optimizer.step()
        torch.cuda.synchronize()
        if dist.get_rank() in (0, dist.get_world_size() - 1):
            print(f"step {step} norm {norm} {time.perf_counter() - start:.3f} s", flush=True)


if __name__ == "__main__":
    main()
