"""What only Python can do for a program whose other ranks do not exist.

Run once in the program's process, in a namespace of its own, when it makes its first store. Bodies of
functions are replaced, not names, because other modules hold the functions already.
"""

import ctypes
import datetime
import functools
import dataclasses
import importlib.util
import inspect
import os
import sys
import threading
import time
import types
import weakref

_shim = ctypes.CDLL(None)


def _root_is_other(c10d, group, src, group_src):
    group = c10d._group_or_default_group(group)
    if c10d._rank_not_in_group(group):
        return False
    if group_src is None:
        root = 0 if src is None else src
    else:
        root = c10d.get_global_rank(group, group_src)
    return root != c10d.get_rank()


# Releases from 2.15 on have one more argument: how objects are written.
def _format_of(weights_only):
    return () if weights_only is None else (weights_only,)


def _broadcast_own(c10d, object_list, src, group, device, group_src, weights_only=None):
    """broadcast_object_list of another root, the same calls whether it is absent or not.

    Every tensor starts as it would if the objects here were the root's, so that a broadcast that has
    nothing to give leaves them as they are.
    """
    torch = c10d.torch
    group = c10d._group_or_default_group(group)
    device = device or c10d._get_object_coll_device(group)
    tensors, sizes = zip(*[c10d._object_to_tensor(each, device, group, *_format_of(weights_only))
                           for each in object_list])
    own_sizes = torch.cat(sizes).tolist()
    sizes = torch.tensor(own_sizes, device=device)
    root = {"src": src, "group_src": group_src, "group": group}
    if src is None and group_src is None:
        root["src"] = 0
    c10d.broadcast(sizes, **root)
    sizes = sizes.tolist()
    payload = torch.cat(tensors)
    if sizes != own_sizes:
        payload = torch.zeros(sum(sizes), dtype=torch.uint8, device=device)
    before = payload.cpu().clone()
    c10d.broadcast(payload, **root)
    if torch.equal(payload.cpu(), before):
        return
    offset = 0
    for i, size in enumerate(sizes):
        object_list[i] = c10d._tensor_to_object(payload[offset:offset + size], size, group,
                                                *_format_of(weights_only))
        offset += size


def _scatter_own(c10d, output_list, input_list, src, group, group_src, weights_only=None):
    """scatter_object_list of another root: the same calls; of an absent one what is there stays."""
    del input_list
    group = c10d._group_or_default_group(group)
    device = c10d._get_object_coll_device(group)
    tensor, size = c10d._object_to_tensor(output_list[0], device, group, *_format_of(weights_only))
    root = {"src": src, "group_src": group_src, "group": group}
    if src is None and group_src is None:
        root["src"] = 0
    largest = size.clone()
    c10d.broadcast(largest, **root)
    output = c10d.torch.zeros(int(largest.item()), dtype=c10d.torch.uint8, device=device)
    output[:tensor.numel()] = tensor[:output.numel()]
    before = output.cpu().clone()
    c10d.scatter(output, **root)
    c10d.scatter(size, **root)
    # No pickled object is empty: where nothing is known to have been given, NCCL's receive has zeros.
    if int(size.item()) > 0 and not c10d.torch.equal(output.cpu(), before):
        output_list[0] = c10d._tensor_to_object(output, size, group, *_format_of(weights_only))


def _has_absent(c10d, group):
    # torch.distributed.rpc makes a group of all ranks that c10d does not know.
    ranks = c10d._world.pg_group_ranks.get(group, range(group.size()))
    return any(_shim.prism_shim_rank_is_present(rank) == 0 for rank in ranks)


def _object_in(c10d, row, size, own, group, format_):
    """What a member gave. One of which nothing is known gave the bytes of this rank, `own`, whatever
    size is known of it."""
    row, size = row.cpu(), int(size)  # copied whatever it is: the calls depend on no value
    if not c10d.torch.equal(row[:own.numel()], own):
        try:
            return c10d._tensor_to_object(row, size, group, *format_)
        except Exception:  # bytes of one rank and the size of another: neither is whole
            pass
    return c10d._tensor_to_object(own, own.numel(), group, *format_)


