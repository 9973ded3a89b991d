"""Makes the interpreter of a fork server (fork_server.h) stop where it first needs its rank.

Found by PYTHONPATH, which gets its own value back, before the program's first line. os.environ
gets a dictionary that knows which variables differ by rank; the rank puts the original one back.
In a rank that is started by itself beside a fork server, it tells what is imported (imports.h).
"""


def _note_imports():
    import ctypes
    import os
    import sys

    note = ctypes.PyDLL(None).prism_shim_note_import

    class Noter:
        """Finds no module. A name of which only the place is asked is not noted: a module that
        is imported is in sys.modules when the next one is looked for."""

        last = ""

        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if cls.last in sys.modules:
                note(cls.last.encode())
            cls.last = name
            return None

    sys.meta_path.insert(0, Noter)


def _import_ahead(left_out, end, variables):
    """Imports what was noted before entry `end`, but for those with these numbers."""
    import ctypes
    import importlib
    import os
    import sys
    import sysconfig
    from importlib.machinery import PathFinder

    shim = ctypes.PyDLL(None)
    shim.prism_shim_noted.restype = ctypes.c_void_p
    size = ctypes.c_size_t()
    text = ctypes.string_at(shim.prism_shim_noted(ctypes.byref(size)), size.value)
    installed = tuple(
        os.path.realpath(sysconfig.get_path(kind)) + os.sep
        for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
    packages = {}

    def is_installed(package):
        if package not in packages:
            spec = PathFinder.find_spec(package)
            origin = os.path.realpath(spec.origin) if spec and spec.origin else ""
            packages[package] = origin.startswith(installed)
        return packages[package]

    def is_begun(package):
        module = sys.modules.get(package)
        return getattr(getattr(module, "__spec__", None), "_initializing", False)

    def torch_state():  # others take a new seed in a rank
        torch = sys.modules.get("torch")
        return getattr(torch, "initial_seed", None) and torch.get_rng_state().tolist()

    sys.stdout.flush()
    sys.stderr.flush()
    printed = os.memfd_create("prism-imports")
    kept = os.dup(1), os.dup(2)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    state = torch_state()
    threads = len(os.listdir("/proc/self/task"))
    later = {}
    left_out_names = []
    for number, entry in enumerate(text.split(b"\0")[:end]):
        name, equals, value = entry[1:].partition(b"=")
        if entry[:1] == b"=":
            later[name] = value if equals else None
            continue
        name = name.decode()
        package = name.partition(".")[0]
        if number in left_out:
            left_out_names.append(name)
        if (name in sys.modules or is_begun(package) or not is_installed(package)
                or any(name == out or name.startswith(out + ".") for out in left_out_names)):
            continue
        watched = [name for name, value in later.items() if dict.get(variables, name) != value]
        shim.prism_shim_imports(number, b":" + b":".join(watched) + b":")
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # what it needs is not installed, or its package is too young
        sys.stdout.flush()
        sys.stderr.flush()
        if (os.fstat(printed).st_size > 0 or shim.prism_shim_import_spoilt()
                or len(os.listdir("/proc/self/task")) != threads
                or state is not None and torch_state() != state):
            shim.prism_shim_leave_imports()
    os.dup2(kept[0], 1)
    os.dup2(kept[1], 2)
    for descriptor in (*kept, printed):
        os.close(descriptor)


def _install():
    import ctypes
    import os
    import sys
    from _weakref import ref

    here = os.path.dirname(__file__)
    sys.path[:] = [path for path in sys.path if path != here]
    if "PRISM_ABSENT_FILES" in os.environ:  # --stand-in
        ctypes.PyDLL(None).prism_shim_stand_in()
    inherited = os.environ.pop("PRISM_PYTHONPATH", None)
    if inherited is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = inherited
    noted = os.environ.pop("PRISM_IMPORTS", None)
    asked = os.environ.pop("PRISM_FORK_SERVER", None)
    if asked is None:
        if noted is not None:
            _note_imports()
        return
    names = frozenset(name.encode() for name in asked.split(":")[1:])
    shown = [name for name in names if not name.startswith(b"PRISM_")]
    become_rank = ctypes.PyDLL(None).prism_shim_become_rank
    decline = ctypes.PyDLL(None).prism_shim_decline_forks
    look_at = ctypes.PyDLL(None).prism_shim_look_at

    # Who reads all variables in turn (tqdm, for those of its own; a copy of all) does not ask for the
    # rank's: gets values of this kind for them. If one is kept, ranks cannot be forked.
    given = []
    to_give = []

    class Unread(str):
        pass

    class UnreadBytes(bytes):
        def decode(self, *_):
            value = Unread()
            given.append(ref(value))
            return value

    class Variables(dict):
        __slots__ = ()

        def look(self):
            if any(value() is not None for value in given):
                decline(b"it keeps a copy of the environment from before it needs its rank")

        def import_ahead(self, left_out, end):
            _import_ahead(left_out, end, self)

        def own(self):
            become_rank()
            data = os.environ._data
            return dict(dict.items(self)) if data is self else data

        def __getitem__(self, name):
            if name not in names:
                look_at(name)
                return dict.__getitem__(self, name)
            if to_give and name == to_give[-1]:
                to_give.pop()
                return UnreadBytes()
            return self.own()[name]

        def __setitem__(self, name, value):
            if name in names:
                data = self.own()
                os.putenv(name, value)
                data[name] = value
            else:
                dict.__setitem__(self, name, value)

        def __delitem__(self, name):
            if name in names:
                data = self.own()
                os.unsetenv(name)
                del data[name]
            else:
                dict.__delitem__(self, name)

        def __contains__(self, name):
            look_at(name)
            return name in self.own() if name in names else dict.__contains__(self, name)

        def __iter__(self):
            to_give[:] = reversed(shown)
            return iter([*shown, *dict.keys(self)])

        def __len__(self):
            return dict.__len__(self) + len(shown)

        def get(self, name, default=None):
            look_at(name)
            return self.own().get(name, default) if name in names else dict.get(self, name, default)

        def keys(self):
            return self.own().keys()

        def values(self):
            return self.own().values()

        def items(self):
            return self.own().items()

        def copy(self):
            return self.own().copy()

        def __repr__(self):
            return repr(self.own())

    variables = Variables(os.environ._data)
    os.environ._data = os.environb._data = variables


def _give_way():
    """The program's own sitecustomize, if it has one."""
    import sys

    ours = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ModuleNotFoundError:
        pass
    sys.modules.setdefault(__name__, ours)


_install()
_give_way()
