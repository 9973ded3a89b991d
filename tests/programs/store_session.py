"""A scripted session with a TCPStore server: every operation, what goes wrong, and raw requests.

Its output is the same on torch's own server and on ours. Arguments: the port of a server at
127.0.0.1, or "own" for torch's.
"""

import socket
import struct
import sys
import threading
from datetime import timedelta

from torch.distributed import TCPStore

SECOND = timedelta(seconds=1)
own = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if sys.argv[1] == "own" \
    else None
port = own.port if own else int(sys.argv[1])


def connect():
    return TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=20))


def attempt(name, call):
    try:
        print(name, call())
    except Exception as error:  # the text names addresses and times
        print(name, type(error).__name__)


def basic_operations(store):
    store.set("a", "1")
    attempt("get", lambda: store.get("a"))
    attempt("add to a number", lambda: store.add("a", 41))
    attempt("add to nothing", lambda: store.add("b", -3))
    attempt("number as text", lambda: store.get("b"))
    attempt("compare_set: missing, expected empty", lambda: store.compare_set("c", "", "new"))
    attempt("compare_set: missing, expected", lambda: store.compare_set("d", "old", "new"))
    attempt("compare_set: equal", lambda: store.compare_set("c", "new", "newer"))
    attempt("compare_set: different", lambda: store.compare_set("c", "new", "newest"))
    attempt("check", lambda: (store.check(["a", "b"]), store.check(["a", "missing"])))
    attempt("wait for what is there", lambda: store.wait(["a", "b"], SECOND))
    attempt("wait for what is not", lambda: store.wait(["a", "missing"], SECOND / 5))
    attempt("after a wait that timed out", lambda: store.get("a"))
    store.append("e", "one ")
    store.append("e", "two")
    attempt("append", lambda: store.get("e"))
    store.multi_set(["f", "g"], ["6", "7"])
    attempt("multi_get", lambda: store.multi_get(["f", "g", "a"]))
    attempt("keys", lambda: (store.num_keys(), sorted(store.list_keys())))
    attempt("delete", lambda: (store.delete_key("a"), store.delete_key("a"), store.num_keys()))
    store.set("empty", "")
    attempt("empty value", lambda: store.get("empty"))
    store.set("large", b"x" * 3_000_000)
    attempt("large value", lambda: (len(store.get("large")), store.get("large")[-1:]))
    store.clone().set("by a clone", "yes")
    attempt("clone", lambda: store.get("by a clone"))


def queues(store):
    attempt("queue is empty", lambda: store.queue_len("q"))
    store.queue_push("q", "first")
    store.queue_push("q", "second")
    attempt("queue", lambda: (store.queue_len("q"), store.queue_pop("q"), store.queue_len("q")))
    attempt("a queue is there", lambda: (store.check(["q"]), store.wait(["q"], SECOND)))
    attempt("pop", lambda: store.queue_pop("q"))
    attempt("empty again", lambda: (store.queue_len("q"), store.check(["q"])))
    attempt("pop of nothing", lambda: store.queue_pop("q", block=False))
    attempt("keys beside queues", store.num_keys)


def waking(store):
    """A wait in one thread ends by an operation in another."""
    wakers = {
        "set": lambda: store.set("set", "s"),
        "add": lambda: store.add("add", 1),
        "append": lambda: store.append("append", "p"),
        "compare_set": lambda: store.compare_set("compare_set", "", "c"),
        "multi_set": lambda: store.multi_set(["other", "multi_set"], ["o", "m"]),
    }
    for name, wake in wakers.items():
        timer = threading.Timer(0.05, wake)
        timer.start()
        other = connect()
        attempt("woken by " + name, lambda: other.get(name))
        timer.join()
    popped = []
    threads = [threading.Thread(target=lambda: popped.append(connect().queue_pop("jobs")))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for job in ("x", "y", "z"):
        store.queue_push("jobs", job)
    for thread in threads:
        thread.join()
    print("popped", sorted(popped), store.queue_len("jobs"))


def text(value):
    return struct.pack("<Q", len(value)) + value


VALIDATE = b"\x00" + struct.pack("<I", 0x3C85F7CE)


def raw(name, request, answer_bytes):
    """Sends a request whole, since torch's server now and then closes on one that comes in pieces;
    shows the answer, or that the server has closed."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(5)
        try:
            connection.sendall(request)
            answer = b""
            while len(answer) < answer_bytes:
                more = connection.recv(answer_bytes - len(answer))
                if not more:
                    answer += b" closed"
                    break
                answer += more
        except ConnectionError:
            answer = b"closed"
        except socket.timeout:
            answer = b"no answer"
    print("raw", name, answer)


def raw_requests():
    ping = b"\x0d" + struct.pack("<I", 77)
    raw("ping", VALIDATE + ping, 4)
    add = b"\x04" + text(b"raw") + struct.pack("<q", 5)
    raw("two adds", VALIDATE + add + add, 16)
    lists = b"\x05" + struct.pack("<Q", 2) + text(b"raw") + text(b"none")
    raw("check", VALIDATE + lists, 1)
    cancelled = b"\x06" + struct.pack("<Q", 1) + text(b"none") + b"\x0c"
    raw("a wait that is cancelled", VALIDATE + cancelled, 1)
    raw("a cancel without a wait", VALIDATE + b"\x0c", 1)
    raw("set and get in one", VALIDATE + b"\x01" + text(b"k") + text(b"v") + b"\x03" + text(b"k"), 9)
    raw("get of nothing", VALIDATE + b"\x03" + text(b"none"), 8)
    raw("unknown operation", VALIDATE + b"\x63", 1)
    raw("a key that is too long", VALIDATE + b"\x03" + struct.pack("<Q", 1 << 40), 1)
    raw("too many keys", VALIDATE + b"\x05" + struct.pack("<Q", 1 << 40), 1)


session = connect()
basic_operations(session)
queues(session)
waking(session)
raw_requests()
print("done")