def _all_gather_own(c10d, object_list, obj, group, weights_only=None):
    """all_gather_object: the same calls."""
    torch = c10d.torch
    group = c10d._group_or_default_group(group)
    device = c10d._get_object_coll_device(group)
    format_ = _format_of(weights_only)
    own, _ = c10d._object_to_tensor(obj, torch.device("cpu"), group, *format_)
    tensor, size = c10d._object_to_tensor(obj, device, group, *format_)
    ranks = group.size()
    sizes = list(torch.zeros(ranks, dtype=torch.long, device=device).split(1))
    c10d.all_gather(sizes, size, group=group)
    largest = int(max(sizes).item())
    tensor.resize_(largest)
    gathered = torch.empty(largest * ranks, dtype=torch.uint8, device=device)
    rows = list(gathered.split(largest))
    c10d.all_gather(rows, tensor, group=group)
    for i, row in enumerate(rows):
        object_list[i] = _object_in(c10d, row, sizes[i], own, group, format_)


def _gathers_of_absent(c10d, group, dst, group_dst):
    group = c10d._group_or_default_group(group)
    if c10d._rank_not_in_group(group):
        return False
    if dst is None and group_dst is None:
        dst = 0
    if c10d._canonicalize_group_rank(group, dst, group_dst, return_global=False) != group.rank():
        return False
    return _has_absent(c10d, group)


def _gather_own(c10d, obj, object_gather_list, dst, group, group_dst, weights_only=None):
    """gather_object at the root: the same calls; a member that gives nothing gives what the root has."""
    del dst, group_dst
    torch = c10d.torch
    group = c10d._group_or_default_group(group)
    device = c10d._get_object_coll_device(group)
    own, _ = c10d._object_to_tensor(obj, torch.device("cpu"), group, *_format_of(weights_only))
    tensor, size = c10d._object_to_tensor(obj, device, group, *_format_of(weights_only))
    ranks = group.size()
    sizes = list(torch.zeros(ranks, dtype=torch.long, device=device).split(1))
    c10d.all_gather(sizes, size, group=group)
    largest = int(max(sizes).item())
    tensor.resize_(largest)
    gathered = torch.zeros(ranks, largest, dtype=torch.uint8, device=device)
    c10d.gather(tensor, gather_list=list(gathered.unbind()), group_dst=group.rank(), group=group)
    # No pickled object begins with a zero.
    for i, first in enumerate(gathered[:, 0].tolist()):
        object_gather_list[i] = (
            obj if first == 0 else _object_in(c10d, gathered[i], sizes[i], own, group,
                                              _format_of(weights_only)))


def _replace_bodies(c10d):
    def replace(name, is_own, own):
        function = getattr(c10d, name)
        function = getattr(function, "__wrapped__", function)
        original = types.FunctionType(function.__code__, function.__globals__, function.__name__,
                                      function.__defaults__, function.__closure__)
        signature = inspect.signature(original)

        def call(*positional, **named):
            given = signature.bind(*positional, **named)
            given.apply_defaults()
            if is_own(given.arguments):
                return own(c10d, **{_SHORT.get(key, key): value
                                    for key, value in given.arguments.items()})
            return original(*positional, **named)

        setattr(c10d, "_prism_" + name, call)
        exec(f"def body(*positional, **named): return _prism_{name}(*positional, **named)", bodies)
        function.__code__ = bodies["body"].__code__
        function.__defaults__ = None

    def root_is_other(given):
        return _root_is_other(c10d, given["group"], given["src"], given["group_src"])

    def gathers_of_absent(given):
        return _gathers_of_absent(c10d, given["group"], given["dst"], given["group_dst"])

    def gathers_all_with_absent(given):
        group = c10d._group_or_default_group(given["group"])
        return not c10d._rank_not_in_group(group) and _has_absent(c10d, group)

    bodies = {}
    replace("all_gather_object", gathers_all_with_absent, _all_gather_own)
    replace("broadcast_object_list", root_is_other, _broadcast_own)
    replace("scatter_object_list", root_is_other, _scatter_own)
    replace("gather_object", gathers_of_absent, _gather_own)
    if tuple(int(part) for part in c10d.torch.__version__.split(".")[:2]) < (2, 8):
        _tell_members(c10d)
    if os.environ.get("PRISM_CHECK"):
        _tell_calls(c10d)


