"""What stands for files that are not there, or larger than this machine's memory (--stand-in).

Run once when the interpreter starts, before the program's first line: each function that reads such a
file is tried first. What stands for a file has its shapes, from the headers, indices and configuration
files that are there, else from what the program reads it into; its values are zeros, or the program's
own. Every file is counted under the code stand_in, with what was assumed of it.
"""

import contextlib
import copy
import ctypes
import functools
import json
import os
import struct
import tempfile

_shim = ctypes.CDLL(None)
_absent = []  # files of which nothing is known

_TOKENS = 1 << 30  # of a file of tokens of unknown size: more than a recorded run reads
_TOKENS_OF_A_DOCUMENT = 1 << 20
_CHARACTERS_OF_A_ROW = 2048
_CHARACTERS_OF_A_TOKEN = 4  # of English text, about
_BYTES_OF_A_SHARD = 2 << 30


def _stands(file, what):
    text = f"stand_in:{os.fspath(file)}: {what}"
    _shim.prism_shim_count(text.encode())


def _is_absent(file):
    return isinstance(file, (str, os.PathLike)) and not os.path.exists(file)


def _exceeds_memory(size):
    return size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _around(owner, name, other):
    """The function with that name becomes other(function, ...)."""
    bound = owner.__dict__[name]
    function = getattr(bound, "__func__", bound)

    @functools.wraps(function)
    def call(*positional, **named):
        return other(function, *positional, **named)

    kind = type(bound) if isinstance(bound, (classmethod, staticmethod)) else lambda each: each
    setattr(owner, name, kind(call))


class Absent(dict):
    """A part of a checkpoint of which nothing is known. Has whatever is asked of it; as a number it is
    0, as a state it leaves what it is loaded into as it is."""

    def __init__(self, name=""):
        super().__init__()
        self._name = name

    def __getitem__(self, key):
        return self.setdefault(key, Absent(f"{self._name}[{key!r}]"))

    def __contains__(self, key):
        return True

    def get(self, key, default=None):
        return self[key] if default is None else default

    def pop(self, key, *default):
        return default[0] if default else self[key]

    def keys(self):
        return ()

    def values(self):
        return ()

    def items(self):
        return ()

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 1  # it is not empty

    def __index__(self):
        return 0

    def __float__(self):
        return 0.0

    __int__ = __index__
    __hash__ = object.__hash__

    def __add__(self, other):
        return other

    __radd__ = __add__

    def __sub__(self, other):
        return -other

    def __mul__(self, other):
        return 0

    __rmul__ = __mul__

    def __rsub__(self, other):
        return other

    def __lt__(self, other):
        return 0 < other

    def __gt__(self, other):
        return 0 > other

    def __le__(self, other):
        return 0 <= other

    def __ge__(self, other):
        return 0 >= other

    def __format__(self, how):
        return format(0, how)


def _is_unknown(state):
    """A program that goes over the items of an absent state makes an empty one of them."""
    return isinstance(state, Absent) or (_absent and isinstance(state, dict) and not state)


def _absent_state(file, what="a checkpoint that is not there leaves what it is loaded into as it is"):
    _absent.append(file)
    _stands(file, what)
    return Absent(os.path.basename(os.fspath(file)))


def _change_serialization(serialization):
    def load(function, f, *rest, **named):
        if _is_absent(f):
            return _absent_state(f)
        if (isinstance(f, (str, os.PathLike)) and "mmap" not in named
                and _exceeds_memory(os.path.getsize(f))):
            with contextlib.suppress(RuntimeError):  # an old format
                loaded = function(f, *rest, mmap=True, **named)
                _stands(f, "larger than half the memory, its values are read when they are looked at")
                return loaded
        return function(f, *rest, **named)

    _around(serialization, "load", load)


def _leave_state(owner, result=lambda: None):
    def load_state_dict(function, self, state_dict, *rest, **named):
        if _is_unknown(state_dict):
            return result()
        return function(self, state_dict, *rest, **named)

    _around(owner, "load_state_dict", load_state_dict)


def _change_modules(module):
    _leave_state(module.Module, lambda: module._IncompatibleKeys([], []))


def _leave_random_state(*names):
    def change(module):
        for name in names:
            _around(module, name, lambda function, state, *rest, **named: (
                None if _is_unknown(state) else function(state, *rest, **named)))

    return change


