"""Which calls of a program's threads come behind which of others, for prism check: a thread starts
or joins the other, or takes from an event, a queue or a future what that has put there. What follows
is in slicer/check/host_threads.h.
"""

import functools
import itertools
import queue
import sys
import threading


def _tell_threads(tell, is_of_python_thread, own_line):
    """Returns what a thread calls before its calls of other ranks, and which returns where the program
    has given it its work, by `own_line`. One that makes none says nothing, since one that says
    something no longer sleeps for real, but passes on what it has heard.
    """
    import concurrent.futures.thread

    numbers = itertools.count(1)

    class Own(threading.local):
        def __init__(self):
            self.heard = {}  # the last word of each thread that is known
            self.word = {}   # its own, if it has made no call since
            self.key = next(numbers)
            self.is_known = False
            self.line = None  # where it was given its work

    own = Own()

    def word():
        if not own.is_known:
            return dict(own.heard)
        if not own.word:
            own.word = {own.key: next(numbers)}
            tell(f"prism:word:{own.word[own.key]}")
        return own.word

    def hear(words):
        for key, number in words.items():
            if key != own.key and own.heard.get(key, 0) < number:
                own.heard[key] = number
                if own.is_known:
                    own.word = {}
                    tell(f"prism:heard:{number}")

    def introduce():
        own.word = {}
        is_main = threading.get_ident() == threading.main_thread().ident
        if not own.is_known and (is_main or is_of_python_thread(sys._getframe())):
            own.is_known = True
            if not is_main:
                tell(f"prism:thread:{int(threading.current_thread().daemon)}")
            heard, own.heard = own.heard, {}
            hear(heard)
        return own.line

    def watch(kind, name, before=None, after=None):
        function = getattr(kind, name)

        @functools.wraps(function)
        def call(self, *given, **named):
            if before is not None:
                given = before(self, *given) or given
            try:
                result = function(self, *given, **named)
            finally:
                if after is not None:
                    after(self)
            return result

        setattr(kind, name, call)

    def leave(self, *_):
        self._prism_word = word()

    def take(self):
        hear(getattr(self, "_prism_word", {}))

    def take_if(is_there):
        return lambda self: take(self) if is_there(self) else None

    def start(self):
        self._prism_line = own_line(sys._getframe()) or own.line
        leave(self)

    def begin(self):
        own.line = getattr(self, "_prism_line", None)
        take(self)

    def submit(self, function, *given):
        said, line = word(), own_line(sys._getframe()) or own.line

        @functools.wraps(function)
        def run(*arguments, **named):
            own.line = line
            hear(said)
            return function(*arguments, **named)

        return run, *given

    def put(self, *_):
        self.__dict__.setdefault("_prism_words", []).append(word())

    def get(self):
        words = self.__dict__.get("_prism_words")
        if words:
            hear(words.pop(0))

    thread, future = threading.Thread, concurrent.futures.Future
    watch(thread, "start", before=start)
    watch(thread, "_bootstrap_inner", before=begin, after=leave)
    watch(thread, "join", after=take_if(lambda self: not self.is_alive()))
    watch(threading.Event, "set", before=leave)
    watch(threading.Event, "wait", after=take_if(threading.Event.is_set))
    watch(queue.Queue, "_put", before=put)
    watch(queue.Queue, "_get", after=get)
    watch(concurrent.futures.thread.ThreadPoolExecutor, "submit", before=submit)
    watch(future, "set_result", before=leave)
    watch(future, "set_exception", before=leave)
    watch(future, "result", after=take_if(future.done))
    watch(future, "exception", after=take_if(future.done))
    return introduce