_SHORT = {"scatter_object_output_list": "output_list", "scatter_object_input_list": "input_list"}


def _tell_members(c10d):
    """A gloo group of these releases does not know its members."""
    expect = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t)(
        _EXPECT_MEMBERS)  # noqa: F821
    make_group = c10d._new_process_group_helper

    @functools.wraps(make_group)  # others ask for its signature
    def make_and_tell(group_size, group_rank, global_ranks_in_group, *rest, **named):
        ranks = list(global_ranks_in_group)
        expect((ctypes.c_uint64 * len(ranks))(*ranks), len(ranks))
        try:
            return make_group(group_size, group_rank, global_ranks_in_group, *rest, **named)
        finally:
            expect(None, 0)

    c10d._new_process_group_helper = make_and_tell


# Of c10d and of what stands for them here.
_OBJECT_CALLS = {"all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list",
                 "send_object_list", "recv_object_list", "_all_gather_own", "_broadcast_own",
                 "_gather_own", "_scatter_own"}


def _members_text(ranks):
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if stride > 0 and ranks == list(range(ranks[0], ranks[0] + stride * len(ranks), stride)):
        return f"{ranks[0]}/{stride}/{len(ranks)}"
    return ",".join(map(str, ranks))


def _tell_calls(c10d):
    """For prism check: the program's line in front of each call to other ranks, and the groups that
    are made. As notes, which slicer/check/call_recorder.h reads.
    """
    markers = {}
    told = [0]  # lines: how often
    frameworks = (os.path.dirname(c10d.torch.__file__) + os.sep, os.path.dirname(os.__file__) + os.sep,
                  "<")

    def tell(text):
        if text not in markers:
            name = text.encode()
            markers[text] = _shim.prism_shim_define(3, name, len(name))
        _shim.prism_shim_note(markers[text])

    def line_of(frame):
        """The innermost of the program's own, else of a package that is neither torch nor Python's."""
        found = None
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith(frameworks):
                if f"{os.sep}site-packages{os.sep}" not in file:
                    return frame
                found = found or frame
            frame = frame.f_back
        return found

    def is_of_python_thread(frame):
        while frame.f_back is not None:
            frame = frame.f_back
        return frame.f_code.co_name == "_bootstrap"

    def moves_objects(frame, end):
        while frame is not None and frame is not end:
            if frame.f_code.co_name in _OBJECT_CALLS:
                return True
            frame = frame.f_back
        return False

    def line_text(frame):
        return f"prism:line:{frame.f_lineno}:{frame.f_code.co_name}:{frame.f_code.co_filename}"

    def tell_line():
        told[0] += 1
        given_at = introduce()
        frame = line_of(sys._getframe().f_back)
        is_others = frame is None or not is_own(frame.f_code.co_filename)
        line = given_at if is_others else None
        if is_others and not line:
            main = line_of(sys._current_frames().get(threading.main_thread().ident))
            # Hooks of packages on autograd's threads work for what the main thread calls.
            if frame is None or (main is not None and is_own(main.f_code.co_filename)
                                 and not is_of_python_thread(frame)):
                frame = main
        if not line and frame is not None:
            line = line_text(frame)
            if conditions and line not in markers:
                conditions.see(frame)
        if line:
            tell(line)
            if moves_objects(sys._getframe().f_back, frame):
                tell("prism:objects:")

    def own_line(frame):
        frame = line_of(frame)
        return line_text(frame) if frame is not None and is_own(frame.f_code.co_filename) else None

    def is_own(file):
        return not file.startswith(frameworks) and f"{os.sep}site-packages{os.sep}" not in file

    conditions = None
    if os.environ.get("RANK") == "0":  # what it finds, it finds for all
        conditions = RankConditions(  # of rank_conditions.py, which stands before
            int(os.environ.get("WORLD_SIZE", "1")), is_own,
            lambda kind, rank, file, line: tell(f"prism:{kind}:{rank}:{line}:{file}"))

    make_group = c10d._new_process_group_helper
    signature = inspect.signature(make_group)

    @functools.wraps(make_group)
    def make_and_tell(*positional, **named):
        given = signature.bind(*positional, **named).arguments
        ranks = list(given["global_ranks_in_group"]) or list(range(given["group_size"]))
        timeout = given.get("timeout")
        milliseconds = round(timeout.total_seconds() * 1000) if timeout else 0
        tell_line()
        tell(f"prism:group:{milliseconds}:{_members_text(ranks)}:{given['group_name']}")
        return make_group(*positional, **named)

    c10d._new_process_group_helper = make_and_tell
    introduce = _tell_threads(tell, is_of_python_thread, own_line)
    _watch_buffers(c10d, tell, lambda frame: line_text(line_of(frame) or frame))
    _tell_store(c10d, tell, tell_line, frameworks, told)
    _shim.prism_shim_report_lines_by(ctypes.py_object(tell_line))