class _AbsentTensors:
    """safe_open of an absent file: names nothing, gives what is asked for."""

    def __init__(self, file):
        self._state = _absent_state(file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def keys(self):
        return []

    def metadata(self):
        return {}

    def get_tensor(self, name):
        return self._state[name]

    get_slice = get_tensor


def _change_safetensors(safetensors):
    real = safetensors.safe_open

    def safe_open(filename, *rest, **named):
        return _AbsentTensors(filename) if _is_absent(filename) else real(filename, *rest, **named)

    safetensors.safe_open = safe_open


def _change_safetensors_torch(module):
    _around(module, "load_file", lambda function, filename, *rest, **named: (
        _absent_state(filename) if _is_absent(filename) else function(filename, *rest, **named)))


def _metadata_of(state_dict):
    """Of a torch.distributed.checkpoint that would hold just that."""
    from torch.distributed.checkpoint import default_planner, metadata
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict

    flat, mappings = flatten_state_dict(state_dict)
    described = default_planner._create_default_local_metadata(flat)
    described.planner_data = mappings
    described.storage_data = {}
    described.storage_meta = metadata.StorageMeta()
    return described


def _change_checkpoint_loader(loader):
    def load(function, state_dict, storage_reader, *rest, **named):
        path = getattr(storage_reader, "path", None)
        if path is not None and _is_absent(os.path.join(path, ".metadata")):
            _absent.append(path)
            _stands(path, "a sharded checkpoint that is not there has the shapes that are asked of it")
            storage_reader.read_metadata = lambda *_, **__: _metadata_of(state_dict)
        return function(state_dict, storage_reader, *rest, **named)

    _around(loader, "_load_state_dict", load)


def _change_checkpoint_reader(filesystem):
    def is_there(reader, item):
        data = reader.storage_data.get(item.storage_index)
        return data is not None and os.path.exists(os.path.join(reader.path, data.relative_path))

    def read_data(function, self, plan, planner):
        kept = [item for item in plan.items if is_there(self, item)]
        if len(kept) < len(plan.items) and self.path not in _absent:
            _stands(self.path, f"{len(plan.items) - len(kept)} of {len(plan.items)} parts that are not "
                    "there leave what they are read into as it is; shapes by .metadata")
        return function(self, filesystem.dataclasses.replace(plan, items=kept), planner)

    filesystem.dataclasses = __import__("dataclasses")
    _around(filesystem.FileSystemReader, "read_data", read_data)


def _zeros(name, size):
    """A file of zeros that has no name and takes no space."""
    file = tempfile.TemporaryFile(prefix="prism")
    file.truncate(size)
    _zeros_kept.append(file)
    return f"/proc/self/fd/{file.fileno()}"


_zeros_kept = []


def _change_numpy(numpy):
    def tokens(name, dtype, count):
        size = numpy.dtype(dtype).itemsize
        _stands(name, f"a file that is not there holds {count} zeros of {size} bytes")
        return _zeros(name, size * count)

    def memmap(function, cls, filename, dtype=numpy.uint8, mode="r+", offset=0, shape=None, order="C"):
        if _is_absent(filename) and mode in ("r", "r+", "c", "readonly", "copyonwrite"):
            count = _TOKENS if shape is None else int(numpy.prod(shape))
            filename = tokens(filename, dtype, count + offset)
        return function(cls, filename, dtype, mode, offset, shape, order)

    def fromfile(function, file, dtype=float, count=-1, *rest, **named):
        if _is_absent(file):
            # One that is read whole takes memory.
            file = tokens(file, dtype, count if count >= 0 else _TOKENS_OF_A_DOCUMENT)
        return function(file, dtype, count, *rest, **named)

    _around(numpy.memmap, "__new__", memmap)
    _around(numpy, "fromfile", fromfile)


def _change_indexed_dataset(module):
    """Megatron's .idx and .bin. An index that is there says the size of its .bin."""
    made = {}
    index_of, data_of = module.get_idx_path, module.get_bin_path

    def make(prefix):
        index, data = index_of(prefix), data_of(prefix)
        if os.path.exists(index):
            reader = module._IndexReader(index, False)
            tokens = int(reader.sequence_pointers[-1]) // reader.dtype_size + int(
                reader.sequence_lengths[-1])
            _stands(data, "tokens that are not there are zeros, in documents as its .idx says")
            return index, _zeros(data, tokens * reader.dtype_size)
        documents = _TOKENS // _TOKENS_OF_A_DOCUMENT
        lengths = module.numpy.full(documents, _TOKENS_OF_A_DOCUMENT, module.numpy.int32)
        path = _zeros(index, 0)
        with open(path, "wb") as file:
            file.write(module._INDEX_HEADER + struct.pack(
                "<QBQQ", 1, module.DType.code_from_dtype(module.numpy.int32), documents, documents + 1))
            starts = module.numpy.arange(documents + 1, dtype=module.numpy.int64)
            file.write(lengths.tobytes() + (starts[:-1] * 4 * _TOKENS_OF_A_DOCUMENT).tobytes() +
                       starts.tobytes())
        _stands(prefix, f"tokens that are not there are zeros, in {documents} documents of "
                f"{_TOKENS_OF_A_DOCUMENT}")
        return path, _zeros(data, 4 * _TOKENS)

    def path_of(function, which):
        def call(prefix):
            if not _is_absent(data_of(prefix)) and not _is_absent(index_of(prefix)):
                return function(prefix)
            if prefix not in made:
                made[prefix] = None  # what it asks itself
                made[prefix] = make(prefix)
            return made[prefix][which] if made[prefix] else function(prefix)

        return call

    module.get_idx_path, module.get_bin_path = path_of(index_of, 0), path_of(data_of, 1)


