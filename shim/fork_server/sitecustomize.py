"""Makes the interpreter of a fork server (fork_server.h) stop where it first needs its rank.

Found by PYTHONPATH, which gets its own value back, before the program's first line. os.environ
gets a dictionary that knows which variables differ by rank; the rank puts the original one back.
"""


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
    asked = os.environ.pop("PRISM_FORK_SERVER", None)
    if asked is None:
        return
    names = frozenset(name.encode() for name in asked.split(":")[1:])
    shown = [name for name in names if not name.startswith(b"PRISM_")]
    become_rank = ctypes.PyDLL(None).prism_shim_become_rank
    decline = ctypes.PyDLL(None).prism_shim_decline_forks

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

        def own(self):
            become_rank()
            data = os.environ._data
            return dict(dict.items(self)) if data is self else data

        def __getitem__(self, name):
            if name not in names:
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
            return name in self.own() if name in names else dict.__contains__(self, name)

        def __iter__(self):
            to_give[:] = reversed(shown)
            return iter([*shown, *dict.keys(self)])

        def __len__(self):
            return dict.__len__(self) + len(shown)

        def get(self, name, default=None):
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