def _tell_store(c10d, tell, tell_line, frameworks, told):
    """What the program itself sets in the store or waits for; calls in a loop count once. A loop that
    asks for keys often enough and in vain, and does nothing else, waits for them.
    """
    check, get, wait = c10d.Store.check, c10d.Store.get, c10d.Store.wait
    last = []
    known = set()  # keys that were set

    stores = (c10d.torch.distributed.TCPStore, c10d.torch.distributed.FileStore)

    def is_served(store):
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        return isinstance(store, stores)

    def is_of_all(store):
        return (isinstance(store, stores)
                or (c10d.is_initialized() and store is c10d._get_default_store()))

    def milliseconds(store, rest):
        timeout = rest[0] if rest else getattr(store, "timeout", None)
        return round(timeout.total_seconds() * 1000) if hasattr(timeout, "total_seconds") else 0

    def watch(name, sets):
        function = getattr(c10d.Store, name)

        @functools.wraps(function)
        def call(self, keys, *rest):
            caller = sys._getframe(1)
            names = [keys] if isinstance(keys, str) else list(keys)
            is_shared = is_of_all(self)
            place = (names, caller.f_code, caller.f_lineno)
            is_own = not caller.f_code.co_filename.startswith(frameworks)
            is_new = not known.issuperset(names) if sets and is_shared else last != [place]
            if is_own and is_new:
                if sets:
                    known.update(names)
                else:
                    last[:] = [place]
                tell_keys("store-set" if sets else f"store:{milliseconds(self, rest)}", name, names,
                          is_shared)
            if is_own and not sets and is_served(self):
                give_up(self, names, milliseconds(self, rest))
            return function(self, keys, *rest)

        setattr(c10d.Store, name, call)

    def give_up(store, names, timeout_ms):
        """Where no recorded rank gets any further: the time-out, as the store raises it. A thread that
        waits beside the program does not end it.
        """
        if check(store, names) or get(store, "prism/patience").split()[1] == b"0":
            return
        if is_on_main_thread() and timeout_ms > 0:
            time.sleep(timeout_ms / 1000)
            raise c10d.torch.distributed.DistStoreError(
                f"wait timeout after {timeout_ms}ms, keys: /{', /'.join(names)}")
        while not is_on_main_thread() and not check(store, names):
            threading.Event().wait(0.2)

    def is_on_main_thread():
        return threading.get_ident() == threading.main_thread().ident

    def tell_keys(kind, name, names, is_shared):
        tell_line()
        side = "" if is_on_main_thread() else "side:"
        tell(f"prism:{side}{kind}:store.{name} of key{'s' * (len(names) != 1)} {', '.join(names)}")
        for key in names if is_shared else ():
            tell(f"prism:store-key:{key}")

    def watch_polls():
        polled = [None, 0, 0]  # where, how often in vain, of how often at most

        @functools.wraps(check)
        def call(self, keys):
            found = check(self, keys)
            caller = sys._getframe(1)
            if caller.f_code.co_filename.startswith(frameworks):
                return found
            place = (list(keys), caller.f_code, told[0])
            if found or not is_served(self) or not is_on_main_thread() or polled[0] != place:
                polled[:] = [None if found else place, 1, 0]
                return found
            polled[1] += 1
            if polled[1] == 3:
                polled[2] = int(get(self, "prism/patience").split()[0])
            if polled[1] < 3 or polled[1] < polled[2]:
                return found
            tell_keys("store:0", "check", place[0], is_of_all(self))
            wait(self, place[0], datetime.timedelta(days=1))
            return True

        c10d.Store.check = call

    for each in ("get", "wait"):
        watch(each, False)
    watch_polls()
    for each in ("set", "add", "multi_set"):
        if hasattr(c10d.Store, each):
            watch(each, True)