# The names of safetensors' types.
_TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
          "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
          "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}


def _write_shards(folder, tensors):
    """Files of zeros with the header of these tensors, which take no space."""
    shards, size = [{}], 0
    for name, (kind, shape, count) in tensors.items():
        if size and size + count > _BYTES_OF_A_SHARD:
            shards.append({})
            size = 0
        shards[-1][name] = {"dtype": kind, "shape": shape, "data_offsets": [size, size + count]}
        size += count
    weight_map = {}
    for number, shard in enumerate(shards):
        file_name = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        header = json.dumps({"__metadata__": {"format": "pt"}, **shard}).encode()
        header += b" " * (-len(header) % 8)
        with open(os.path.join(folder, file_name), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + list(shard.values())[-1]["data_offsets"][1])
        weight_map.update(dict.fromkeys(shard, file_name))
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": sum(count for *_, count in tensors.values())},
                   "weight_map": weight_map}, file)


def _weights_by(cls, config, torch):
    """Name, type and shape of each tensor of such a model."""
    with torch.device("meta"):
        model = cls(copy.deepcopy(config))
    stated = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    stated = getattr(torch, stated, None) if isinstance(stated, str) else stated
    tensors = {}
    for name, tensor in model.state_dict().items():
        dtype = stated if stated is not None and tensor.is_floating_point() else tensor.dtype
        kind = str(dtype).removeprefix("torch.")
        tensors[name] = (_TYPES[kind], list(tensor.shape), tensor.numel() * dtype.itemsize)
    return tensors


def _size_of_weights(folder):
    if not isinstance(folder, (str, os.PathLike)) or not os.path.isdir(folder):
        return 0
    return sum(entry.stat().st_size for entry in os.scandir(folder)
               if entry.name.endswith((".safetensors", ".bin")))


def _change_pretrained_models(modeling):
    def stand(function, cls, name, config, rest, named):
        if not isinstance(config, modeling.PreTrainedConfig):
            config = cls.config_class.from_pretrained(name)
        tensors = _weights_by(cls, config, modeling.torch)
        count = sum(bytes_ for *_, bytes_ in tensors.values())
        with tempfile.TemporaryDirectory(prefix="prism-stand-in-") as folder:
            _write_shards(folder, tensors)
            config.save_pretrained(folder)
            with contextlib.suppress(KeyError):
                del named["subfolder"], named["revision"]
            model = function(cls, folder, *rest, config=config, **named)
        model.config._name_or_path = model.name_or_path = os.fspath(name)
        _stands(name, f"{len(tensors)} tensors of {count} bytes are zeros, by its config.json")
        return model

    def from_pretrained(function, cls, name, *rest, config=None, **named):
        if _exceeds_memory(_size_of_weights(name)):
            return stand(function, cls, name, config, rest, named)
        try:
            return function(cls, name, *rest, config=config, **named)
        except OSError:
            if name is None:
                raise
            return stand(function, cls, name, config, rest, named)

    _around(modeling.PreTrainedModel, "from_pretrained", from_pretrained)


def _stand_in_tokenizer(name, fast):
    import tokenizers
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name).get_text_config()
        size, source = config.vocab_size, "its config.json"
        length = getattr(config, "max_position_embeddings", None)
    except (OSError, ValueError, AttributeError):
        size, source, length = 32000, "assumption", None
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    words = special + [f"<{number}>" for number in range(len(special), size)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(
        {word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(r"[\s\S]{1,%d}" % _CHARACTERS_OF_A_TOKEN), "isolated")
    _stands(name, f"a tokenizer that is not there makes a token of {_CHARACTERS_OF_A_TOKEN} characters; "
            f"{size} words by {source}")
    return fast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                pad_token="<pad>", **({"model_max_length": length} if length else {}),
                chat_template="{% for each in messages %}{{ each['content'] }}{% endfor %}")


def _change_tokenizers(class_name):
    def change(module):
        def from_pretrained(function, cls, name, *rest, **named):
            try:
                return function(cls, name, *rest, **named)
            except (OSError, ValueError):
                if os.path.exists(os.path.join(name, "tokenizer_config.json")):
                    raise
                from transformers import PreTrainedTokenizerFast
                return _stand_in_tokenizer(name, PreTrainedTokenizerFast)

        _around(getattr(module, class_name), "from_pretrained", from_pretrained)

    return change


def _value_of(feature, datasets):
    if isinstance(feature, dict):
        return {name: _value_of(each, datasets) for name, each in feature.items()}
    if isinstance(feature, datasets.features.List if hasattr(datasets.features, "List")
                  else datasets.Sequence):
        return [_value_of(feature.feature, datasets)]
    if getattr(feature, "dtype", "") in ("string", "large_string"):
        return "word " * (_CHARACTERS_OF_A_ROW // 5)
    return "1" if getattr(feature, "dtype", "") == "binary" else 0


def _change_datasets(load):
    import sys

    def stand(path, split, streaming, features):
        datasets = sys.modules["datasets"]
        known = {}
        with contextlib.suppress(OSError, ValueError):
            found = datasets.info.DatasetInfosDict.from_directory(path)
            known = {} if not found else next(iter(found.values()))
        features = features or getattr(known, "features", None)
        splits = {name: each.num_examples for name, each in (getattr(known, "splits", None) or
                                                             {}).items()}
        source = "features by its description" if features else "one column 'text'"
        features = features or datasets.Features({"text": datasets.Value("string")})
        most = max(4096, 32 * int(os.environ.get("WORLD_SIZE", "1")))
        _stands(path, f"a dataset that is not there has {source} and at most {most} rows, texts of "
                f"{_CHARACTERS_OF_A_ROW} characters")

        def make(name):
            rows = min(splits.get(name) or most, most)
            columns = {each: [_value_of(feature, datasets)] * rows
                       for each, feature in features.items()}
            dataset = datasets.Dataset.from_dict(columns, features=features)
            return dataset.to_iterable_dataset() if streaming else dataset

        if split is not None:
            return make(str(split).split("[")[0])
        of_all = datasets.IterableDatasetDict if streaming else datasets.DatasetDict
        return of_all({name: make(name) for name in splits or ("train", "validation", "test")})

    def load_dataset(function, path, *rest, **named):
        try:
            return function(path, *rest, **named)
        except (FileNotFoundError, ConnectionError):
            return stand(path, named.get("split"), named.get("streaming", False),
                         named.get("features"))

    _around(load, "load_dataset", load_dataset)
    _around(load, "load_from_disk", lambda function, path, *rest, **named: (
        function(path, *rest, **named) if os.path.exists(path) else stand(path, None, False, None)))


for _name, _change in {
    "torch.serialization": _change_serialization,
    "torch.nn.modules.module": _change_modules,
    "torch.optim.optimizer": lambda module: _leave_state(module.Optimizer),
    "torch.optim.lr_scheduler": lambda module: _leave_state(module.LRScheduler),
    "torch.amp.grad_scaler": lambda module: _leave_state(module.GradScaler),
    "torch.random": _leave_random_state("set_rng_state"),
    "torch.cuda.random": _leave_random_state("set_rng_state", "set_rng_state_all"),
    "torch.distributed.checkpoint.state_dict_loader": _change_checkpoint_loader,
    "torch.distributed.checkpoint.filesystem": _change_checkpoint_reader,
    "safetensors": _change_safetensors,
    "safetensors.torch": _change_safetensors_torch,
    "numpy": _change_numpy,
    "megatron.core.datasets.indexed_dataset": _change_indexed_dataset,
    "transformers.modeling_utils": _change_pretrained_models,
    "transformers.models.auto.tokenization_auto": _change_tokenizers("AutoTokenizer"),
    "transformers.tokenization_utils_base": _change_tokenizers("PreTrainedTokenizerBase"),
    "datasets.load": _change_datasets,
}.items():
    when_imported(_name, _change)  # noqa: F821, of shim/python_code.cc