# Collectives of c10d.ProcessGroup, by what a program calls them; the last three by their names from
# torch 2.14 on.
_COLLECTIVES = {"allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "broadcast": "broadcast",
                "reduce": "reduce", "allgather": "all_gather", "_allgather_base": "all_gather",
                "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
                "alltoall": "all_to_all", "alltoall_base": "all_to_all",
                "all_gather_single": "all_gather", "reduce_scatter_single": "reduce_scatter",
                "all_to_all_single": "all_to_all"}


def _watch_buffers(c10d, tell, line_of):
    """Tells of collectives whose buffers overlap, and of tensors that change while one uses them.

    A tensor's version counts for all that shares its memory: only one that is all of its memory has
    surely been changed itself.
    """
    tensor, parameter = c10d.torch.Tensor, c10d.torch.nn.Parameter
    in_use = weakref.WeakKeyDictionary()  # by work: its call, that call's line, tensors and versions

    def tensors_in(given):
        for each in given:
            if type(each) in (tensor, parameter):
                yield each
            elif isinstance(each, (list, tuple)):
                yield from tensors_in(each)

    def overlap(group, name, output, input):
        begin = max(output.data_ptr(), input.data_ptr())
        end = min(output.data_ptr() + output.nbytes, input.data_ptr() + input.nbytes)
        if begin >= end or _COLLECTIVES[name] == "all_to_all":
            return begin < end
        part, whole = (input, output) if _COLLECTIVES[name] == "all_gather" else (output, input)
        return part.data_ptr() != whole.data_ptr() + group.rank() * part.nbytes

    def is_watched(each):
        return (each.is_cuda and not each.is_inference()
                and each.nbytes == each.untyped_storage().nbytes())

    def watch(name):
        function = getattr(c10d.ProcessGroup, name)

        @functools.wraps(function)
        def call(self, *given, **named):
            if (name.endswith(("_base", "_single"))
                    and all(type(each) is tensor and each.is_cuda for each in given[:2])
                    and overlap(self, name, *given[:2])):
                tell("prism:overlap:")
            work = function(self, *given, **named)
            watched = [(weakref.ref(each), each._version) for each in tensors_in(given)
                       if is_watched(each)]
            if work is not None and watched:
                in_use[work] = (_COLLECTIVES[name], line_of(sys._getframe(1)), watched)
            return work

        setattr(c10d.ProcessGroup, name, call)

    wait = c10d.Work.wait

    @functools.wraps(wait)
    def look_and_wait(self, *given, **named):
        name, line, watched = in_use.pop(self, ("", "", ()))
        if any(each() is not None and each()._version != version for each, version in watched):
            tell(line)
            tell(f"prism:change:{name}")
        return wait(self, *given, **named)

    c10d.Work.wait = look_and_wait
    for each in _COLLECTIVES:
        if hasattr(c10d.ProcessGroup, each):  # releases have other names for some
            watch(each)


def _add_absent_agents(rendezvous):
    """Agents of torchrun's dynamic rendezvous: the other nodes join together with this one.

    Ranks of nodes go by name, so names before and after this node's give it the place that
    GROUP_RANK says.
    """
    executor = rendezvous._DistributedRendezvousOpExecutor
    add_self = executor._add_to_participants

    def add_to_participants(self):
        nodes = self._settings.max_nodes
        own = int(os.environ.get("GROUP_RANK", "0"))
        for node in range(nodes):
            if node != own and len(self._state.participants) < nodes - 1:
                name = ("\x00" if node < own else "\uffff") + format(node, "08d")
                absent = rendezvous._NodeDesc(name, 0, 0)
                self._state.participants[absent] = 0
                self._state.last_heartbeats[absent] = rendezvous.datetime.max.replace(
                    tzinfo=rendezvous.timezone.utc) - rendezvous.timedelta(days=1)
        add_self(self)

    executor._add_to_participants = add_to_participants


def _without_shards(plan):
    """What an absent rank plans to save, by a present one's plan: its shards are others."""
    items = getattr(plan, "items", None)
    if items is None or not hasattr(plan, "usable"):
        return plan
    kept = [item for item in items if item.type.name != "SHARD"]
    return dataclasses.replace(plan, items=kept)


def _plan_without_absent(utils):
    """torch.distributed.checkpoint, whose coordinator deals out what all ranks plan.

    Each rank does that by itself where the coordinator is absent. All calls are made.
    """
    wrapper = utils._DistWrapper
    reduce_scatter = wrapper.reduce_scatter

    def absent_aware(self, step, map_fun, reduce_fun):
        ranks = utils.dist.get_process_group_ranks(self.group) if self.use_dist else []
        is_present = {rank: _shim.prism_shim_rank_is_present(rank) != 0 for rank in ranks}
        if all(is_present.values()) or (is_present[self.global_coordinator_rank]
                                        and not self.is_coordinator):
            return reduce_scatter(self, step, map_fun, reduce_fun)
        own = map_fun()
        gathered = self.gather_object(own)
        other = _without_shards(own)
        plans = [gathered[i] if gathered and is_present[rank] else other
                 for i, rank in enumerate(ranks)]
        plans[self.rank] = own
        results = reduce_fun(plans)
        self.scatter_object(results if self.is_coordinator else None)
        _shim.prism_shim_count(
            b"checkpoint_of_absent_ranks:shards of absent ranks were left out of its plan")
        return results[self.rank]

    wrapper.reduce_scatter = absent_aware


def _all_present():
    world = int(os.environ.get("WORLD_SIZE", "1"))
    return all(_shim.prism_shim_rank_is_present(rank) for rank in range(world))


def _trust_plans(planner):
    """A plan that lacks the shards of absent ranks covers no tensor."""
    validate = planner._validate_global_plan
    # From 2.13 on it returns what is wrong, before whether all is well.
    well = [] if "list" in str(validate.__annotations__.get("return")) else True

    def trusting(plans, metadata):
        return validate(plans, metadata) if _all_present() else well

    planner._validate_global_plan = trusting


def _read_what_was_written(filesystem):
    """A checkpoint that this run saved names what absent ranks would have written."""
    reader = filesystem.FileSystemReader
    read_data = reader.read_data

    def read_present(self, plan, planner):
        kept = [item for item in plan.items if item.storage_index in self.storage_data]
        if len(kept) == len(plan.items) or _all_present():
            return read_data(self, plan, planner)
        _shim.prism_shim_count(
            b"checkpoint_of_absent_ranks:what absent ranks would have written was not read")
        return read_data(self, dataclasses.replace(plan, items=kept), planner)

    reader.read_data = read_present


def _order_weights(backward):
    """torch.distributed.pipelining, whose zero-bubble schedules take weights in the order of a set of
    addresses, another one in each iteration: here in the order of the stage's parameters.
    """
    get_param_groups = backward.get_param_groups

    def ordered_param_groups(inputs, params, reverse_edges_dict):
        groups = get_param_groups(inputs, params, reverse_edges_dict)
        place = {node: i for i, node in enumerate(params)}
        reached = {node: i for i, node in enumerate(reverse_edges_dict)}
        for group in groups:
            group["params"] = sorted(group["params"], key=place.__getitem__)
            group["intermediates"] = sorted(group["intermediates"], key=reached.__getitem__)
        _shim.prism_shim_count(b"order_of_weights_fixed")
        return sorted(groups, key=lambda group: place[group["params"][0]])

    backward.get_param_groups = ordered_param_groups


def _remember_layouts(mesh_layout):
    """Whether a layout of a mesh has a rank twice, which follows from the layout alone. Each parameter
    of FSDP2 asks anew, in time that grows with the ranks of the job: half of a start at 2,048. Releases
    after 2.11 may not ask.
    """
    layout = getattr(mesh_layout, "_MeshLayout", None)
    if hasattr(layout, "check_non_overlap"):
        layout.check_non_overlap = functools.cache(layout.check_non_overlap)


def _consolidate_without_absent(zero):
    """ZeroRedundancyOptimizer, whose state all ranks send one after the other: of an absent one nothing
    is known but which parameters are its. All calls are made.
    """
    broadcast, optimizer = zero._broadcast_object, zero.ZeroRedundancyOptimizer
    consolidate = optimizer.consolidate_state_dict
    running = []

    def broadcast_any(obj, src_rank, *rest, **named):
        try:
            return broadcast(obj, src_rank, *rest, **named)
        except Exception:  # what came is no object
            if not running or _shim.prism_shim_rank_is_present(src_rank):
                raise
        _shim.prism_shim_count(
            b"checkpoint_of_absent_ranks:the optimizer's state of absent ranks is empty")
        rank = zero.dist.get_group_rank(running[0].process_group, src_rank)
        return {"state": {},
                "param_groups": [{**group, "params": list(range(len(group["params"])))}
                                 for group in running[0]._partition_parameters()[rank]]}

    @functools.wraps(consolidate)
    def absent_aware(self, *given, **named):
        running[:] = [self]
        return consolidate(self, *given, **named)

    zero._broadcast_object = broadcast_any
    optimizer.consolidate_state_dict = absent_aware


class _ChangeOnImport:
    """Changes modules that a program imports later, when their own code has run."""

    def __init__(self, changes):
        self.changes = changes

    def find_spec(self, name, path, target=None):
        change = self.changes.pop(name, None)
        spec = importlib.util.find_spec(name) if change else None
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module):
                execute(module)
                change(module)

            spec.loader.exec_module = execute_and_change
        return spec


_changes = {
    "torch.distributed.distributed_c10d": _replace_bodies,
    "torch.distributed.elastic.rendezvous.dynamic_rendezvous": _add_absent_agents,
    "torch.distributed.optim.zero_redundancy_optimizer": _consolidate_without_absent,
    "torch.distributed.pipelining._backward": _order_weights,
    "torch.distributed._mesh_layout": _remember_layouts,
    "torch.distributed.checkpoint.utils": _plan_without_absent,
    "torch.distributed.checkpoint.default_planner": _trust_plans,
    "torch.distributed.checkpoint.filesystem": _read_what_was_written,
}
for _name in [_name for _name in _changes if _name in sys.modules]:
    _changes.pop(_name)(sys.modules[_name])
sys.meta_path.insert(0, _ChangeOnImport(_changes))
